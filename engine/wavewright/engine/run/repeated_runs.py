"""The runs that a retry repeats and the other retries of the first of them, whose writes it does not
make again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import anyio

from wavewright.engine.run.context import PlannedContext
from wavewright.engine.run.ports import Attempt
from wavewright.engine.run.recording import record_note
from wavewright.executor import Journal, RunBusy, RunState, fold
from wavewright.planner import RunId

_SECONDS_BETWEEN_LOOKS: Final = 0.2
"""Whether another retry has ended."""


async def runs_repeated_by(donor: RunState, journal: Journal) -> tuple[RunState, ...]:
    """Return the runs that a run repeats, directly or through others, as far as the journal has
    them, the newest first.
    """
    runs = list[RunState]()
    while donor.started is not None and donor.started.retry is not None:
        donor = fold(await journal.load(donor.started.retry.run))
        if donor.started is not None:
            runs.append(donor)
    return tuple(runs)


async def other_retries(
    donor: RunState,
    donors_before: Iterable[RunState],
    journal: Journal,
    *,
    own: RunId | None = None,
) -> tuple[RunState, ...]:
    """Return the retries of the first run that a retry repeats, but those that it repeats, the
    newest first.

    Args:
        donor: The run that the retry repeats.
        donors_before: The runs that the donor repeats in its turn.
        journal: Where the runs are.
        own: The retry itself, where it has begun.
    """
    if donor.started is None:
        # The journal of a replay has the run alone.
        return ()
    known = {own, *(state.run for state in (donor, *donors_before))}
    rows = await journal.list_retries(first_run_of(donor))
    return tuple([fold(await journal.load(row.run)) for row in rows if row.run not in known])


def first_run_of(donor: RunState) -> RunId:
    """Return the first of the chain of runs that a retry of a run repeats."""
    assert donor.started is not None
    retry = donor.started.retry
    return donor.started.run if retry is None else retry.origin


@asynccontextmanager
async def alone_of_retries(
    context: PlannedContext, attempt: Attempt
) -> AsyncGenerator[PlannedContext]:
    """Yield the context of a run; of a retry that may write, once no other retry of the first run
    writes, with all that these have done until then.
    """
    retry, donor = context.retry, context.donor
    if retry is None or donor is None or not _writes_once(context):
        yield context
        return
    # The first run has ended, so that its lease is free for the one retry that writes.
    context = await _with_lease(context, attempt, retry.origin)
    try:
        others = await other_retries(donor, context.donors_before, attempt.journal, own=context.run)
        yield replace(context, other_retries=others)
    finally:
        with anyio.CancelScope(shield=True):
            await attempt.journal.close_run(retry.origin)


def _writes_once(context: PlannedContext) -> bool:
    """Whether the plan has a write that must not be made twice."""
    called = [context.signatures[step.tool] for step in context.plan.steps]
    return any(tool.writes and not tool.idempotent for tool in called)


async def _with_lease(context: PlannedContext, attempt: Attempt, first: RunId) -> PlannedContext:
    """Wait until the lease of the first run is this retry's; the journal says that it waits."""
    is_told = False
    while True:
        try:
            await attempt.journal.open_run(first)
        except RunBusy:
            if not is_told:
                message = f"its calls begin when another retry of run {first} has made its own"
                context = await record_note(attempt, context, "warning", {"message": message})
                is_told = True
            await anyio.sleep(_SECONDS_BETWEEN_LOOKS)
        else:
            return context
