"""The entry point of the executor: `execute` runs a bound plan.

It returns the state of the run after every step has ended. Where it is cancelled it first journals
what has ended and marks the run *interrupted*; resuming is `execute` again with the state from the
journal.

The way of one call is in four files, in this order: `scheduler.py` (what is ready), `rules.py`
(whether it is called), `calls.py` (the call, its deadline and its retries), `recording.py` (what is
recorded of it).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from wavewright.config import known_secrets_redactor
from wavewright.config.errors import single_exception
from wavewright.config.redaction import Redactor
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, GateRecord, RunFinished, RunStarted
from wavewright.executor.run.calls import CallRunner, RunFacts, StepGates
from wavewright.executor.run.deadlines import Deadlines
from wavewright.executor.run.emissions import Emissions, capture_suspended, capturing
from wavewright.executor.run.ports import AskPerson, Clock, DrainSignal, GateView, LoopClock, Verify
from wavewright.executor.run.program import CompiledPlan
from wavewright.executor.run.recording import EventRecorder
from wavewright.executor.run.redacted_events import EventRedactor
from wavewright.executor.run.rules import CallRules, ReuseSource, gates_by_step
from wavewright.executor.run.scheduler import Scheduler
from wavewright.executor.store.journal import Journal
from wavewright.planner import Json, Limits, Plan, PlanGraph, RunId, StepId
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.plans.graph import superseded_before
from wavewright.planner.types import Schedule
from wavewright.tools import Tools


def no_gates(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
    """Return no records: for plans without gates."""
    del step_id, output, view
    return ()


@dataclass(frozen=True, slots=True)
class Execution:
    """What one execution of a plan needs: the plan, its tools, and the ports and policy of the run.

    >>> import datetime as dt
    >>> from wavewright.executor import Execution, new_run_id
    >>> from wavewright.planner import Plan
    >>> now = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    >>> Execution(Plan(steps=()), {}, run=new_run_id(now.timestamp()), now=now).schedule
    'waves'
    """

    plan: Plan
    """Checked and bound to its goal."""
    tools: Tools
    """By name; a step whose tool is missing fails."""
    run: RunId
    """The run that the events belong to."""
    now: dt.datetime
    """The value of `now()` throughout the run."""
    journal: Journal | None = None
    """Where events are written; without one only the returned state has them."""
    verify: Verify = no_gates
    """Evaluates the gates of a step."""
    ask: AskPerson | None = None
    """Asks a person about a step that needs approval or asks a question; without it no approval is
    asked. Steps that wait for a person have no ending in the returned state.
    """
    schedule: Schedule = "waves"
    limits: Limits = field(default_factory=Limits)
    """Upper bounds; steps beyond one end `cancelled` with the reason."""
    goal_tools: Iterable[AvailableTool] = ()
    """The goal's configuration of its tools."""
    graph: PlanGraph | None = None
    """The plan's graph, where the caller has it."""
    prior: RunState = field(default_factory=RunState)
    """The run so far. Calls that ended in it, with the same step id and key, are not made again."""
    retry_failed: bool = False
    """Call failed steps of `prior` again; without it a failure is final until a patch replaces it."""
    announces: bool = False
    """Journal the start of every call, and not only of those that write."""
    donor: ReuseSource | None = None
    """Another run; its successful calls are not made again where they are the same."""
    on_event: Callable[[Event], None] | None = None
    """Called with every event once it is journaled."""
    clock: Clock = field(default_factory=LoopClock)
    drain_signal: DrainSignal = field(default_factory=DrainSignal)
    """Lets no further call start, so that calls in progress can end before the run is cancelled."""
    redactor: Redactor = field(default_factory=lambda: known_secrets_redactor(None))
    """Redacts what calls raise, print and log; by default with the secrets of the environment."""
    is_part: bool = False
    """Whether the run goes on beside this execution: where it is cancelled, no ending is recorded
    for what has not ended, nor for the run.
    """


async def execute(execution: Execution) -> RunState:
    """Run every step of a bound plan that can run, and return the state of the run after it.

    Raises:
        JournalError: the journal cannot be written; it holds all events up to the first that
            failed.

    >>> import datetime as dt
    >>> import anyio
    >>> from wavewright.executor import Execution, execute
    >>> from wavewright.planner import Plan, Step
    >>> from wavewright.tools import Registry
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> tools = Registry()
    >>> _ = tools.add(double)
    >>> plan = Plan(steps=(Step(id="four", tool="double", params={"number": 2}),))
    >>> now = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    >>> anyio.run(execute, Execution(plan, tools, run="r1", now=now)).outputs()
    {'four': 4}
    """
    clock, limits = execution.clock, execution.limits
    program = CompiledPlan(
        execution.plan,
        execution.tools,
        limits=limits,
        goal_tools=execution.goal_tools,
        graph=execution.graph,
        asks_people=execution.ask is not None,
    )
    journaled = EventRedactor(program.graph, execution.plan.gates, execution.prior)
    recorder = EventRecorder(
        execution.run,
        execution.journal,
        execution.prior,
        execution.on_event,
        clock,
        journaled.redact,
    )
    deadlines = Deadlines(clock)
    rules, calls = _rules_and_calls(execution, program, journaled, recorder, deadlines)
    scheduler = Scheduler(
        program,
        calls,
        rules,
        recorder,
        schedule=execution.schedule,
        limits=limits,
        clock=clock,
        drain_signal=execution.drain_signal,
        ask=execution.ask,
    )
    try:
        with capturing():
            async with anyio.create_task_group() as group:
                if not recorder.is_instant:
                    group.start_soon(recorder.commit_until_closed)
                with _ended(scheduler, recorder, clock, is_part=execution.is_part):
                    with anyio.move_on_after(limits.run_timeout) as scope:
                        await scheduler.run()
                    if scope.cancelled_caught:
                        reason = f"the run's time limit of {limits.run_timeout:g} s was reached (run_timeout)"
                        scheduler.cancel_rest(reason)
    except BaseExceptionGroup as group_error:
        raise single_exception(group_error) from None
    finally:
        deadlines.close()
    return recorder.state


def _rules_and_calls(
    execution: Execution,
    program: CompiledPlan,
    journaled: EventRedactor,
    recorder: EventRecorder,
    deadlines: Deadlines,
) -> tuple[CallRules, CallRunner]:
    """Return the rules of the execution's calls, and what runs them."""
    prior = execution.prior

    def emit(event: Event) -> None:
        with capture_suspended():
            recorder.record(event)
            recorder.commit_now()

    rules = CallRules(
        prior,
        run=execution.run,
        retried=execution.donor,
        retry_failed=execution.retry_failed,
        superseded=superseded_before(execution.plan),
        is_withheld=journaled.is_withheld,
        gates=gates_by_step(execution.plan.gates),
        sharing=program.sharing_steps() if prior.steps or prior.items else {},
    )
    facts = RunFacts(
        run=execution.run,
        job=_budget_job(prior.started),
        now=execution.now,
        journal=execution.journal,
        announces=execution.announces,
        retried=execution.donor,
    )
    calls = CallRunner(
        program,
        facts,
        rules,
        StepGates(execution.plan, execution.verify, deadlines),
        recorder,
        deadlines=deadlines,
        emissions=Emissions(emit, execution.clock),
        clock=execution.clock,
        redactor=execution.redactor,
    )
    return rules, calls


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
