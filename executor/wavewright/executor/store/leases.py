"""Leases of runs: each run has one owner, which is checked for being alive; and the errors of runs.

An *owner* is one process that has a journal open; its *lease* of a run is renewed by a *heartbeat*
every third of the lease's length. An owner on this machine is judged by its process alone, so a
dead one is replaced at once and no jump of a clock takes a run from a living one. An owner that
cannot be inspected, on another machine or in another container, is believed for one lease since its
last heartbeat, and after that replaced only if a *probe* sees no heartbeat. The *fence*, a number
that grows with each new owner, refuses late writes of a replaced owner.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from wavewright.executor.events.codec import CodecError, decode
from wavewright.executor.events.types import Event
from wavewright.executor.store.errors import EventDamaged, JournalError, RunBusy, RunLost
from wavewright.planner import RunId

LEASE_SECONDS: Final = 10.0
"""Seconds for which an owner that cannot be inspected is believed without a heartbeat."""

Liveness: TypeAlias = Literal["alive", "gone", "unknown"]
LeaseVerdict: TypeAlias = Literal["free", "busy", "watch"]

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that has a journal open; the fields are in the order of their columns, which
    `astuple` fills.
    """

    token: str
    """Random, so that two owners in one process differ."""
    host: str
    pid: int
    process_start: str
    """When the process started, as the system counts it; tells it from a later one of the same pid.
    """
    pid_namespace: str
    """Where a pid means the same process: one boot of one machine, and one container of it."""

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class Lease:
    """An owner's lease of a run, as the journal shows it."""

    owner: Owner
    since: float
    heartbeat: int
    """Counts up; compared where clocks cannot be trusted."""
    heartbeat_at: float
    seconds: float

    @property
    def probe_seconds(self) -> float:
        """Seconds to wait for a heartbeat: more than the pause between two."""
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


def judge_lease(lease: Lease, *, now: float, pid_namespace: str) -> LeaseVerdict:
    """Return whether a run under that lease may be acquired; `watch`: only after a probe has seen
    no heartbeat.
    """
    match owner_liveness(lease.owner, pid_namespace=pid_namespace):
        case "gone":
            return "free"
        case "alive":
            return "busy"
        case "unknown":
            # A heartbeat from the future means a clock that jumped.
            return "busy" if 0 <= now - lease.heartbeat_at <= lease.seconds else "watch"


def owner_liveness(owner: Owner, *, pid_namespace: str) -> Liveness:
    """Return whether the owner's process is alive, as far as this process can see it."""
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
    """Return the process's start as the kernel gives it; None where the process has ended or cannot
    be seen.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may contain blanks and parentheses; after it come the state and, 19
    # further, the start.
    parts = text.rpartition(")")[2].split()
    return parts[19] if len(parts) > 19 and parts[0] not in ("Z", "X", "x") else None


@cache
def current_pid_namespace() -> str:
    """Return the name of the namespace in which this process sees pids."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


@dataclass(frozen=True, slots=True)
class LeaseProbe:
    """The run's owner may be dead: it is, if its heartbeat does not move while the lease is probed."""

    lease: Lease


@dataclass(slots=True)
class HeldLease:
    """The lease of a run that this process holds."""

    no: int
    fence: int
    seq: int
    """Of the next event."""
    is_finished: bool
    last_hash: bytes
    """Of the last event; what stands before the first one where there is none."""


def read_lease(columns: Sequence[Any]) -> Lease | None:
    """Return the lease in those columns of a run's row; None for a run that no process has open.

    They are those of an `Owner` and then those of a `Lease`, in the order of the fields.
    """
    return None if columns[0] is None else Lease(Owner(*columns[:5]), *columns[5:])


def _run_busy_error(run: RunId, lease: Lease, *, owner: Owner, place: str) -> RunBusy:
    """Return the error that names the run's owner to another one."""
    if (lease.owner.pid, lease.owner.process_start, lease.owner.pid_namespace) == (
        owner.pid,
        owner.process_start,
        owner.pid_namespace,
    ):
        return run_busy_here_error(run, place=place)
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(lease.since))
    hint = (
        f"wait for it to end, or stop it (pid {lease.owner.pid} on {lease.owner.host}) and resume"
    )
    if lease.owner.pid_namespace != owner.pid_namespace:
        hint += f"; if it died, the run is free {lease.seconds:.0f} s after its last sign of life"
    return RunBusy(
        f"run {run} is open in another process: {lease.owner}, since {since}",
        place=place,
        hint=hint,
    )


