"""Scenarios, and what runs them: the scheduler alone, or the whole pipeline.

A *scenario* says what the stubs answer. A *stub* stands in a tool's place, with its signature and none of its code. A
step that a recovery calls again gets an answer of its own, so that a gate that failed can pass.

A search makes hundreds of tries, for which the scheduler with its gates is enough. A scenario that is reported runs
the whole pipeline: the plan is checked, approvals are asked and given, the run is reviewed, recovered and packaged.
Neither calls a tool, asks a model or writes a file, and on the event loop used here no wait takes time.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import selectors
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from wavewright.config.settings import Settings
from wavewright.engine.jobs.plan_drafts import PlanDraft
from wavewright.engine.pipeline.context import (
    ApprovalRequest,
    Ports,
    RunContext,
    RunRequest,
    withhold_package,
)
from wavewright.engine.pipeline.services import draft_note, open_services
from wavewright.engine.session import run_request
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import RunStarted
from wavewright.executor.run.execution import execute
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import PlanError, error_diagnostics
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, RunId, StepId
from wavewright.reviewer.gates.verifier import make_verifier
from wavewright.tools.functions.tool import Runtime, Tool, ToolCall, ToolError

StubOutputs: TypeAlias = tuple[Json, ...]
"""Of one step: call after call of a `for_each` step takes the next, from the first again after the last."""

FAILURE_MESSAGE = "made to fail in a simulation"
_RUN_ID = RunId("simulation")
_CALLED_AGAIN = re.compile(r"(?P<first>.+)_\d+")


@dataclass(frozen=True, slots=True)
class Scenario(Runtime):
    """What the stubs answer."""

    outputs: Mapping[StepId, StubOutputs]
    recovery_outputs: Mapping[StepId, StubOutputs]
    """For a step that is called again under another name."""
    by_tool: Mapping[str, StubOutputs]
    """For steps that the plan does not have yet."""
    failing: frozenset[StepId] = frozenset()
    """Steps each of whose calls fails."""
    inputs: JsonObject | None = None
    """In place of the job's."""

    def with_outputs(self, step: StepId, outputs: StubOutputs) -> Scenario:
        """Return the scenario with other outputs of a step."""
        return replace(self, outputs={**self.outputs, step: outputs})

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
        return outputs[(call.index or 0) % len(outputs)]

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        """Return a stub of a tool."""
        return Tool(tool.signature, partial(self.call, tool, goal))


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
    tools: Mapping[str, Tool]
    settings: Settings
    """Without a model."""
    now: dt.datetime

    @property
    def signatures(self) -> dict[str, ToolSignature]:
        """What is known of the tools."""
        return {name: tool.signature for name, tool in self.tools.items()}

    def with_inputs(self, inputs: JsonObject | None) -> SimulatedPlan | None:
        """Return the plan of a job with other inputs, where there are any; none where it is not valid for them."""
        if inputs is None:
            return self
        if not validator_of(self.goal.inputs_schema or {}).accepts(inputs):
            return None
        goal = self.goal.model_copy(update={"inputs": inputs})
        plan = bind_plan(self.draft.plan, goal, self.signatures)
        if error_diagnostics(check(plan, goal, self.signatures)):
            return None
        return replace(self, goal=goal, plan=plan)


async def run_steps(simulated: SimulatedPlan, scenario: Scenario) -> RunState:
    """Return how the steps of a plan end."""
    goal, plan = simulated.goal, simulated.plan
    return await execute(
        plan,
        {name: scenario.routed(tool, goal) for name, tool in simulated.tools.items()},
        run=_RUN_ID,
        now=simulated.now,
        verify=make_verifier(plan, simulated.signatures, goal, simulated.now),
        schedule=goal.schedule,
        limits=goal.limits,
        goal_tools=goal.tools,
    )


class _AutoApprover:
    """Gives every approval, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return True


async def run_pipeline(
    simulated: SimulatedPlan, scenario: Scenario
) -> tuple[RunContext, list[ApprovalRequest]] | None:
    """Return the run of a scenario and the approvals that it asked for; none where its plan is refused."""
    journal, approver = MemoryJournal(), _AutoApprover()
    at = simulated.now.timestamp()
    goal = simulated.goal.model_dump(mode="json", by_alias=True)
    started = RunStarted(run=_RUN_ID, at=at, job=simulated.goal.job, goal=goal, now=at)
    # As a run that was stopped before its plan was accepted: so goal and instant are those given here.
    await journal.append(_RUN_ID, (started, draft_note(simulated.draft, at)))
    await journal.close_run(_RUN_ID)
    try:
        async with open_services(simulated.settings) as services:
            ports = Ports(
                journal=journal,
                settings=simulated.settings,
                services=services,
                approver=approver,
                runtime=scenario,
                publish=withhold_package,
            )
            done = await run_request(RunRequest(run=_RUN_ID), ports)
    except PlanError:
        return None
    return done.context, approver.asked
