"""Messages are taken in, one by one.

A message is the broker's until its effect is committed, and acknowledged at once after that: what the daemon does
about it is then the store's to remember. What is wrong in itself is laid aside with the reason; nothing is repaired,
and nothing goes round for ever.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import anyio

from wavewright.engine.bus.errors import BusError
from wavewright.engine.daemon.job_documents import name_in
from wavewright.engine.daemon.slots import Dispatcher
from wavewright.engine.daemon.work import Workshop
from wavewright.engine.messages.decoding import decode
from wavewright.engine.messages.delivery import Delivery
from wavewright.engine.messages.refusals import Refused
from wavewright.engine.messages.rules import WireRules
from wavewright.engine.operations.message_log import log_received
from wavewright.executor.job_store.records import (
    DecisionMade,
    JobRequested,
    Receipt,
    Received,
    VerdictGiven,
)
from wavewright.executor.journal_errors import JournalError

AT_ONCE: Final = 32
"""Messages that are on their way in at the same time; each is waited for with a slot of its own in view."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0


class Inlet(Protocol):
    """The bus, as far as messages come in by it."""

    async def take(self) -> Delivery:
        """Return the next message, waiting for it."""
        ...

    async def bury(self, delivery: Delivery, kind: str, reason: str) -> None:
        """Lay a message aside as a dead letter with the reason.

        Raises:
            BusError: the dead letter was not confirmed; the delivery is not settled.
        """
        ...


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes messages in."""

    inlet: Inlet
    workshop: Workshop
    rules: WireRules
    dispatcher: Dispatcher

    async def run(self) -> None:
        """Take messages in, several at once, until this is cancelled."""
        async with anyio.create_task_group() as taking:
            for _ in range(AT_ONCE):
                taking.start_soon(self._take)

    async def _take(self) -> None:
        while True:
            async with self.dispatcher.room():
                await self.take_in(await self.inlet.take())

    async def take_in(self, delivery: Delivery) -> None:
        """Bring one message to its end: its effect, or its place among the dead letters."""
        metrics = self.workshop.watch.metrics
        try:
            received = decode(delivery, self.rules, self.workshop.clock())
        except Refused as refusal:
            metrics.received("unknown", Receipt("dead_letter", refusal.kind))
            return await self._bury(delivery, refusal.kind, refusal.reason)
        receipt = await self._receive(received, delivery)
        metrics.received(received.kind, receipt)
        if receipt.action == "dead_letter":
            return await self._bury(delivery, receipt.kind or "bad_payload", receipt.reason)
        await delivery.ack()
        if receipt.action == "accept":
            self.workshop.nudge()
            if isinstance(received.request, JobRequested):
                self.dispatcher.add()
            else:
                self.dispatcher.wake()
            await self._tell(received)
        else:
            self.workshop.watch.log.say(
                "message_without_effect",
                "debug",
                message_id=received.message,
                action=receipt.action,
                kind=receipt.kind,
            )
        return None

    async def _tell(self, received: Received) -> None:
        """Tell of a message that had its effect; what its job is about stands with the job."""
        log, jobs = self.workshop.watch.log, self.workshop.jobs
        match received.request:
            case JobRequested(job=job, request=request):
                log_received(log, received, job, name_in(request, job))
            case VerdictGiven(job=job):
                with suppress(JournalError):
                    known = await jobs.find_job(job)
                    log_received(log, received, job, name_in(known.request if known else {}, job))
            case DecisionMade(decision=decision):
                with suppress(JournalError):
                    asked = await jobs.find_decision(decision)
                    log_received(log, received, asked.job if asked else None)

    async def _receive(self, received: Received, delivery: Delivery) -> Receipt:
        """Take the effect of a message; where the store cannot be written, wait for it with the message in hand.

        Giving it back would burn one of its few deliveries each time, and nothing else is taken in meanwhile.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                receipt = await self.workshop.jobs.receive(received, self.workshop.reporter.tell)
            except JournalError as fault:
                self.workshop.on_store(fault)
                try:
                    await anyio.sleep(pause)
                except anyio.get_cancelled_exc_class():
                    with anyio.CancelScope(shield=True):
                        await delivery.requeue()
                    raise
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self.workshop.on_store(None, wrote=True)
                return receipt

    async def _bury(self, delivery: Delivery, kind: str, reason: str) -> None:
        try:
            await self.inlet.bury(delivery, kind, reason)
        except BusError:
            # It comes again, and is laid aside then.
            await delivery.requeue()
