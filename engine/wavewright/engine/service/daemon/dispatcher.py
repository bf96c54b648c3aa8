"""Brings incoming messages into the job store, and jobs from there into the free slots of a daemon.

A message is acknowledged right after its effect is committed to the job store. An invalid message
is dead-lettered with the reason; it is neither repaired nor requeued.

A *slot* runs one job. The dispatcher claims the next job whenever a slot is free, one claim at a
time; of three slots or more, the last free one is kept for small jobs while large ones hold the
others. A message is consumed only where a slot is free for the job that it may bring, so jobs that
this daemon cannot start stay at the broker for other daemons. Jobs in the store come first: one may
take that slot while the message arrives, and then the message's job waits in the store, where any
daemon may claim it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

import anyio
import anyio.abc

from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.service.bus.bus import Bus
from wavewright.engine.service.bus.faults import BusError
from wavewright.engine.service.daemon.job_runner import JobRunner
from wavewright.engine.service.job_store.records import (
    DecisionMade,
    JobId,
    JobRequested,
    JobRow,
    Receipt,
    ReceivedMessage,
    VerdictGiven,
)
from wavewright.engine.service.messages.decoding import decode, resolved_verdict
from wavewright.engine.service.messages.delivery import AcceptanceRules, Delivery
from wavewright.engine.service.messages.reading import MessageRejected
from wavewright.engine.service.operations.job_logs import log_received
from wavewright.engine.service.requested_jobs import request_name
from wavewright.executor.store.journal import JournalError

SMALL_JOB_WEIGHT: Final = 10.0
"""Weight up to which a job is small."""
SLOTS_WITH_RESERVE: Final = 3
"""Slots from which on the last free one is kept for small jobs; of two, both run whatever comes."""
CLAIM_POLL_SECONDS: Final = 1.0
"""How often the store is polled without a `wake`: for jobs of other daemons, and of owners that
died.
"""
FIRST_PAUSE: Final = 0.5
"""Seconds before the store is used again after an error; twice as long after each further one."""
MAX_CLAIM_PAUSE: Final = 10.0


class Dispatcher:
    """Claims jobs for the free slots of one daemon."""

    def __init__(self, job_runner: JobRunner, slots: int) -> None:
        """Begin with all slots free."""
        self._runner = job_runner
        self._slots = slots
        self._running = dict[JobId, _RunningJob]()
        self._reserved = 0
        """Messages that are being consumed; each may bring a job."""
        self._backlog = 0
        """Received jobs that have not started."""
        self._waiting_large = 0
        """Received jobs that wait because the last free slot is kept for small ones."""
        self._is_drained = False
        """Whether the store has no other job that may start now."""
        self._changed = anyio.Event()
        self._claiming = anyio.CancelScope()
        self._is_stopping = False

    @property
    def running(self) -> int:
        """Number of running jobs."""
        return len(self._running)

    @property
    def running_jobs(self) -> list[JobId]:
        """Ids of the running jobs; safe to call from any thread."""
        return [*self._running.copy()]

    def wake(self) -> None:
        """Look for a job in the store now."""
        self._is_drained = False
        self._notify_changed()

    def add_waiting_job(self) -> None:
        """Count a received job that waits to be started."""
        self._backlog += 1
        self._notify_changed()

    @asynccontextmanager
    async def reserve_slot(self) -> AsyncGenerator[None]:
        """Wait for a free slot for the job of one message; no other message gets it while the block
        runs.
        """
        await self._wait_until(lambda: self._has_free_slot)
        self._reserved += 1
        try:
            yield
        finally:
            self._reserved -= 1
            self._notify_changed()

    @property
    def _has_free_slot(self) -> bool:
        return (
            self._is_drained
            and self._runner.daily_budget.paused_until is None
            and self._waiting_large < self._slots
            and len(self._running) + self._backlog + self._reserved < self._slots
        )

    def wind_down(self) -> None:
        """Start no more jobs, and no more calls of running ones; `run` returns when they have
        ended.
        """
        self._is_stopping = True
        self._claiming.cancel()
        for running in self._running.values():
            running.cancellation.drain()

    def stop(self) -> None:
        """Cancel the jobs that still run."""
        for running in self._running.values():
            running.cancellation.cancel()

    async def run(self) -> None:
        """Start jobs until `wind_down`, and return when none runs."""
        async with anyio.create_task_group() as tasks:
            with self._claiming:
                await self._start_jobs(tasks)

    async def _start_jobs(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            await self._wait_until(lambda: len(self._running) < self._slots)
            await self._runner.daily_budget.wait_available()
            await self._runner.model_circuit.wait_available()
            with anyio.move_on_after(CLAIM_POLL_SECONDS):
                await self._wait_until(lambda: self._backlog > 0 or not self._is_drained)
            if (
                self._runner.daily_budget.paused_until is not None
                or not self._runner.model_circuit.is_available
            ):
                # It changed while waiting, so received jobs keep waiting.
                continue
            most = self._max_weight()
            job = await self._claim(most)
            self._update_backlog(job, most)
            if job is None:
                continue
            if job.attempts > 1:
                self._runner.watch.metrics.count_restarted()
            running = self._running[job.job] = _RunningJob(job, CancellationToken())
            if self._is_stopping:
                running.cancellation.cancel()
            tasks.start_soon(self._run_job, running)

    def _update_backlog(self, job: JobRow | None, most: float | None) -> None:
        """Update the counts of waiting jobs after a claim."""
        if job is None:
            self._is_drained = True
            self._waiting_large = self._waiting_large + self._backlog if most is not None else 0
            self._backlog = 0
        elif self._backlog:
            self._backlog -= 1
        else:
            # The store had a job that was not just received, so there may be more.
            self._is_drained = False
        self._notify_changed()

    async def _claim(self, most: float | None) -> JobRow | None:
        pause = FIRST_PAUSE
        while True:
            try:
                job: JobRow | None = None
                # A claimed job must be started, also where this is cancelled meanwhile.
                with anyio.CancelScope(shield=True):
                    job = await self._runner.jobs.claim(
                        most_weight=most, project=self._runner.reporter.state_reports
                    )
            except JournalError as fault:
                self._runner.note_store_state(fault)
                await anyio.sleep(pause)
                pause = min(2 * pause, MAX_CLAIM_PAUSE)
            else:
                self._runner.note_store_state(None, wrote=job is not None)
                return job

    def _max_weight(self) -> float | None:
        """Return the maximum weight for the last free slot where all others run large jobs; else
        None.
        """
        is_last = self._slots - len(self._running) == 1 and self._slots >= SLOTS_WITH_RESERVE
        runs_only_large = all(
            running.job.weight > SMALL_JOB_WEIGHT for running in self._running.values()
        )
        return SMALL_JOB_WEIGHT if is_last and runs_only_large else None

    async def _run_job(self, running: _RunningJob) -> None:
        try:
            await self._runner.run_job(running.job, running.cancellation)
        finally:
            del self._running[running.job.job]
            # Waiting large jobs may start now.
            self._is_drained = self._is_drained and self._waiting_large == 0
            self._notify_changed()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@dataclass(frozen=True, slots=True)
class _RunningJob:
    """A job in a slot."""

    job: JobRow
    cancellation: CancellationToken


MAX_IN_FLIGHT: Final = 32
"""Messages that are consumed concurrently; each needs a free slot for its job."""
MAX_RECEIVE_PAUSE: Final = 30.0


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
                    log_received(
                        log, received, job, request_name(known.request if known else {}, job)
                    )
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
        """Commit the effect of a message; where the store cannot be written, try again until it
        can.

        The message is not requeued meanwhile, since each delivery counts against its limit.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                received = await self._resolved(received)
                receipt = await self.runner.jobs.receive(
                    received, self.runner.reporter.state_reports
                )
            except JournalError as fault:
                self.runner.note_store_state(fault)
                try:
                    await anyio.sleep(pause)
                except anyio.get_cancelled_exc_class():
                    with anyio.CancelScope(shield=True):
                        await delivery.requeue()
                    raise
                pause = min(2 * pause, MAX_RECEIVE_PAUSE)
            else:
                self.runner.note_store_state(None, wrote=True)
                return received, receipt

    async def _dead_letter(self, delivery: Delivery, kind: str, reason: str) -> None:
        try:
            await self.bus.dead_letter(delivery, kind, reason)
        except BusError:
            # It is delivered again and then dead-lettered.
            await delivery.requeue()
