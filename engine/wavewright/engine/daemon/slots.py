"""Jobs are begun as slots become free.

A *slot* is room for one job. One *dispatcher* a daemon claims the next job whenever a slot is free, so that claims
never race; the last free slot is kept for small jobs while large ones hold the others. The dispatcher is *idle* when
it has a free slot and nothing to do: only then is a message taken in, and what this daemon cannot begin now stays with
the broker, for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio
import anyio.abc

from wavewright.engine.daemon.work import Workshop
from wavewright.engine.stopping import Stopper
from wavewright.executor.job_store.records import JobId, JobRow
from wavewright.executor.journal_errors import JournalError

SMALL: Final = 10.0
"""Weight up to which a job is small."""
LOOK_SECONDS: Final = 1.0
"""How often the store is asked when nobody says that there is something: for jobs of owners who died, and of others."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0


class Dispatcher:
    """Claims jobs for the free slots of one daemon."""

    def __init__(self, workshop: Workshop, slots: int) -> None:
        """Begin with all slots free."""
        self._workshop = workshop
        self._slots = slots
        self._running = dict[JobId, _Worked]()
        self._freed = anyio.Event()
        self._woken = anyio.Event()
        self._idle = anyio.Event()
        self._claiming = anyio.CancelScope()
        self._is_stopping = False

    @property
    def running(self) -> int:
        """Jobs that are worked on."""
        return len(self._running)

    def wake(self) -> None:
        """Say that there may be something to do."""
        self._idle = anyio.Event()
        self._woken.set()

    async def is_idle(self) -> None:
        """Wait until a slot is free and nothing waits for one."""
        while not self._idle.is_set():
            await self._idle.wait()

    def stop(self) -> None:
        """Begin no more jobs and stop those that run; `run` returns when they have ended."""
        self._is_stopping = True
        self._claiming.cancel()
        for worked in self._running.values():
            worked.stopper.stop()

    async def run(self) -> None:
        """Begin jobs until `stop`, and return when none runs any more."""
        async with anyio.create_task_group() as working:
            with self._claiming:
                await self._begin_jobs(working)

    async def _begin_jobs(self, working: anyio.abc.TaskGroup) -> None:
        while True:
            await self._slot_is_free()
            await self._workshop.day.has_begun()
            self._woken = anyio.Event()
            job = await self._claim()
            if job is None:
                await self._wait_for_work()
                continue
            if job.attempts > 1:
                self._workshop.watch.metrics.begun_again()
            worked = self._running[job.job] = _Worked(job, Stopper())
            if self._is_stopping:
                worked.stopper.stop()
            working.start_soon(self._work, worked)

    async def _claim(self) -> JobRow | None:
        pause = FIRST_PAUSE
        while True:
            try:
                job: JobRow | None = None
                # A job that was claimed is begun, whatever has happened meanwhile.
                with anyio.CancelScope(shield=True):
                    job = await self._workshop.jobs.claim(
                        most_weight=self._most_weight(), tell=self._workshop.reporter.tell
                    )
            except JournalError as fault:
                self._workshop.on_store(fault)
                await anyio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._workshop.on_store(None)
                return job

    def _most_weight(self) -> float | None:
        """Return the bound of the last free slot, where everything else is busy with large jobs."""
        is_last = self._slots - len(self._running) == 1 and self._slots > 1
        is_crowded = all(worked.job.weight > SMALL for worked in self._running.values())
        return SMALL if is_last and is_crowded else None

    async def _work(self, worked: _Worked) -> None:
        try:
            await self._workshop.work_on(worked.job, worked.stopper)
        finally:
            del self._running[worked.job.job]
            self._freed.set()

    async def _slot_is_free(self) -> None:
        while len(self._running) >= self._slots:
            self._freed = anyio.Event()
            await self._freed.wait()

    async def _wait_for_work(self) -> None:
        if not self._woken.is_set():
            self._idle.set()
        with anyio.move_on_after(LOOK_SECONDS):
            await self._woken.wait()


@dataclass(frozen=True, slots=True)
class _Worked:
    """A job in a slot."""

    job: JobRow
    stopper: Stopper
