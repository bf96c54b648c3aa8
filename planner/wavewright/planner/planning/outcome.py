"""The outcome of planning as plain data: the plan or the reason for none, questions, answers and attempts.

An *attempt* is one answer of a model. This module imports nothing of the planner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavewright.planner.diagnostics.diagnostic import Diagnostic

if TYPE_CHECKING:
    from wavewright.config.documents import Document
    from wavewright.config.sources import Source
    from wavewright.planner.language.plan import Plan
    from wavewright.planner.ports.fallback_ladder import RungRecord
    from wavewright.planner.reading.repairs import Repair


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question of the planner before it plans, or of a step before it ends."""

    question: str
    options: tuple[str, ...] = ()
    """Answers to choose from; other answers are accepted too."""
    default: str | None = None
    """The answer of an empty line."""
    asked_by: str = "the planner"


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question that the planner asked, and what the user said."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class PlanningAttempt:
    """One answer of a model, with what was found in it."""

    rung: str
    answer: str
    diagnostics: tuple[Diagnostic, ...]
    repairs: tuple[Repair, ...]
    """What was read otherwise than it is written."""
    source: Source
    """The answer as the text that the positions of diagnostics refer to."""


@dataclass(frozen=True, slots=True)
class PlanningResult:
    """The result of planning."""

    plan: Plan | None
    """As its author wrote it, unbound; bound to its goal it has no error."""
    rung: str | None
    """The rung that gave the plan."""
    diagnostics: tuple[Diagnostic, ...]
    """Warnings of the plan, or what is wrong with the last candidate where there is none."""
    attempts: tuple[PlanningAttempt, ...]
    """Every answer of a model, with what was found in it."""
    rungs: tuple[RungRecord, ...]
    """Every rung that was tried, and why it gave nothing."""
    question: UserQuestion | None = None
    """What the user has to answer first; nothing below the rung that asked was tried."""
    cannot_plan: str | None = None
    """Why the model said that there is no plan, whether or not another rung gave one."""
    document: Document | None = None
    """The text that the plan was read from, for places; the template's own plan has its place elsewhere."""
    kept_template: str | None = None
    """The goal template whose kept plan this is, if no planner was asked because of it."""
