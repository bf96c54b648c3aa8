"""A plan with its sub-plans put in, and where each part of it was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from wavewright.config.documents import Document
from wavewright.config.sources import pointer_keys
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import JsonSchema


@dataclass(frozen=True, slots=True)
class SubPlan:
    """A plan that another one calls, as it was written."""

    plan: Plan
    document: Document
    pointer: str
    """Of the plan in its document."""
    folder: Path
    """What paths in it are relative to."""
    inputs: Mapping[str, JsonSchema] | None = None
    """The inputs that it declares, by name; those of the plan itself where absent."""


SubPlanReader: TypeAlias = Callable[[str, Path], SubPlan]
"""Gives the sub-plan of a name or a path; raises `PlanError` or `DocumentError`."""


class ExpandedPlace(NamedTuple):
    """Where a part of an expanded plan was written."""

    pointer: str
    document: Document | None = None
    """The sub-plan's; None where it is the document of the plan itself."""
    step: str = ""
    """In a sub-plan: pointer of the step that calls it."""


@dataclass(frozen=True, slots=True)
class ExpandedPlan:
    """A plan without sub-plans, with the places of its parts."""

    plan: Plan
    places: Mapping[str, ExpandedPlace] = field(default_factory=dict[str, ExpandedPlace])
    """By the pointer of the part; empty where the plan calls no sub-plan."""
    faults: tuple[Diagnostic, ...] = ()

    def place(self, found: Diagnostic) -> Diagnostic:
        """Return a diagnostic of the expanded plan as one of the plan as it was written.

        One of a sub-plan stands at the step that calls it, and its message begins with file, line and column.
        """
        keys = pointer_keys(found.pointer)
        for length in range(min(len(keys), 5), 1, -1):
            place = self.places.get("".join(f"/{key}" for key in keys[:length]))
            if place is None:
                continue
            rest = "".join(f"/{key}" for key in keys[length:])
            if place.document is None:
                return replace(found, pointer=place.pointer + rest)
            message = f"{position_text(place.document, place.pointer + rest)}: {found.message}"
            return replace(found, pointer=f"{place.step}/plan", message=message, within=None)
        return found


def position_text(document: Document, pointer: str) -> str:
    """Return `file:line:column` of a node, or of the nearest node around it."""
    span = document.nearest_span(pointer)
    if span is None:
        return document.source.name
    line, column = document.source.position(span.start)
    return f"{document.source.name}:{line}:{column}"
