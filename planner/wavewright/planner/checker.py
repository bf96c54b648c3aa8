"""Prove a plan sound before anything runs, or say everything that is wrong with it.

`check` is pure: it calls no tool, reads no clock and no file. It finds every fault at once, in file order, and names
each once: what follows from a fault that is reported already is not reported again. Lint is asked only of a plan
without errors, because unread output is no news where the reading expression is misspelt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from wavewright.planner.check_budget import check_budget
from wavewright.planner.check_document import check_document
from wavewright.planner.check_graph import check_graph
from wavewright.planner.check_references import check_references
from wavewright.planner.check_subject import CheckContext
from wavewright.planner.check_tools import check_tools
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.limits import Limits
from wavewright.planner.lint import lint
from wavewright.planner.models import Plan
from wavewright.planner.pointers import document_position

if TYPE_CHECKING:
    from wavewright.planner.allowance import Allowance
    from wavewright.planner.goals import Goal
    from wavewright.planner.partial_plan import PartialPlan
    from wavewright.planner.signatures import ToolSignature
    from wavewright.planner.types import StepId


def check(
    plan: Plan,
    goal: Goal | None,
    tools: Mapping[str, ToolSignature],
    *,
    limits: Limits | None = None,
    allowance: Allowance | None = None,
    finished: Collection[StepId] = frozenset(),
    items_done: Mapping[StepId, int] | None = None,
) -> list[Diagnostic]:
    """Return everything that is wrong with a bound plan, in file order.

    Args:
        plan: The plan, bound to its goal where there is one (`bind_plan`).
        goal: What was asked for, with its rules; without it the families that depend on rules are silent.
        tools: The signatures of the tools that are installed.
        limits: Bounds of size; the goal's, or the defaults, where absent.
        allowance: What is left of the budgets; where it is absent, only the goal's own budget is known.
        finished: Steps that have run, so that they take nothing any more.
        items_done: Of steps that run once an item and have not ended, how many items have run.
    """
    subject = CheckContext(plan, goal, tools, limits or (goal.limits if goal else Limits()))
    found = [*_error_checks(subject), *check_budget(subject, allowance, finished, items_done or {})]
    return in_file_order(found or lint(subject), plan)


def check_partial(
    partial: PartialPlan,
    goal: Goal | None,
    tools: Mapping[str, ToolSignature],
    *,
    limits: Limits | None = None,
    allowance: Allowance | None = None,
) -> list[Diagnostic]:
    """Return what is wrong with the valid part of a plan besides its faults of shape, and follows from none of them.

    The plan need not be bound; lint is not asked.
    """
    plan = partial.plan
    if goal is not None:
        from wavewright.planner.binding import bind_plan

        plan = bind_plan(plan, goal, tools)
    subject = CheckContext(plan, goal, tools, limits or (goal.limits if goal else Limits()), partial.untyped)
    found = [*_error_checks(subject), *check_budget(subject, allowance, frozenset(), {})]
    return in_file_order(filter(partial.is_certain, found), plan)


def _error_checks(subject: CheckContext) -> Iterable[Diagnostic]:
    yield from check_document(subject)
    yield from check_tools(subject)
    yield from check_references(subject)
    yield from check_graph(subject)
    yield from _goal_rules(subject)


def _goal_rules(subject: CheckContext) -> Iterable[Diagnostic]:
    if subject.goal is None:
        return ()
    from wavewright.planner.check_goal_rules import check_goal_rules  # loads what only a goal needs

    return check_goal_rules(subject)


def in_file_order(diagnostics: Iterable[Diagnostic], plan: Plan) -> list[Diagnostic]:
    """Return diagnostics by place, then errors before warnings, then by code; each only once."""
    unique = {(each.code, each.pointer, each.message): each for each in diagnostics}.values()
    return sorted(
        unique,
        key=lambda each: (document_position(plan, each.pointer), each.severity == "warning", each.code),
    )
