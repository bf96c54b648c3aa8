"""The work itself."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import StepResult, go_on, halt
from wavewright.engine.recording import STOPPED, end_interrupted
from wavewright.executor.execution import execute
from wavewright.executor.state import fold
from wavewright.reviewer.gates import make_verifier


@dataclass(frozen=True, slots=True)
class ExecutePlan:
    """Run the steps in parallel and ask their gates; what is journaled is not called again."""

    ports: Ports
    name: str = "execute_plan"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Execute what is left of the plan; a stop from outside leaves a run that can be resumed."""
        goal, plan, started = context.goal, context.plan, context.state.started
        assert goal is not None
        assert plan is not None
        assert started is not None
        now = dt.datetime.fromtimestamp(started.now, dt.UTC)
        limits = goal.limits.model_copy(update={"run_timeout": context.time_left})
        begun = time.monotonic()
        with self.ports.stopper.scope() as scope:
            state = await execute(
                plan,
                context.tools,
                run=context.run,
                now=now,
                journal=self.ports.journal,
                verify=make_verifier(plan, context.signatures, goal, now),
                schedule=goal.schedule,
                limits=limits,
                goal_tools=goal.tools,
                prior=context.state,
                on_event=self.ports.on_event,
            )
            executed = context.executed + time.monotonic() - begun
            context = replace(context, state=state, executed=executed)
        if scope.cancelled_caught or self.ports.stopper.is_stopped:
            context = replace(context, state=fold(await self.ports.journal.load(context.run)))
            return halt(await end_interrupted(self.ports, context, STOPPED), "interrupted")
        return go_on(context)
