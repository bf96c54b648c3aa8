"""The entry point of the executor: `execute` runs a bound plan.

It returns the state of the run after every step has ended. Where it is cancelled it first journals
what has ended and marks the run *interrupted*; resuming is `execute` again with the state from the
journal.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import cast

import anyio

from wavewright.config.redaction import Redactor, known_secrets_redactor
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, GateRecord, RunFinished, RunStarted
from wavewright.executor.run.call_executor import CallExecutor
from wavewright.executor.run.emissions import Emissions, capture_suspended, capturing
from wavewright.executor.run.ports import AskPerson, Clock, DrainSignal, GateView, LoopClock, Verify
from wavewright.executor.run.program import CompiledPlan
from wavewright.executor.run.recording import EventRecorder, EventRedactor
from wavewright.executor.run.reuse import ReuseSource
from wavewright.executor.run.scheduler import Scheduler
from wavewright.executor.run.step_runner import StepRunner
from wavewright.executor.store.journal import Journal
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, RunId, Schedule, StepId
from wavewright.tools.functions.tool import Tool


def no_gates(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
    """Return no records: for plans without gates."""
    del step_id, output, view
    return ()


async def execute(  # noqa: PLR0913 - the ports and the policy of a run, each with its default
    plan: Plan,
    tools: Mapping[str, Tool],
    *,
    run: RunId,
    now: dt.datetime,
    journal: Journal | None = None,
    verify: Verify = no_gates,
    ask: AskPerson | None = None,
    schedule: Schedule = "waves",
    limits: Limits | None = None,
    goal_tools: Iterable[AvailableTool] = (),
    graph: PlanGraph | None = None,
    prior: RunState | None = None,
    retry_failed: bool = False,
    announces: bool = False,
    donor: ReuseSource | None = None,
    on_event: Callable[[Event], None] | None = None,
    clock: Clock | None = None,
    drain_signal: DrainSignal | None = None,
    redactor: Redactor | None = None,
    is_part: bool = False,
) -> RunState:
    """Run every step of a bound plan that can run, and return the state of the run after it.

    Args:
        plan: The plan, checked and bound to its goal.
        tools: The tools by name; a step whose tool is missing fails.
        run: The run that the events belong to.
        now: The value of `now()` throughout the run.
        journal: Where events are written; without one only the returned state has them.
        verify: Evaluates the gates of a step.
        ask: Asks a person about a step that needs approval or asks a question; without it no
            approval is asked. Steps that wait for a person have no ending in the returned state.
        schedule: `waves`, or `dataflow`.
        limits: Upper bounds; steps beyond one end `cancelled` with the reason.
        goal_tools: The goal's configuration of its tools.
        graph: The plan's graph, where the caller has it.
        prior: The run so far. Calls that ended in it, with the same step id and key, are not made
            again.
        retry_failed: Call failed steps of `prior` again; without it a failure is final until a
            patch replaces it.
        announces: Journal the start of every call, and not only of those that write.
        donor: Another run; its successful calls are not made again where they are the same.
        on_event: Called with every event once it is journaled.
        clock: Time, timers and random numbers.
        drain_signal: Lets no further call start, so that calls in progress can end before the run
            is cancelled.
        is_part: Whether the run goes on beside this execution: where it is cancelled, no ending is
            recorded for what has not ended, nor for the run.
        redactor: Redacts what calls raise, print and log; by default with the secrets of the
            environment.

    Raises:
        JournalError: the journal cannot be written; it holds all events up to the first that
            failed.
    """
    limits = limits or Limits()
    prior = prior or RunState()
    clock = clock or LoopClock()
    program = CompiledPlan(
        plan, tools, limits=limits, goal_tools=goal_tools, graph=graph, asks_people=ask is not None
    )
    journaled = EventRedactor(program.graph, plan.gates, prior)
    recorder = EventRecorder(run, journal, prior, on_event, clock, journaled.redact)

    def emit(event: Event) -> None:
        with capture_suspended():
            recorder.record(event)
            recorder.commit_now()

    runner = StepRunner(
        program,
        run=run,
        job=_budget_job(prior.started),
        now=now,
        verify=verify,
        emissions=Emissions(emit, clock),
        clock=clock,
        donor=donor,
        redactor=redactor or known_secrets_redactor(None),
    )
    calls = CallExecutor(
        runner,
        recorder,
        journal,
        is_withheld=journaled.is_withheld,
        prior=prior,
        retry_failed=retry_failed,
        announces=announces,
        donor=donor,
        clock=clock,
    )
    scheduler = Scheduler(
        program,
        runner,
        calls,
        recorder,
        schedule=schedule,
        limits=limits,
        clock=clock,
        drain_signal=drain_signal or DrainSignal(),
        ask=ask,
    )
    try:
        with capturing():
            async with anyio.create_task_group() as group:
                if not recorder.is_instant:
                    group.start_soon(recorder.commit_until_closed)
                with _ended(scheduler, recorder, clock, is_part=is_part):
                    with anyio.move_on_after(limits.run_timeout) as scope:
                        await scheduler.run()
                    if scope.cancelled_caught:
                        reason = f"the run's time limit of {limits.run_timeout:g} s was reached (run_timeout)"
                        scheduler.cancel_rest(reason)
    except BaseExceptionGroup as group_error:
        raise _root_cause(group_error) from None
    finally:
        runner.deadlines.close()
    return recorder.state


@contextmanager
def _ended(
    scheduler: Scheduler, recorder: EventRecorder, clock: Clock, *, is_part: bool
) -> Generator[None]:
    """Record the end of an execution and commit it; after an exception the run is interrupted and
    can be resumed.
    """
    try:
        yield
    except BaseException:
        if not is_part:
            reason = "the run was interrupted"
            scheduler.cancel_rest(reason)
            recorder.record(RunFinished(clock.wall(), "interrupted", reason))
        raise
    finally:
        recorder.commit_now()
        recorder.close()


def _budget_job(started: RunStarted | None) -> str | None:
    """Return the job whose budget applies; the run's own job name includes its target."""
    return None if started is None else str(started.goal.get("job", started.job))


def _root_cause(error: BaseException) -> BaseException:
    """Return the first exception that is not a group; the others of a task group are its
    consequences.
    """
    if isinstance(error, BaseExceptionGroup):
        return _root_cause(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error
