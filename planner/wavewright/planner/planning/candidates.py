"""Make and check the plans that may be chosen.

A *candidate* is a plan that was read, bound and checked without errors; what was wrong with other
attempts is kept.

A *minimal plan* is made without a model: it calls the tools that the goal requires over its
targets, and the analysis
tool over their outputs. A *suggested plan* is made of the tool calls that a model wrote instead of
a plan: none of them is made, they become steps in their order, completed by what the goal's rules
require.

A plan may call the *sub-plans* that its goal allows; they are put in before it is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wavewright.config.documents import Document
from wavewright.config.sources import DocumentError, DocumentFault, Source
from wavewright.planner.checks.checker import check, check_partial, errors_in
from wavewright.planner.checks.written_results import check_written_result
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    counted,
    error_diagnostics,
    list_names,
    locate_diagnostics,
    suggest_name,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.planning.goal_schema import without_absent_arguments
from wavewright.planner.planning.non_plan_answers import SuggestedCall
from wavewright.planner.planning.records import PlanningAttempt
from wavewright.planner.planning.step_building import StepBuilder, data_tools
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.sub_plan_call import ExpandedPlan, SubPlan
from wavewright.planner.plans.sub_plans import expand_plan, needs_expansion
from wavewright.planner.ports.budgets import Allowance
from wavewright.planner.ports.conversation import words_of
from wavewright.planner.ports.fallback_ladder import FallbackFailure
from wavewright.planner.ports.model_port import ModelAnswer
from wavewright.planner.reading.reader import (
    PlanText,
    read_model_answer,
    read_plan,
    read_plan_document,
)
from wavewright.planner.types import JsonSchema, as_object, properties_of

_REASONING = "the least that the goal's rules ask for"


@dataclass(frozen=True, slots=True)
class NoMinimalPlan:
    """There is no minimal plan; the message says why."""

    reason: str
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is wrong with the last plan that was tried."""


def minimal_plan(goal: Goal, tools: ToolSignatures) -> Plan | NoMinimalPlan:
    """Return the smallest valid plan for a goal, unbound, or why there is none.

    Data comes first: the required tools, then one more data tool at a time until the rest can be
    built.
    """
    rules = goal.rules
    if not (rules.required_tools or rules.analysis_tools or rules.terminal or rules.data_tools):
        return NoMinimalPlan("the goal's rules name no tool that every plan calls")
    builder = StepBuilder(goal, tools)
    spare = [
        name
        for name in data_tools(goal, tools)
        if name not in rules.required_tools
        and tools[name].only_reads
        and not tools[name].needs_approval
    ]
    first = outcome = complete_plan(builder, goal, tools, _REASONING)
    while isinstance(outcome, NoMinimalPlan) and _add_data_step(builder, spare):
        outcome = complete_plan(builder, goal, tools, _REASONING)
    return outcome if isinstance(outcome, Plan) else first


def complete_plan(
    builder: StepBuilder, goal: Goal, tools: ToolSignatures, reasoning: str
) -> Plan | NoMinimalPlan:
    """Return the steps of a builder and those that the goal's rules require besides, if that is a
    valid plan.
    """
    builder = builder.copy()
    for name in required_tools(goal, tools):
        if not builder.calls(name) and not builder.add(name, why="the goal requires it"):
            return NoMinimalPlan(f"no values are known for the parameters of {name!r}")
    plan = builder.plan(reasoning)
    errors = tuple(errors_in(bind_plan(plan, goal), goal, tools))
    if not errors:
        return plan
    return NoMinimalPlan(f"it would be faulty: {errors[0].message}", errors)


def required_tools(goal: Goal, tools: ToolSignatures) -> list[str]:
    """Return the tools that the rules require, in the order of execution: data, others, analysis,
    writing tools.
    """
    rules = goal.rules
    data = data_tools(goal, tools)
    analysis = [tool.name for tool in goal.tools if tool.name in rules.analysis_tools]
    ends = {rule.tool for rule in rules.terminal}
    wanted = rules.required_tools | ends
    if not wanted.intersection(analysis):
        wanted |= {*analysis[:1]}

    def turn(name: str) -> int:
        if name in data:
            return 0
        if name in ends:
            return 4
        if name in analysis:
            return 2
        return 3 if name in tools and tools[name].writes else 1

    return sorted((tool.name for tool in goal.tools if tool.name in wanted), key=turn)


