"""What is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.config.settings import Settings
from wavewright.engine.context import Ports, RunContext, RunRequest
from wavewright.engine.jobs import read_order
from wavewright.engine.pipeline import StepResult, go_on
from wavewright.executor.state import fold
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Fold the job and its goal template into a goal; a resumed run has its own in the journal."""

    ports: Ports
    name: str = "read_job"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Read the files of a new run, or the events of one that is resumed."""
        request = context.request
        if request.run is not None:
            state = fold(await self.ports.journal.load(request.run))
            assert state.started is not None
            goal = Goal.model_validate(state.started.goal)
            plan = Plan.model_validate(state.plan) if state.plan is not None else None
            return go_on(
                replace(
                    context, state=state, goal=_as_requested(goal, request, self.ports.settings), plan=plan
                )
            )
        assert request.job_file is not None
        order = read_order(request.job_file, request.plan_file, self.ports.settings)
        return go_on(
            replace(context, goal=_as_requested(order.goal, request, self.ports.settings), draft=order.draft)
        )


def _as_requested(goal: Goal, request: RunRequest, settings: Settings) -> Goal:
    """Return the goal with what the command line, or else the settings, say in place of what the files say."""
    limits = goal.limits
    if concurrency := request.concurrency or settings.concurrency:
        limits = limits.model_copy(update={"concurrency": concurrency})
    return goal.model_copy(
        update={
            "limits": limits,
            "schedule": request.schedule or settings.schedule or goal.schedule,
            "as_of": request.as_of or goal.as_of,
        }
    )
