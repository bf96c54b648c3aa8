"""One owner a run: who has it open, and whether that owner still lives.

An *owner* is one opening of a journal by one process; its *hold* on a run is renewed by a *beat* every third of the
lease. An owner on this machine is judged by its process alone, so a dead one is replaced at once and no jump of a
clock takes a run from a living one. An owner that cannot be looked at, on another machine or in another container,
is believed for one lease since its last beat, and after that replaced only when it lets a *watch* pass without
beating. The *fence*, a number that grows with each new owner, stops a replaced one that wakes up late.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

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


def judge_lease(hold: Lease, *, now: float, realm: str) -> LeaseVerdict:
    """Return whether a run under that hold may be taken: `watch` means only if no beat comes meanwhile."""
    match owner_liveness(hold.owner, realm=realm):
        case "gone":
            return "free"
        case "alive":
            return "busy"
        case "unknown":
            # A beat from the future is a clock that jumped; it proves nothing.
            return "busy" if 0 <= now - hold.heartbeat_at <= hold.seconds else "watch"


def owner_liveness(owner: Owner, *, realm: str) -> Liveness:
    """Return whether the owner's process lives, as far as it can be told from here."""
    if not owner.pid_namespace or owner.pid_namespace != realm:
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
    token, host, pid, born, realm, since, beat, beat_at, lease = columns
    if token is None:
        return None
    return Lease(
        owner=Owner(
            token=str(token),
            host=str(host),
            pid=cast("int", pid),
            process_start=str(born),
            pid_namespace=str(realm),
        ),
        since=cast("float", since),
        heartbeat=cast("int", beat),
        heartbeat_at=cast("float", beat_at),
        seconds=cast("float", lease),
    )
