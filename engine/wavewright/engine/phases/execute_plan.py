"""The work itself."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, replace

from wavewright.engine.clean_tools import redactor_of
from wavewright.engine.context import Ports, RunContext
from wavewright.engine.model_phases import Recorder, recording
from wavewright.engine.pipeline import StepResult, go_on, halt
from wavewright.engine.recording import STOPPED, end_interrupted
from wavewright.engine.retrying import donor_of
from wavewright.executor.brake import Brake
from wavewright.executor.execution import execute
from wavewright.executor.reuse import Donor
from wavewright.executor.state import RunState, fold
from wavewright.planner.models import Plan
from wavewright.reviewer.gates import make_verifier
from wavewright.reviewer.judging import Judge


@dataclass(frozen=True, slots=True)
class ExecutePlan:
    """Run the steps in parallel and ask their gates; what is journaled is not called again."""

    ports: Ports
    name: str = "execute_plan"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Execute what is left of the plan; a stop from outside leaves a run that can be resumed."""
        begun = time.monotonic()
        brake = Brake()
        with self.ports.stopper.scope(brake) as scope:
            state = await self._execute(context, brake)
            executed = context.executed + time.monotonic() - begun
            context = replace(context, state=state, executed=executed)
        if scope.cancelled_caught or self.ports.stopper.is_stopped:
            context = replace(context, state=fold(await self.ports.journal.load(context.run)))
            return halt(await end_interrupted(self.ports, context, STOPPED), "interrupted")
        return go_on(context)

    async def _execute(self, context: RunContext, brake: Brake) -> RunState:
        if not self._has_judges(context):
            return await self._judged_by(None, context, brake)
        # What judges cost is known here, not to the executor: a gate is none of its tools.
        async with recording(self.ports, context.run) as recorder:
            state = await self._judged_by(self._judge(context, recorder), context, brake)
        return fold(recorder.journaled, state)

    async def _judged_by(self, judge: Judge | None, context: RunContext, brake: Brake) -> RunState:
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
            brake=brake,
            announces=self.ports.announces_calls,
            redactor=redactor_of(self.ports.settings),
        )

    def _donor(self, context: RunContext, plan: Plan) -> Donor | None:
        if context.donor is None or context.retry is None:
            return None
        return donor_of(plan, context.tools, context.donor, context.retry)

    def _has_judges(self, context: RunContext) -> bool:
        """Return whether a model is configured and a gate asks for one."""
        plan = context.plan
        return (
            self.ports.services.models is not None
            and plan is not None
            and any(gate.judge is not None for gate in plan.gates)
        )

    def _judge(self, context: RunContext, recorder: Recorder) -> Judge:
        """Return who answers judge gates."""
        from wavewright.reviewer.calibration import Calibration, read_calibration
        from wavewright.reviewer.judging import ModelJudge

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
            on_use=recorder.use,
        )
