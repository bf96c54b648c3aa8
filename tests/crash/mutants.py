"""Bugs that are planted to see whether the programme finds them.

Each is one that daemons like this one have had. `plant` puts it into this program, or into a copy
of it that is about to die.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import uuid4

import pytest

from wavewright.engine.service.bus import relay
from wavewright.engine.service.daemon import (
    dispatcher as intake,
    job_projection as accounts,
    reports,
)
from wavewright.engine.service.job_store import store as job_store
from wavewright.engine.service.job_store.records import OutgoingMessage
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages import decoding, reading as wire_json
from wavewright.engine.service.messages.delivery import Delivery
from wavewright.executor.budgets import tables as budget_tables
from wavewright.executor.budgets.limits import Reserve
from wavewright.executor.fleet import caller, tables
from wavewright.executor.sqlite import event_store as journal_store
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.sqlite.transaction import SqliteLeases
from wavewright.executor.store.transaction import StoreTransaction
from wavewright.executor.store.writer import run_inline
from wavewright.planner.ports.budgets import Reservation

Patch = pytest.MonkeyPatch


def plant(name: str | None, patch: Patch | None = None) -> None:
    """Put a bug into this program; nothing where there is no name."""
    if name is not None:
        MUTANTS[name](patch or pytest.MonkeyPatch())


def _ack_before_the_commit(patch: Patch) -> None:
    take_in = intake.MessageHandler.handle

    async def acknowledging(self: intake.MessageHandler, delivery: Delivery) -> None:
        await delivery.ack()
        await take_in(self, delivery)

    patch.setattr(intake.MessageHandler, "handle", acknowledging)


def _ids_by_chance(patch: Patch) -> None:
    def by_chance(*_named: object) -> str:
        return str(uuid4())

    for module in (accounts, reports):
        for name in ("package_id", "message_id"):
            if hasattr(module, name):
                patch.setattr(module, name, by_chance)


def _a_day_anew_whenever_the_date_differs(patch: Patch) -> None:
    def date_of(now: float, _latest: object) -> str:
        return f"{now // 86_400:.0f}"

    patch.setattr(budget_tables, "budget_day", date_of)


def _no_fence(patch: Patch) -> None:
    def believe(*_given: object) -> None:
        return

    patch.setattr(SqliteLeases, "check", believe)


def _a_foreign_cancellation_taken_for_ones_own(patch: Patch) -> None:
    async def unguarded(call: Awaitable[Any], *, place: str = "") -> Any:
        del place
        return await call

    patch.setattr("wavewright.engine.service.bus.faults.translate_errors", unguarded)


def _a_committed_write_tried_again(patch: Patch) -> None:
    append = SqliteJournal.append

    def twice(self: SqliteJournal, *arguments: Any) -> Awaitable[None]:
        append(self, *arguments[:2])
        return append(self, *arguments)

    patch.setattr(SqliteJournal, "append", twice)


def _a_charge_after_the_call(patch: Patch) -> None:
    def reserve(self: Any, request: Reserve) -> Reservation:
        del self
        return Reservation(0, request.account, request.amount)

    patch.setattr(budget_tables._ReservationBatch, "_reserve", reserve)  # pyright: ignore[reportPrivateUsage]


def _dead_letters_that_come_again(patch: Patch) -> None:
    async def give_back(_self: intake.MessageHandler, delivery: Delivery, *_: str) -> None:
        await delivery.requeue()

    patch.setattr(intake.MessageHandler, "_dead_letter", give_back)


def _an_outbox_without_leases(patch: Patch) -> None:
    lease = job_store.lease_messages

    async def take_all(
        transaction: StoreTransaction, *, seconds: float, most: int
    ) -> list[OutgoingMessage]:
        return await lease(transaction, seconds=-seconds, most=most)

    patch.setattr(job_store, "lease_messages", take_all)


def _cut_messages_repaired(patch: Patch) -> None:
    read = wire_json.read_strict_json

    def repaired(body: bytes, *, max_depth: int) -> Any:
        for end in (b"", b'"', b"}", b'"}', b"}}", b'"}}', b"}}}", b'"}}}'):
            try:
                json.loads(body + end)
            except ValueError:
                continue
            return read(body + end, max_depth=max_depth)
        return read(body, max_depth=max_depth)

    patch.setattr(decoding, "read_strict_json", repaired)


def _the_first_of_two_keys(patch: Patch) -> None:
    def first_wins(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    def read(body: bytes, *, max_depth: int) -> Any:
        del max_depth
        return json.loads(body, object_pairs_hook=first_wins)

    patch.setattr(decoding, "read_strict_json", read)


def _a_beat_from_the_event_loop(patch: Patch) -> None:
    async def by_the_loop(self: journal_store.SqliteEventStore) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_soon(run_inline, beat(self))

    beat = journal_store.SqliteEventStore.heartbeat
    patch.setattr(journal_store.SqliteEventStore, "heartbeat", by_the_loop)


def _sent_before_it_is_confirmed(patch: Patch) -> None:
    send_batch = relay.Relay.send_batch

    class Hasty(JobStore):
        """An outbox that marks what it gives."""

        def __init__(self, outbox: JobStore) -> None:
            self._outbox = outbox
            self._journal = outbox._journal

        async def pending(self, most: int = 100) -> list[OutgoingMessage]:
            waiting = await self._outbox.pending(most)
            await self.mark_sent([outgoing.message for outgoing in waiting])
            return waiting

    async def hasty(self: relay.Relay, outbox: JobStore) -> tuple[int, int]:
        return await send_batch(self, Hasty(outbox))

    patch.setattr(relay.Relay, "send_batch", hasty)


def _calls_that_each_coordinator_names_anew(patch: Patch) -> None:
    def by_chance(*_named: object) -> str:
        return uuid4().hex

    patch.setattr(caller, "call_id", by_chance)


def _answers_of_workers_that_were_lost(patch: Patch) -> None:
    fence = "WHERE call.id = own.id AND call.answer IS NULL"
    assert fence in tables.FUNCTIONS
    unfenced = tables.FUNCTIONS.replace(fence, "WHERE call.id = own.id")
    patch.setattr(tables, "FUNCTIONS", unfenced)


MUTANTS: Final[dict[str, Callable[[Patch], None]]] = {
    "ack before the commit": _ack_before_the_commit,
    "ids by chance": _ids_by_chance,
    "a day anew whenever the date differs": _a_day_anew_whenever_the_date_differs,
    "no fence": _no_fence,
    "a foreign cancellation taken for one's own": _a_foreign_cancellation_taken_for_ones_own,
    "a committed write tried again": _a_committed_write_tried_again,
    "a charge after the call": _a_charge_after_the_call,
    "dead letters that come again": _dead_letters_that_come_again,
    "an outbox without leases": _an_outbox_without_leases,
    "cut messages repaired": _cut_messages_repaired,
    "the first of two keys": _the_first_of_two_keys,
    "a beat from the event loop": _a_beat_from_the_event_loop,
    "sent before it is confirmed": _sent_before_it_is_confirmed,
    "calls that each coordinator names anew": _calls_that_each_coordinator_names_anew,
    "answers of workers that were lost": _answers_of_workers_that_were_lost,
}
