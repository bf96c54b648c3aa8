"""What every journal says when a run cannot be opened, written or read, whichever database it lies in.

A *run's fault* names the run, the place and the mend in the same words everywhere, so that whoever has read one
message knows the other.
"""

from __future__ import annotations

import time
import zlib

from wavewright.executor.codec import CodecError, decode
from wavewright.executor.events import Event
from wavewright.executor.journal_errors import EventDamaged, RunBusy, RunLost
from wavewright.executor.lease import Lease, Owner
from wavewright.planner.types import RunId


def run_busy_error(run: RunId, hold: Lease, *, owner: Owner, place: str) -> RunBusy:
    """Return the error that names the run's owner to another one."""
    if (hold.owner.pid, hold.owner.process_start, hold.owner.pid_namespace) == (
        owner.pid,
        owner.process_start,
        owner.pid_namespace,
    ):
        return run_busy_here_error(run, place=place)
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(hold.since))
    mend = f"wait for it to end, or stop it (pid {hold.owner.pid} on {hold.owner.host}) and resume"
    if hold.owner.pid_namespace != owner.pid_namespace:
        mend += f"; if it died, the run is free {hold.seconds:.0f} s after its last sign of life"
    return RunBusy(
        f"run {run} is open in another process: {hold.owner}, since {since}", place=place, mend=mend
    )


def run_busy_here_error(run: RunId, *, place: str) -> RunBusy:
    """Return the error for a run that this process has open itself."""
    return RunBusy(f"run {run} is open already in this process", place=place, mend="wait for it to end")


def run_lost_error(run: RunId, *, pid: object, host: object, place: str) -> RunLost:
    """Return the error for an owner who was replaced."""
    return RunLost(
        f"run {run} was taken over by pid {pid} on {host}; nothing more is written from here",
        place=place,
        mend=f"follow it there, or `wavewright show {run}`",
    )


def event_damaged_error(run: RunId, seq: int, reason: str, *, place: str) -> EventDamaged:
    """Return the error for an event that is not what was written."""
    return EventDamaged(
        f"event {seq} of run {run} cannot be read: {reason}",
        place=f"{place}, run {run}, event {seq}",
        mend="all events before it and all other runs can be read; start this job anew",
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