def _add_data_step(builder: StepBuilder, spare: list[str]) -> bool:
    """Add the next data tool that can be called; return whether there was one."""
    while spare:
        if builder.add(spare.pop(0)):
            return True
    return False


def plan_from_calls(
    calls: Sequence[SuggestedCall], goal: Goal, tools: ToolSignatures
) -> Plan | NoMinimalPlan:
    """Return the valid plan made of suggested calls, unbound, or why there is none.

    Calls beyond the goal's limit of steps are left out, and the plan's reasoning says so; there
    stays room for the tools that the goal's rules ask for.
    """
    if not calls:
        return NoMinimalPlan("the answer suggests no calls of tools")
    unknown = next((call.name for call in calls if call.name not in goal.tool_names), None)
    if unknown is not None:
        return NoMinimalPlan(f"it suggests a call of {unknown!r}, which this goal does not have")
    named = {call.name for call in calls}
    room = goal.limits.max_steps - sum(name not in named for name in required_tools(goal, tools))
    taken = calls[: max(room, 0)]
    builder = StepBuilder(goal, tools)
    for call in taken:
        if not builder.add(call.name, call.arguments, wanted_id=call.id or call.name):
            return NoMinimalPlan(f"the suggested call of {call.name!r} lacks arguments")
    more = (
        f" (of {len(calls)}; the limit is {goal.limits.max_steps} steps)"
        if len(calls) > len(taken)
        else ""
    )
    reasoning = f"made of {len(taken)} suggested call(s) of tools{more}"
    return complete_plan(builder, goal, tools, reasoning)


