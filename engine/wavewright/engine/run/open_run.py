"""The tools of a run, and its first events or those of another attempt at it."""

from __future__ import annotations

import datetime as dt
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from wavewright.config import Settings
from wavewright.engine.run.context import RunContext
from wavewright.engine.run.permits import permits_notes
from wavewright.engine.run.ports import Attempt, Means
from wavewright.engine.run.project.tools import tools_of_goal, tools_with_redacted_outputs
from wavewright.engine.run.recording import draft_note, record, record_resumed
from wavewright.engine.run.version import __version__
from wavewright.executor import Event, Noted, RunStarted, new_run_id
from wavewright.executor.events.types import ModelCalled
from wavewright.executor.run.emissions import taken_emissions
from wavewright.planner import RunId
from wavewright.planner.plans.previous_run import reads_previous
from wavewright.planner.ports.budgets import Reservation
from wavewright.planner.ports.model_port import ModelUse
from wavewright.tools import Registry, Services
from wavewright.tools.functions.registry import name_of

C = TypeVar("C", bound=RunContext)


def gather_tools(context: RunContext, means: Means) -> RunContext:
    """Find the tools that the goal allows, in the project and in the packs.

    They are imported here; the checker reports those that do not exist.
    """
    services = means.services.for_goal(context.goal)
    tools = tools_of_goal(context.goal, means.settings, services)
    emissions = taken_emissions(context.state)
    # First the fleet or the runtime of the settings, then what stands for all tools of this run: a
    # recording answers also for what a fleet would call.
    for runtime in (services.runtime, means.runtime):
        if runtime is None:
            continue
        tools = Registry(runtime.routed(tool, context.goal) for tool in tools.values())
        if context.state.run is not None and emissions:
            runtime.resume(context.state.run, emissions)
    return replace(context, tools=tools_with_redacted_outputs(tools, means.settings))


async def open_run(context: C, attempt: Attempt, means: Means) -> C:
    """Open the run in the journal, so that no other process works on it.

    Its start is journaled, with its user-supplied plan if there is one, or that it is resumed.
    """
    services = means.services
    if context.state.started is not None:
        _limit_spending(context, context.run, services)
        context = await _count_cut_calls(context, attempt, services)
        return await record_resumed(attempt, context)
    now = attempt.clock()
    run = context.request.run
    if run is None:
        run = new_run_id(now.timestamp())
        await attempt.journal.open_run(run)
    _limit_spending(context, run, services)
    context, previous_notes = await _with_previous(context, attempt, now)
    first_events: list[Event] = [_run_started(context, run, now, means.settings)]
    if context.draft is not None:
        first_events.append(draft_note(context.draft, now.timestamp()))
    first_events += previous_notes
    first_events += permits_notes(context, now.timestamp())
    # One append: a run that is stopped before its plan is accepted can still be resumed with that
    # plan.
    return await record(attempt, context, *first_events, run=run)


async def _with_previous(
    context: C, attempt: Attempt, now: dt.datetime
) -> tuple[C, tuple[Noted, ...]]:
    """Return the context whose goal has the previous run, and a warning where that cannot be read.

    A repeated run reads what the run that it repeats has read.
    """
    if context.donor is not None or context.goal.previous:
        return context, ()
    draft = context.draft
    if draft is None or not reads_previous(draft.plan):
        return context, ()
    from wavewright.engine.run.previous_run import find_previous  # few plans read an earlier run

    previous = await find_previous(
        attempt.journal, context.goal, draft.plan, context.signatures, _run_instant(context, now)
    )
    if previous is None:
        return context, ()
    goal = context.goal.model_copy(update={"previous": previous.value})
    if not previous.misfit:
        return replace(context, goal=goal), ()
    message = f"`previous` is absent: of run {previous.run}, {previous.misfit}"
    return context, (Noted(now.timestamp(), "warning", {"message": message}),)


def _run_started(
    context: RunContext, run: RunId, now: dt.datetime, settings: Settings
) -> RunStarted:
    """Return the event that a run starts, with the versions and the code that it starts with, and
    the program that has functions of its own.
    """
    versions = {"wavewright": __version__, "python": platform.python_version()}
    tool_code: dict[str, str] = {}
    for name, tool in sorted(context.tools.items()):
        versions[f"tool {name}"] = tool.signature.version
        if tool.code:
            tool_code[name] = tool.code
    return RunStarted(
        run=run,
        at=now.timestamp(),
        job=context.goal.title,
        goal=context.goal.model_dump(mode="json", by_alias=True),
        now=_run_instant(context, now),
        versions=versions,
        tool_code=tool_code,
        program=_program() if settings.functions else "",
        program_tools=tuple(sorted(map(name_of, settings.functions))),
        retry=context.retry,
    )


def _program() -> str:
    """Return the Python program that this is, as a person would name it."""
    if "ipykernel" in sys.modules:
        return "a notebook"
    return Path(sys.argv[0]).name or "a Python program"


def _run_instant(context: RunContext, now: dt.datetime) -> float:
    """Return the instant that `now()` returns; a retry uses that of the run it repeats."""
    donor = context.donor
    if context.request.as_of is None and donor is not None and donor.started is not None:
        return donor.started.now
    return (context.goal.as_of or now).timestamp()


async def _count_cut_calls(context: C, attempt: Attempt, services: Services) -> C:
    """Journal and settle the model calls that the end of an earlier process cut off.

    What they cost is not known, so that they count as what was reserved for them.
    """
    store = services.budget_store
    if store is None:
        return context
    for reservation in await store.unsettled(context.run):
        if reservation.scope.step is not None and services.runtime is not None:
            # A call on another machine outlives this process, and settles by itself.
            continue
        use = _cut_call(reservation)
        # A crash between these two leaves the use in the journal and the reservation open.
        if use not in context.state.uses.values():
            context = await record(attempt, context, ModelCalled(attempt.now(), use))
        await store.settle(reservation, reservation.amount, use)
    return context


def _cut_call(reservation: Reservation) -> ModelUse:
    scope, amount = reservation.scope, reservation.amount
    return ModelUse(
        role=scope.role,
        name=scope.role,
        model=scope.model or "unknown",
        outcome="failed",
        input_tokens=amount.tokens,
        # A call without a known price is reserved at none.
        usd=amount.usd or None,
        is_estimated=True,
        step=scope.step,
        message=(
            f"cut off by the end of its process; what was reserved is counted (call {reservation.id})"
        ),
    )


def _limit_spending(context: RunContext, run: RunId, services: Services) -> None:
    """Limit the cost of models to the goal's own budget."""
    if services.budget_store is not None:
        services.budget_store.limit_run(run, context.goal.limits.budget)
