"""The execution of the plan: its steps in parallel, its gates, and the questions of its steps."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from wavewright.config import known_secrets_redactor
from wavewright.engine.run.context import PlannedContext
from wavewright.engine.run.decisions.step_questions import StepQuestions, take_answer
from wavewright.engine.run.endings import run_stopped, run_waits
from wavewright.engine.run.model_phases import open_recorder
from wavewright.engine.run.permits import permitted_tools
from wavewright.engine.run.ports import Attempt, Means, People
from wavewright.executor import Event, Execution, RunState, execute, fold
from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.run.rules import ReuseSource, RunSoFar
from wavewright.reviewer import make_verifier
from wavewright.reviewer.review.results import run_instant
from wavewright.tools import Tools

if TYPE_CHECKING:
    from wavewright.reviewer.gates.judge import GateJudge


async def execute_plan(
    context: PlannedContext, attempt: Attempt, means: Means, people: People
) -> PlannedContext:
    """Execute the rest of the plan and evaluate its gates; what is journaled is not called again.

    Raises:
        RunHalted: the run was stopped, or a person must answer; it can be resumed.
    """
    cancellation = attempt.cancellation
    with cancellation.scope():
        context = await take_answer(attempt, people, context)
    begun = time.monotonic()
    redactor = known_secrets_redactor(means.settings)
    questions = StepQuestions(attempt, people, context.state, redactor)
    drain_signal = DrainSignal()
    goal, plan, now = context.goal, context.plan, run_instant(context.state)
    before = context.state
    alone: AbstractAsyncContextManager[PlannedContext] = nullcontext(context)
    if context.retry is not None:
        # Imported here: few runs repeat others.
        from wavewright.engine.run.repeated_runs import alone_of_retries

        alone = alone_of_retries(context, attempt)
    with cancellation.scope(drain_signal) as scope:
        async with (
            alone as context,
            # The executor does not record the cost of judges: a gate is no tool.
            _open_judge(context, attempt, means) as (judge, uses),
        ):
            state = await execute(
                Execution(
                    plan,
                    permitted_tools(context),
                    run=context.run,
                    now=now,
                    journal=attempt.journal,
                    ask=questions.ask,
                    verify=make_verifier(plan, context.signatures, goal, now, judge=judge),
                    schedule=goal.schedule,
                    limits=goal.limits.model_copy(update={"run_timeout": context.time_left}),
                    goal_tools=goal.tools,
                    prior=context.state,
                    donor=_donor(context),
                    on_event=attempt.on_event,
                    drain_signal=drain_signal,
                    announces=attempt.announces_calls,
                    redactor=redactor,
                )
            )
        if means.services.runtime is not None:
            await means.services.runtime.forget(context.run)
        executed = context.executed_seconds + time.monotonic() - begun
        context = replace(context, state=fold(uses, state), executed_seconds=executed)
    if scope.cancelled_caught or cancellation.is_cancelled:
        # What was journaled before the stop came is the state; what was not is not known here.
        context = replace(context, state=fold(await attempt.journal.load(context.run)))
        raise await run_stopped(attempt, context)
    waiting = sorted(
        step
        for step in questions.waiting
        # A step whose question was answered meanwhile has ended since.
        if context.state.steps.get(step) is before.steps.get(step)
    )
    if waiting:
        steps = ", ".join(f"step {step!r} waits" for step in waiting)
        raise await run_waits(attempt, context, f"a person must answer: {steps}")
    return context


@asynccontextmanager
async def _open_judge(
    context: PlannedContext, attempt: Attempt, means: Means
) -> AsyncGenerator[tuple[GateJudge | None, Sequence[Event]]]:
    """Yield the judge of gates, None if no gate needs one, and the events of its calls, complete
    after the exit.
    """
    models = means.services.models
    if models is None or all(gate.judge is None for gate in context.plan.gates):
        yield None, ()
        return
    # Imported here: few plans have gates that a model judges.
    from wavewright.reviewer import Calibration, ModelJudge, read_calibration

    calibration = Calibration()
    if means.settings.calibration is not None:
        calibration = read_calibration(means.settings.calibration)
    async with open_recorder(attempt, context.run) as recorder:
        judge = ModelJudge(
            models,
            means.services.prompts,
            calibration,
            run=context.run,
            job=context.goal.job,
            goal=context.goal.text,
            on_use=recorder.record_use,
        )
        yield judge, recorder.journaled


def _donor(context: PlannedContext) -> ReuseSource | None:
    """Return the results that a retry reuses: those of the run that it repeats, and of the runs
    that this one repeats.
    """
    retry = context.retry
    if context.donor is None or retry is None:
        return None
    chain: list[RunSoFar] = []
    for state in (context.donor, *context.donors_before):
        if state.run is None:
            continue
        changed = frozenset[str]()
        if not retry.only_failed:
            # Reads of a tool whose code has changed since are made again; see "Retried" in
            # docs/explanation/semantics.md.
            changed = changed_tools(state, context.tools)
        chain.append(RunSoFar(state.run, state, changed))
    if not chain:
        return None
    others = [RunSoFar(state.run, state) for state in context.other_retries if state.run]
    return ReuseSource(tuple(chain), frozenset(retry.anew), frozenset(retry.again), tuple(others))


def changed_tools(state: RunState, tools: Tools) -> frozenset[str]:
    """Return the tools whose code or contract is not what a run was made with."""
    if state.started is None:
        return frozenset()
    code, versions = state.started.tool_code, state.started.versions
    changed = set[str]()
    for name, tool in tools.items():
        version = versions.get(f"tool {name}", tool.signature.version)
        if version != tool.signature.version or code.get(name, tool.code) != tool.code:
            changed.add(name)
    return frozenset(changed)
