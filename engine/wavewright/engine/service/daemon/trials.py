"""Trials: whether one call ends the process that makes it.

A job whose process has died several times may be sound: the machine may have failed, or a neighbour
may be at fault. What proves that a call is at fault is a *trial*: the call is made alone, in a
process of its own with the limits of the daemon's. Where that process ends and the daemon lives,
the call is guilty; where the call comes back, it is cleared; where both end, nothing is proven.

Tried are calls that were in flight at `SUSPICIOUS_DEATHS` deaths, without an end in between, and
those that `SUSPICIOUS_STOPS` stops have cut off: a call may send its own process the signal that
asks for one. A write that may not be made twice is never among them: the run that resumes ends it
as unclear.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import IO, Final, Literal, TypeAlias, cast

import anyio
import anyio.to_thread

from wavewright.config import Settings
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.job_store.rules import CALL_CLEARED, is_final
from wavewright.executor import Event, ItemFinished, Noted, RunFinished, StepFinished, StepStarted
from wavewright.planner import RunId, StepId, StepKey

TRIAL_MODULE: Final = "wavewright.engine.service.daemon.trial_process"
SUSPICIOUS_DEATHS: Final = 2
"""Deaths of a process with a call in flight after which the call is tried."""
SUSPICIOUS_STOPS: Final = 2
"""Stops of a daemon that cut a call off after which the call is tried."""
SURVIVED_SECONDS: Final = 1.0
"""How much longer than the process of a trial the daemon must live for its call to be guilty: who
ends or stops all processes of a service ends that of the trial first.
"""
BEAT_SECONDS: Final = 0.5
"""How often the process of a trial shows that its event loop turns."""
START_SECONDS: Final = 120.0
"""How long that process may take to begin; a machine that is slower proves nothing."""

TrialOutcome: TypeAlias = Literal["returned", "not_made", "died", "stalled", "unproven"]
"""`returned`: the call came to an end. `not_made`: the run goes on without it. `died`, `stalled`:
its process ended, or its event loop was blocked. `unproven`: the process did not get to the call.
"""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A call that was in flight when processes ended."""

    run: RunId
    step: StepId
    key: StepKey


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What came of a trial."""

    suspect: Suspect
    outcome: TrialOutcome
    tool: str = ""
    """The tool of the call, as far as it was made."""
    index: int | None = None
    """The item of the call, where the step has several."""
    exit_code: int | None = None
    """Of a process that died; the negative number of a signal."""
    seconds: float | None = None
    """How long a process was waited for that stalled."""

    @property
    def is_guilty(self) -> bool:
        """Whether the call ends the process that makes it."""
        return self.outcome in {"died", "stalled"}


def describe_guilt(result: TrialResult) -> str:
    """Return why a job is given up, for people."""
    item = "" if result.index is None else f" for item {result.index}"
    call = f"step {result.suspect.step}, call of {result.tool}{item}"
    if result.outcome == "stalled":
        return f"{call} blocked its process for {result.seconds:g} seconds"
    code = result.exit_code or 0
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"{call} ended its process {how}"


def suspects_of(run: RunId, events: Iterable[Event]) -> list[Suspect]:
    """Return the calls of a run to try, given its events up to the last death or stop."""
    deaths, stops = Counter[StepKey](), Counter[StepKey]()
    in_flight, steps = set[StepKey](), dict[StepKey, StepId]()

    def count_death() -> None:
        deaths.update(in_flight)
        in_flight.clear()

    def clear(key: StepKey) -> None:
        in_flight.discard(key)
        deaths.pop(key, None)
        stops.pop(key, None)

    for event in events:
        match event:
            case StepStarted(key=key) if key is not None:
                in_flight.add(key)
                steps[key] = event.step
            case StepFinished(key=key) | ItemFinished(key=key) if (
                is_final(event) and key is not None
            ):
                clear(key)
            case RunFinished():
                stops.update(in_flight)
                in_flight.clear()
            case Noted(topic="resumed"):
                count_death()
            case Noted(topic="call_cleared"):
                clear(StepKey(str(event.body.get("key"))))
            case _:
                pass
    count_death()
    return [
        Suspect(run, step, key)
        for key, step in steps.items()
        if deaths[key] >= SUSPICIOUS_DEATHS or stops[key] >= SUSPICIOUS_STOPS
    ]


def clearing_note(suspect: Suspect, at: float) -> Noted:
    """Return the note that a suspected call has come back, so that earlier deaths count no more."""
    return Noted(at, CALL_CLEARED, {"step": suspect.step, "key": suspect.key})


async def try_call(
    settings: Settings, job: JobId, suspect: Suspect, on_call: Callable[[], Awaitable[None]]
) -> TrialResult:
    """Make one call of a job alone in a process of its own, and return what came of it.

    Args:
        settings: The daemon's.
        job: The job.
        suspect: Its call.
        on_call: Called once the call is about to be made, which waits for it.

    The process is ended with all that it has begun, also where this is cancelled.
    """
    reader, writer = os.pipe()
    try:
        process = _start(settings, job, suspect, writer)
    except OSError:
        os.close(reader)
        return TrialResult(suspect, "unproven")
    finally:
        os.close(writer)
    try:
        return await _result(process, reader, suspect, settings.daemon.stall_limit, on_call)
    finally:
        os.close(reader)
        cast("IO[bytes]", process.stdin).close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(process.wait)


def _start(
    settings: Settings, job: JobId, suspect: Suspect, writer: int
) -> subprocess.Popen[bytes]:
    arguments = (job, suspect.run, suspect.key, str(settings.state_dir), str(writer))
    return subprocess.Popen(  # noqa: S603 - this program, with ids of its own
        [sys.executable, "-m", TRIAL_MODULE, *arguments],
        cwd=settings.root,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(writer,),
        start_new_session=True,
    )


async def _result(
    process: subprocess.Popen[bytes],
    reader: int,
    suspect: Suspect,
    stall_limit: float,
    on_call: Callable[[], Awaitable[None]],
) -> TrialResult:
    reports, is_called = _Reports(), False
    while True:
        limit = stall_limit + 2 * BEAT_SECONDS if reports.has_begun else START_SECONDS
        with anyio.move_on_after(limit) as patience:
            await anyio.wait_readable(reader)
        if patience.cancelled_caught:
            return replace(reports.result(suspect, "stalled"), seconds=stall_limit)
        chunk = os.read(reader, 65_536)
        if chunk:
            reports.read(chunk)
            if reports.call and not is_called:
                is_called = True
                await on_call()
                with suppress(BrokenPipeError):
                    # That it may make the call.
                    cast("IO[bytes]", process.stdin).write(b"\n")
            if reports.outcome is not None:
                return reports.result(suspect, reports.outcome)
            continue
        # Its end of the pipe is closed: it has ended, is about to, or its call has closed that, too.
        with anyio.move_on_after(stall_limit):
            code = await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
            return replace(reports.result(suspect, "died"), exit_code=code)
        return replace(reports.result(suspect, "stalled"), seconds=stall_limit)


@dataclass(slots=True)
class _Reports:
    """What the process of a trial has reported, a JSON object a line."""

    has_begun: bool = False
    outcome: TrialOutcome | None = None
    call: Mapping[str, object] = field(default_factory=dict[str, object])
    """The call, once it is made."""
    _rest: bytes = b""

    def read(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            report = cast("dict[str, object]", json.loads(line))
            self.has_begun = True
            match report["event"]:
                case "calls":
                    self.call = report
                case "returned" | "not_made" as outcome:
                    self.outcome = cast("TrialOutcome", outcome)
                case _:
                    pass

    def result(self, suspect: Suspect, outcome: TrialOutcome) -> TrialResult:
        """Return the result; a process that never got to its call proves nothing against it."""
        if outcome in {"died", "stalled"} and not self.call:
            return TrialResult(suspect, "unproven")
        index = self.call.get("index")
        return TrialResult(
            suspect,
            outcome,
            tool=str(self.call.get("tool", "")),
            index=index if isinstance(index, int) else None,
        )
