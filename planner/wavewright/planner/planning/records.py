"""What planning takes and gives: the request, questions to the user, attempts, and the result.

An *attempt* is one answer of a model. Nothing here is code of the planner: a run whose plan is
given passes planning by, and does not pay for what it takes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.ports.fallback_ladder import RungRecord

if TYPE_CHECKING:
    from wavewright.config.documents import Document
    from wavewright.config.sources import Source
    from wavewright.planner.language.goals import Goal
    from wavewright.planner.language.plan import Plan
    from wavewright.planner.language.signatures import ToolSignatures
    from wavewright.planner.ports.budgets import Allowance
    from wavewright.planner.reading.repairs import Repair
    from wavewright.planner.types import RunId


MAX_QUESTIONS = 3
"""Maximum number of questions to the user for one plan; after that the planner decides itself."""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question of the planner before it plans, or of a step before it ends.

    >>> from wavewright.planner import UserQuestion
    >>> UserQuestion("Which zone?", options=("Westfall", "Duskwood")).asked_by
    'the planner'
    """

    question: str
    options: tuple[str, ...] = ()
    """Answers to choose from; other answers are accepted too."""
    default: str | None = None
    """The answer of an empty line."""
    asked_by: str = "the planner"
    step: str | None = None
    """The step that asks, where one does."""


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question that the planner asked, and what the user said."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class PlanningRequest:
    """What is planned for, and what is known before a model is asked."""

    goal: Goal
    tools: ToolSignatures
    """Signatures of the tools that are installed."""
    template_plan: Plan | None = None
    """The goal template's own plan."""
    kept_plan: Plan | None = None
    """A plan for a similar goal: the model is shown it, and the rung `suggested` takes it where no
    answer suggests calls.
    """
    run: RunId | None = None
    """The run that pays for the questions."""
    answers: Sequence[AnsweredQuestion] = ()
    """What the user said to earlier questions of this plan."""
    may_ask: bool = True
    """Whether a person can answer a question."""
    today: dt.date | None = None
    """The day that the run takes for now."""
    allowance: Allowance | None = None
    """What is left to spend; a plan with a higher estimate is not valid."""

    @property
    def may_ask_again(self) -> bool:
        """Whether a further question to the user is allowed."""
        return self.may_ask and len(self.answers) < MAX_QUESTIONS


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
    """As it runs, with its names, its `stop` and its sub-plans put in, unbound; bound to its goal it
    has no error.
    """
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
    """The text that the plan was read from, for places; the template's own plan has its place
    elsewhere.
    """
    kept_template: str | None = None
    """The goal template whose kept plan this is, if no planner was asked because of it."""
