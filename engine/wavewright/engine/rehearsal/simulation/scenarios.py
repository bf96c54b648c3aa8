"""Scenarios, what runs them, and the branches of a plan that a run took.

A *scenario* says what the stubs answer. A *stub* stands in a tool's place, with its signature and
none of its code. A step that a recovery calls again gets an answer of its own, so that a gate that
failed can pass.

Most scenarios are only tried, for which the scheduler with its gates is enough. A scenario that
is reported runs the whole pipeline: the plan is checked, approvals are asked and given, the run is
reviewed, recovered and packaged. Neither calls a tool, asks a model or writes a file, and on the
event loop used here no wait takes time.

A *branch* is one way that a run can go at one place: a step that succeeds, a side of a `when`, a
fan-out over no, one or several items, a gate that passes or fails, an optional step that fails, a
recipe that is applied. A step fails over *valid outputs* where every tool returned what its schema
says, and yet an expression has no value, parameters do not fit or a gate cannot be evaluated.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import selectors
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from wavewright.config import Settings
from wavewright.engine.rehearsal.answers import AnswerSource, ScriptedUser
from wavewright.engine.rehearsal.simulation.plan_reads import (
    Sources,
    embedded_expressions,
    sources_of,
    sources_of_gates,
    step_expressions,
)
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.jobs.plan_drafts import PlanDraft
from wavewright.engine.run.ports import (
    ApprovalRequest,
    Attempt,
    Means,
    People,
    Ports,
    withhold_package,
)
from wavewright.engine.run.recording import draft_note
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.executor import (
    Execution,
    MemoryJournal,
    RunStarted,
    RunState,
    StepFinished,
    execute,
)
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import (
    ExpressionError,
    Goal,
    Json,
    JsonObject,
    Plan,
    PlanError,
    RunId,
    Step,
    StepId,
    ToolSignature,
    as_list,
    as_object,
    evaluate,
    validator_of,
)
from wavewright.planner.cel.embedded import bare_expression
from wavewright.planner.checks.checker import errors_in
from wavewright.planner.language.plan import DISPATCHED_CALL, dispatched_tools
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.estimates import known_items
from wavewright.planner.plans.uses import asks_each_item, condition_reads
from wavewright.reviewer import make_verifier
from wavewright.reviewer.review.results import plan_scope
from wavewright.tools import Tool, ToolCall, ToolError, Tools

StubOutputs: TypeAlias = tuple[Json, ...]
"""Of one step: call after call of a `for_each` step takes the next, from the first again after the
last.
"""
FAILURE_MESSAGE = "made to fail in a simulation"
_RUN_ID = RunId("simulation")
_CALLED_AGAIN = re.compile(r"(?P<first>.+)_\d+")
_KINDS = frozenset({"expression", "params", "items", "output"})
_FOUND_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|-?\d[\d.]*")
_MAX_CAUSE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Scenario(AnswerSource):
    """What the stubs answer."""

    outputs: Mapping[StepId, StubOutputs]
    recovery_outputs: Mapping[StepId, StubOutputs]
    """For a step that is called again under another name."""
    by_tool: Mapping[str, StubOutputs]
    """For steps that the plan does not have yet, and for calls of a `dispatch`."""
    failing: frozenset[StepId] = frozenset()
    """Steps each of whose calls fails."""
    inputs: JsonObject | None = None
    """In place of the job's."""

    def with_outputs(self, step: StepId, outputs: StubOutputs) -> Scenario:
        """Return the scenario with other outputs of a step."""
        return replace(self, outputs={**self.outputs, step: outputs})

    def distance(self, other: Scenario) -> int:
        """Return in how many places the other scenario differs."""
        changed = [name for name in self.outputs if self.outputs[name] != other.outputs[name]]
        return len(changed) + len(self.failing ^ other.failing) + (self.inputs != other.inputs)

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        """Return the output of a call.

        Raises:
            ToolError: the scenario says that it fails.
        """
        del tool, goal
        if call.step in self.failing:
            raise ToolError(FAILURE_MESSAGE)
        again = _CALLED_AGAIN.fullmatch(call.step)
        outputs = (
            self.outputs.get(call.step)
            or self.recovery_outputs.get(StepId(again["first"]) if again else call.step)
            or self.by_tool[call.tool]
        )
        if dispatched_tools(call.tool):
            # What a call answers is of the tool that it chooses, also where a fixture or a changed
            # output is of another one.
            chosen = str(as_object(call.params[DISPATCHED_CALL])["tool"])
            outputs = tuple(out for out in outputs if as_object(out)["tool"] == chosen) or tuple(
                {"tool": chosen, "output": out} for out in self.by_tool[chosen]
            )
        return outputs[(call.index or 0) % len(outputs)]


