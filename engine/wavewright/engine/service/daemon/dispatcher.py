"""Brings incoming messages into the job store, and jobs from there into the free slots of a daemon.

A message is acknowledged right after its effect is committed to the job store. An invalid message
is dead-lettered with the reason; it is neither repaired nor requeued. Messages are taken as they
come, whether a slot is free or not: a verdict or an answer never waits for a job, and a job that
waits is seen, counted and can be cancelled. Only jobs are held back, unacknowledged, while
`MAX_WAITING_JOBS` wait in the store.

A *slot* runs one job. The dispatcher claims the next job whenever a slot is free, one claim at a
time; of three slots or more, the last free one is kept for small jobs while large ones hold the
others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import anyio
import anyio.abc

from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.service.bus.bus import Bus
from wavewright.engine.service.bus.faults import BusError
from wavewright.engine.service.daemon.job_runner import JobRunner
from wavewright.engine.service.daemon.local_bus import LocalBus
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
from wavewright.executor import JournalError

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
                await self._wait_until(lambda: not self._is_drained)
            if (
                self._runner.daily_budget.paused_until is not None
                or not self._runner.model_circuit.is_available
            ):
                # It changed while waiting, so received jobs keep waiting.
                continue
            # Before the claim: a job that comes in meanwhile is looked for again.
            self._is_drained = True
            job = await self._claim(self._max_weight())
            if job is None:
                continue
            self._is_drained = False
            if job.attempts > 1:
                self._runner.watch.metrics.count_restarted()
            running = self._running[job.job] = _RunningJob(job, CancellationToken())
            if self._is_stopping:
                running.cancellation.cancel()
            tasks.start_soon(self._run_job, running)

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
            # A large job that waited for more than the last slot may start now.
            self.wake()

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
"""Messages that are consumed concurrently."""
MAX_WAITING_JOBS: Final = 1_000
"""Jobs that wait in the store, above which further ones are left to the broker."""
MAX_HELD_JOBS: Final = 200
"""Further jobs that are held unacknowledged, so that verdicts and answers behind them are read."""
ROOM_POLL_SECONDS: Final = 1.0
DRAIN_POLL_SECONDS: Final = 0.2
MAX_RECEIVE_PAUSE: Final = 30.0


class MessageHandler:
    """Decodes messages and commits their effects."""

    def __init__(
        self, bus: Bus | LocalBus, runner: JobRunner, rules: AcceptanceRules, dispatcher: Dispatcher
    ) -> None:
        """Take messages of the bus into the runner's job store, for the dispatcher."""
        self.bus = bus
        self.runner = runner
        self.rules = rules
        self.dispatcher = dispatcher
        self._in_hand = 0
        """Messages whose effect is not committed yet, without jobs that are held back."""
        self._room = 0
        """Jobs that may be taken in before those that wait are counted again."""
        self._admission = anyio.Lock()
        """Jobs are taken in one by one, in their order."""
        self._held = anyio.Semaphore(MAX_HELD_JOBS)

    async def run(self) -> None:
        """Handle messages concurrently until this is cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_IN_FLIGHT):
                tasks.start_soon(self._take_loop, tasks)

    async def _take_loop(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            delivery = await self.bus.intake.take()
            self._in_hand += 1
            try:
                received = await self._decoded(delivery)
                if received is not None and not isinstance(received.request, JobRequested):
                    await self._commit(received, delivery)
            finally:
                self._in_hand -= 1
            if received is not None and isinstance(received.request, JobRequested):
                await self._held.acquire()
                tasks.start_soon(self._admit, received, delivery)

    async def _admit(self, received: ReceivedMessage, delivery: Delivery) -> None:
        """Take a job in once there is room for it."""
        try:
            async with self._admission:
                await self._wait_for_room()
                self._room -= 1
            await self._commit(received, delivery)
        finally:
            self._held.release()

    async def _wait_for_room(self) -> None:
        while self._room <= 0:
            try:
                waiting = await self.runner.jobs.count_queued()
            except JournalError as fault:
                self.runner.note_store_state(fault)
            else:
                self._room = MAX_WAITING_JOBS - waiting
            if self._room <= 0:
                await anyio.sleep(ROOM_POLL_SECONDS)

    async def wait_drained(self) -> None:
        """Wait until every message that the broker has got before now has had its effect."""
        asked = anyio.current_time()
        while True:
            empty_at = self.bus.intake.empty_at
            if not self._in_hand and empty_at is not None and empty_at >= asked:
                return
            self.bus.intake.look_again()
            await anyio.sleep(DRAIN_POLL_SECONDS)

    async def handle(self, delivery: Delivery) -> None:
        """Commit the effect of one message, or dead-letter it."""
        if (received := await self._decoded(delivery)) is not None:
            await self._commit(received, delivery)

    async def _decoded(self, delivery: Delivery) -> ReceivedMessage | None:
        """Return the message of a delivery; one that is not valid is dead-lettered."""
        now = self.runner.clock()
        try:
            received = decode(delivery, self.rules, now)
        except MessageRejected as refusal:
            self.runner.watch.metrics.count_received(
                "unknown", Receipt("dead_letter", refusal.kind)
            )
            await self._dead_letter(delivery, refusal.kind, refusal.reason)
            return None
        return replace(received, arrived=self._arrival(received.at, now))

    def _arrival(self, sent: float, now: float) -> float:
        """Return when the broker has got a message that is read now.

        It came after the queue was last empty; in between, its sender's time is believed.
        """
        empty_at = self.bus.intake.empty_at
        if empty_at is None:
            return min(sent, now)
        return min(max(sent, now - (anyio.current_time() - empty_at)), now)

    async def _commit(self, received: ReceivedMessage, delivery: Delivery) -> None:
        """Commit the effect of a message, and then acknowledge it."""
        received, receipt = await self._receive(received, delivery)
        self.runner.watch.metrics.count_received(received.kind, receipt)
        if receipt.action == "dead_letter":
            await self._dead_letter(delivery, receipt.kind or "bad_payload", receipt.reason)
            return
        await delivery.ack()
        if receipt.action == "accept":
            self.runner.wake_relay()
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

    async def _log_received(self, received: ReceivedMessage) -> None:
        """Log a message that had an effect."""
        log, jobs = self.runner.watch.log, self.runner.jobs
        match received.request:
            case JobRequested(job=job, request=request):
                log_received(log, received, job, request_name(request, job))
            case VerdictGiven(job=job):
                with suppress(JournalError):
                    known = await jobs.find_job(job)
                    # What is said of the package of a target is logged when the job's run reads it.
                    if known is None or known.package is not None:
                        name = request_name(known.request if known else {}, job)
                        log_received(log, received, job, name)
            case DecisionMade(decision=decision):
                with suppress(JournalError):
                    row = await jobs.find_decision(decision)
                    log_received(log, received, row.job if row else None)

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
