"""What must be true after every fault, judged from outside the daemon.

The *oracle* reads the tools' ledger, what the broker has confirmed in both directions, and the
store's file, each by itself; none of the daemon's code decides whether the daemon was right. A
*violation* names the invariant it breaks.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.crash.crash_project import JOURNAL, Asked, Called, read_asked, read_ledger
from wavewright.executor.events.types import (
    AnswerKept,
    Event,
    ItemFinished,
    Noted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
)
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.executor.store.journal import summarize_run
from wavewright.planner.types import JsonObject, RunId

ENDS = {"completed", "failed", "dead"}
WAITING = {"waiting", "validating"}
TOLD_ENDS = {"JOB_COMPLETED", "JOB_PARTIALLY_COMPLETED", "JOB_FAILED"}


@dataclass(frozen=True)
class Row:
    """A job, as the store has it."""

    job: str
    run: str
    state: str
    attempts: int = 0


@dataclass(frozen=True)
class Message:
    """A message that the broker has confirmed to the daemon."""

    id: str
    kind: str
    sha256: str
    body: JsonObject


@dataclass(frozen=True)
class Findings:
    """All that can be seen of what happened."""

    submitted: Sequence[str]
    """Jobs whose requests the broker has confirmed."""
    ledger: Sequence[Called]
    sent: Sequence[Message]
    dead: Sequence[str]
    """Jobs in the dead-letter queue."""
    rows: Sequence[Row]
    events: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    """Of each job's run."""
    crashes: Sequence[float] = ()
    """When somebody died, stopped or lost its store, each of which may have hit calls in flight."""
    asked: Sequence[Asked] = ()
    """What a model's provider was asked, for tokens that it wants to be paid for."""
    charged: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens that the purse holds for spent, by job, among them what was put aside and never
    settled.
    """
    faults: Sequence[str] = ()
    """What is wrong with the store itself."""
    has_true_clock: bool = True
    """Whether the daemon's clock is the one of the ledger."""
    is_answered: bool = True
    """Whether everybody outside says what was asked of them, so that nothing has to stay waiting.
    """
    is_rationed: bool = False
    """Whether the jobs have less to spend than they need, which may end them."""


def violations(found: Findings) -> list[str]:
    """Return what is broken, most telling first; nothing where all is well."""
    return [
        *found.faults,
        *_jobs_lost(found),
        *_given_up(found),
        *_identities(found),
        *_steps_again(found),
        *_written_twice(found),
        *_effects(found),
        *_questions(found),
        *_left_over(found),
    ]


def _jobs_lost(found: Findings) -> Iterable[str]:
    rows = {row.job: row for row in found.rows}
    told = {
        str(payload["job_id"])
        for message in found.sent
        if isinstance(payload := message.body.get("payload"), dict)
        and payload.get("status") in TOLD_ENDS
    }
    for job in found.submitted:
        row = rows.get(job)
        if row is None and job not in found.dead:
            yield f"I1: job {job} is lost: neither in the store nor a dead letter"
        elif row is not None and row.state in ENDS and job not in told:
            yield f"I1: job {job} is {row.state}, and nobody was told"


def _given_up(found: Findings) -> Iterable[str]:
    harmful = {call.job for call in found.ledger if call.tool == "poison"}
    rows = {row.job: row for row in found.rows}
    for job in found.submitted:
        row = rows.get(job)
        if job in harmful:
            continue
        if row is None:
            if job in found.dead:
                yield f"I10: the request of job {job} was dead-lettered, though nothing is wrong with it"
        elif row.state == "dead":
            yield f"I10: job {job} is dead after {row.attempts} attempts, and no step of it does harm"
        elif is_without_result(found, row) and not (found.is_rationed or _is_in_doubt(found, job)):
            yield f"I10: job {job} {row.state} without its result, and no step of it was to blame"


def is_without_result(found: Findings, row: Row) -> bool:
    """Return whether a job has ended, and its goal was not achieved."""
    endings = [
        event.status for event in found.events.get(row.job, ()) if isinstance(event, RunFinished)
    ]
    return row.state == "failed" or (
        row.state == "completed" and endings[-1:] not in ([], ["achieved"])
    )


def _is_in_doubt(found: Findings, job: str) -> bool:
    """Return whether a call that must not be made again was begun, or was to be, and its end was
    never journaled.
    """
    is_begun = begins_post(found, job) is not None or any(
        call.tool == "post" and call.event == "start" for call in found.ledger if call.job == job
    )
    is_known = any(
        isinstance(event, StepFinished) and event.step == "post" and event.status == "ok"
        for event in found.events.get(job, ())
    )
    return is_begun and not is_known


