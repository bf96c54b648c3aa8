"""Check a plan before anything runs, and report every fault at once.

`check` is pure: it calls no tool and reads no clock and no file. Diagnostics come in file order,
and a fault that only follows from a reported one is left out. Lint runs only on a plan without
errors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from wavewright.config.sources import Source
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.checks.answerable import unanswerable_steps
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.feasibility import check_budget
from wavewright.planner.checks.fits import fits_by_value
from wavewright.planner.checks.goal_rules import check_goal_rules
from wavewright.planner.checks.lint import lint
from wavewright.planner.checks.partial_plans import PartialPlan
from wavewright.planner.checks.references import check_references
from wavewright.planner.checks.structure import check_document, check_graph
from wavewright.planner.checks.tools import check_tools
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    PlanError,
    document_position,
    error_diagnostics,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Limits, Plan, Step
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.let_and_stop import has_joined, in_authors_words, let_values
from wavewright.planner.plans.uses import plan_texts
from wavewright.planner.types import Json, StepId

if TYPE_CHECKING:
    from wavewright.planner.ports.budgets import Allowance


def check(
    plan: Plan,
    goal: Goal | None,
    tools: ToolSignatures,
    *,
    limits: Limits | None = None,
    allowance: Allowance | None = None,
    finished: Collection[StepId] = frozenset(),
    items_done: Mapping[StepId, int] | None = None,
    can_ask: bool = True,
    can_answer: bool = True,
) -> list[Diagnostic]:
    """Return everything that is wrong with a bound plan, in file order.

    Args:
        plan: The plan, bound to its goal where there is one (`bind_plan`).
        goal: What was asked for, with its rules; without it the families that depend on rules are
            silent.
        tools: The signatures of the tools that are installed.
        limits: Bounds of size; the goal's, or the defaults, where absent.
        allowance: What is left of the budgets; where it is absent, only the goal's own budget is
            known.
        finished: Steps that have run, so that they take nothing any more.
        items_done: Of steps that run once an item and have not ended, how many items have run.
        can_ask: Whether a person can be asked for the approvals that steps need.
        can_answer: Whether a person can answer the questions of steps.

    >>> from wavewright.planner import check, read_plan
    >>> plan = read_plan('{"steps": [{"id": "a", "tool": "rank"}]}', "plan.json").plan
    >>> [fault] = check(plan, None, {})
    >>> print(fault.code, fault.message)
    E201 step 'a' calls 'rank', and there is no such tool
    """
    subject = CheckContext(plan, goal, tools, limits or (goal.limits if goal else Limits()))
    diagnostics = [
        *_of_calls_to_come(_error_checks(subject), plan, finished),
        *unanswerable_steps(subject, finished, can_ask=can_ask, can_answer=can_answer),
        *check_budget(subject, allowance, finished, items_done or {}),
    ]
    return in_file_order(_as_written(diagnostics or lint(subject), plan), plan)


def _of_calls_to_come(
    diagnostics: Iterable[Diagnostic], plan: Plan, finished: Collection[StepId]
) -> Iterable[Diagnostic]:
    """Yield diagnostics without those of arguments of steps that have run: what their tools take
    by now is no matter to them.
    """
    places = [f"/steps/{n}" for n, step in enumerate(plan.steps) if step.id in finished]
    inside = tuple(f"{place}/params" for place in places)
    for diagnostic in diagnostics:
        is_argument = diagnostic.code == "E204" and diagnostic.pointer in places
        if not is_argument and not (inside and diagnostic.pointer.startswith(inside)):
            yield diagnostic


def errors_in(
    plan: Plan,
    goal: Goal | None,
    tools: ToolSignatures,
    *,
    allowance: Allowance | None = None,
) -> list[Diagnostic]:
    """Return the errors that `check` finds in a bound plan, without a look for warnings."""
    subject = CheckContext(plan, goal, tools, goal.limits if goal else Limits())
    diagnostics = [*_error_checks(subject), *check_budget(subject, allowance, frozenset(), {})]
    return in_file_order(_as_written(error_diagnostics(diagnostics), plan), plan)


def errors_of_goal(goal: Goal, tools: ToolSignatures) -> list[Diagnostic]:
    """Return the errors in a goal's own gates on tools and in its caps, with places in its template:
    whatever the plan is, it cannot mend them.

    They are looked for in a plan with a step for each of these tools. Other steps that they read,
    and the item, are the plan's to have.
    """
    numbers = [number for number, gate in enumerate(goal.gates) if gate.on_tool in tools]
    gates = [goal.gates[number] for number in numbers]
    called = sorted({gate.on_tool for gate in gates if gate.on_tool is not None})
    if not called:
        called = sorted(goal.tool_names & tools.keys())[:1]
    step_of = {tool: StepId(f"step_{number}") for number, tool in enumerate(called)}
    plan = Plan(
        steps=tuple(Step(id=step, tool=tool) for tool, step in step_of.items()),
        inputs=goal.inputs,
        gates=tuple(
            gate.model_copy(update={"on": step_of[gate.on_tool or ""], "on_tool": None})
            for gate in gates
        ),
        caps=goal.caps,
    )
    places = {f"/gates/{at}/": f"/gates/{number}/" for at, number in enumerate(numbers)}
    places |= {f"/caps/{number}/": f"/caps/{number}/" for number in range(len(goal.caps))}
    bare = goal.model_copy(update={"gates": (), "caps": ()})
    return [
        replace(error, pointer=place + error.pointer.removeprefix(at))
        for error in errors_in(plan, bare, tools)
        for at, place in places.items()
        if error.pointer.startswith(at) and not _is_of_the_plan(error)
    ]


def _is_of_the_plan(error: Diagnostic) -> bool:
    """Whether a plan lacks what a gate or a cap reads: a step, a guard, or of a gate an item."""
    is_of_gate = error.pointer.startswith("/gates/")
    return error.code in ("E301", "E306") or (error.code == "E305" and is_of_gate)


def refuse_faulty_goal(goal: Goal, tools: ToolSignatures) -> None:
    """Refuse a goal with errors of its own, before a model is asked for a plan that cannot mend them.

    Raises:
        PlanError: a gate or a cap of the goal has an error.
    """
    errors = errors_of_goal(goal, tools)
    if errors:
        raise PlanError(errors, Source(f"goal template {goal.name!r}", ""))


def check_values(plan: Plan, goal: Goal | None, tools: ToolSignatures) -> list[Diagnostic]:
    """Return where only a call shows whether a value fits, of a bound plan without errors."""
    subject = CheckContext(plan, goal, tools, goal.limits if goal else Limits())
    return in_file_order(_as_written(fits_by_value(subject), plan), plan)


def _as_written(diagnostics: Iterable[Diagnostic], plan: Plan) -> Iterable[Diagnostic]:
    """Yield diagnostics as they are of the author's text, which had names and conditions put in:
    without places inside texts, and what is wrong with a name of `let` where the name is defined.
    """
    listed = list(diagnostics)
    if not listed or not (plan.let or plan.stop or has_joined(plan)):
        return listed
    texts = {text.pointer: text.text for text in plan_texts(plan)}
    names = _texts_of_names(plan)
    of_names = [diagnostic for diagnostic in listed if diagnostic.pointer in names]

    def is_of_a_name(diagnostic: Diagnostic) -> bool:
        # Whoever reads a name holds what it stands for, in brackets or as a whole, with its fault.
        pointer = diagnostic.pointer
        text = texts.get(pointer) or names.get(pointer, "")
        for named in of_names:
            value = names[named.pointer]
            is_same = (named.code, named.message) == (diagnostic.code, diagnostic.message)
            is_read = f"({value.removeprefix('${').removesuffix('}')})" in text
            if is_same and (is_read or (pointer not in names and text == value)):
                return True
        return False

    in_words = in_authors_words(plan)
    return [
        replace(
            diagnostic,
            within=None,
            message=in_words(diagnostic.message),
            hint=None if diagnostic.hint is None else in_words(diagnostic.hint),
        )
        for diagnostic in listed
        if not is_of_a_name(diagnostic)
    ]


def _texts_of_names(plan: Plan) -> dict[str, str]:
    """Return the texts of what names of `let` stand for, by their pointers."""
    return {
        pointer: text
        for name, value in let_values(plan).items()
        for pointer, text in iterate_strings(value, f"/let/{name}")
    }


def check_partial(
    partial: PartialPlan,
    goal: Goal | None,
    tools: ToolSignatures,
    *,
    limits: Limits | None = None,
    allowance: Allowance | None = None,
) -> list[Diagnostic]:
    """Return what is wrong with the valid part of a plan besides its faults of shape, and follows
    from none of them.

    The plan need not be bound; lint is not asked.
    """
    plan = partial.plan
    if goal is not None:
        plan = bind_plan(plan, goal)
    subject = CheckContext(
        plan, goal, tools, limits or (goal.limits if goal else Limits()), partial.untyped
    )
    diagnostics = [*_error_checks(subject), *check_budget(subject, allowance, frozenset(), {})]
    certain = map(partial.as_written, filter(partial.is_certain, diagnostics))
    return in_file_order(_as_written(certain, plan), plan)


def _error_checks(subject: CheckContext) -> Iterable[Diagnostic]:
    found = chain(
        check_document(subject),
        check_tools(subject),
        check_references(subject),
        check_graph(subject),
        _goal_rules(subject),
        _safety(subject),
    )
    return _with_hints_on_inputs(found, subject.plan)


def _with_hints_on_inputs(diagnostics: Iterable[Diagnostic], plan: Plan) -> Iterable[Diagnostic]:
    """Yield diagnostics; where a text does not fit and reads an input that is written as the
    declaration of a type, as other systems have it, the hint says that inputs are values.
    """
    declared = [name for name, value in plan.inputs.items() if _is_like_a_declaration(value)]
    if not declared:
        yield from diagnostics
        return
    texts = {text.pointer: text.text for text in plan_texts(plan)} | _texts_of_names(plan)
    for diagnostic in diagnostics:
        text = texts.get(diagnostic.pointer, "") if diagnostic.code in _TYPE_ERRORS else ""
        read = [name for name in declared if re.search(rf"\binputs\.{name}\b", text)]
        if read:
            hint = f"`inputs` has values and no types: write a value, `{read[0]}: …`"
            yield replace(diagnostic, hint=hint)
        else:
            yield diagnostic


_TYPE_ERRORS = frozenset({"E304", "E312"})
_DECLARING = frozenset({"default", "description", "enum", "format", "items", "required", "type"})
_TYPE_NAMES = frozenset(
    {"array", "boolean", "date", "datetime", "float", "int", "integer", "list", "number", "object"}
    | {"str", "string"}
)


def _is_like_a_declaration(value: Json) -> bool:
    """Whether a value looks like what declares an input elsewhere: `{type: string}`."""
    if not isinstance(value, dict):
        return False
    name = value.get("type")
    return isinstance(name, str) and name in _TYPE_NAMES and value.keys() <= _DECLARING


def _goal_rules(subject: CheckContext) -> Iterable[Diagnostic]:
    if subject.goal is None:
        return ()
    return check_goal_rules(subject)


def _safety(subject: CheckContext) -> Iterable[Diagnostic]:
    takes_untrusted = subject.goal is not None and bool(subject.goal.untrusted_inputs)
    called = {step.tool for step in subject.plan.steps}
    tools = (tool for name, tool in subject.tools.items() if name in called)
    if takes_untrusted or any(tool.brings_untrusted or "egress" in tool.effects for tool in tools):
        # Imported here: most plans read and send nothing outside.
        from wavewright.planner.checks.safety import check_safety

        yield from check_safety(subject)


def in_file_order(diagnostics: Iterable[Diagnostic], plan: Plan) -> list[Diagnostic]:
    """Return diagnostics by place, then errors before warnings, then by code; each only once."""
    unique = {
        (diagnostic.code, diagnostic.pointer, diagnostic.message): diagnostic
        for diagnostic in diagnostics
    }.values()
    return sorted(
        unique,
        key=lambda diagnostic: (
            document_position(plan, diagnostic.pointer),
            diagnostic.severity == "warning",
            diagnostic.code,
        ),
    )
