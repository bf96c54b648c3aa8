"""Handling of incoming messages.

A message is acknowledged right after its effect is committed to the job store. An invalid message is dead-lettered with
the reason; it is neither repaired nor requeued.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import anyio

from wavewright.engine.bus.bus import Bus
from wavewright.engine.bus.faults import BusError
from wavewright.engine.daemon.dispatcher import Dispatcher
from wavewright.engine.daemon.job_runner import JobRunner
from wavewright.engine.jobs.inline import request_name
from wavewright.engine.messages.decoding import decode, resolved_verdict
from wavewright.engine.messages.delivery import Delivery
from wavewright.engine.messages.reading import MessageRejected
from wavewright.engine.messages.rules import AcceptanceRules
from wavewright.engine.operations.job_logs import log_received
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import (
    DecisionMade,
    JobRequested,
    Receipt,
    ReceivedMessage,
    VerdictGiven,
)

MAX_IN_FLIGHT: Final = 32
"""Messages that are consumed concurrently; each needs a free slot for its job."""
FIRST_PAUSE: Final = 0.5
MAX_PAUSE: Final = 30.0


@dataclass(frozen=True, slots=True)
class MessageHandler:
    """Decodes messages and commits their effects."""

    bus: Bus
    runner: JobRunner
    rules: AcceptanceRules
    dispatcher: Dispatcher

    async def run(self) -> None:
        """Handle messages concurrently until this is cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_IN_FLIGHT):
                tasks.start_soon(self._take_loop)

    async def _take_loop(self) -> None:
        while True:
            async with self.dispatcher.reserve_slot():
                await self.handle(await self.bus.intake.take())

    async def handle(self, delivery: Delivery) -> None:
        """Commit the effect of one message, or dead-letter it."""
        metrics = self.runner.watch.metrics
        try:
            received = decode(delivery, self.rules, self.runner.clock())
        except MessageRejected as refusal:
            metrics.count_received("unknown", Receipt("dead_letter", refusal.kind))
            return await self._dead_letter(delivery, refusal.kind, refusal.reason)
        received, receipt = await self._receive(received, delivery)
        metrics.count_received(received.kind, receipt)
        if receipt.action == "dead_letter":
            return await self._dead_letter(delivery, receipt.kind or "bad_payload", receipt.reason)
        await delivery.ack()
        if receipt.action == "accept":
            self.runner.wake_relay()
            if isinstance(received.request, JobRequested):
                self.dispatcher.add_waiting_job()
            else:
                self.dispatcher.wake()
            await self._log_received(received)
        else:
            self.runner.watch.log.write(
                "message_without_effect",
                "debug",
                message_id=received.message,
                action=receipt.action,
                kind=receipt.kind,
            )
        return None

    async def _log_received(self, received: ReceivedMessage) -> None:
        """Log a message that had an effect."""
        log, jobs = self.runner.watch.log, self.runner.jobs
        match received.request:
            case JobRequested(job=job, request=request):
                log_received(log, received, job, request_name(request, job))
            case VerdictGiven(job=job):
                with suppress(JournalError):
                    known = await jobs.find_job(job)
                    log_received(log, received, job, request_name(known.request if known else {}, job))
            case DecisionMade(decision=decision):
                with suppress(JournalError):
                    asked = await jobs.find_decision(decision)
                    log_received(log, received, asked.job if asked else None)

    async def _resolved(self, received: ReceivedMessage) -> ReceivedMessage:
        """Return a message whose verdict names its job and package, where these are known."""
        verdict = received.request
        if not isinstance(verdict, VerdictGiven) or verdict.package:
            return received
        jobs = await self.runner.jobs.list_jobs(("queued", "running", "waiting", "validating"))
        return replace(received, request=resolved_verdict(verdict, jobs))

    async def _receive(
        self, received: ReceivedMessage, delivery: Delivery
    ) -> tuple[ReceivedMessage, Receipt]:
        """Commit the effect of a message; where the store cannot be written, try again until it can.

        The message is not requeued meanwhile, since each delivery counts against its limit.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                received = await self._resolved(received)
                receipt = await self.runner.jobs.receive(received, self.runner.reporter.state_reports)
            except JournalError as fault:
                self.runner.note_store_state(fault)
                try:
                    await anyio.sleep(pause)
                except anyio.get_cancelled_exc_class():
                    with anyio.CancelScope(shield=True):
                        await delivery.requeue()
                    raise
                pause = min(2 * pause, MAX_PAUSE)
            else:
                self.runner.note_store_state(None, wrote=True)
                return received, receipt

    async def _dead_letter(self, delivery: Delivery, kind: str, reason: str) -> None:
        try:
            await self.bus.dead_letter(delivery, kind, reason)
        except BusError:
            # It is delivered again and then dead-lettered.
            await delivery.requeue()
