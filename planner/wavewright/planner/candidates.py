"""Plans that may become the plan: each is read, bound and checked before anybody takes it.

A *candidate* is a plan that the checker has nothing against. The *bench* is where plans become candidates, and where
it is kept what was wrong with those that did not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wavewright.config.documents import Document
from wavewright.planner.allowance import Allowance
from wavewright.planner.binding import bind_plan
from wavewright.planner.checker import check, check_partial
from wavewright.planner.diagnostics import Diagnostic, locate_diagnostics
from wavewright.planner.goals import Goal
from wavewright.planner.ladder import FallbackFailure
from wavewright.planner.minimal_plan import NoMinimalPlan
from wavewright.planner.model_port import ModelAnswer
from wavewright.planner.models import Plan
from wavewright.planner.planned import PlanningAttempt
from wavewright.planner.reader import PlanText, read_model_answer, read_plan, read_plan_document
from wavewright.planner.signatures import ToolSignature

__all__ = ["Candidate", "PlanValidator", "error_diagnostics", "error_summary"]

_MAX_CODES = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sound plan."""

    plan: Plan
    """As its author wrote it, unbound."""
    diagnostics: tuple[Diagnostic, ...]
    """Warnings."""
    document: Document | None
    """The text that it was read from."""


class PlanValidator:
    """Holds plans against one goal and its tools."""

    def __init__(
        self, goal: Goal, tools: Mapping[str, ToolSignature], allowance: Allowance | None = None
    ) -> None:
        self.goal = goal
        self.tools = tools
        self.attempts: list[PlanningAttempt] = []
        self.last_diagnostics: tuple[Diagnostic, ...] = ()
        """What was wrong with the plan that was looked at last."""
        self._allowance = allowance

    def read_answer(self, answer: ModelAnswer, rung: str) -> Candidate | PlanningAttempt:
        """Return the sound plan that an answer holds, or the attempt with what is wrong; either goes on record."""
        text = read_model_answer(answer.text)
        document = text.document
        if answer.is_truncated:
            found: tuple[Diagnostic, ...] = (_TRUNCATED_DIAGNOSTIC,)
        elif document is None:
            found = text.diagnostics
        else:
            found = self._all_diagnostics(text, document)
        attempt = PlanningAttempt(rung, answer.text, found, text.repairs, text.source)
        self.attempts.append(attempt)
        if text.plan is None or error_diagnostics(found):
            self.last_diagnostics = found
            return attempt
        return Candidate(text.plan, found, document)

    def validate(self, plan: Plan, document: Document | None = None) -> Candidate | FallbackFailure:
        """Return a plan as a candidate, or how many faults it has."""
        found = self._check(plan, document)
        if error_diagnostics(found):
            self.last_diagnostics = found
            return FallbackFailure(error_summary(found))
        return Candidate(plan, found, document)

    def validate_built(self, made: Plan | NoMinimalPlan, name: str) -> Candidate | FallbackFailure:
        """Return a plan that code has made, written down under a name so that it has places."""
        if isinstance(made, NoMinimalPlan):
            self.last_diagnostics = made.diagnostics or self.last_diagnostics
            return FallbackFailure(made.reason)
        text = _as_plan_text(made, name)
        assert text.plan is not None, text.diagnostics
        return self.validate(text.plan, text.document)

    def _all_diagnostics(self, text: PlanText, document: Document) -> tuple[Diagnostic, ...]:
        """Return what the reader has against an answer, and the checker where the rest of it is a plan."""
        plan = text.plan or read_plan_document(document).plan
        if plan is not None:
            return tuple(locate_diagnostics([*text.diagnostics, *self._check(plan, document)], document))
        if text.partial is None:
            return text.diagnostics
        further = check_partial(text.partial, self.goal, self.tools, allowance=self._allowance)
        return tuple(locate_diagnostics([*text.diagnostics, *further], document))

    def _check(self, plan: Plan, document: Document | None) -> tuple[Diagnostic, ...]:
        bound = bind_plan(plan, self.goal, self.tools)
        found = check(bound, self.goal, self.tools, allowance=self._allowance)
        return tuple(found if document is None else locate_diagnostics(found, document))


def error_diagnostics(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics that keep a plan from running."""
    return [one for one in found if one.severity == "error"]


def error_summary(found: Iterable[Diagnostic]) -> str:
    """Return how many faults there are and of which codes."""
    codes = Counter(one.code for one in error_diagnostics(found))
    shown = [
        code if count == 1 else f"{code} ({count} times)" for code, count in codes.most_common(_MAX_CODES)
    ]
    more = ["…"] if len(codes) > _MAX_CODES else []
    total = codes.total()
    return f"{total} fault{'' if total == 1 else 's'}: {', '.join(shown + more)}"


def _as_plan_text(plan: Plan, name: str) -> PlanText:
    value = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return read_plan(json.dumps(value, ensure_ascii=False, indent=2), name)


_TRUNCATED_DIAGNOSTIC = Diagnostic(
    "E102",
    "the answer was cut off before its end",
    hint="write it again, whole: what was cut off may be the step that matters",
)
