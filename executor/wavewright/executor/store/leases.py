"""One owner a run: who has it open, and whether that owner still lives.

An *owner* is one opening of a journal by one process; its *hold* on a run is renewed by a *beat* every third of the
lease. An owner on this machine is judged by its process alone, so a dead one is replaced at once and no jump of a
clock takes a run from a living one. An owner that cannot be looked at, on another machine or in another container,
is believed for one lease since its last beat, and after that replaced only when it lets a *watch* pass without
beating. The *fence*, a number that grows with each new owner, stops a replaced one that wakes up late.

What every journal says when a run cannot be opened, written or read, whichever database it lies in.

A *run's fault* names the run, the place and the fix in the same words everywhere, so that whoever has read one
message knows the other.

Owners who may be dead, watched from one claim to the next, so that no claim waits.

A *suspect* cannot be looked at from here and has not beaten for a lease; it is dead if its beat has not moved by the
time that its watch is over.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from wavewright.executor.events.codec import CodecError, decode
from wavewright.executor.events.types import Event
from wavewright.executor.store.errors import EventDamaged, RunBusy, RunLost
from wavewright.planner.types import RunId

LEASE_SECONDS: Final = 10.0
"""How long an owner that cannot be looked at is believed without a beat."""

Liveness: TypeAlias = Literal["alive", "gone", "unknown"]
LeaseVerdict: TypeAlias = Literal["free", "busy", "watch"]

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Owner:
    """One opening of a journal, in one process."""

    token: str
    """Random, so that two openings in one process differ."""
    host: str
    pid: int
    process_start: str
    """When the process started, as the system counts it; tells it from a later one of the same pid."""
    pid_namespace: str
    """Where a pid means the same process: one boot of one machine, and one container of it."""

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class Lease:
    """An owner's hold on a run, as the journal shows it."""

    owner: Owner
    since: float
    heartbeat: int
    """Counts up; whether it moved is asked where clocks cannot be trusted."""
    heartbeat_at: float
    seconds: float

    @property
    def probe_seconds(self) -> float:
        """How long to look for a beat: longer than the pause between two."""
        return self.seconds / 2


def this_owner() -> Owner:
    """Return a new owner in this process."""
    return Owner(
        token=secrets.token_hex(8),
        host=socket.gethostname(),
        pid=os.getpid(),
        process_start=_process_start(os.getpid()) or "",
        pid_namespace=current_pid_namespace(),
    )


def judge_lease(hold: Lease, *, now: float, pid_namespace: str) -> LeaseVerdict:
    """Return whether a run under that hold may be taken: `watch` means only if no beat comes meanwhile."""
    match owner_liveness(hold.owner, pid_namespace=pid_namespace):
        case "gone":
            return "free"
        case "alive":
            return "busy"
        case "unknown":
            # A beat from the future is a clock that jumped; it proves nothing.
            return "busy" if 0 <= now - hold.heartbeat_at <= hold.seconds else "watch"


def owner_liveness(owner: Owner, *, pid_namespace: str) -> Liveness:
    """Return whether the owner's process lives, as far as it can be told from here."""
    if not owner.pid_namespace or owner.pid_namespace != pid_namespace:
        return "unknown"
    if owner.process_start:
        return "alive" if _process_start(owner.pid) == owner.process_start else "gone"
    if sys.platform == "win32":
        # os.kill(pid, 0) would end the process there.
        return "unknown"
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        pass
    # Some process has that pid, perhaps another one.
    return "unknown"


def _process_start(pid: int) -> str | None:
    """Return the process's start as the kernel's text; None where it does not live or is not told."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold blanks and parentheses; after it come the state and, 19 further, the start.
    parts = text.rpartition(")")[2].split()
    return parts[19] if len(parts) > 19 and parts[0] not in ("Z", "X", "x") else None


@cache
def current_pid_namespace() -> str:
    """Return what tells whether a pid can be looked at from here."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


@dataclass(frozen=True, slots=True)
class LeaseProbe:
    """The run's owner may be dead: it is, if its beat does not move while the hold is watched."""

    lease: Lease


