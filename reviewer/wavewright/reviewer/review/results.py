"""The result of a run, which parts of it are missing, and the evidence of its steps.

The *result* is what the plan's `result` names, or the outputs of its terminal steps. A missing part
becomes null and is listed, so that a review can name it and the package is still written.

*Evidence* is how much of what a plan set out to produce is there. Each step that counts has a
weight (1, or ½ where it is optional) and a share between 0 and 1; the *raw* overall confidence is
the weighted mean of the shares:

- 0 for a step that failed, was blocked or cancelled, never ran, or is stopped by a failed block
  gate;
- 1 for one that succeeded, in proportion to the items that succeeded for a `for_each` step;
- ½ for an empty output, unless it can only be empty (no items to run over, a tool that writes, an
  output schema of null);
- times 0.8 for every failed warn gate, in proportion to the calls that it failed on.

A step that its `when` skipped, or that another step supersedes, does not count: the plan does not
need it.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from wavewright.executor import RunState, StepFinished
from wavewright.executor.events.json_values import is_empty
from wavewright.executor.events.state import SUCCESSES, blocking_gate
from wavewright.planner import (
    ExpressionError,
    Goal,
    InvalidSchemaError,
    Json,
    JsonObject,
    Plan,
    Step,
    StepId,
    ToolSignature,
    ToolSignatures,
    evaluate,
    render,
    validator_of,
)
from wavewright.planner.cel.embedded import reads
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.plans.graph import inputs_behind, last_steps, superseded_steps
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.plans.uses import condition_use
from wavewright.planner.schemas.validation import Validator
from wavewright.planner.types import GateId
from wavewright.reviewer.values import misfit_texts, shorten


@dataclass(frozen=True)
class ReviewedRun:
    """A run that is reviewed: its (bound) plan and goal, its state, and the tools that are known.

    The example goes on from that of `review_by_code`.

    >>> from wavewright.reviewer import ReviewedRun
    >>> ReviewedRun(plan, goal, run.state, tools).has_stopped
    False
    """

    plan: Plan
    goal: Goal
    state: RunState
    tools: ToolSignatures

    @cached_property
    def now(self) -> dt.datetime:
        """The time that the run uses as now."""
        return run_instant(self.state)

    @cached_property
    def has_stopped(self) -> bool:
        """Whether the plan's `stop` holds, so that the run ended early and its result is the one of
        `stop`.
        """
        stop = self.plan.stop
        if stop is None:
            return False
        try:
            condition = condition_use(stop.when, "/stop/when", "cap").expression
            return evaluate(condition, self.scope, self.now) is True
        except ExpressionError:
            # What it reads is not there, so the steps that depend on that were not skipped by it.
            return False

    @property
    def is_planned_by_model(self) -> bool:
        """Whether a model wrote the plan that the run began with."""
        return self.state.rung in _MODEL_RUNGS

    @cached_property
    def replaced(self) -> dict[StepId, StepId]:
        """For each step that a patch superseded, the step that replaces it now."""
        return superseded_steps(self.plan)

    @cached_property
    def inputs_behind(self) -> dict[StepId, frozenset[str]]:
        """What of the job's inputs each step rests on, by way of other steps as well."""
        return inputs_behind(self.plan)

    @cached_property
    def scope(self) -> JsonObject:
        """The variables of caps and of the plan's result."""
        return plan_scope(self.plan, self.state)


_MODEL_RUNGS: Final = frozenset({"llm", "repaired", "guided", "suggested"})
"""Rungs of the planner on which a model wrote the plan."""


def plan_scope(plan: Plan, state: RunState) -> JsonObject:
    """Return the variables of caps and of the plan's result: the inputs and the outputs that are
    present.
    """
    outputs: JsonObject = {str(step_id): output for step_id, output in state.outputs().items()}
    return plan.scope(outputs)


def run_instant(state: RunState) -> dt.datetime:
    """Return the time that a run uses as now."""
    assert state.started is not None, "a run is reviewed after it has started"
    return dt.datetime.fromtimestamp(state.started.now, dt.UTC)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a run has come, whatever its figures say."""

    passed: int
    """Mandatory gates that passed."""
    mandatory: int
    """Mandatory gates in all."""
    coverage: float
    """The raw confidence in the data."""
    has_result: bool

    @property
    def gate_share(self) -> float:
        """The share of the mandatory gates that passed; 1 where there is none."""
        return self.passed / self.mandatory if self.mandatory else 1.0


_OPTIONAL_WEIGHT = 0.5
_EMPTY_SHARE = 0.5
WARNED_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """The part of one step in the raw overall confidence."""

    step: StepId
    weight: float
    share: float
    why: str = ""
    """What is lacking; empty where nothing is."""


def measure_evidence(run: ReviewedRun) -> tuple[StepEvidence, ...]:
    """Return the evidence of every step that counts, in the plan's order."""
    evidence: list[StepEvidence] = []
    for step in run.plan.steps:
        end = run.state.steps.get(step.id)
        if step.id in run.replaced or (end is not None and end.status == "skipped"):
            continue
        weight = _OPTIONAL_WEIGHT if step.optional else 1.0
        share, why = _present_share(end, run.tools.get(step.tool))
        evidence.append(StepEvidence(step.id, weight, share, why))
    if not evidence and not run.is_planned_by_model:
        # A person's plan says when there is nothing to do, so that it is done in full. A model
        # would say so to be spared the work: of its plan nothing counts.
        return tuple(
            StepEvidence(step.id, 1.0, 1.0, "skipped, as all steps of the plan")
            for step in run.plan.steps
        )
    return tuple(evidence)