class _SkippingSelector(selectors.DefaultSelector):
    """Asks the system what is ready, and counts as passed the seconds that it was allowed to wait."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Without a timer, it is a thread that the loop waits for.
        ready = super().select(None if timeout is None else 0)
        if timeout is not None and not ready:
            self.skipped += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock skips to the next timer as soon as nothing else is left to do."""

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return the seconds of the machine's clock, and those that were skipped."""
        return super().time() + self._skipping.skipped


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """A plan to simulate, with all that its runs need."""

    goal: Goal
    draft: PlanDraft
    plan: Plan
    """Bound to the goal."""
    tools: Tools
    settings: Settings
    """Without a model."""
    now: dt.datetime

    @property
    def signatures(self) -> dict[str, ToolSignature]:
        """What is known of the tools."""
        return {name: tool.signature for name, tool in self.tools.items()}

    def with_inputs(self, inputs: JsonObject | None) -> SimulatedPlan | None:
        """Return the plan of a job with other inputs, where there are any; none where it is not
        valid for them.
        """
        if inputs is None:
            return self
        if not validator_of(self.goal.inputs_schema or {}).accepts(inputs):
            return None
        goal = self.goal.model_copy(update={"inputs": inputs})
        plan = bind_plan(self.draft.plan, goal)
        if errors_in(plan, goal, self.signatures):
            return None
        return replace(self, goal=goal, plan=plan)


async def run_steps(simulated: SimulatedPlan, scenario: Scenario) -> RunState:
    """Return how the steps of a plan end."""
    goal, plan = simulated.goal, simulated.plan
    return await execute(
        Execution(
            plan,
            {name: scenario.routed(tool, goal) for name, tool in simulated.tools.items()},
            run=_RUN_ID,
            now=simulated.now,
            verify=make_verifier(plan, simulated.signatures, goal, simulated.now),
            schedule=goal.schedule,
            limits=goal.limits,
            goal_tools=goal.tools,
        )
    )


async def run_pipeline(
    simulated: SimulatedPlan, scenario: Scenario
) -> tuple[RunContext, list[ApprovalRequest]] | None:
    """Return the run of a scenario and the approvals that it asked for; none where its plan is
    refused.
    """
    journal, people = MemoryJournal(), ScriptedUser(approves=True, answers=())
    at = simulated.now.timestamp()
    goal = simulated.goal.model_dump(mode="json", by_alias=True)
    started = RunStarted(run=_RUN_ID, at=at, job=simulated.goal.job, goal=goal, now=at)
    # As a run that was stopped before its plan was accepted: so goal and instant are those given
    # here.
    await journal.append(_RUN_ID, (started, draft_note(simulated.draft, at)))
    await journal.close_run(_RUN_ID)
    try:
        async with open_services(simulated.settings) as services:
            ports = Ports(
                attempt=Attempt(journal=journal),
                means=Means(settings=simulated.settings, services=services, runtime=scenario),
                people=People(approver=people),
                publish=withhold_package,
            )
            done = await run_job(RunRequest(run=_RUN_ID), ports)
    except PlanError:
        return None
    return done.context, people.approvals


class FailureKey(NamedTuple):
    """Which failure it is: where it happened, and why."""

    step: StepId
    """Empty where it is the plan's result that cannot be made."""
    kind: str
    """The kind of the step's error, or `gate`, or `result`."""
    gate: str
    cause: str
    """The message without the values found, so that one cause is reported once."""


def failures_of(
    state: RunState, failing: Collection[StepId], plan: Plan, now: dt.datetime
) -> dict[FailureKey, str]:
    """Return the messages of what failed in a run in which the steps `failing` were made to fail."""
    messages: dict[FailureKey, str] = {}

    def add(step: str, kind: str, message: str, gate: str = "") -> None:
        # Without the values found: those in quotes, and what there is in place of a field.
        cause = _FOUND_VALUE.sub("…", message.partition("; it ")[0])[:_MAX_CAUSE_LENGTH]
        messages[FailureKey(StepId(step), kind, gate, cause)] = message

    for step, ended in sorted(state.steps.items()):
        if ended.error is not None and ended.error.kind in _KINDS and step not in failing:
            add(step, ended.error.kind, ended.error.message)
        for record in ended.gates:
            if record.verdict == "error" and record.kind != "judge":
                add(step, "gate", record.message, record.gate)
    scope, stop = plan_scope(plan, state), plan.stop
    has_stopped = stop is not None and _holds(stop.when, scope, now)
    result = stop.result if stop is not None and has_stopped else plan.result
    for expression in embedded_expressions(result):
        if all(state.is_present(name) for name in condition_reads(expression)):
            try:
                evaluate(expression, scope, now)
            except ExpressionError as error:
                add("", "result", error.message)
    return messages


BranchKind: TypeAlias = Literal["step", "when", "items", "gate", "failure", "recipe"]

_ITEMS = {"0": "no item", "1": "one item", "n": "several items"}
_WORDS: dict[BranchKind, str] = {
    "step": "step {name} succeeds",
    "when": "when of {name} is {side}",
    "items": "{name} runs over {items}",
    "gate": "gate {name} {verb}",
    "failure": "optional step {name} fails",
    "recipe": "recipe {side} of gate {name} is applied",
}


