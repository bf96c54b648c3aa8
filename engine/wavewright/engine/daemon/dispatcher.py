"""Jobs are begun as slots become free.

A *slot* is room for one job. One *dispatcher* a daemon claims the next job whenever a slot is free, so that claims
never race; the last free slot is kept for small jobs while large ones hold the others. A message is waited for
only where a slot is free for the job that it may bring: what this daemon cannot begin now stays with the broker, for
others. Jobs that the store has come first: one may be begun in that slot while the message is on its way, and the
message's job waits in the store then, where any daemon may claim it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.abc

from wavewright.engine.daemon.job_runner import JobRunner
from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import JobId, JobRow

SMALL_JOB_WEIGHT: Final = 10.0
"""Weight up to which a job is small."""
CLAIM_POLL_SECONDS: Final = 1.0
"""How often the store is asked when nobody says that there is something: for jobs of owners who died, and of others."""
FIRST_PAUSE: Final = 0.5
MAX_PAUSE: Final = 10.0


class Dispatcher:
    """Claims jobs for the free slots of one daemon."""

    def __init__(self, job_runner: JobRunner, slots: int) -> None:
        """Begin with all slots free."""
        self._runner = job_runner
        self._slots = slots
        self._running = dict[JobId, _RunningJob]()
        self._reserved = 0
        """Messages that are being taken in; each may bring a job."""
        self._backlog = 0
        """Jobs that were taken in and not begun yet."""
        self._waiting_large = 0
        """Jobs that were taken in and wait, because the last free slot is for small ones."""
        self._is_drained = False
        """Whether the store has nothing else to do that may be begun now."""
        self._changed = anyio.Event()
        self._claiming = anyio.CancelScope()
        self._is_stopping = False

    @property
    def running(self) -> int:
        """Jobs that are worked on."""
        return len(self._running)

    @property
    def running_jobs(self) -> list[JobId]:
        """Which they are; safe to ask from any thread."""
        return [*self._running.copy()]

    def wake(self) -> None:
        """Say that there may be something to do."""
        self._is_drained = False
        self._notify_changed()

    def add_waiting_job(self) -> None:
        """Say that one more job waits to be begun."""
        self._backlog += 1
        self._notify_changed()

    @asynccontextmanager
    async def reserve_slot(self) -> AsyncGenerator[None]:
        """Wait until a slot is free for what one message may bring; no other message gets it while the block runs."""
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
        """Begin no more jobs, and no more calls of those that run; `run` returns when they have ended."""
        self._is_stopping = True
        self._claiming.cancel()
        for worked in self._running.values():
            worked.cancellation.drain()

    def stop(self) -> None:
        """Stop what has not ended by itself since then."""
        for worked in self._running.values():
            worked.cancellation.cancel()

    async def run(self) -> None:
        """Begin jobs until `wind_down`, and return when none runs any more."""
        async with anyio.create_task_group() as working:
            with self._claiming:
                await self._begin_jobs(working)

    async def _begin_jobs(self, working: anyio.abc.TaskGroup) -> None:
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
                # It was spent meanwhile, or the model went away, and what has come in waits.
                continue
            most = self._max_weight()
            job = await self._claim(most)
            self._update_backlog(job, most)
            if job is None:
                continue
            if job.attempts > 1:
                self._runner.watch.metrics.count_restarted()
            worked = self._running[job.job] = _RunningJob(job, CancellationToken())
            if self._is_stopping:
                worked.cancellation.cancel()
            working.start_soon(self._run_job, worked)

    def _update_backlog(self, job: JobRow | None, most: float | None) -> None:
        """Take note of what a claim says of what is left to do."""
        if job is None:
            self._is_drained = True
            self._waiting_large = self._waiting_large + self._backlog if most is not None else 0
            self._backlog = 0
        elif self._backlog:
            self._backlog -= 1
        else:
            # It was none that was taken in just now, so there may be more.
            self._is_drained = False
        self._notify_changed()

    async def _claim(self, most: float | None) -> JobRow | None:
        pause = FIRST_PAUSE
        while True:
            try:
                job: JobRow | None = None
                # A job that was claimed is begun, whatever has happened meanwhile.
                with anyio.CancelScope(shield=True):
                    job = await self._runner.jobs.claim(
                        most_weight=most, project=self._runner.reporter.state_reports
                    )
            except JournalError as fault:
                self._runner.note_store_state(fault)
                await anyio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE)
            else:
                self._runner.note_store_state(None, wrote=job is not None)
                return job

    def _max_weight(self) -> float | None:
        """Return the bound of the last free slot, where everything else is busy with large jobs."""
        is_last = self._slots - len(self._running) == 1 and self._slots > 1
        is_crowded = all(worked.job.weight > SMALL_JOB_WEIGHT for worked in self._running.values())
        return SMALL_JOB_WEIGHT if is_last and is_crowded else None

    async def _run_job(self, worked: _RunningJob) -> None:
        try:
            await self._runner.run_job(worked.job, worked.cancellation)
        finally:
            del self._running[worked.job.job]
            # Large jobs may be begun that had to wait.
            self._is_drained = self._is_drained and self._waiting_large == 0
            self._notify_changed()

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._changed.wait()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@dataclass(frozen=True, slots=True)
class _RunningJob:
    """A job in a slot."""

    job: JobRow
    cancellation: CancellationToken
