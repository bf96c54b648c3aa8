"""The branches of a plan, and which of them a run took.

A *branch* is one way that a run can go at one place: a step that ends well, a side of a `when`, a fan-out of none,
one or several items, a gate that is green or red, an optional step that fails, a recipe that is applied.

What decides which way a run goes at one place.

The *concern* of a branch is what a search changes to reach it: the steps whose outputs its expressions read, whether
they read the inputs, and the names that stand in them.

What a plan's own words give a search for outputs.

A condition such as `output.frequency != "daily"` turns on a text that no generator would hit by chance. The
*vocabulary* of a plan is every text and number that stands in its expressions, and every age that its gates allow.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import GateRecord, StepFinished
from wavewright.planner.cel.embedded import bare_expression, iterate_strings
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Gate, Plan, Step
from wavewright.planner.plans.estimates import known_items
from wavewright.planner.plans.expressions import ExpressionError, evaluate, reads, split_references
from wavewright.planner.plans.uses import condition_use, step_texts
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.review.evidence import plan_scope

BranchKind: TypeAlias = Literal["step", "when", "items", "gate", "failure", "recipe"]

_FAILURES_AFTER_CALL: frozenset[str] = frozenset({"tool", "transient", "timeout", "output", "params"})
"""Kinds of errors of a step whose condition was true."""


class Branch(NamedTuple):
    """One way to go, at one place."""

    kind: BranchKind
    name: str
    """The step's or the gate's id."""
    side: str

    def __str__(self) -> str:
        """Return the branch in words."""
        match self.kind:
            case "step":
                return f"step {self.name} ends well"
            case "when":
                return f"when of {self.name} is {self.side}"
            case "items":
                return f"{self.name} runs over {_ITEMS[self.side]}"
            case "gate":
                return f"gate {self.name} is {self.side}"
            case "failure":
                return f"optional step {self.name} fails"
            case "recipe":
                return f"recipe {self.side} of gate {self.name} is applied"


_ITEMS = {"0": "no item", "1": "one item", "n": "several items"}


def branches_of(plan: Plan, goal: Goal) -> tuple[Branch, ...]:
    """Return every branch of a (bound) plan, step by step."""
    return tuple(dict.fromkeys(_branches(plan, goal)))


def _branches(plan: Plan, goal: Goal) -> Iterator[Branch]:
    for step in plan.steps:
        yield Branch("step", step.id, "ok")
        if step.when is not None:
            yield from (Branch("when", step.id, side) for side in ("true", "false"))
        if step.for_each is not None:
            yield from (Branch("items", step.id, side) for side in _size_sides(step, plan))
        if step.optional:
            yield Branch("failure", step.id, "failed")
        for gate in plan.gates:
            # Without a model nobody answers a judge gate.
            if gate.on == step.id and gate.judge is None:
                yield from (Branch("gate", gate.id, side) for side in ("green", "red"))
    for number, recipe in enumerate(goal.recipes, 1):
        yield Branch("recipe", recipe.gate, str(number))


def _size_sides(step: Step, plan: Plan) -> tuple[str, ...]:
    """Return the sides of a fan-out; one only, where the list stands in the plan."""
    if isinstance(step.for_each, list):
        return (_size_side(len(step.for_each)),)
    found = [read for text in step_texts(step, 0) if text.role == "for_each" for read in text.reads.values()]
    items = known_items(plan, step) if all(read == () for read in found) else None
    return tuple(_ITEMS) if items is None else (_size_side(len(items)),)


def _size_side(items: int) -> str:
    return str(items) if items < 2 else "n"


def branches_taken(state: RunState, plan: Plan, goal: Goal, now: dt.datetime) -> frozenset[Branch]:
    """Return the branches of the plan that a run took."""
    return frozenset(_taken(state, plan, goal, now))


def _taken(state: RunState, plan: Plan, goal: Goal, now: dt.datetime) -> Iterator[Branch]:
    for step in plan.steps:
        ending = state.steps.get(step.id)
        if ending is None:
            continue
        if ending.status in SUCCESSES:
            yield Branch("step", step.id, "ok")
        if step.when is not None and (side := _when_side(step.when, ending, state, plan, now)) is not None:
            yield Branch("when", step.id, side)
        if step.for_each is not None and ending.items is not None:
            yield Branch("items", step.id, _size_side(ending.items[1]))
        if step.optional and ending.status == "failed":
            yield Branch("failure", step.id, "failed")
        for record in ending.gates:
            if record.kind != "judge" and not _had_nothing_to_check(record):
                yield Branch("gate", record.gate, "red" if record.has_failed else "green")
    for patch in state.patches:
        reason = str(patch.get("reason"))
        for number, recipe in enumerate(goal.recipes, 1):
            if recipe.reason in reason and _is_from(recipe.gate, patch.get("expect")):
                yield Branch("recipe", recipe.gate, str(number))


def _when_side(when: str, ending: StepFinished, state: RunState, plan: Plan, now: dt.datetime) -> str | None:
    if ending.status == "skipped":
        return "false"
    is_called = ending.error is not None and ending.error.kind in _FAILURES_AFTER_CALL
    if ending.status in SUCCESSES or ending.items is not None or is_called:
        return "true"
    # An expression without a value is the condition itself, or what comes after it.
    holds = ending.error is not None and _holds(when, plan_scope(plan, state), now)
    return "true" if holds else None


def _holds(condition: str, scope: JsonObject, now: dt.datetime) -> bool:
    try:
        return evaluate(bare_expression(condition).expression, scope, now) is True
    except ExpressionError:
        return False


def _had_nothing_to_check(record: GateRecord) -> bool:
    """Whether there was nothing for a gate to look at."""
    return record.looked_at.startswith("no calls:")


def _is_from(gate: str, expected: Json) -> bool:
    ids = expected if isinstance(expected, list) else []
    return any(str(one) == gate or str(one).startswith(f"{gate}__") for one in ids)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class BranchInputs:
    """Where to change something."""

    steps: tuple[StepId, ...] = ()
    reads_inputs: bool = False
    names: frozenset[str] = frozenset()


def inputs_of_branch(branch: Branch, plan: Plan) -> BranchInputs:
    """Return what decides whether a run takes a branch."""
    if branch.kind == "gate":
        return _inputs_of_gate(next(gate for gate in plan.gates if gate.id == branch.name), plan)
    if branch.kind == "recipe":
        gates = [gate for gate in plan.gates if gate.id.partition("__")[0] == branch.name]
        return _joined(_inputs_of_gate(gate, plan) for gate in gates)
    step = plan.step(branch.name)
    if branch.kind == "when":
        return _inputs_of_texts(plan, step.when)
    if branch.kind == "items":
        return _inputs_of_texts(plan, *embedded_expressions(step.for_each))
    return inputs_of_step(step, plan)


def inputs_of_step(step: Step, plan: Plan) -> BranchInputs:
    """Return what all the expressions of a step read."""
    return _inputs_of_texts(
        plan, step.when, *embedded_expressions(step.for_each), *embedded_expressions(step.params)
    )


def _inputs_of_gate(gate: Gate, plan: Plan) -> BranchInputs:
    found = _inputs_of_texts(plan, gate.check)
    assert gate.on is not None
    fields = {name for path in gate.required or () for name in path.split(".")}
    if gate.schema_ is not None:
        fields |= set(_NAME.findall(str(gate.schema_)))
    return BranchInputs(
        tuple(dict.fromkeys((gate.on, *found.steps))), found.reads_inputs, found.names | frozenset(fields)
    )


def _joined(concerns: Iterable[BranchInputs]) -> BranchInputs:
    found = tuple(concerns)
    return BranchInputs(
        tuple(dict.fromkeys(step for one in found for step in one.steps)),
        any(one.reads_inputs for one in found),
        frozenset(name for one in found for name in one.names),
    )


def _inputs_of_texts(plan: Plan, *expressions: str | None) -> BranchInputs:
    known = {step.id for step in plan.steps}
    steps: dict[StepId, None] = {}
    names: set[str] = set()
    reads_inputs = False
    for expression in expressions:
        if expression is None:
            continue
        try:
            bare = condition_use(expression, "", "when").expression
            found = reads(bare)
        except ExpressionError:
            continue
        names.update(_NAME.findall(bare))
        reads_inputs = reads_inputs or any(read.root == "inputs" for read in found)
        for read in found:
            if read.root == "steps" and read.name in known:
                steps[StepId(str(read.name))] = None
    return BranchInputs(tuple(steps), reads_inputs, frozenset(names))


def embedded_expressions(value: Json) -> list[str]:
    """Return the expressions that the texts of a value hold."""
    found: list[str] = []
    for _, text in iterate_strings(value):
        if "${" in text:
            found += [part.expression for part in split_references(text) if not isinstance(part, str)]
    return found


_TEXT = re.compile(r"\"([^\"\\]{0,60})\"|'([^'\\]{0,60})'")
_NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,6})?(?![\w.])")
_AGES = (3600.0, 2 * 86400.0, 40 * 86400.0, 400 * 86400.0, -2 * 86400.0)
_MAX_LIST_SIZE = 400
"""Entries that a list is given because an expression names the number."""


@dataclass(frozen=True, slots=True)
class PlanVocabulary:
    """Texts, numbers and ages worth a try."""

    now: dt.datetime
    texts: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()
    sizes: tuple[int, ...] = (3,)
    """Of lists, beside the small ones."""
    ages: tuple[float, ...] = _AGES
    """In seconds before `now`; below zero, after it."""


def vocabulary_of(plan: Plan, now: dt.datetime) -> PlanVocabulary:
    """Return the vocabulary of a (bound) plan."""
    expressions = list(_expressions(plan))
    texts = [one or other for text in expressions for one, other in _TEXT.findall(text)]
    bare = [_TEXT.sub(" ", text) for text in expressions]
    numbers = [_number(found) for text in bare for found in _NUMBER.findall(text)]
    around = dict.fromkeys(near for number in numbers for near in (number, number + 1, number - 1))
    sizes = [number for number in around if isinstance(number, int) and 0 <= number <= _MAX_LIST_SIZE]
    allowed = [gate.fresh_within for gate in plan.gates if gate.fresh_within is not None]
    return PlanVocabulary(
        now=now,
        texts=tuple(dict.fromkeys(texts)),
        numbers=tuple(around),
        sizes=tuple(dict.fromkeys((3, *sizes))),
        ages=(*_AGES, *(seconds * share for seconds in allowed for share in (0.5, 2.0))),
    )


def _expressions(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        if step.when is not None:
            yield step.when
        for value in (step.for_each, step.params, plan.result):
            yield from (text for _, text in iterate_strings(value) if "${" in text)
    yield from (gate.check for gate in plan.gates if gate.check is not None)
    yield from (cap.when for cap in plan.caps)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
