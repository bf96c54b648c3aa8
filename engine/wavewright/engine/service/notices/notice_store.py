"""Notices in the job store: what is to be told by which rule, and what was told.

A row for each rule and event is written under the rule's lock, so of several daemons one tells it.
A *batch* is the rows that are sent as one message: its id stays with them until the message was
taken or refused for good, so a batch that was cut off is sent again as the same message.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wavewright.config.notices import NoticeRule
from wavewright.config.sections import BudgetsSection
from wavewright.engine.service.job_store.store import TransactionalJournal
from wavewright.engine.service.notices.events import NoticeEvent, find_events
from wavewright.executor.store.transaction import SEPARATE, StoreTransaction

PAUSE_SECONDS: Final = 300.0
"""Between two messages of one rule, at least."""
LEASE_SECONDS: Final = 120.0
"""After so long a batch that was not marked is sent again, by whoever comes first."""
OVERLAP_SECONDS: Final = 3_600.0
"""How far back events are looked for once more: what was slow to be written is told, too."""
FIRST_RETRY_SECONDS: Final = 10.0
MAX_RETRY_SECONDS: Final = 600.0
MAX_EVENTS: Final = 50
"""Events of one message that are named; the others are counted."""
_KEPT_SECONDS: Final = 30 * 86_400.0
"""How long an event that was told is remembered."""
_PUT: Final = """
    INSERT INTO notice (rule, event, kind, said, at, run) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (rule, event) DO NOTHING"""

# A failure that is told late, after another daemon has sent the message, takes nothing of that back.
_MARK: Final = """
    UPDATE notice SET leased = NULL, sent = coalesce($3, sent), refused = coalesce($4, refused)
    WHERE rule = $1 AND message = $2"""
_REST: Final = "UPDATE notice_rule SET sent = $2, tries = 0, retry = NULL WHERE name = $1"


@dataclass(frozen=True, slots=True)
class NoticeBatch:
    """What is sent as one message."""

    rule: str
    message: str
    """A UUID; a repeat has the same."""
    count: int
    events: tuple[NoticeEvent, ...]
    """The first of them."""


class NoticeStore:
    """The notices in the database of an open journal."""

    def __init__(self, journal: TransactionalJournal) -> None:
        """Use the database of a journal."""
        self._journal = journal

    async def next_batch(
        self, name: str, rule: NoticeRule, budgets: BudgetsSection, now: float
    ) -> NoticeBatch | None:
        """Write what there is to tell by a rule, and lease what is to be sent now; None where
        nothing is.

        Of a rule that is new only what happens from now on is told.

        Raises:
            JournalError: nothing was written.
        """

        async def work(transaction: StoreTransaction) -> NoticeBatch | None:
            await transaction.lock(f"notices of {name}")
            row = await transaction.fetch_one(
                "SELECT begun, seen, sent, retry FROM notice_rule WHERE name = $1", name
            )
            if row is None:
                await transaction.execute(
                    "INSERT INTO notice_rule (name, begun, seen) VALUES ($1, $2, $2)", name, now
                )
                return None
            begun, seen, sent, retry = row
            since = max(begun, min(seen, now) - OVERLAP_SECONDS)
            await _write_events(
                transaction, name, await find_events(transaction, rule.on, since, now, budgets)
            )
            if now - seen >= OVERLAP_SECONDS / 2 or seen > now:
                await transaction.execute(
                    "UPDATE notice_rule SET seen = $2 WHERE name = $1", name, now
                )
                await transaction.execute(
                    "DELETE FROM notice WHERE rule = $1 AND sent < $2", name, now - _KEPT_SECONDS
                )
            is_resting = sent is not None and 0 <= now - sent < PAUSE_SECONDS
            if is_resting or (retry is not None and now < retry <= now + MAX_RETRY_SECONDS):
                return None
            return await _lease(transaction, name, now)

        return await self._journal.transact(work, order=SEPARATE)

    async def put(self, events: Sequence[NoticeEvent], rules: Mapping[str, NoticeRule]) -> None:
        """Write events that no other table of the store has, for each rule that tells them.

        Raises:
            JournalError: nothing was written.
        """

        async def write(transaction: StoreTransaction) -> None:
            for name, rule in rules.items():
                told = [event for event in events if event.kind in rule.on]
                await _write_events(transaction, name, told)

        await self._journal.transact(write, order=SEPARATE)

    async def mark_sent(self, batch: NoticeBatch, now: float) -> None:
        """Note that a message was taken."""
        await self._mark(batch, now, sent=now)

    async def mark_failed(self, batch: NoticeBatch, now: float) -> None:
        """Note that a message was not taken; it is sent again after a pause that grows."""
        await self._mark(batch, now, sent=None)

    async def mark_refused(self, batch: NoticeBatch, reason: str, now: float) -> None:
        """Note that a message was refused for good: it is not sent again, so that what comes later
        passes. That waits as after a failure, since it may be refused as well.
        """
        await self._mark(batch, now, sent=now, refused=reason)

    async def _mark(
        self, batch: NoticeBatch, now: float, *, sent: float | None, refused: str | None = None
    ) -> None:
        async def mark(transaction: StoreTransaction) -> None:
            await transaction.execute(_MARK, batch.rule, batch.message, sent, refused)
            if sent is None or refused is not None:
                await _pause(transaction, batch.rule, now)
            else:
                await transaction.execute(_REST, batch.rule, now)

        await self._journal.transact(mark, order=SEPARATE)


async def _pause(transaction: StoreTransaction, rule: str, now: float) -> None:
    """Have a rule send nothing for a pause that doubles with each failure in a row."""
    row = await transaction.fetch_one("SELECT tries FROM notice_rule WHERE name = $1", rule)
    tries = 0 if row is None else int(row[0])
    pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(tries, 10), MAX_RETRY_SECONDS)
    await transaction.execute(
        "UPDATE notice_rule SET tries = $2, retry = $3 WHERE name = $1",
        rule,
        tries + 1,
        now + pause,
    )


async def _write_events(
    transaction: StoreTransaction, name: str, events: Sequence[NoticeEvent]
) -> None:
    for event in events:
        await transaction.execute(_PUT, name, event.id, event.kind, event.text, event.at, event.run)


async def _lease(transaction: StoreTransaction, name: str, now: float) -> NoticeBatch | None:
    """Lease a batch: one that was cut off, or else all that waits."""
    cut_off = await transaction.fetch_one(
        "SELECT message, leased FROM notice WHERE rule = $1 AND message IS NOT NULL AND sent IS NULL LIMIT 1",
        name,
    )
    if cut_off is None:
        message = str(uuid.uuid4())
        await transaction.execute(
            """UPDATE notice SET message = $2, leased = $3
               WHERE rule = $1 AND message IS NULL AND sent IS NULL""",
            name,
            message,
            now,
        )
    else:
        message, leased = cut_off
        if leased is not None and 0 <= now - leased < LEASE_SECONDS:
            return None
        await transaction.execute(
            "UPDATE notice SET leased = $3 WHERE rule = $1 AND message = $2", name, message, now
        )
    rows = await transaction.fetch(
        """SELECT event, kind, said, at, run FROM notice
           WHERE rule = $1 AND message = $2 ORDER BY at, event""",
        name,
        message,
    )
    events = tuple(
        NoticeEvent(event, kind, said, at, run) for event, kind, said, at, run in rows[:MAX_EVENTS]
    )
    return NoticeBatch(name, message, len(rows), events) if rows else None