def begins_post(found: Findings, job: str) -> float | None:
    """Return when it was journaled first that the call begins which must not be made again."""
    events = found.events.get(job, ())
    return next(
        (event.at for event in events if isinstance(event, StepStarted) and event.step == "post"),
        None,
    )


def _identities(found: Findings) -> Iterable[str]:
    texts = defaultdict[str, set[str]](set)
    packages = defaultdict[tuple[str, str], set[str]](set)
    for message in found.sent:
        texts[message.id].add(message.sha256)
        payload = message.body.get("payload")
        if message.kind in ("package", "research_package") and isinstance(payload, dict):
            about = (str(payload["job_id"]), str(payload.get("iteration")))
            packages[about].add(f"{payload['package_id']} {message.id} {message.sha256}")
    for id_, seen in texts.items():
        if len(seen) > 1:
            yield f"I2: message {id_} went out with {len(seen)} different texts"
    for (job, iteration), seen in packages.items():
        if len(seen) > 1:
            yield f"I2: package {iteration} of job {job} went out as {len(seen)} different messages"


def _steps_again(found: Findings) -> Iterable[str]:
    calls = defaultdict[tuple[str, str], list[Called]](list)
    for call in found.ledger:
        if call.event == "start":
            calls[call.job, call.key].append(call)
    starts = {key: [call.at for call in begun] for key, begun in calls.items()}
    cleared = _cleared_at(found.events)
    for (job, key), begun in calls.items():
        trials = cleared.get((job, key), ())
        unexplained = sum(
            not any(before.at <= crash <= after.at for crash in found.crashes)
            and not _is_trial(before, after, trials)
            for before, after in pairwise(sorted(begun, key=lambda call: call.at))
        )
        if unexplained:
            yield f"I4: a step of job {job} was begun {unexplained} times more than somebody crashed (key {key})"
    if found.has_true_clock:
        yield from _late_starts(found.events, starts)
    journaled = set[str]()
    for call in found.ledger:
        if call.event == "journaled":
            journaled.add(call.key)
        elif call.event == "start" and call.key in journaled:
            yield f"I3: a step of job {call.job} was begun after it was journaled (key {call.key})"


def _cleared_at(events: dict[str, list[Event]]) -> dict[tuple[str, str], list[float]]:
    """Return when a suspected call was journaled as having come back in its trial."""
    cleared = defaultdict[tuple[str, str], list[float]](list)
    for job, told in events.items():
        for event in told:
            if isinstance(event, Noted) and event.topic == "call_cleared":
                cleared[job, str(event.body["key"])].append(event.at)
    return cleared


def _is_trial(before: Called, after: Called, cleared: Sequence[float]) -> bool:
    """Return whether the first of two calls was a trial: it was made in a process of its own, and
    journaled as having come back before the second one.
    """
    return before.process != after.process and any(before.at <= at <= after.at for at in cleared)


def _late_starts(
    events: dict[str, list[Event]], starts: dict[tuple[str, str], list[float]]
) -> Iterable[str]:
    for job, told in events.items():
        for event in told:
            if isinstance(event, StepFinished | ItemFinished) and _is_done(event):
                late = [at for at in starts.get((job, str(event.key)), ()) if at > event.at]
                if late:
                    yield f"I3: step {event.step} of job {job} was begun {len(late)} times after it was journaled"


def _written_twice(found: Findings) -> Iterable[str]:
    for job, events in found.events.items():
        begun = sum(isinstance(event, RunStarted) for event in events)
        if begun > 1:
            yield f"I12: the run of job {job} began {begun} times"
        done = Counter(_call_of(event) for event in events if _is_done(event))
        for (step, _, _), times in done.items():
            if times > 1:
                yield f"I8: step {step} of job {job} was journaled as done {times} times"


def _is_done(event: Event) -> bool:
    return isinstance(event, StepFinished | ItemFinished) and event.status in ("ok", "empty")


def _call_of(event: Event) -> tuple[str, int | None, str]:
    assert isinstance(event, StepFinished | ItemFinished)
    return event.step, event.index if isinstance(event, ItemFinished) else None, str(event.key)


