"""What is left of a document when what is wrong in it is left out.

The *sound part* is for looking on: whoever has found faults in a file can still judge the rest of it, and tell
everything at once. Nothing is ever run with it.
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


def sound_part(document: Document, error: DocumentError, model: type[M]) -> M:
    """Return a document's value without the nodes at fault; the defaults where the rest does not fit either."""
    faulty = [pointer_keys(fault.pointer) for fault in error.faults if fault.pointer]
    try:
        return model.model_validate(_without(document.value, faulty), by_alias=True, by_name=False)
    except ValidationError:
        return model.model_construct()


def _without(value: JsonValue, faulty: Sequence[Sequence[str]]) -> JsonValue:
    """Return a value without the nodes that these paths lead to."""
    gone = {path[0] for path in faulty if len(path) == 1}

    def kept(key: str, inner: JsonValue) -> JsonValue:
        return _without(inner, [path[1:] for path in faulty if len(path) > 1 and path[0] == key])

    match value:
        case dict():
            return {key: kept(key, inner) for key, inner in value.items() if key not in gone}
        case list():
            return [kept(str(at), inner) for at, inner in enumerate(value) if str(at) not in gone]
        case _:
            return value
