"""Runs that wait for a person, as lists of runs have them.

The store knows such a run as interrupted: that it waits, for what, and how many steps it would have follows from its
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wavewright.engine.approvals import pending_approval
from wavewright.engine.owned_runs import target_runs
from wavewright.engine.questions import pending_question
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.journal_runs import RunRow, RunStatus
from wavewright.executor.state import RunState, fold
from wavewright.planner.types import RunId

if TYPE_CHECKING:
    from wavewright.executor.journal import Journal


async def mark_waiting_runs(journal: Journal, rows: Sequence[RunRow], now: float) -> list[RunRow]:
    """Return the rows, in which a run that waits for an approval or an answer says so and counts its plan's steps.

    A job with several targets waits where one of its targets does. A run whose events cannot be read stays as it is.

    Args:
        journal: Where the runs are.
        rows: The newest first, so that targets come before their job.
        now: Seconds since the epoch; an approval that has expired is waited for no more.
    """
    waiting = dict[RunId, RunStatus]()
    told = list[RunRow]()
    for row in rows:
        if row.status == "interrupted":
            try:
                state = fold(await journal.load(row.run))
            except JournalError:
                told.append(row)
                continue
            if (status := _waiting_row(state, now, waiting)) is not None:
                waiting[row.run] = status
                told.append(replace(row, status=status, steps=max(row.steps, _planned_steps(state))))
                continue
        told.append(row)
    return told


def _waiting_row(state: RunState, now: float, waiting: dict[RunId, RunStatus]) -> RunStatus | None:
    question = pending_question(state, now)
    if question is not None:
        return "waiting_for_answer" if question.subject == "question" else "waiting_for_approval"
    return next((waiting[run] for run in target_runs(state) if run in waiting), None)


def _planned_steps(state: RunState) -> int:
    """Return the steps of the plan that somebody is asked to approve, or else of the one that the run follows."""
    wanted = pending_approval(state)
    asked = None if wanted is None else wanted.body.get("steps")
    if isinstance(asked, int):
        return asked
    followed = None if state.plan is None else state.plan.get("steps")
    return len(followed) if isinstance(followed, list) else 0
