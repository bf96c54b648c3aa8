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

Standing: TypeAlias = Literal["alive", "gone", "unknown"]
Claim: TypeAlias = Literal["free", "busy", "watch"]

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Owner:
    """One opening of a journal, in one process."""

    token: str
    """Random, so that two openings in one process differ."""
    host: str
    pid: int
    born: str
    """When the process started, as the system counts it; tells it from a later one of the same pid."""
    realm: str
    """Where a pid means the same process: one boot of one machine, and one container of it."""

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class Hold:
    """An owner's hold on a run, as the journal shows it."""

    owner: Owner
    since: float
    beat: int
    """Counts up; whether it moved is asked where clocks cannot be trusted."""
    beat_at: float
    lease: float

    @property
    def watch_seconds(self) -> float:
        """How long to look for a beat: longer than the pause between two."""
        return self.lease / 2


def this_owner() -> Owner:
    """Return a new owner in this process."""
    return Owner(
        token=secrets.token_hex(8),
        host=socket.gethostname(),
        pid=os.getpid(),
        born=_birth(os.getpid()) or "",
        realm=this_realm(),
    )


def judge_hold(hold: Hold, *, now: float, realm: str) -> Claim:
    """Return whether a run under that hold may be taken: `watch` means only if no beat comes meanwhile."""
    match standing(hold.owner, realm=realm):
        case "gone":
            return "free"
        case "alive":
            return "busy"
        case "unknown":
            # A beat from the future is a clock that jumped; it proves nothing.
            return "busy" if 0 <= now - hold.beat_at <= hold.lease else "watch"


def standing(owner: Owner, *, realm: str) -> Standing:
    """Return whether the owner's process lives, as far as it can be told from here."""
    if not owner.realm or owner.realm != realm:
        return "unknown"
    if owner.born:
        return "alive" if _birth(owner.pid) == owner.born else "gone"
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


def _birth(pid: int) -> str | None:
    """Return the process's start as the kernel's text; None where it does not live or is not told."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold blanks and parentheses; after it come the state and, 19 further, the start.
    parts = text.rpartition(")")[2].split()
    return parts[19] if len(parts) > 19 and parts[0] not in ("Z", "X", "x") else None


@cache
def this_realm() -> str:
    """Return what tells whether a pid can be looked at from here."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


@dataclass(frozen=True, slots=True)
class Watch:
    """The run's owner may be dead: it is, if its beat does not move while the hold is watched."""

    hold: Hold


@dataclass(slots=True)
class Held:
    """A run that is held here."""

    no: int
    fence: int
    seq: int
    """Of the next event."""
    is_finished: bool


def read_hold(columns: tuple[object, ...]) -> Hold | None:
    """Return the hold in those columns of a run's row; None for a run that nobody has open."""
    token, host, pid, born, realm, since, beat, beat_at, lease = columns
    if token is None:
        return None
    return Hold(
        owner=Owner(token=str(token), host=str(host), pid=cast("int", pid), born=str(born), realm=str(realm)),
        since=cast("float", since),
        beat=cast("int", beat),
        beat_at=cast("float", beat_at),
        lease=cast("float", lease),
    )
