"""What a retry does anew: what the user names, what depends on that, and what reads with other code than before.

The work itself.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from wavewright.engine.pipeline.context import Ports, RunContext
from wavewright.engine.pipeline.pipeline import PhaseResult, halt, proceed
from wavewright.engine.pipeline.services import (
    STOPPED_REASON,
    ModelEventRecorder,
    end_interrupted,
    open_recorder,
)
from wavewright.engine.project.tools import known_secrets_redactor
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import RetryOf
from wavewright.executor.run.execution import execute
from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.run.reuse import ReuseSource
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import StepId
from wavewright.reviewer.gates.judge import GateJudge
from wavewright.reviewer.gates.verifier import make_verifier
from wavewright.tools.functions.tool import Tool


def steps_to_repeat(donor: RunState, start: StepId | None) -> tuple[StepId, ...]:
    """Return a step of the run's plan and all that depend on it, in the plan's order; none where none is named."""
    if start is None or donor.plan is None:
        return ()
    plan = Plan.model_validate(donor.plan)
    graph = PlanGraph.of(plan)
    found = {start}
    for wave in graph.waves:
        found.update(step for step in wave if not found.isdisjoint(graph.dependencies[step]))
    return tuple(step.id for step in plan.steps if step.id in found)


def retry_donor(plan: Plan, tools: Mapping[str, Tool], state: RunState, retry: RetryOf) -> ReuseSource:
    """Return what a retry takes over of a run: nothing of steps that read with code that has changed since.

    A step that writes has taken effect: only its own name makes it happen again.
    """
    assert state.started is not None
    known = state.started.tool_code
    changed = {
        name
        for name, tool in tools.items()
        if name in known and known[name] != tool.code and not tool.signature.writes
    }
    anew = {step.id for step in plan.steps if step.tool in changed}
    return ReuseSource(state, retry.origin, frozenset({*retry.anew, *anew}))


@dataclass(frozen=True, slots=True)
class ExecutePlan:
    """Run the steps in parallel and ask their gates; what is journaled is not called again."""

    ports: Ports
    name: str = "execute_plan"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Execute what is left of the plan; a stop from outside leaves a run that can be resumed."""
        begun = time.monotonic()
        drain_signal = DrainSignal()
        with self.ports.cancellation.scope(drain_signal) as scope:
            state = await self._execute(context, drain_signal)
            executed = context.executed_seconds + time.monotonic() - begun
            context = replace(context, state=state, executed_seconds=executed)
        if scope.cancelled_caught or self.ports.cancellation.is_cancelled:
            context = replace(context, state=fold(await self.ports.journal.load(context.run)))
            return halt(await end_interrupted(self.ports, context, STOPPED_REASON), "interrupted")
        return proceed(context)

    async def _execute(self, context: RunContext, drain_signal: DrainSignal) -> RunState:
        if not self._has_judges(context):
            return await self._execute_with(None, context, drain_signal)
        # What judges cost is known here, not to the executor: a gate is none of its tools.
        async with open_recorder(self.ports, context.run) as recorder:
            state = await self._execute_with(self._judge(context, recorder), context, drain_signal)
        return fold(recorder.journaled, state)

    async def _execute_with(
        self, judge: GateJudge | None, context: RunContext, drain_signal: DrainSignal
    ) -> RunState:
        goal, plan, started = context.goal, context.plan, context.state.started
        assert goal is not None
        assert plan is not None
        assert started is not None
        now = dt.datetime.fromtimestamp(started.now, dt.UTC)
        return await execute(
            plan,
            context.tools,
            run=context.run,
            now=now,
            journal=self.ports.journal,
            verify=make_verifier(plan, context.signatures, goal, now, judge=judge),
            schedule=goal.schedule,
            limits=goal.limits.model_copy(update={"run_timeout": context.time_left}),
            goal_tools=goal.tools,
            prior=context.state,
            donor=self._donor(context, plan),
            on_event=self.ports.on_event,
            drain_signal=drain_signal,
            announces=self.ports.announces_calls,
            redactor=known_secrets_redactor(self.ports.settings),
        )

    def _donor(self, context: RunContext, plan: Plan) -> ReuseSource | None:
        if context.donor is None or context.retry is None:
            return None
        return retry_donor(plan, context.tools, context.donor, context.retry)

    def _has_judges(self, context: RunContext) -> bool:
        """Return whether a model is configured and a gate asks for one."""
        plan = context.plan
        return (
            self.ports.services.models is not None
            and plan is not None
            and any(gate.judge is not None for gate in plan.gates)
        )

    def _judge(self, context: RunContext, recorder: ModelEventRecorder) -> GateJudge:
        """Return who answers judge gates."""
        from wavewright.reviewer.gates.calibration import Calibration, read_calibration
        from wavewright.reviewer.gates.judge import ModelJudge

        services, goal = self.ports.services, context.goal
        assert services.models is not None
        assert goal is not None
        file = self.ports.settings.calibration
        return ModelJudge(
            services.models,
            services.prompts,
            Calibration() if file is None else read_calibration(file),
            run=context.run,
            job=goal.job,
            on_use=recorder.record_use,
        )
