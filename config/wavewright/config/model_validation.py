"""Validation of documents against pydantic models, with every fault at its place, in text order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from wavewright.config.documents import Document
from wavewright.config.sources import DocumentError, DocumentFault, pointer_keys

M = TypeVar("M", bound=BaseModel)

MAX_FAULTS = 100
"""Maximum faults of one document."""


def read_as_model(document: Document, model: type[M]) -> M:
    """Read a document's value into a model.

    Raises:
        DocumentError: with the faults of the document, and every reason why the value does not fit.
    """
    try:
        read = model.model_validate(document.value, by_alias=True, by_name=False)
    except ValidationError as error:
        # Loaded where a document is faulty: most are not.
        from wavewright.config.model_faults import model_faults

        unread = {fault.pointer for fault in document.faults if fault.pointer}
        faults = [
            fault
            for fault in model_faults(error, document.value, model)
            if fault.pointer not in unread
        ]
        raise DocumentError(
            document.source, sort_by_position(document, (*document.faults, *faults))
        ) from error
    if document.faults:
        raise DocumentError(document.source, document.faults)
    return read


def valid_subset(document: Document, error: DocumentError, model: type[M]) -> M | None:
    """Return a document's value without the faulty nodes, or else without the fields that hold
    them.

    It is used to find further faults, so that all are reported at once, and is never run. A list
    with a faulty item is left out whole, so that pointers to the rest stay valid. The result is
    None if the rest is not valid either.
    """
    faulty = [pointer_keys(fault.pointer) for fault in error.faults if fault.pointer]
    for paths in (faulty, [path[:1] for path in faulty]):
        try:
            return model.model_validate(
                _without(document.value, paths), by_alias=True, by_name=False
            )
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


def sort_by_position(
    document: Document, faults: Iterable[DocumentFault]
) -> tuple[DocumentFault, ...]:
    """Return the faults with their places, in the order of the text; the last one says if there are
    too many.
    """
    placed = [locate_fault(document, fault) for fault in faults]
    placed.sort(key=lambda fault: fault.span.start if fault.span is not None else 0)
    if len(placed) <= MAX_FAULTS:
        return tuple(placed)
    last = placed[MAX_FAULTS - 1]
    last = replace(last, message=f"{last.message} (and more faults after this one)")
    return (*placed[: MAX_FAULTS - 1], last)


def locate_fault(document: Document, fault: DocumentFault) -> DocumentFault:
    """Return the fault with the span of its node, or else of the nearest node around it."""
    if fault.span is not None:
        return fault
    span = document.nearest_span(fault.pointer, key=fault.kind == "unknown_field")
    return replace(fault, span=span)
