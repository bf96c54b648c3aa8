"""`typing.TypedDict` for pydantic on Python 3.11.

Before Python 3.12 pydantic takes only the `TypedDict` of typing_extensions, and a user's function knows nothing of
that; see https://docs.pydantic.dev/latest/errors/usage_errors/#typed-dict-version. Annotations are rebuilt with
equal types that it takes.
"""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions


def portable(annotation: Any, inside: tuple[object, ...] = ()) -> Any:
    """Return an annotation in which every TypedDict is one that pydantic takes on this Python."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation):
        return _rebuilt(annotation, inside)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        first, *rest = arguments
        return Annotated.__class_getitem__((portable(first, inside), *rest))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]  # no public constructor
    parts = tuple(portable(part, inside) for part in arguments)
    if all(new is old for new, old in zip(parts, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[parts]  # noqa: UP007 - made at run time
    return origin[parts] if isinstance(origin, type) else annotation


def _rebuilt(annotation: Any, inside: tuple[object, ...]) -> Any:
    if annotation in inside:
        return dict[str, Any]  # it contains itself; open from here on
    hints = typing.get_type_hints(annotation, include_extras=True)
    required: frozenset[str] = annotation.__required_keys__
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        bare = get_args(hint)[0] if get_origin(hint) in (typing.Required, typing.NotRequired) else hint
        new = portable(bare, (*inside, annotation))
        fields[name] = (
            typing_extensions.Required[new] if name in required else typing_extensions.NotRequired[new]
        )
    made: Any = typing_extensions.TypedDict(annotation.__name__, fields)  # type: ignore[operator]  # pyright: ignore
    return made