def probe_before_acquiring(
    run: RunId, lease: Lease | None, *, owner: Owner, now: float, unmoved: int | None, place: str
) -> LeaseProbe | None:
    """Return the lease of another owner that must be probed first; None for a run that may be
    acquired.

    Args:
        run: The run.
        lease: Its lease; None if no process has it open.
        owner: Who wants to acquire it.
        now: Seconds since the epoch, by the clock of the heartbeats.
        unmoved: The heartbeat of a probe that has ended.
        place: The file or the database, for messages.

    Raises:
        RunBusy: its owner is alive.
    """
    if (
        lease is None or lease.owner.token == owner.token
    ):  # a lease of its own is left over from an error
        return None
    match judge_lease(lease, now=now, pid_namespace=owner.pid_namespace):
        case "busy":
            raise _run_busy_error(run, lease, owner=owner, place=place)
        case "watch" if lease.heartbeat != unmoved:
            return LeaseProbe(lease)
        case _:
            return None


class RunHolder:
    """The leases that an open journal holds, and the runs to which it writes nothing more."""

    def __init__(self, owner: Owner, place: str) -> None:
        self.owner = owner
        self.place = place
        """The file or the database, for messages."""
        self.faults = dict[RunId, JournalError]()
        """Runs to which nothing more is written here, and why, until they are opened again."""
        self.held = dict[RunId, HeldLease]()
        """Leases that the owner holds, also of runs to which something could not be written."""

    def holds(self, run: RunId) -> bool:
        """Return whether this store is the run's owner."""
        return run in self.held

    def busy_error(self, run: RunId, lease: Lease) -> RunBusy:
        """Return the error that names the run's owner."""
        return _run_busy_error(run, lease, owner=self.owner, place=self.place)

    def _begin_claim(self, run: RunId) -> None:
        """Drop what is left of a run to which something could not be written.

        Raises:
            RunBusy: this process has the run open.
        """
        if run in self.held and run not in self.faults:
            raise run_busy_here_error(run, place=self.place)
        self._note_leases({}, [run])

    def _note_leases(self, acquired: Mapping[RunId, HeldLease], released: Iterable[RunId]) -> None:
        """Take over the leases that a committed transaction has acquired and released."""
        self.held.update(acquired)
        for run in released:
            self.held.pop(run, None)
        for run in (*acquired, *released):
            self.faults.pop(run, None)


def run_busy_here_error(run: RunId, *, place: str) -> RunBusy:
    """Return the error for a run that this process has open itself."""
    return RunBusy(
        f"run {run} is open already in this process", place=place, hint="wait for it to end"
    )


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
        f"the journal is damaged at event {seq} of run {run}: {reason}",
        place=f"{place}, run {run}, event {seq}",
        hint="all events before it and all other runs can be read; start this job anew",
    )


def check_head(
    run: RunId, events: int, last_hash: bytes, head: Sequence[Any] | None, *, place: str
) -> None:
    """Return where the events of a run are those of its head, so that more may be appended.

    A run whose end was cut off would else go on as if it had never been there.

    Args:
        run: The run.
        events: How many events it has.
        last_hash: Of the last of them.
        head: The number of events and the last hash that are stored beside them, if they are.
        place: The file or the database, for messages.

    Raises:
        EventDamaged: they are not.
    """
    stored = None if head is None else (head[0], bytes(head[1]))
    if stored == (events, last_hash) or (stored is None and not events):
        return
    raise EventDamaged(
        f"the events of run {run} are not those that were written: see `wavewright verify {run}`",
        place=f"{place}, run {run}",
        hint="restore the journal from a backup, or start this job anew",
    )


def read_event(
    run: RunId, seq: int, kind: str, crc: int, body: bytes | None, *, place: str
) -> Event:
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


class LeaseProbes:
    """Owners who may be dead, probed from one claim to the next so that no claim waits."""

    def __init__(self) -> None:
        self._seen = dict[RunId, tuple[Lease, float]]()
        """The lease as first seen, and until when it is probed, by the monotonic clock."""

    def expired_heartbeat(self, run: RunId) -> int | None:
        """Return the heartbeat that a run's owner had at first, once its probe has ended."""
        lease, until = self._seen.get(run, (None, 0.0))
        return lease.heartbeat if lease is not None and time.monotonic() >= until else None

    def note(self, run: RunId, watch: LeaseProbe | None) -> None:
        """Note the result of an acquisition: the lease to probe until the next one, if any."""
        seen = self._seen.pop(run, None)
        if watch is not None:
            is_same = seen is not None and seen[0].heartbeat == watch.lease.heartbeat
            first = (watch.lease, time.monotonic() + watch.lease.probe_seconds)
            self._seen[run] = seen if seen is not None and is_same else first
