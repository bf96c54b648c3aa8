"""A phase of a declared pipeline that runs a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from wavewright.engine.interfaces.api.loaded_plan import LoadedPlan
from wavewright.engine.interfaces.api.plan_run import PlanRun
from wavewright.engine.interfaces.api.wavewright import Wavewright
from wavewright.engine.run.pipeline.phase import PhaseResult, halt, proceed
from wavewright.planner import Json

C = TypeVar("C")
RUN_INTERRUPTED = "RUN_INTERRUPTED"
"""Reason of the halt of a phase whose run waits for a person."""


@dataclass(frozen=True)
class RunPlan(Generic[C]):
    """Run a plan.

    The example goes on from that of `Wavewright`.

    >>> import anyio
    >>> from wavewright.engine import Pipeline, RunPlan
    >>> plan = ww.new_plan(inputs={"n": 0}).step("a", double, {"number": "${inputs.n}"})
    >>> phase = RunPlan(
    ...     "double", ww, plan.returns("${steps.a}"), lambda n: {"n": n}, lambda n, run: run.result
    ... )
    >>> async def doubled() -> int:
    ...     async with ww:
    ...         return (await Pipeline.builder().phase(phase).build().run(21)).context
    >>> anyio.run(doubled)
    42
    """

    name: str
    wavewright: Wavewright
    plan: LoadedPlan
    inputs_of: Callable[[C], Mapping[str, Json]]
    """Returns the plan's inputs."""
    into: Callable[[C, PlanRun[Json]], C]
    """Returns the context with what the run has given; also of a run that has not achieved its
    goal.
    """
    run_id_of: Callable[[C], str] | None = None
    """Returns the run's id, the same where the phase is repeated for the same context after a
    crash: the run is then continued, and one that has ended is not made again. Without it every
    execution is a new run.
    """

    async def run(self, context: C) -> PhaseResult[C]:
        """Check the plan, run it in the journal, and go on with what it has given.

        Raises:
            DocumentError, PlanError: the plan is not valid with these inputs.
        """
        plan = self.plan.with_inputs(self.inputs_of(context))
        run_id = None if self.run_id_of is None else self.run_id_of(context)
        ended = await self.wavewright.run(plan, run=run_id)
        if ended.status == "interrupted":
            return halt(context, RUN_INTERRUPTED)
        return proceed(self.into(context, ended))
