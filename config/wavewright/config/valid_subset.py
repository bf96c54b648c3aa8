"""The valid subset of a document: its value without the faulty nodes.

It is used to find further faults, so that all are reported at once, and is never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from wavewright.config.documents import Document
from wavewright.config.sources import DocumentError, pointer_keys

if TYPE_CHECKING:
    from pydantic import JsonValue

M = TypeVar("M", bound=BaseModel)


def valid_subset(document: Document, error: DocumentError, model: type[M]) -> M | None:
    """Return a document's value without the faulty nodes, or else without the fields that hold them.

    A list with a faulty item is left out whole, so that pointers to the rest stay valid. The result is None if the
    rest is not valid either.
    """
    faulty = [pointer_keys(fault.pointer) for fault in error.faults if fault.pointer]
    for paths in (faulty, [path[:1] for path in faulty]):
        try:
            return model.model_validate(_without(document.value, paths), by_alias=True, by_name=False)
        except ValidationError:
            continue
    return None


def _without(value: JsonValue, faulty: Sequence[Sequence[str]]) -> JsonValue:
    """Return a value without the nodes at these paths."""
    if not isinstance(value, dict):
        return value
    kept: dict[str, JsonValue] = {}
    for key, inner in value.items():
        paths = [path[1:] for path in faulty if path[0] == key]
        if not paths:
            kept[key] = inner
        elif isinstance(inner, dict) and all(paths):
            kept[key] = _without(inner, paths)
    return kept
