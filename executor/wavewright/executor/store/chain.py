"""The hash chain of a run's events, which shows what was changed or cut afterwards.

The *hash* of an event is the SHA-256 of the hash before it, the event's kind and its text, as both
stand in the journal; before the first event stands the hash of the run's id. The hash of the last
event, with the number of events, is the run's *head*. It is stored apart from the events, so that
a cut is seen as well, and goes into packages and receipts, so that a journal which was rewritten as
a whole is seen by who has one of these.

What this shows, and what it does not, is said in `docs/explanation/trust.md`.
"""

from __future__ import annotations

from hashlib import sha256

from wavewright.planner.types import RunId


def first_hash(run: RunId) -> bytes:
    """Return what stands before the first event of a run."""
    return sha256(run.encode("utf-8", "surrogatepass")).digest()


def next_hash(before: bytes, kind: str, body: str) -> bytes:
    """Return the hash of an event, given the hash before it, its kind and its text in ASCII."""
    # A kind holds no line break, so no two pairs of kind and text give the same bytes.
    return sha256(b"%b%b\n%b" % (before, kind.encode(), body.encode("ascii"))).digest()
