"""Execute a bound plan: the entry point of the executor.

`execute` returns the state of the run after every step has ended. Cancelled from outside, it first journals what
was finished and marks the run *interrupted*; `resume` is `execute` again with the state that the journal gives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import cast

import anyio

from wavewright.config.redaction import Redactor
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, GateRecord, RunFinished, RunStarted
from wavewright.executor.run.call_executor import CallExecutor
from wavewright.executor.run.emissions import Emissions, capture_suspended, capturing
from wavewright.executor.run.failures import environment_redactor
from wavewright.executor.run.ports import Clock, DrainSignal, GateView, LoopClock, Verify
from wavewright.executor.run.program import CompiledPlan
from wavewright.executor.run.recording import EventRecorder, EventRedactor
from wavewright.executor.run.reuse import ReuseSource
from wavewright.executor.run.scheduler import Scheduler
from wavewright.executor.run.step_runner import StepRunner
from wavewright.executor.store.journal import Journal
from wavewright.planner.language.goals import AvailableTool, Limits
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import Json, RunId, Schedule, StepId
from wavewright.tools.functions.tool import Tool


def no_gates(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
    """Ask nothing: for plans without gates."""
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
) -> RunState:
    """Run every step of a bound plan that can be run, and return the state of the run after it.

    Args:
        plan: The plan, checked and bound to its goal.
        tools: The tools by name; a step whose tool is missing fails.
        run: The run that the events belong to.
        now: What `now()` gives, all through the run.
        journal: Where events go; nowhere where it is absent: the state that is returned holds all that is known.
        verify: Asks the gates of a step, at once or by something to wait for.
        schedule: `waves`, or `dataflow`.
        limits: Upper bounds; what is cut off by one ends `cancelled` with the reason.
        goal_tools: What the goal says of its tools.
        graph: The plan's graph, where the caller has it.
        prior: The run so far. What ended in it, under the same step id and with the same key, is not called again.
        retry_failed: Call failed steps of `prior` again; without it a failure stands until a patch replaces it.
        announces: Journal the start of every call before it is made, and not only of those that write.
        donor: Another run, whose calls that ended well are not made again where they are still the same.
        on_event: Called with every event once it is journaled.
        clock: Time and chance.
        drain_signal: Stops the run from starting calls, so that those under way can end before it is cancelled.
        redactor: Takes secrets out of what calls raise, print and log; one that knows those of the environment where
            absent.

    Raises:
        JournalError: the journal cannot be written; what it holds is whole.
    """
    limits = limits or Limits()
    prior = prior or RunState()
    clock = clock or LoopClock()
    program = CompiledPlan(plan, tools, limits=limits, goal_tools=goal_tools, graph=graph)
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
        redactor=redactor or environment_redactor(),
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
        prior=prior,
        clock=clock,
        drain_signal=drain_signal or DrainSignal(),
    )
    try:
        with capturing():
            async with anyio.create_task_group() as group:
                if not recorder.is_instant:
                    group.start_soon(recorder.commit_until_closed)
                with _ended(scheduler, recorder, clock):
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
def _ended(scheduler: Scheduler, recorder: EventRecorder, clock: Clock) -> Generator[None]:
    """Record the end of an execution: whatever stops it, what it has done stays done and the rest can be resumed."""
    try:
        yield
    except BaseException:
        reason = "the run was interrupted"
        scheduler.cancel_rest(reason)
        recorder.record(RunFinished(clock.wall(), "interrupted", reason))
        raise
    finally:
        recorder.commit_now()
        recorder.close()


def _budget_job(started: RunStarted | None) -> str | None:
    """Return the job whose budget the run is held to; its own name says its target, too."""
    return None if started is None else str(started.goal.get("job", started.job))


def _root_cause(error: BaseException) -> BaseException:
    """Return the one exception that matters in a group of one, of one, …; cancellations beside it are its effect."""
    if isinstance(error, BaseExceptionGroup):
        return _root_cause(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error
