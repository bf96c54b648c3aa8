"""The process of a trial: it makes one suspected call of a job alone, and reports how that went.

The run of the job is continued on a copy of its journal, which is never written back, and every
other call waits for ever. So the call is made with the parameters, the limits and the deadline that
it has in the daemon, and what it returns is not used.

Started by `trials.try_call`, to which it reports through a pipe.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import anyio
import anyio.to_thread

from wavewright.config import Settings, load_settings
from wavewright.engine.run.ports import (
    Attempt,
    Means,
    People,
    Ports,
    TargetPorts,
    withhold_package,
)
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.engine.service.daemon.job_runner import job_feedback, target_validation
from wavewright.engine.service.daemon.trials import BEAT_SECONDS
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages.contract import with_contract_defaults
from wavewright.engine.service.requested_jobs import run_of_request
from wavewright.executor import Event, ItemFinished, Journal, JournalReplayCache, StepFinished
from wavewright.executor.store.journal import COMPLETED, BorrowedJournal
from wavewright.executor.store.transaction import Alongside
from wavewright.executor.stores import journal_of
from wavewright.planner import Goal, Json, RunId, StepKey
from wavewright.planner.language.plan import SUB_PLAN
from wavewright.tools import Runtime, Tool, ToolCall

_STDIN: Final = 0
_SET_DEATH_SIGNAL: Final = 1
"""`PR_SET_PDEATHSIG` of Linux."""
_FIRST_TO_END: Final = "1000"
"""The highest `oom_score_adj` of Linux."""


def main() -> NoReturn:
    """Make the call that the arguments name, report, and end the process."""
    job, run, key, state, channel = sys.argv[1:]
    reports = ReportChannel(int(channel))
    _end_with_parent(os.getppid())
    _end_first_without_memory()
    settings = with_contract_defaults(load_settings(Path.cwd(), default_state=Path(state)))
    anyio.run(_try_call, settings, JobId(job), RunId(run), StepKey(key), reports)
    reports.write("not_made")
    os._exit(0)


async def _try_call(
    settings: Settings, wanted: JobId, run: RunId, key: StepKey, reports: ReportChannel
) -> None:
    """Continue the run of the job up to the end of the call."""
    async with (
        journal_of(settings) as journal,
        open_services(settings, memory=JournalReplayCache(journal)) as services,
        anyio.create_task_group() as tasks,
    ):
        job = await JobStore(journal).find_job(wanted)
        if job is None:
            return
        tasks.start_soon(_beat, reports)
        ports = Ports(
            attempt=Attempt(journal=JournalCopy(journal, key, reports), announces_calls=True),
            means=Means(settings=settings, services=services, runtime=LoneCall(run, key, reports)),
            people=People(approver=NobodyAnswers(), asker=NobodyAnswers()),
            targets=TargetPorts(validation=target_validation(job, settings.daemon)),
            publish=withhold_package,
        )
        feedback = job_feedback(job, settings.daemon)
        await run_job(run_of_request(job, settings, feedback), ports)
        tasks.cancel_scope.cancel()


async def _beat(reports: ReportChannel) -> None:
    while True:
        reports.write("beat")
        await anyio.sleep(BEAT_SECONDS)


def _end_with_parent(parent: int) -> None:
    """End this process when the daemon has ended.

    Linux ends it at once, whatever the call does; elsewhere a thread looks, since the event loop
    may be blocked.
    """
    never = threading.Event()
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            never.wait(BEAT_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()


def _end_first_without_memory() -> None:
    """Have Linux end this process, and not the daemon, where no memory is left: else the death of a
    call that takes it all proves nothing.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END, encoding="ascii")


@dataclass(frozen=True, slots=True)
class ReportChannel:
    """The pipe to the daemon."""

    descriptor: int

    def write(self, event: str, **fields: Json) -> None:
        """Report one event; without a daemon that reads it the process ends, and as a daemon would
        without the memory and the file descriptors to go on with.
        """
        bytearray(2**24)
        os.close(os.dup(self.descriptor))
        line = json.dumps({"event": event, **fields}) + "\n"
        try:
            os.write(self.descriptor, line.encode())
        except BrokenPipeError:
            os._exit(0)


@dataclass(slots=True)
class LoneCall(Runtime):
    """Makes the one call, and lets every other one wait for ever."""

    run: RunId
    key: StepKey
    reports: ReportChannel
    _is_noted: bool = False

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        """Return a tool whose calls this makes; a question and a sub-plan are no calls of theirs."""
        if tool.asks_person or tool.signature.name == SUB_PLAN:
            return tool
        return replace(tool, call=partial(self.call, tool, goal))

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        """Make the call where it is the suspected one."""
        del goal
        if (call.run, call.key) != (self.run, self.key):
            await anyio.sleep_forever()
        self.reports.write("calls", tool=call.tool, index=call.index)
        await self._wait_for_daemon()
        return await tool.call(call)

    async def _wait_for_daemon(self) -> None:
        """Wait until the daemon has noted the call; without a daemon it is not made."""
        if not self._is_noted and not await anyio.to_thread.run_sync(os.read, _STDIN, 1):
            os._exit(0)
        self._is_noted = True


class NobodyAnswers:
    """Answers no question: a call that was made before needs no further approval."""

    async def approve(self, request: object) -> bool | None:
        """Return that there is no answer."""
        del request
        return None

    async def ask(self, question: object) -> str | None:
        """Return that there is no answer."""
        del question
        return None


class JournalCopy(BorrowedJournal):
    """A journal whose runs continue in memory only, up to the end of one call."""

    def __init__(self, journal: Journal, key: StepKey, reports: ReportChannel) -> None:
        super().__init__(journal)
        self._key = key
        self._reports = reports
        self._added = defaultdict[RunId, list[Event]](list)

    async def open_run(self, run: RunId) -> None:
        """Do nothing: the daemon has the run."""

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        """Keep the events in memory; the end of the call ends the process."""
        del alongside
        self._added[run] += events
        for event in events:
            if isinstance(event, StepFinished | ItemFinished) and event.key == self._key:
                self._reports.write("returned")
                os._exit(0)
        return COMPLETED

    async def close_run(self, run: RunId) -> None:
        """Do nothing: the daemon has the run."""

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events with those that were added here."""
        return [*await super().load(run), *self._added.get(run, ())]


if __name__ == "__main__":
    main()