def _effects(found: Findings) -> Iterable[str]:
    effects = Counter((call.job, call.tool) for call in found.ledger if call.event == "effect")
    keys = defaultdict[str, set[str]](set)
    for call in found.ledger:
        if call.tool == "keep" and call.event == "effect":
            keys[call.job].add(call.key)
    for (job, tool), count in effects.items():
        if tool == "post" and count > 1:
            yield f"I5: job {job} posted {count} times"
    for job, events in found.events.items():
        done = {
            event.key
            for event in events
            if isinstance(event, StepFinished) and event.status == "ok" and event.key in keys[job]
        }
        ended = any(
            isinstance(event, RunFinished) and event.status == "achieved" for event in events
        )
        if ended and len(done) != len(keys[job]):
            yield f"I5: job {job} kept {len(keys[job])} texts under keys of their own, and journaled {len(done)}"


def _questions(found: Findings) -> Iterable[str]:
    times = defaultdict[tuple[str, str], list[float]](list)
    spent = Counter[str]()
    for asked in found.asked:
        times[asked.job, asked.question].append(asked.at)
        spent[asked.job] += asked.tokens
    for job, tokens in spent.items():
        if tokens > (charged := found.charged.get(job, 0)):
            yield f"I6: the provider wants {tokens} tokens for job {job}, and {charged} are charged"
    for (job, question), asked_at in times.items():
        kept = [event.at for event in found.events.get(job, ()) if isinstance(event, AnswerKept)]
        for before, after in pairwise(sorted(asked_at)):
            if not any(before <= crash <= after for crash in found.crashes):
                yield f"I4: job {job} asked its model twice without a crash between: {question!r}"
            # Questions of such a job come one after the other: what was kept between them is the
            # first one's answer.
            if any(before < at < after for at in kept):
                yield f"I3: job {job} asked its model again for an answer that was kept: {question!r}"


def _left_over(found: Findings) -> Iterable[str]:
    for row in found.rows:
        if row.state not in ENDS and (found.is_answered or row.state not in WAITING):
            yield f"I13: job {row.job} is still {row.state} after the last fault"


def look(
    folder: Path,
    submitted: Sequence[str],
    sent: Sequence[Message],
    dead: Sequence[str],
    *,
    crashes: Sequence[float],
    has_true_clock: bool = True,
) -> Findings:
    """Return what can be seen in a project's folder."""
    path = folder / JOURNAL
    if not path.exists():
        return Findings(submitted, read_ledger(folder), sent, dead, (), crashes=crashes)
    rows, faults = _rows(path)
    events = dict[str, list[Event]]()
    for row in rows:
        events[row.job], more = _run(path, row.run)
        faults += more
    return Findings(
        submitted,
        read_ledger(folder),
        sent,
        dead,
        rows,
        events,
        crashes,
        read_asked(folder),
        _charged(path, rows),
        faults,
        has_true_clock,
    )


def _charged(path: Path, rows: Sequence[Row]) -> dict[str, int]:
    """Return the tokens of all entries of the purse, settled or not."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        tokens = dict[str, int](
            connection.execute("SELECT run, sum(tokens) FROM model_call GROUP BY run").fetchall()
        )
    return {row.job: tokens.get(row.run, 0) for row in rows}


def _rows(path: Path) -> tuple[list[Row], list[str]]:
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        (sound,) = connection.execute("PRAGMA integrity_check").fetchone()
        faults = [] if sound == "ok" else [f"I12: the file is damaged: {sound}"]
        for run, events, last in connection.execute(
            "SELECT run, count(*), max(seq) FROM event GROUP BY run HAVING max(seq) <> count(*) - 1"
        ):
            faults.append(f"I12: run {run} has {events} events, the last of which is number {last}")
        rows = [
            Row(job, run, state, attempts)
            for job, run, state, attempts in connection.execute(
                "SELECT job, run, state, attempts FROM job"
            )
        ]
    return rows, faults


def _run(path: Path, run: str) -> tuple[list[Event], list[str]]:
    """Return the run's events, and how they differ from its row, which is derived from them."""
    with JournalReader.open(path) as reader:
        events, fault = reader.salvage(RunId(run))
        listed = {row.run: row for row in reader.list_runs()}.get(RunId(run))
    if fault is not None:
        return events, [f"I12: run {run} cannot be read: {fault}"]
    if listed is None or not events:
        return events, []
    folded = summarize_run(RunId(run), events, is_owned=False)
    same = (folded.status, folded.steps, folded.ok, folded.failed) == (
        listed.status,
        listed.steps,
        listed.ok,
        listed.failed,
    )
    is_open = listed.status in ("running", "interrupted")
    return events, [] if same or is_open else [
        f"I12: the row of run {run} is not what its events say"
    ]
