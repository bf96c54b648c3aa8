"""What the stubs of one scenario answer.

A *stub* stands in a tool's place, with its signature and none of its code: it answers what the *script* says for the
step that calls. A step that a recovery calls again gets an answer of its own, so that what was red can turn green.

An event loop on which nothing is waited for.

A simulation makes failing calls, and a plan may want to wait before it tries again. On this loop the clock *jumps* to
the next timer as soon as nothing else is left to do, so every wait keeps its place in the order of things and none
takes time.

Perform a script: quickly, or with everything that a run has.

A *trial* is the real scheduler with the real gates, which is enough to see which branches a script takes; a search
makes hundreds. A *performance* is the whole pipeline: the plan is checked again, approvals are asked and answered
yes, the run is reviewed, recovered and packaged. Neither calls a tool, asks a model or writes a file.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import selectors
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from wavewright.config.settings import Settings
from wavewright.engine.jobs.resolving import PlanDraft
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
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.types import Json, JsonObject, RunId, StepId
from wavewright.reviewer.gates.verifier import make_verifier
from wavewright.tools.functions.tool import Tool, ToolCall, ToolError, ToolFunction

StubOutputs: TypeAlias = tuple[Json, ...]
"""Of one step: call after call of a `for_each` step takes the next, from the first again after the last."""

_CALLED_AGAIN = re.compile(r"(?P<first>.+)_\d+")
FAILURE_MESSAGE = "made to fail in a simulation"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Answers by step."""

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
        """Return the script with other answers for a step."""
        return replace(self, outputs={**self.outputs, step: outputs})

    def answer(self, call: ToolCall) -> Json:
        """Return what a call is answered.

        Raises:
            ToolError: the script says that it fails.
        """
        if call.step in self.failing:
            raise ToolError(FAILURE_MESSAGE)
        outputs = self.outputs.get(call.step) or self._again(call)
        return outputs[(call.index or 0) % len(outputs)]

    def _again(self, call: ToolCall) -> StubOutputs:
        found = _CALLED_AGAIN.fullmatch(call.step)
        first = StepId(found["first"]) if found else call.step
        return self.recovery_outputs.get(first) or self.by_tool[call.tool]


def stub_tools(script: Scenario) -> Callable[[Mapping[str, Tool]], Mapping[str, Tool]]:
    """Return what puts a stub in the place of every tool."""

    def through(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
        return {name: Tool(tool.signature, _stub(script)) for name, tool in tools.items()}

    return through


def _stub(script: Scenario) -> ToolFunction:
    async def call(request: ToolCall) -> Json:
        return script.answer(request)

    return call


class _SkippingSelector(selectors.BaseSelector):
    """Asks the system what is ready, and counts as passed the seconds it was allowed to wait."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.jumped = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            # No timer is set: somebody outside, such as a thread, is what the loop waits for.
            return self._real.select(None)
        ready = self._real.select(0)
        if not ready and timeout > 0:
            self.jumped += timeout
        return ready

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop whose clock jumps."""

    def __init__(self) -> None:
        self._jumping = _SkippingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds of the machine's clock, and those that were jumped over."""
        return super().time() + self._jumping.jumped


_RUN_ID = RunId("simulation")


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What came of a run of the whole pipeline."""

    context: RunContext
    approvals: tuple[ApprovalRequest, ...]


class _AutoApprover:
    """Approves of everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return True


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """What is simulated, and on what."""

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
        """Return the stage of a job with other inputs; none where the plan is not sound for them."""
        if inputs is None:
            return self
        goal = self.goal.model_copy(update={"inputs": inputs})
        plan = bind_plan(self.draft.plan, goal, self.signatures)
        if any(found.severity == "error" for found in check(plan, goal, self.signatures)):
            return None
        return replace(self, goal=goal, plan=plan)


async def run_steps(stage: SimulatedPlan, script: Scenario) -> RunState:
    """Return how the steps of the stage's plan end."""
    goal, plan = stage.goal, stage.plan
    return await execute(
        plan,
        stub_tools(script)(stage.tools),
        run=_RUN_ID,
        now=stage.now,
        verify=make_verifier(plan, stage.signatures, goal, stage.now),
        schedule=goal.schedule,
        limits=goal.limits,
        goal_tools=goal.tools,
    )


async def run_scenario(stage: SimulatedPlan, script: Scenario) -> SimulatedRun | None:
    """Return what comes of a run; none where its plan is refused."""
    journal, approver = MemoryJournal(), _AutoApprover()
    at = stage.now.timestamp()
    started = RunStarted(
        run=_RUN_ID,
        at=at,
        job=stage.goal.job,
        goal=stage.goal.model_dump(mode="json", by_alias=True),
        now=at,
    )
    # As a run that was stopped before its plan was accepted: so goal and instant are this simulation's own.
    await journal.append(_RUN_ID, (started, draft_note(stage.draft, at)))
    await journal.close_run(_RUN_ID)
    try:
        async with open_services(stage.settings) as opened:
            ports = Ports(
                journal=journal,
                settings=stage.settings,
                services=opened.services,
                budget_store=opened.budget_store,
                approver=approver,
                wrap_tools=stub_tools(script),
                publish=withhold_package,
            )
            done = await run_request(RunRequest(run=_RUN_ID), ports)
    except PlanError:
        return None
    return SimulatedRun(done.context, tuple(approver.asked))