class Branch(NamedTuple):
    """One way to go, at one place."""

    kind: BranchKind
    name: str
    """The step's or the gate's id."""
    side: str

    def __str__(self) -> str:
        """Return the branch in words."""
        verb = "passes" if self.side == "passed" else "fails"
        items = _ITEMS.get(self.side)
        return _WORDS[self.kind].format(name=self.name, side=self.side, items=items, verb=verb)


def branches_of(plan: Plan, goal: Goal) -> Iterator[Branch]:
    """Yield every branch of a (bound) plan, step by step."""
    for step in plan.steps:
        yield Branch("step", step.id, "ok")
        if step.when is not None and not asks_each_item(step):
            yield from (Branch("when", step.id, side) for side in ("true", "false"))
        if step.for_each is not None:
            # A list that stands in the plan has one size.
            yield from (Branch("items", step.id, side) for side in _size_sides(step, plan))
        if step.optional:
            yield Branch("failure", step.id, "failed")
        for gate in plan.gates:
            # Without a model a judge gate is not evaluated.
            if gate.on == step.id and gate.judge is None:
                yield from (Branch("gate", gate.id, side) for side in ("passed", "failed"))
    for number, recipe in enumerate(goal.recipes, 1):
        if recipe.gate is not None:
            yield Branch("recipe", recipe.gate, str(number))


def _size_sides(step: Step, plan: Plan) -> tuple[str, ...]:
    if isinstance(step.for_each, list):
        return (_size_side(len(step.for_each)),)
    sources = sources_of(embedded_expressions(step.for_each))
    items = None if sources.steps or sources.reads_inputs else known_items(plan, step)
    return tuple(_ITEMS) if items is None else (_size_side(len(items)),)


def _size_side(items: int) -> str:
    return str(items) if items < 2 else "n"


def branches_taken(state: RunState, plan: Plan, goal: Goal, now: dt.datetime) -> Iterator[Branch]:
    """Yield the branches of the plan that a run took."""
    for step in plan.steps:
        ended = state.steps.get(step.id)
        if ended is None:
            continue
        if ended.status in SUCCESSES:
            yield Branch("step", step.id, "ok")
        if side := _when_side(step, ended, state, plan, now):
            yield Branch("when", step.id, side)
        if step.for_each is not None and ended.items is not None:
            yield Branch("items", step.id, _size_side(ended.items[1]))
        if step.optional and ended.status == "failed":
            yield Branch("failure", step.id, "failed")
        yield from _gate_branches(ended, plan)
    for patch in state.patches:
        reason = str(patch.get("reason"))
        gates = {str(gate_id) for gate_id in as_list(patch.get("expect"))}
        gates |= {gate.partition("__")[0] for gate in gates}
        for number, recipe in enumerate(goal.recipes, 1):
            if recipe.gate in gates and recipe.reason in reason:
                yield Branch("recipe", recipe.gate, str(number))


def _gate_branches(ended: StepFinished, plan: Plan) -> Iterator[Branch]:
    """Yield the sides that a step's gates took."""
    severities = {gate.id: gate.severity for gate in plan.gates}
    for record in ended.gates:
        if record.kind == "judge" or record.verdict == "not_evaluated":
            continue
        if not record.has_failed:
            yield Branch("gate", record.gate, "passed")
        # Where fewer calls fail than it blocks from, a gate only warns: it goes neither way.
        elif record.severity == severities.get(record.gate, record.severity):
            yield Branch("gate", record.gate, "failed")


def _when_side(
    step: Step, ended: StepFinished, state: RunState, plan: Plan, now: dt.datetime
) -> str:
    """Return the side that a step's condition took; empty where there is none, or none was reached."""
    when = step.when
    if when is None or asks_each_item(step):
        return ""
    if ended.status == "skipped":
        return "false"
    if ended.status in SUCCESSES:
        return "true"
    # An expression that has no value is the condition itself, or one of the parameters.
    return "true" if ended.error is not None and _holds(when, plan_scope(plan, state), now) else ""


def _holds(condition: str, scope: JsonObject, now: dt.datetime) -> bool:
    try:
        return evaluate(bare_expression(condition).expression, scope, now) is True
    except ExpressionError:
        return False


def sources_of_branch(branch: Branch, plan: Plan) -> Sources:
    """Return what decides whether a run takes a branch."""
    if branch.kind == "gate":
        return sources_of_gates(gate for gate in plan.gates if gate.id == branch.name)
    if branch.kind == "recipe":
        return sources_of_gates(
            gate for gate in plan.gates if gate.id.partition("__")[0] == branch.name
        )
    step = plan.step(branch.name)
    if branch.kind == "when" and step.when is not None:
        return sources_of([bare_expression(step.when).expression])
    return sources_of(
        embedded_expressions(step.for_each) if branch.kind == "items" else step_expressions(step)
    )