def raw_overall(evidence: tuple[StepEvidence, ...]) -> float:
    """Return the weighted mean of the shares; 0 where nothing counts."""
    weights = sum(part.weight for part in evidence)
    if not weights:
        return 0.0
    return sum(part.weight * part.share for part in evidence) / weights


def _may_be_empty(end: StepFinished, signature: ToolSignature | None) -> bool:
    """Whether this step's output can only be empty."""
    if end.items is not None and end.items[1] == 0:
        return True
    return signature is not None and (
        signature.writes or signature.output_schema.get("type") == "null"
    )


def _present_share(end: StepFinished | None, signature: ToolSignature | None) -> tuple[float, str]:
    if end is None:
        return 0.0, "never ran"
    if end.status not in SUCCESSES:
        return 0.0, end.status
    stopped_by = blocking_gate(end.gates)
    if stopped_by is not None:
        return 0.0, f"stopped by gate {stopped_by.gate!r}"
    share, lacks = 1.0, list[str]()
    if end.items is not None and end.items[1] > 0:
        share *= end.items[0] / end.items[1]
        if end.items[0] < end.items[1]:
            lacks.append(f"{end.items[0]:,} of {counted(end.items[1], 'item')}")
    if end.status == "empty" and not _may_be_empty(end, signature):
        share *= _EMPTY_SHARE
        lacks.append("empty")
    for gate, failed_share in warned_shares(end).items():
        share *= 1 - (1 - WARNED_SHARE) * failed_share
        lacks.append(f"warning of gate {gate!r}")
    return share, ", ".join(lacks)


def warned_shares(end: StepFinished) -> dict[GateId, float]:
    """Return, for each failed warn gate, the share of its records that failed."""
    warnings = [record for record in end.gates if record.severity == "warn"]
    records = Counter(record.gate for record in warnings)
    failed = Counter(record.gate for record in warnings if record.has_failed)
    return {gate: count / records[gate] for gate, count in failed.items()}


class LackingPart(NamedTuple):
    """A part of a result that is not there."""

    place: str
    """The step that would have given it, or its place in the plan's `result`."""
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    value: Json
    terminal: tuple[StepId, ...]
    """The steps that no other step reads and that no patch replaced."""
    missing: tuple[LackingPart, ...] = ()
    """Parts that should be there and are not."""
    absent: tuple[LackingPart, ...] = ()
    """Parts that are null because only optional or skipped steps would have produced them."""


def read_result(run: ReviewedRun) -> RunResult:
    """Return the result of a run, with what is missing from it."""
    terminal = last_steps(run.plan)
    stop = run.plan.stop
    if stop is not None and run.has_stopped:
        return _declared_result(run, terminal, stop.result, may_be_empty=True)
    if run.plan.result is not None:
        return _declared_result(run, terminal, run.plan.result)
    outputs = run.state.outputs()
    missing = tuple(_missing_terminals(run, terminal))
    if len(terminal) == 1:
        return RunResult(outputs.get(terminal[0]), terminal, missing)
    return RunResult({step_id: outputs.get(step_id) for step_id in terminal}, terminal, missing)


def result_faults(run: ReviewedRun, result: RunResult) -> tuple[str, ...]:
    """Return the violations of the goal's output schema by the result.

    The schema applies to the outputs of the terminal steps whose tools the goal's rules name; where
    there are none, to the plan's `result`, or else to every terminal output. A list that does not
    fit as a whole is validated entry by entry. A missing result violates nothing.
    """
    plan, goal, outputs = run.plan, run.goal, run.state.outputs()
    if goal.output_schema is None or result.value is None:
        return ()
    try:
        validator = validator_of(goal.output_schema)
    except InvalidSchemaError as error:
        return (f"the goal's output schema is not a JSON Schema: {shorten(str(error), 200)}",)
    ruled_tools = {rule.tool for rule in goal.rules.terminal}
    present = [step_id for step_id in result.terminal if step_id in outputs]
    ruled = [step_id for step_id in present if plan.step(step_id).tool in ruled_tools]
    if not ruled and (plan.result is not None or run.has_stopped):
        return tuple(_schema_faults(validator, "result", result.value))
    faults: list[str] = []
    for step_id in ruled or present:
        faults += _schema_faults(validator, step_id, outputs[step_id])
    return tuple(faults)


def has_result(run: ReviewedRun, result: RunResult) -> bool:
    """Whether there is a result; steps that can only give nothing have one as well."""
    value = result.value
    # An object of nulls names what a result should hold, and holds nothing of it.
    members = list(value.values()) if isinstance(value, dict) else []
    is_all_null = bool(members) and all(member is None for member in members)
    if value is not None and not is_all_null:
        return True
    may_be_empty = run.has_stopped or _all_may_be_empty(run, result.terminal)
    return not result.missing and may_be_empty