_MAX_CODES = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A valid plan."""

    plan: Plan
    """As it runs, with its names, its `stop` and its sub-plans put in; unbound."""
    diagnostics: tuple[Diagnostic, ...]
    """Warnings."""
    document: Document | None
    """The text that it was read from."""


class PlanValidator:
    """Checks plans against one goal and its tools."""

    def __init__(
        self, goal: Goal, tools: ToolSignatures, allowance: Allowance | None = None
    ) -> None:
        self.goal = goal
        self.tools = tools
        self.attempts: list[PlanningAttempt] = []
        self.last_diagnostics: tuple[Diagnostic, ...] = ()
        """What was wrong with the last plan that was checked."""
        self._allowance = allowance

    def read_answer(self, answer: ModelAnswer, rung: str) -> Candidate | PlanningAttempt:
        """Return the valid plan that an answer holds, or the attempt with its faults; either is
        recorded.
        """
        text = self._without_absent_arguments(read_model_answer(words_of(answer)))
        document = text.document
        expanded = None
        if answer.is_truncated:
            diagnostics: tuple[Diagnostic, ...] = (_TRUNCATED_DIAGNOSTIC,)
        elif document is None:
            diagnostics = text.diagnostics
        else:
            expanded, diagnostics = self._all_diagnostics(text, document)
        attempt = PlanningAttempt(rung, answer.text, diagnostics, text.repairs, text.source)
        self.attempts.append(attempt)
        if text.plan is None or expanded is None or error_diagnostics(diagnostics):
            self.last_diagnostics = diagnostics
            return attempt
        return self._candidate(text.plan, expanded, diagnostics, document)

    def _candidate(
        self,
        plan: Plan,
        expanded: ExpandedPlan,
        diagnostics: tuple[Diagnostic, ...],
        document: Document | None,
    ) -> Candidate:
        if not needs_expansion(plan):
            return Candidate(plan, diagnostics, document)
        # Everything after this reads the plan as it runs, with the names of its `let`, its `stop`
        # and its sub-plans put in, so that is its document, too.
        plan, document = _as_document(expanded.plan, "<the plan as it runs>")
        return Candidate(plan, diagnostics, document)

    def _without_absent_arguments(self, text: PlanText) -> PlanText:
        """Return a plan without the nulls that stand for absent arguments, as its own document."""
        if text.plan is None:
            return text
        steps = tuple(without_absent_arguments(step, self.tools) for step in text.plan.steps)
        if steps == text.plan.steps:
            return text
        changed = text.plan.model_copy(update={"steps": steps})
        plan, document = _as_document(changed, text.source.name)
        return replace(text, plan=plan, document=document, source=document.source)

    def validate(
        self, plan: Plan, document: Document | None = None, *, written_by_model: bool = False
    ) -> Candidate | FallbackFailure:
        """Return a plan as a candidate, or how many faults it has."""
        expanded, diagnostics = self._check(plan, document, written_by_model=written_by_model)
        if error_diagnostics(diagnostics):
            self.last_diagnostics = diagnostics
            return FallbackFailure(error_summary(diagnostics))
        return self._candidate(plan, expanded, diagnostics, document)

    def validate_built(self, built: Plan | NoMinimalPlan, name: str) -> Candidate | FallbackFailure:
        """Return a plan made by code, as a document with a name, so that diagnostics have
        positions.
        """
        if isinstance(built, NoMinimalPlan):
            self.last_diagnostics = built.diagnostics or self.last_diagnostics
            return FallbackFailure(built.reason)
        return self.validate(*_as_document(built, name), written_by_model=True)

    def _all_diagnostics(
        self, text: PlanText, document: Document
    ) -> tuple[ExpandedPlan | None, tuple[Diagnostic, ...]]:
        """Return the reader's diagnostics of an answer, and those of the checker if the rest of it
        is a plan.
        """
        plan = text.plan or read_plan_document(document).plan
        expanded: ExpandedPlan | None = None
        further: Sequence[Diagnostic] = ()
        if plan is not None:
            expanded, further = self._check(plan, document, written_by_model=True)
        elif text.partial is None:
            return None, text.diagnostics
        else:
            further = check_partial(text.partial, self.goal, self.tools, allowance=self._allowance)
        return expanded, tuple(locate_diagnostics([*text.diagnostics, *further], document))

    def _check(
        self, plan: Plan, document: Document | None, *, written_by_model: bool
    ) -> tuple[ExpandedPlan, tuple[Diagnostic, ...]]:
        expanded = _with_allowed_sub_plans(plan, self.goal)
        bound = bind_plan(expanded.plan, self.goal)
        checked = check(bound, self.goal, self.tools, allowance=self._allowance)
        if written_by_model and not error_diagnostics(checked):
            checked += check_written_result(bound, self.goal, self.tools)
        diagnostics = [*expanded.faults, *expanded.place(checked)]
        return expanded, tuple(
            diagnostics if document is None else locate_diagnostics(diagnostics, document)
        )


def _declared_inputs(name: str, goal: Goal) -> dict[str, JsonSchema] | None:
    """Return what a sub-plan that is a goal template declares as its inputs; None of any other."""
    declared = goal.sub_plan_inputs.get(name)
    if declared is None:
        return None
    return {name: as_object(schema) for name, schema in properties_of(declared).items()}


def _with_allowed_sub_plans(plan: Plan, goal: Goal) -> ExpandedPlan:
    """Return a planner's plan with the sub-plans put in that its goal allows; calls of others are
    faults.
    """
    if not goal.sub_plans and not needs_expansion(plan):
        return ExpandedPlan(plan)

    def read(name: str, folder: Path) -> SubPlan:
        allowed = goal.sub_plans.get(name)
        if allowed is None:
            hint = suggest_name(name, goal.sub_plans, what="sub-plans")
            fault = DocumentFault(
                "unreadable_file",
                "this goal does not allow it",
                hint=hint or list_names(goal.sub_plans, what="sub-plans"),
            )
            raise DocumentError(Source(name, ""), (fault,))
        return SubPlan(*_as_document(allowed, name), "", folder, _declared_inputs(name, goal))

    return expand_plan(plan, Path(), read)


def _as_document(plan: Plan, name: str) -> tuple[Plan, Document]:
    """Return a plan made by code, and as a document with a name, so that diagnostics have positions."""
    value = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    text = read_plan(json.dumps(value, ensure_ascii=False, indent=2), name)
    assert text.plan is not None, text.diagnostics
    assert text.document is not None
    return text.plan, text.document


def error_summary(diagnostics: Iterable[Diagnostic]) -> str:
    """Return how many faults there are and of which codes."""
    codes = Counter(error.code for error in error_diagnostics(diagnostics))
    shown = [
        code if count == 1 else f"{code} ({count} times)"
        for code, count in codes.most_common(_MAX_CODES)
    ]
    more = ["…"] if len(codes) > _MAX_CODES else []
    return f"{counted(codes.total(), 'fault')}: {', '.join(shown + more)}"


_TRUNCATED_DIAGNOSTIC = Diagnostic(
    "E102",
    "the answer was cut off before its end",
    hint="write it again, whole: what was cut off may be the step that matters",
)
