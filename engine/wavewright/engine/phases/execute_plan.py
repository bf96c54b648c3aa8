"""The execution of the plan, and what a retry repeats of it.

A retry repeats the step that the user names, the steps that depend on it, and reads whose code has changed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavewright.config.redaction import known_secrets_redactor
from wavewright.engine.decisions.step_questions import StepQuestions, take_answer
from wavewright.engine.pipeline.context import PlannedContext, Ports
from wavewright.engine.pipeline.phase import PhaseResult, halt, proceed
from wavewright.engine.pipeline.services import (
    STOPPED_REASON,
    end_interrupted,
    open_recorder,
)
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, RetryOf
from wavewright.executor.run.execution import execute
from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.run.reuse import ReuseSource
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import StepId
from wavewright.reviewer.gates.verifier import make_verifier
from wavewright.reviewer.review.by_code import run_instant
from wavewright.tools.functions.tool import Tool

if TYPE_CHECKING:
    from wavewright.reviewer.gates.judge import GateJudge


def steps_to_repeat(donor: RunState, start: StepId | None) -> tuple[StepId, ...]:
    """Return a step of the run's plan and all that depend on it, in the plan's order; empty if `start` is None."""
    if start is None or donor.plan is None:
        return ()
    plan = Plan.model_validate(donor.plan)
    graph = PlanGraph.of(plan)
    found = {start, *graph.descendants(start)} if start in graph.steps else set[StepId]()
    return tuple(step.id for step in plan.steps if step.id in found)


def retry_donor(plan: Plan, tools: Mapping[str, Tool], state: RunState, retry: RetryOf) -> ReuseSource:
    """Return the results that a retry reuses; reads whose code has changed are not reused.

    A step that writes has taken effect: it is repeated only if it is named.
    """
    known = state.started.tool_code if state.started is not None else {}
    changed = {
        name
        for name, tool in tools.items()
        if name in known and known[name] != tool.code and not tool.signature.writes
    }
    anew = {step.id for step in plan.steps if step.tool in changed}
    return ReuseSource(state, retry.origin, frozenset({*retry.anew, *anew}))


@dataclass(frozen=True, slots=True)
class ExecutePlan:
    """Run the steps in parallel and evaluate their gates; what is journaled is not called again."""

    ports: Ports
    name: str = "execute_plan"

    async def run(self, context: PlannedContext) -> PhaseResult[PlannedContext]:
        """Execute the rest of the plan; a cancelled run can be resumed."""
        with self.ports.cancellation.scope():
            context = await take_answer(self.ports, context)
        begun = time.monotonic()
        redactor = known_secrets_redactor(self.ports.settings)
        questions = StepQuestions(self.ports, context.state, redactor)
        drain_signal = DrainSignal()
        goal, plan, now = context.goal, context.plan, run_instant(context.state)
        with self.ports.cancellation.scope(drain_signal) as scope:
            # The executor does not record the cost of judges: a gate is no tool.
            async with self._open_judge(context) as (judge, uses):
                state = await execute(
                    plan,
                    context.tools,
                    run=context.run,
                    now=now,
                    journal=self.ports.journal,
                    ask=questions.ask,
                    verify=make_verifier(plan, context.signatures, goal, now, judge=judge),
                    schedule=goal.schedule,
                    limits=goal.limits.model_copy(update={"run_timeout": context.time_left}),
                    goal_tools=goal.tools,
                    prior=context.state,
                    donor=_donor(context),
                    on_event=self.ports.on_event,
                    drain_signal=drain_signal,
                    announces=self.ports.announces_calls,
                    redactor=redactor,
                )
            if self.ports.services.runtime is not None:
                await self.ports.services.runtime.forget(context.run)
            executed = context.executed_seconds + time.monotonic() - begun
            before = context.state
            context = replace(context, state=fold(uses, state), executed_seconds=executed)
        if scope.cancelled_caught or self.ports.cancellation.is_cancelled:
            context = replace(context, state=fold(await self.ports.journal.load(context.run)))
            return halt(await end_interrupted(self.ports, context, STOPPED_REASON), "interrupted")
        waiting = [
            step for step in questions.waiting if context.state.steps.get(step) is before.steps.get(step)
        ]
        if waiting:
            reason = f"a person must answer: {', '.join(f'step {step!r} waits' for step in sorted(waiting))}"
            return halt(await end_interrupted(self.ports, context, reason), reason)
        return proceed(context)

    @asynccontextmanager
    async def _open_judge(
        self, context: PlannedContext
    ) -> AsyncGenerator[tuple[GateJudge | None, Sequence[Event]]]:
        """Yield the judge of gates, None if no gate needs one, and the events of its calls, complete after the exit."""
        models = self.ports.services.models
        if models is None or all(gate.judge is None for gate in context.plan.gates):
            yield None, ()
            return
        from wavewright.reviewer.gates.calibration import Calibration, read_calibration
        from wavewright.reviewer.gates.judge import ModelJudge

        file = self.ports.settings.calibration
        async with open_recorder(self.ports, context.run) as recorder:
            judge = ModelJudge(
                models,
                self.ports.services.prompts,
                Calibration() if file is None else read_calibration(file),
                run=context.run,
                job=context.goal.job,
                on_use=recorder.record_use,
            )
            yield judge, recorder.journaled


def _donor(context: PlannedContext) -> ReuseSource | None:
    if context.donor is None or context.retry is None:
        return None
    return retry_donor(context.plan, context.tools, context.donor, context.retry)