def _declared_result(
    run: ReviewedRun, terminal: tuple[StepId, ...], declared: Json, *, may_be_empty: bool = False
) -> RunResult:
    fields = _ResultFields(run)
    value = fields.render(declared, "result")
    may_be_empty = may_be_empty or _all_may_be_empty(run, terminal)
    if is_empty(value) and not fields.missing and not may_be_empty:
        fields.missing.append(LackingPart("result", "it is empty"))
    missing, absent = dict.fromkeys(fields.missing), dict.fromkeys(fields.absent)
    return RunResult(value, terminal, tuple(missing), tuple(absent))


class _ResultFields:
    """Computes the fields of a declared result, and collects those that are not there."""

    def __init__(self, run: ReviewedRun) -> None:
        self._run = run
        self._variables = run.scope
        self.missing: list[LackingPart] = []
        self.absent: list[LackingPart] = []

    def render(self, node: Json, place: str) -> Json:
        """Return a part of the result with its references replaced; null for what is not there."""
        if isinstance(node, dict):
            return {key: self.render(entry, f"{place}.{key}") for key, entry in node.items()}
        if isinstance(node, list):
            return [self.render(entry, f"{place}[{no}]") for no, entry in enumerate(node)]
        if isinstance(node, str):
            return self._text(node, place)
        return node

    def _text(self, text: str, place: str) -> Json:
        lacking = len(self.missing) + len(self.absent)
        try:
            return render(text, lambda expression: self._value(expression, place))
        except ExpressionError as fault:
            # A reference of the text that has no value is listed already.
            if len(self.missing) + len(self.absent) == lacking:
                shown = shorten(text, _SHOWN_CHARACTERS)
                why = f"{shown} could not be rendered ({fault.message})"
                self.missing.append(LackingPart(place, why))
            return None

    def _value(self, expression: str, place: str) -> Json:
        absent_steps = _absent_steps(expression, self._run)
        shown = f"${{{shorten(self._in_words(expression), _SHOWN_CHARACTERS)}}}"
        why = f"{shown} is missing"
        try:
            value = evaluate(expression, self._variables, self._run.now)
        except ExpressionError as fault:
            value = None
            # Where steps are absent, they are the reason, and their own ends say why.
            if not absent_steps:
                why = f"{fault.message}, in {shown}"
        if value is not None:
            return value
        # What the plan allows to be left out is absent and fails nothing; all else is missing.
        may_be_absent = bool(absent_steps) and all(
            step.optional or self._run.state.status(step.id) == "skipped" for step in absent_steps
        )
        lacking = self.absent if may_be_absent else self.missing
        lacking.append(LackingPart(place, why))
        return None

    @cached_property
    def _in_words(self) -> Callable[[str], str]:
        """Puts the names of `let` in place of what they stand for."""
        return in_authors_words(self._run.plan)


_SHOWN_CHARACTERS: Final = 80


def _absent_steps(expression: str, run: ReviewedRun) -> list[Step]:
    """Return the steps that an expression reads and that have no output."""
    try:
        read_names = {read.name for read in reads(expression) if read.root == "steps"}
    except ExpressionError:
        return []
    return [
        step
        for step in run.plan.steps
        if step.id in read_names and not run.state.is_present(step.id)
    ]


def _all_may_be_empty(run: ReviewedRun, terminal: tuple[StepId, ...]) -> bool:
    present = [step_id for step_id in terminal if run.state.is_present(step_id)]
    ends = [(run.plan.step(step_id), run.state.steps[step_id]) for step_id in present]
    return bool(ends) and all(_may_be_empty(end, run.tools.get(step.tool)) for step, end in ends)


def _missing_terminals(run: ReviewedRun, terminal: tuple[StepId, ...]) -> Iterator[LackingPart]:
    """Yield each terminal output that is missing.

    An optional terminal step, or one that its `when` skipped, may be absent as long as another one
    is present.
    """
    state = run.state
    any_present = any(state.is_present(step_id) for step_id in terminal)
    for step_id in terminal:
        step, end = run.plan.step(step_id), state.steps.get(step_id)
        status = end.status if end is not None else "never ran"
        if state.is_present(step_id):
            assert end is not None
            if is_empty(end.output) and not _may_be_empty(end, run.tools.get(step.tool)):
                yield LackingPart(step_id, "its output is empty")
        elif not any_present or not (step.optional or status == "skipped"):
            yield LackingPart(step_id, status)


def _schema_faults(validator: Validator, name: str, value: Json) -> Iterator[str]:
    misfits = validator.violations(value)
    if misfits and isinstance(value, list) and value:
        # The schema may be that of one entry: the list is then as good as its entries.
        by_entry = [validator.violations(entry, f"/{at}") for at, entry in enumerate(value)]
        misfits = [misfit for misfits_of_entry in by_entry for misfit in misfits_of_entry]
    yield from (f"{name}: {text}" for text in misfit_texts(misfits, value))
