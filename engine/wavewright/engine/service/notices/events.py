"""What there is to tell, read from the tables of runs, jobs, decisions, budgets and schedules.

An event is derived from what the store keeps, so it is found again after a crash; its id names what
it is about, so it is told once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Final

from wavewright.config.notices import NoticeKind
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.executor.budgets.limits import Amount, budget_day
from wavewright.executor.store.transaction import StoreTransaction
from wavewright.planner import as_object
from wavewright.reviewer.values import iso_of_epoch

REACHED_SHARE: Final = 0.8
"""Share of a budget that is told."""


@dataclass(frozen=True, slots=True)
class NoticeEvent:
    """Something to tell."""

    id: str
    kind: NoticeKind
    text: str
    """In a sentence without a full stop."""
    at: float
    run: str = ""
    """The run that it is about, if it is about one."""


async def find_events(
    transaction: StoreTransaction,
    kinds: Collection[NoticeKind],
    since: float,
    now: float,
    budgets: BudgetsSection,
) -> list[NoticeEvent]:
    """Return what there is to tell of these kinds since an instant."""
    sources: list[tuple[set[NoticeKind], AsyncIterator[NoticeEvent]]] = [
        ({"decision_waits"}, _decisions(transaction, since)),
        ({"run_failed", "run_not_achieved"}, _runs(transaction, kinds, since)),
        ({"run_failed", "job_dead"}, _jobs(transaction, kinds, since)),
        ({"budget_reached"}, _budgets(transaction, budgets, since, now)),
        ({"schedule_missed"}, _missed(transaction, since)),
    ]
    return [event for told, source in sources if told & {*kinds} async for event in source]


async def _decisions(transaction: StoreTransaction, since: float) -> AsyncIterator[NoticeEvent]:
    rows = await transaction.fetch(
        """SELECT id, run, question, asked FROM decision
           WHERE choice IS NULL AND asked >= $1 ORDER BY no""",
        since,
    )
    for decision, run, question, asked in rows:
        yield NoticeEvent(
            f"decision {decision}",
            "decision_waits",
            f"a person must answer: {question}",
            asked,
            run,
        )


async def _runs(
    transaction: StoreTransaction, kinds: Collection[NoticeKind], since: float
) -> AsyncIterator[NoticeEvent]:
    rows = await transaction.fetch(
        f"""SELECT run.run, run.job, run.status, run.finished, job.reason,
                   (SELECT {transaction.body_bytes} FROM event
                    WHERE event.run = run.no AND kind = 'run_finished' ORDER BY seq DESC LIMIT 1)
            FROM run LEFT JOIN job ON job.run = run.run AND job.state = 'failed'
            WHERE run.status IN ('failed', 'not_achieved') AND run.finished >= $1
            ORDER BY run.no""",  # noqa: S608 - a column
        since,
    )
    for run, job, status, finished, reason, ended in rows:
        # Whoever is told of failures is told of each end without success: that of a run one of whose
        # steps failed is `not_achieved`.
        kind: NoticeKind = "run_failed" if status == "failed" else "run_not_achieved"
        if {kind, "run_failed"} & {*kinds}:
            said = "has failed" if status == "failed" else "has not achieved its goal"
            why = (reason or _reason_of(ended)).removeprefix("Goal not achieved. ")
            text = f"run {run} of {job!r} {said}" + (f": {why}" if why else "")
            yield NoticeEvent(f"run {run}", kind, text, finished, run)


def _reason_of(ended: bytes | None) -> str:
    """Return why a run ended as it did, from the body of its last event; empty where that is damaged."""
    try:
        return str(as_object(json.loads(ended or b"")).get("reason", ""))
    except (ValueError, RecursionError):
        return ""


async def _jobs(
    transaction: StoreTransaction, kinds: Collection[NoticeKind], since: float
) -> AsyncIterator[NoticeEvent]:
    rows = await transaction.fetch(
        """SELECT job, run, state, reason, finished FROM job
           WHERE state IN ('failed', 'dead') AND finished >= $1 ORDER BY no""",
        since,
    )
    for job, run, state, reason, finished in rows:
        if state == "dead" and "job_dead" in kinds:
            yield NoticeEvent(
                f"dead {job}", "job_dead", f"job {job} was given up: {reason}", finished, run
            )
        elif state == "failed" and "run_failed" in kinds:
            # Its run may have no end of its own, as where its job's file is faulty.
            text = f"run {run} of job {job} has failed: {reason}"
            yield NoticeEvent(f"run {run}", "run_failed", text, finished, run)


async def _budgets(
    transaction: StoreTransaction, budgets: BudgetsSection, since: float, now: float
) -> AsyncIterator[NoticeEvent]:
    """Yield the budgets of the settings that this day, a job or a run of late has nearly spent."""
    limits = {"run": budgets.run, "job": budgets.job, "day": budgets.day}
    if not any(limit != BudgetSettings() for limit in limits.values()):
        return
    rows = await transaction.fetch(
        """SELECT counter, name, calls, tokens, usd, seconds FROM budget_total
           WHERE step = '' AND (counter = 'job' OR (counter = 'day' AND name = $1) OR (
               counter = 'run' AND EXISTS (
                   SELECT 1 FROM run
                   WHERE run.run = name AND (finished IS NULL OR finished >= $2))))""",
        budget_day(now, None),
        since,
    )
    for counter, name, *spent in rows:
        limit = limits.get(counter)
        for what in () if limit is None else _reached(limit, Amount(*spent)):
            yield NoticeEvent(
                f"budget {counter} {name} {what}",
                "budget_reached",
                f"the {what} of {counter} {name} have reached {REACHED_SHARE:.0%} of their budget",
                now,
                name if counter == "run" else "",
            )


def _reached(limit: BudgetSettings, spent: Amount) -> list[str]:
    used = {
        "calls": (limit.calls, spent.calls),
        "tokens": (limit.tokens, spent.tokens),
        "dollars": (limit.usd, spent.spend().usd),
        "seconds": (limit.seconds, spent.spend().seconds),
    }
    return [
        what
        for what, (most, amount) in used.items()
        if most is not None and amount >= REACHED_SHARE * most
    ]


async def _missed(transaction: StoreTransaction, since: float) -> AsyncIterator[NoticeEvent]:
    rows = await transaction.fetch(
        """SELECT name, instant FROM schedule_instant
           WHERE outcome = 'missed' AND instant >= $1 ORDER BY instant""",
        since,
    )
    for name, instant in rows:
        yield missed_event(name, instant)


def missed_event(schedule: str, instant: float) -> NoticeEvent:
    """Return that an instant of a schedule was missed."""
    text = f"schedule {schedule} was missed: it was due at {iso_of_epoch(instant)}"
    return NoticeEvent(f"missed {schedule} {instant!r}", "schedule_missed", text, instant)