@dataclass(slots=True)
class HeldLease:
    """A run that is held here."""

    no: int
    fence: int
    seq: int
    """Of the next event."""
    is_finished: bool


def read_lease(columns: tuple[object, ...]) -> Lease | None:
    """Return the hold in those columns of a run's row; None for a run that nobody has open."""
    token, host, pid, born, pid_namespace, since, beat, beat_at, lease = columns
    if token is None:
        return None
    return Lease(
        owner=Owner(
            token=str(token),
            host=str(host),
            pid=cast("int", pid),
            process_start=str(born),
            pid_namespace=str(pid_namespace),
        ),
        since=cast("float", since),
        heartbeat=cast("int", beat),
        heartbeat_at=cast("float", beat_at),
        seconds=cast("float", lease),
    )


def run_busy_error(run: RunId, hold: Lease, *, owner: Owner, place: str) -> RunBusy:
    """Return the error that names the run's owner to another one."""
    if (hold.owner.pid, hold.owner.process_start, hold.owner.pid_namespace) == (
        owner.pid,
        owner.process_start,
        owner.pid_namespace,
    ):
        return run_busy_here_error(run, place=place)
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(hold.since))
    hint = f"wait for it to end, or stop it (pid {hold.owner.pid} on {hold.owner.host}) and resume"
    if hold.owner.pid_namespace != owner.pid_namespace:
        hint += f"; if it died, the run is free {hold.seconds:.0f} s after its last sign of life"
    return RunBusy(
        f"run {run} is open in another process: {hold.owner}, since {since}", place=place, hint=hint
    )


def run_busy_here_error(run: RunId, *, place: str) -> RunBusy:
    """Return the error for a run that this process has open itself."""
    return RunBusy(f"run {run} is open already in this process", place=place, hint="wait for it to end")


def run_lost_error(run: RunId, *, pid: object, host: object, place: str) -> RunLost:
    """Return the error for an owner who was replaced."""
    return RunLost(
        f"run {run} was taken over by pid {pid} on {host}; nothing more is written from here",
        place=place,
        hint=f"follow it there, or `wavewright show {run}`",
    )


def event_damaged_error(run: RunId, seq: int, reason: str, *, place: str) -> EventDamaged:
    """Return the error for an event that is not what was written."""
    return EventDamaged(
        f"event {seq} of run {run} cannot be read: {reason}",
        place=f"{place}, run {run}, event {seq}",
        hint="all events before it and all other runs can be read; start this job anew",
    )


def read_event(run: RunId, seq: int, kind: str, crc: int, body: bytes | None, *, place: str) -> Event:
    """Return an event from its row.

    Raises:
        EventDamaged: it is not what was written.
    """
    if body is None or zlib.crc32(body) != crc:
        raise event_damaged_error(
            run, seq, "its text is not what was written (the checksum differs)", place=place
        )
    try:
        return decode(kind, body.decode("ascii"))
    except (CodecError, UnicodeDecodeError) as error:
        raise event_damaged_error(run, seq, str(error), place=place) from error


@dataclass(frozen=True, slots=True)
class _SeenHeartbeat:
    """An owner as first seen."""

    heartbeat: int
    at: float
    seconds: float


class LeaseProbes:
    """The suspects of one opening of a store."""

    def __init__(self) -> None:
        self._seen = dict[RunId, _SeenHeartbeat]()

    def expired_heartbeat(self, run: RunId) -> int | None:
        """Return the beat that a run's owner must have moved from since, where its watch is over."""
        seen = self._seen.get(run)
        is_over = seen is not None and time.monotonic() - seen.at >= seen.seconds
        return seen.heartbeat if seen is not None and is_over else None

    def note(self, run: RunId, watch: LeaseProbe | None) -> None:
        """Note what came of trying to hold a run: whom to watch until the next time, if anybody."""
        seen = self._seen.pop(run, None)
        if watch is not None:
            is_same = seen is not None and seen.heartbeat == watch.lease.heartbeat
            first = _SeenHeartbeat(watch.lease.heartbeat, time.monotonic(), watch.lease.probe_seconds)
            self._seen[run] = seen if seen is not None and is_same else first
