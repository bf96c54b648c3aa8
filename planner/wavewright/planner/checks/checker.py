"""Check a plan before anything runs, and report every fault at once.

`check` is pure: it calls no tool and reads no clock and no file. Diagnostics come in file order,
and a fault that only follows from a reported one is left out. Lint runs only on a plan without
errors.

A *partial plan* is the readable part of a plan whose document has faults of shape: every step, gate
and cap keeps its place, and placeholders stand for what could not be read. It is checked and never
run; `is_certain` tells the diagnostics of what was written from those that follow from what is
missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from wavewright.config.sources import DocumentFault, pointer_keys
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.checks.answerable import unanswerable_steps
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.feasibility import check_budget
from wavewright.planner.checks.fits import fits_by_value
from wavewright.planner.checks.goal_rules import check_goal_rules
from wavewright.planner.checks.lint import lint
from wavewright.planner.checks.references import check_references
from wavewright.planner.checks.structure import check_document, check_graph
from wavewright.planner.checks.tools import check_tools
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    document_position,
    error_diagnostics,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Cap, Gate, Limits, Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.let_and_stop import (
    JOINED_PLACE,
    let_values,
    with_let,
    with_stop,
)
from wavewright.planner.plans.uses import plan_texts
from wavewright.planner.types import GateId, Json, JsonObject, StepId

if TYPE_CHECKING:
    from wavewright.planner.ports.budgets import Allowance


M = TypeVar("M", bound=BaseModel)
_LocatedFault: TypeAlias = "tuple[list[str], str]"
"""A fault of shape: the keys that lead to it, and its kind."""

_NEEDS_FIELD: Final = {"E204": "params", "E305": "for_each", "E306": "when"}
"""Codes that say what a step lacks, with the field that would give it."""
_NEEDS_NAMES: Final = frozenset({"E301", "E403", "E407", "E408"})
"""Codes that are certain only where the id of every step is known."""
_NEEDS_STEPS: Final = frozenset({"E503", "E505", "E506", "E701", "E702", "E703", "E704"})
"""Codes that are certain only where every step is known whole."""


@dataclass(slots=True)
class _PartialNode:
    """A step, gate or cap as it was written, with what is wrong in it."""

    given: JsonObject = field(default_factory=dict[str, Json])
    """Its fields, without the faulty ones."""
    faulty: set[str] = field(default_factory=set[str])
    """Names of its faulty fields."""
    has_unknown: bool = False
    """Whether it has a field that does not exist: any absent field may be meant by it."""
    is_whole: bool = True
    """Whether nothing is wrong in it."""

    def may_have(self, name: str) -> bool:
        """Whether a field that could not be read may have been given."""
        return name in self.faulty or (self.has_unknown and name not in self.given)


@dataclass(frozen=True, slots=True)
class PartialPlan:
    """A plan without what could not be read of it."""

    plan: Plan
    untyped: frozenset[StepId]
    """Steps of whose output nothing is known: they may run once an item or once."""
    _steps: Sequence[_PartialNode]
    _root: _PartialNode
    _replaced: frozenset[str]
    """Pointers of what was left out, or has a stand-in."""

    def is_certain(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic of `plan` holds of the plan as it was written."""
        keys = pointer_keys(diagnostic.pointer)
        if any(
            "".join(f"/{key}" for key in keys[:length]) in self._replaced for length in (1, 2, 3)
        ):
            return False
        if diagnostic.code in _NEEDS_NAMES:
            return all("id" in step.given for step in self._steps)
        if diagnostic.code in _NEEDS_STEPS:
            return all(step.is_whole for step in self._steps)
        if diagnostic.code == "E302":
            return not self._root.may_have("inputs")
        needed = _NEEDS_FIELD.get(diagnostic.code)
        if needed is None or keys[:1] != ["steps"]:
            return True
        return not self._steps[int(keys[1])].may_have(needed)


def read_partial_plan(value: Json, faults: Iterable[DocumentFault]) -> PartialPlan | None:
    """Return the valid part of a plan's value; nothing where it has no list of steps.

    Args:
        value: The document's value.
        faults: Everything that keeps it from being a plan, with pointers into it.
    """
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return None
    located = [(pointer_keys(fault.pointer), fault.kind) for fault in faults]
    root = _part(
        value, [(path, kind) for path, kind in located if len(path) < 2 or path[0] not in _LISTS]
    )
    steps, gates, caps = (_parts(value.get(name), name, located) for name in _LISTS)
    readable_steps = [_step(part, number) for number, part in enumerate(steps)]
    plan = _valid(Plan, {**root.given, "steps": [], "gates": [], "caps": []}) or Plan(steps=())
    plan = plan.model_copy(
        update={
            "steps": tuple(readable_steps),
            "gates": tuple(_gate(part, number) for number, part in enumerate(gates)),
            "caps": tuple(_valid(Cap, part.given) or _NO_CAP for part in caps),
        }
    )
    untyped = (
        step.id
        for step, part in zip(readable_steps, steps, strict=True)
        if part.may_have("for_each") or step.plan is not None
    )
    plan = with_stop(with_let(plan)[0])
    replaced = {f"/{name}" for name in root.faulty}
    for number, part in enumerate(steps):
        replaced |= {
            f"/steps/{number}/{name}" for name in (*part.faulty, *(_REQUIRED - part.given.keys()))
        }
    for name, parts in (("gates", gates), ("caps", caps)):
        replaced |= {f"/{name}/{number}" for number, part in enumerate(parts) if not part.is_whole}
    return PartialPlan(plan, frozenset(untyped), steps, root, frozenset(replaced))


