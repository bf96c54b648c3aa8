"""Whether the events of a run are what was written: its hash chain, followed from event to event.

Nothing is changed by it, and no lease is needed. A breach is a kind with the number of an event;
words for it are made where it is shown.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.executor.events.codec import CodecError, decode
from wavewright.executor.events.json_values import storable_text
from wavewright.executor.events.types import Event, RunStarted
from wavewright.executor.store.entries import EventRow, event_labels, event_row
from wavewright.executor.store.errors import RunNotFound
from wavewright.executor.store.journal import (
    ENDED_STATUSES,
    RunHead,
    first_hash,
    match_run,
    next_hash,
    summarize_run,
)
from wavewright.executor.store.transaction import Row, StoreTransaction
from wavewright.planner import RunId

ChainVerdict: TypeAlias = Literal["intact", "changed", "cut"]
BreachKind: TypeAlias = Literal["text", "column", "row", "head", "missing", "tail", "no_head"]
"""What is wrong with a chain.

- `text`: an event's hash does not follow from the one before, its kind and its text;
- `column`: a column of an event says something else than its text;
- `row`: the run's row, or a label by which lists of runs are filtered, says something else than its
  events;
- `head`: the events follow from each other, and lead to another head;
- `missing`: an event within the run is missing;
- `tail`: events at the end are missing;
- `no_head`: the head itself is missing.
"""

_CUTS: Final = frozenset[BreachKind]({"missing", "tail", "no_head"})


@dataclass(frozen=True, slots=True)
class Breach:
    """Where a chain is broken."""

    kind: BreachKind
    event: int
    """The number of the first event that is not what was written, from 0."""

    @property
    def verdict(self) -> ChainVerdict:
        """Whether something was cut or changed."""
        return "cut" if self.kind in _CUTS else "changed"


@dataclass(frozen=True, slots=True)
class VerifiedRun:
    """What the chain of a run shows."""

    run: RunId
    head: RunHead
    """Of the events that are there, as far as they follow from each other."""
    hashes: tuple[str, ...]
    """Of these events, in their order."""
    breach: Breach | None = None
    removed: float | None = None
    """When the run was removed; its head is all that is left of it."""

    @property
    def verdict(self) -> ChainVerdict:
        """Whether the events are what was written."""
        return "intact" if self.breach is None else self.breach.verdict

    def compared_with(self, head: RunHead) -> Breach | None:
        """Return where the events differ from a head that was kept elsewhere, if they do.

        Events may have followed after the head was taken.
        """
        if head.events > self.head.events:
            return self.breach or Breach("tail", self.head.events)
        if self.removed is not None:
            is_other = head.events == self.head.events and head != self.head
            return Breach("head", max(head.events - 1, 0)) if is_other else None
        if head.events and self.hashes[head.events - 1] != head.hash:
            return Breach("head", head.events - 1)
        return None


async def verify_run(transaction: StoreTransaction, run: RunId) -> VerifiedRun:
    """Return what the chain of a run shows, also of one that was removed.

    Raises:
        RunNotFound: the journal has nothing of that run.
    """
    row = await transaction.fetch_one(
        "SELECT no, job, status, created, finished, steps, ok, failed FROM run WHERE run = $1", run
    )
    if row is None:
        return await _removed_run(transaction, run)
    no, *about = row
    stored_head = await transaction.fetch_one(
        "SELECT events, hash FROM run_head WHERE run = $1", no
    )
    rows = await transaction.fetch(
        f"""SELECT seq, at, kind, step, status, key, crc, hash, {transaction.body_bytes}
            FROM event WHERE run = $1 ORDER BY seq""",  # noqa: S608 - a constant
        no,
    )
    events, hashes, breach = _follow(run, rows)
    last = hashes[-1] if hashes else first_hash(run)
    if breach is None:
        breach = _compare_head(stored_head, len(hashes), last)
    labels = await transaction.fetch("SELECT kind, value FROM run_label WHERE run = $1", no)
    if breach is None and not (_is_row_of(run, events, about) and _are_labels_of(events, labels)):
        breach = Breach("row", max(len(events) - 1, 0))
    return VerifiedRun(
        run, RunHead(len(hashes), last.hex()), tuple(link.hex() for link in hashes), breach
    )


async def find_verifiable_run(transaction: StoreTransaction, prefix: str) -> RunId:
    """Return the run whose id or tail starts so, also of those that were removed.

    Raises:
        RunNotFound: none does, or several do.
    """
    rows = await transaction.fetch("SELECT run FROM run UNION SELECT run FROM removed_run")
    return match_run(prefix, [RunId(run) for (run,) in rows], place=transaction.place)


async def _removed_run(transaction: StoreTransaction, run: RunId) -> VerifiedRun:
    row = await transaction.fetch_one(
        "SELECT events, hash, removed FROM removed_run WHERE run = $1", run
    )
    if row is None:
        raise RunNotFound(f"no run {run!r} in this journal", place=transaction.place)
    events, link, removed = row
    return VerifiedRun(run, RunHead(events, bytes(link).hex()), (), removed=removed)


def _follow(run: RunId, rows: Sequence[Row]) -> tuple[list[Event], list[bytes], Breach | None]:
    """Return the events up to the first that does not follow, their hashes, and the breach."""
    events, hashes = list[Event](), list[bytes]()
    link = first_hash(run)
    for expected, (seq, at, kind, step, status, key, crc, stored, body) in enumerate(rows):
        if seq != expected:
            return events, hashes, Breach("missing", expected)
        try:
            text = bytes(body).decode("ascii")
            event = decode(kind, text)
        except (CodecError, UnicodeDecodeError, TypeError):
            return events, hashes, Breach("text", expected)
        link = next_hash(link, kind, text)
        if link != bytes(stored):
            return events, hashes, Breach("text", expected)
        columns = (at, step, status, key)
        if crc != zlib.crc32(bytes(body)) or not _is_of(columns, event_row(event)):
            return events, hashes, Breach("column", expected)
        events.append(event)
        hashes.append(link)
    return events, hashes, None


def _is_of(columns: Sequence[object], row: EventRow) -> bool:
    """Whether the columns that are derived from an event are those that it has.

    A database may store a text with replacements for what it cannot hold.
    """
    at, *texts = columns
    derived = (row.step, row.status, row.key)
    return at == row.at and all(
        text in (value, storable_text(value)) for text, value in zip(texts, derived, strict=True)
    )


def _compare_head(stored: Row | None, events: int, last: bytes) -> Breach | None:
    """Return how the events differ from the head that is stored beside them."""
    if stored is None:
        # A run that was opened and to which nothing was appended has none.
        return Breach("no_head", events) if events else None
    count, link = stored
    if count > events:
        return Breach("tail", events)
    if count < events or bytes(link) != last:
        return Breach("head", max(events - 1, 0))
    return None


_LABEL_KINDS: Final = frozenset({"goal", "template", "tag", "gate", "model"})
"""Kinds of labels that follow from events; any process may leave one of another kind."""


def _are_labels_of(events: Sequence[Event], labels: Sequence[Row]) -> bool:
    """Whether a run has the labels that its events have given it, and no others."""
    labelled = {label for event in events for label in event_labels(event)}
    texts = [
        {(label.kind, label.value), (label.kind, storable_text(label.value))} for label in labelled
    ]
    stored = {(kind, value) for kind, value in labels if kind in _LABEL_KINDS}
    return stored <= set().union(*texts) and not any(map(stored.isdisjoint, texts))


def _is_row_of(run: RunId, events: Sequence[Event], row: Row) -> bool:
    """Whether the run's row says what its events say: of which job it is, when it began, and how and
    when it ended, with how many steps.
    """
    job, status, created, finished, *counts = row
    summary = summarize_run(run, events, is_owned=False)
    if job not in (summary.job, storable_text(summary.job)) or finished != summary.finished:
        return False
    if any(isinstance(event, RunStarted) for event in events) and created != summary.started:
        return False
    if summary.finished is None:
        return status is None
    return status == summary.status and (
        status not in ENDED_STATUSES or counts == [summary.steps, summary.ok, summary.failed]
    )
