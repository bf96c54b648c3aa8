"""`typing.TypedDict` for pydantic on Python 3.11.

Before Python 3.12 pydantic takes only the `TypedDict` of typing_extensions, and a user's function knows nothing of
that; see https://docs.pydantic.dev/latest/errors/usage_errors/#typed-dict-version. Annotations are rebuilt with
equal types that it takes, so that a function has the same schemas on every Python.
"""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Generic, Union, get_args, get_origin

import typing_extensions

_COPIED = ("__doc__", "__module__", "__qualname__", "__pydantic_config__", "__required_keys__")


def portable_annotation(annotation: Any, rebuilt: dict[object, Any] | None = None) -> Any:
    """Return an annotation in which every TypedDict is one that pydantic takes on this Python.

    `rebuilt` holds the TypedDicts that are rebuilt already, by their originals: one may contain itself.
    """
    if sys.version_info >= (3, 12):
        return annotation
    known: dict[object, Any] = {} if rebuilt is None else rebuilt
    if typing.is_typeddict(annotation):
        return known.get(annotation) or _rebuild_annotation(annotation, known)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        first, *rest = arguments
        rebuild: Any = Annotated  # subscribed at run time: checkers take it for a type being written
        return rebuild[(portable_annotation(first, known), *rest)]
    generic = portable_annotation(origin, known)
    parts = tuple(portable_annotation(part, known) for part in arguments)
    if generic is origin and all(new is old for new, old in zip(parts, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[parts]  # noqa: UP007 - made at run time
    # Required, NotRequired and ReadOnly take their one part bare.
    return generic[parts[0]] if len(arguments) == 1 else generic[parts]


def _rebuild_annotation(annotation: Any, known: dict[object, Any]) -> Any:
    bases: list[Any] = [typing_extensions.TypedDict]
    if parameters := getattr(annotation, "__parameters__", ()):
        generic: Any = Generic  # subscribed at run time, like Annotated
        bases.append(generic[parameters])
    new: Any = types.new_class(annotation.__name__, tuple(bases))
    known[annotation] = new
    for name in _COPIED:
        if hasattr(annotation, name):
            setattr(new, name, getattr(annotation, name))
    hints = typing.get_type_hints(annotation, include_extras=True)
    new.__annotations__ = {name: portable_annotation(hint, known) for name, hint in hints.items()}
    return new
