"""The previous run: the last achieved one of the same job, which expressions read as `previous`.

It is looked up when a run opens and kept in the run's goal, so a resumed, repeated or replayed run
reads the same. See docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from wavewright.executor import Journal, RunState, fold
from wavewright.executor.store.journal import RunRow
from wavewright.planner import Goal, JsonObject, Plan, RunId, ToolSignatures
from wavewright.planner.checks.previous_results import misfit_of_result, trusted_untrusted_field
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.previous_run import reads_previous
from wavewright.reviewer.package.builder import stored_package
from wavewright.reviewer.values import iso_of_epoch


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """What an earlier run gave, as a plan reads it."""

    run: RunId
    value: JsonObject
    """`result` and `started`; empty where the plan cannot read it."""
    misfit: str = ""
    """Why the plan cannot read it: the plan gives results of another type now, or trusts a part in
    which that run had untrusted text.
    """


async def find_previous(
    journal: Journal, goal: Goal, plan: Plan | None, tools: ToolSignatures, now: float
) -> PreviousRun | None:
    """Return the previous run of a job whose plan reads it; None where there is none yet.

    It is the achieved run of the same job, by its name and file, with the latest `now()` that is
    not after the run's own; of several, the one that began last. So a repeated run of last week
    does not come before yesterday's.

    Args:
        journal: Where the runs of the job are.
        goal: The job's.
        plan: The plan of the job; None where a model is to make it, which then reads no run.
        tools: Signatures of the tools that the plan calls.
        now: What `now()` gives in the run.

    Raises:
        JournalError: an event of the previous run is damaged.
    """
    if plan is None or not reads_previous(plan):
        return None
    latest = await _latest(journal, goal, now)
    if latest is None or latest.started is None or (package := stored_package(latest)) is None:
        return None
    misfit = misfit_of_result(package.result, bind_plan(plan, goal), goal, tools)
    misfit = misfit or _untrusted_misfit(latest, plan, goal, tools)
    if misfit is not None:
        return PreviousRun(latest.started.run, {}, misfit)
    started = iso_of_epoch(latest.started.now)
    return PreviousRun(latest.started.run, {"result": package.result, "started": started})


def _untrusted_misfit(
    earlier: RunState, plan: Plan, goal: Goal, tools: ToolSignatures
) -> str | None:
    """Return why a plan that trusts a part of its result cannot read that of another plan's run."""
    if earlier.plan is None or earlier.accepted is None:
        return None
    before = Plan.model_validate(earlier.plan)
    part = trusted_untrusted_field(before, bind_plan(plan, goal), goal, tools)
    if part is None:
        return None
    return f"{part} holds untrusted text, and the plan now gives trusted values there"


_PAGE: Final = 20
"""Runs that are asked for at once: the first is nearly always the previous one."""


async def _latest(journal: Journal, goal: Goal, now: float) -> RunState | None:
    """Return the achieved run of a job with the latest `now()` that is not after one."""
    latest: RunState | None = None
    async for row in _achieved_rows(journal, goal):
        best = None if latest is None or latest.started is None else latest.started.now
        if best is not None and best >= min(row.started, now):
            # Earlier runs can have a later `now()` only where it was set to the future.
            break
        state = fold(await journal.load(row.run))
        started = state.started
        if started is None or started.now > now:
            continue
        # The label by which runs are found is cut.
        if row.job != goal.title or started.goal.get("origin", "") != goal.origin:
            continue
        if best is None or started.now > best:
            latest = state
    return latest


async def _achieved_rows(journal: Journal, goal: Goal) -> AsyncIterator[RunRow]:
    """Yield the achieved runs of a job, the newest first, as far as they are asked for."""
    before: RunId | None = None
    while True:
        rows = await journal.list_achieved(goal.title, goal.origin, before=before, limit=_PAGE)
        for row in rows:
            yield row
        if len(rows) < _PAGE:
            return
        before = rows[-1].run
