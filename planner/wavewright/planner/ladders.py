"""Read the fallback ladders: the shipped ones, and those that a project puts in their place.

A project's ladder replaces the shipped one of the same name whole. Its rungs are those that there is code for, each
at most once, in any number; so a misspelt rung is an error of the settings, not a rung that is never reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from pydantic import Field

from wavewright.config.documents import Document, DocumentError, DocumentFault, Source, read_document
from wavewright.config.shape import read_as_model, sort_by_position
from wavewright.config.sources import pointer_token
from wavewright.planner.ladder import Ladder, Rung
from wavewright.planner.models import DocumentModel
from wavewright.planner.suggestions import suggest_name
from wavewright.planner.types import Json

__all__ = ["RUNGS_BY_LADDER", "read_ladders", "shipped_ladders"]

RUNGS_BY_LADDER: Final[Mapping[str, tuple[str, ...]]] = {
    "planner": ("llm", "repaired", "suggested", "template", "minimal"),
    "reviewer": ("model", "code"),
    "worker": ("agent", "suggested", "generated", "forced"),
    "recovery": ("recipe", "model"),
}
"""The rungs that there is code for, by ladder, best first."""

SETTINGS_NAME = "wavewright.yaml"
"""Where a project's ladders stand, for faults of ladders that come from no file."""


class _RungList(DocumentModel):
    """A ladder as it is written: the list of its rungs."""

    rungs: tuple[Rung, ...] = Field(strict=False)


def read_ladders(
    settings_ladders: Mapping[str, Json], settings_file: Document | None = None
) -> Mapping[str, Ladder]:
    """Return all ladders by name.

    Args:
        settings_ladders: A project's own ladders.
        settings_file: The file that they stand in, under `ladders`; without it faults have no line.

    Raises:
        DocumentError: a ladder of the settings is faulty; each fault names the rung and the mend.
    """
    if settings_file is None:
        value: Json = {"ladders": dict(settings_ladders)}
        settings_file = Document(value, Source(SETTINGS_NAME, ""), keeps_places=False)
    return {**shipped_ladders(), **_parse_ladders(settings_ladders, settings_file, "/ladders")}


@cache
def shipped_ladders() -> Mapping[str, Ladder]:
    """Return the ladders that come with the package."""
    file = files("wavewright.config") / "ladders.yaml"
    document = read_document(file.read_text(encoding="utf-8"), "ladders.yaml")
    value = document.value
    assert isinstance(value, dict)
    return _parse_ladders(value, document, "")


def _parse_ladders(written: Mapping[str, Json], document: Document, pointer: str) -> dict[str, Ladder]:
    found: dict[str, Ladder] = {}
    faults: list[DocumentFault] = []
    for name, rungs in written.items():
        place = pointer + pointer_token(name)
        if name not in RUNGS_BY_LADDER:
            hint = suggest_name(name, RUNGS_BY_LADDER, what="ladders")
            faults.append(
                DocumentFault("unknown_field", f"there is no ladder {name!r}", pointer=place, hint=hint)
            )
            continue
        try:
            shaped = read_as_model(
                Document({"rungs": rungs}, Source(name, ""), keeps_places=False), _RungList
            )
        except DocumentError as error:
            faults += [_relocated_fault(fault, name, place) for fault in error.faults]
            continue
        if not shaped.rungs:
            hint = f"name at least one of {', '.join(RUNGS_BY_LADDER[name])}"
            faults.append(
                DocumentFault("bad_value", f"ladder {name!r} has no rungs", pointer=place, hint=hint)
            )
            continue
        ladder = Ladder(name=name, rungs=shaped.rungs)
        faults += _rung_faults(ladder, place)
        found[name] = ladder
    if faults:
        raise DocumentError(document.source, sort_by_position(document, faults))
    return found


def _relocated_fault(fault: DocumentFault, name: str, place: str) -> DocumentFault:
    """Return a fault of a list of rungs as one of the document that the list stands in."""
    pointer = place + fault.pointer.removeprefix("/rungs")
    return DocumentFault(fault.kind, f"ladder {name!r}: {fault.message}", pointer=pointer, hint=fault.hint)


def _rung_faults(ladder: Ladder, place: str) -> Iterator[DocumentFault]:
    known = RUNGS_BY_LADDER[ladder.name]
    seen: set[str] = set()
    for number, rung in enumerate(ladder.rungs):
        pointer = f"{place}/{number}/name"
        if rung.name not in known:
            hint = suggest_name(rung.name, known, what=f"rungs of {ladder.name!r}")
            message = f"ladder {ladder.name!r} has no rung {rung.name!r}"
            yield DocumentFault("bad_value", message, pointer=pointer, hint=hint)
        elif rung.name in seen:
            message = f"the rung {rung.name!r} stands twice in ladder {ladder.name!r}"
            yield DocumentFault(
                "bad_value", message, pointer=pointer, hint="write 'tries' to try it more than once"
            )
        seen.add(rung.name)