_LISTS: Final = ("steps", "gates", "caps")
_REQUIRED: Final = frozenset({"id", "tool"})
_NO_CAP: Final = Cap.model_construct(field="overall", when="true", max=1.0, because="-")


def _parts(items: Json, name: str, faults: Sequence[_LocatedFault]) -> list[_PartialNode]:
    """Return each item of a list with what is wrong in it; none where it is no list."""
    if not isinstance(items, list):
        return []
    faults_by_item: dict[int, list[_LocatedFault]] = {}
    for path, kind in faults:
        if len(path) > 1 and path[0] == name and path[1].isdecimal():
            faults_by_item.setdefault(int(path[1]), []).append((path[2:], kind))
    return [_part(item, faults_by_item.get(number, ())) for number, item in enumerate(items)]


def _part(value: Json, faults: Sequence[_LocatedFault]) -> _PartialNode:
    if not isinstance(value, dict):
        return _PartialNode(has_unknown=True, is_whole=False)
    unknown = {path[0] for path, kind in faults if len(path) == 1 and kind == "unknown_field"}
    faulty = {path[0] for path, _ in faults if path} - unknown
    well_formed = {name: inner for name, inner in value.items() if name not in faulty | unknown}
    return _PartialNode(well_formed, faulty, has_unknown=bool(unknown), is_whole=not faults)


def _step(part: _PartialNode, number: int) -> Step:
    stand_in: JsonObject = {"id": f"unnamed__{number}", "tool": "?"}
    step = _valid(Step, stand_in | part.given)
    if step is not None:
        return step
    # It has a fault that was not listed, because there are too many.
    part.given, part.has_unknown, part.is_whole = {}, True, False
    return Step.model_validate(stand_in)


def _gate(part: _PartialNode, number: int) -> Gate:
    gate = _valid(Gate, part.given)
    if gate is not None:
        return gate
    part.is_whole = False
    return Gate.model_construct(id=GateId(f"unnamed__{number}"))


def _valid(model: type[M], value: JsonObject) -> M | None:
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError:
        return None


def check(
    plan: Plan,
    goal: Goal | None,
    tools: Mapping[str, ToolSignature],
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
    tools: Mapping[str, ToolSignature],
    *,
    allowance: Allowance | None = None,
) -> list[Diagnostic]:
    """Return the errors that `check` finds in a bound plan, without a look for warnings."""
    subject = CheckContext(plan, goal, tools, goal.limits if goal else Limits())
    diagnostics = [*_error_checks(subject), *check_budget(subject, allowance, frozenset(), {})]
    return in_file_order(_as_written(error_diagnostics(diagnostics), plan), plan)


def check_values(
    plan: Plan, goal: Goal | None, tools: Mapping[str, ToolSignature]
) -> list[Diagnostic]:
    """Return where only a call shows whether a value fits, of a bound plan without errors."""
    subject = CheckContext(plan, goal, tools, goal.limits if goal else Limits())
    return in_file_order(_as_written(fits_by_value(subject), plan), plan)


def _as_written(diagnostics: Iterable[Diagnostic], plan: Plan) -> Iterable[Diagnostic]:
    """Yield diagnostics as they are of the author's text, which had names and conditions put in:
    without places inside texts, and what is wrong with a name of `let` where the name is defined.
    """
    listed = list(diagnostics)
    if not listed or not (plan.let or plan.stop or _holds_joined(plan)):
        return listed
    texts = {text.pointer: text.text for text in plan_texts(plan)}
    names = {
        pointer: text
        for name, value in let_values(plan).items()
        for pointer, text in iterate_strings(value, f"/let/{name}")
    }
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

    return [
        replace(diagnostic, within=None) for diagnostic in listed if not is_of_a_name(diagnostic)
    ]


def _holds_joined(plan: Plan) -> bool:
    return any(JOINED_PLACE in text.text for text in plan_texts(plan))


def check_partial(
    partial: PartialPlan,
    goal: Goal | None,
    tools: Mapping[str, ToolSignature],
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
        plan = bind_plan(plan, goal, tools)
    subject = CheckContext(
        plan, goal, tools, limits or (goal.limits if goal else Limits()), partial.untyped
    )
    diagnostics = [*_error_checks(subject), *check_budget(subject, allowance, frozenset(), {})]
    certain = _as_written(filter(partial.is_certain, diagnostics), plan)
    return in_file_order(certain, plan)


def _error_checks(subject: CheckContext) -> Iterable[Diagnostic]:
    yield from check_document(subject)
    yield from check_tools(subject)
    yield from check_references(subject)
    yield from check_graph(subject)
    yield from _goal_rules(subject)
    yield from _safety(subject)


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
    unique = {(each.code, each.pointer, each.message): each for each in diagnostics}.values()
    return sorted(
        unique,
        key=lambda each: (
            document_position(plan, each.pointer),
            each.severity == "warning",
            each.code,
        ),
    )
