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
        rebuild: Any = Annotated  # subscribed at run time: checkers take it for a type being written
        return rebuild[(portable(first, inside), *rest)]
    parts = tuple(portable(part, inside) for part in arguments)
    if all(new is old for new, old in zip(parts, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[parts]  # noqa: UP007 - made at run time
    generic: Any = origin
    return generic[parts] if isinstance(origin, type) else annotation


def _rebuilt(annotation: Any, inside: tuple[object, ...]) -> Any:
    if annotation in inside:
        return dict[str, Any]  # it contains itself; open from here on
    hints = typing.get_type_hints(annotation, include_extras=True)
    required: frozenset[str] = annotation.__required_keys__
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        mark = get_origin(hint)
        marked = mark in (typing.Required, typing.NotRequired)
        # Under postponed annotations __required_keys__ misses the marks: https://github.com/python/cpython/issues/97727
        is_required = mark is typing.Required if marked else name in required
        new = portable(get_args(hint)[0] if marked else hint, (*inside, annotation))
        fields[name] = typing_extensions.Required[new] if is_required else typing_extensions.NotRequired[new]
    make: Any = typing_extensions.TypedDict
    return make(annotation.__name__, fields)
