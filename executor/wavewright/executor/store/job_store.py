"""What a job store promises, in SQLite and in PostgreSQL alike.

Everything that returns is durable. A job is worked on by whoever holds its root run: `claim` opens that run for this
owner, the journal's own beat keeps the hold, and every write of a job names the hold's fence, so that an owner who
was replaced writes nothing more. Attempts are counted before the work, so a job that ends its process is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from wavewright.executor.store.job_records import (
    RETENTION_START,
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    Receipt,
    ReceivedMessage,
    RetentionCursor,
)

OUTBOX_LEASE_SECONDS: Final = 5.0
"""Seconds for which messages of the outbox are one owner's to publish."""
MAX_ATTEMPTS: Final = 5
"""Times that a job is begun; one that did not say how it ended is `dead` after the last."""

ProjectJob: TypeAlias = Callable[[JobRow], Sequence[OutgoingMessage]]
"""Makes the messages that tell of a job as it stands from now on; they go into the outbox in the same transaction.

It is pure and quick: it is called within the transaction, off the event loop, and perhaps twice."""


def project_nothing(job: JobRow) -> Sequence[OutgoingMessage]:
    """Make no message."""
    del job
    return ()


class JobStore(Protocol):
    """Jobs, decisions, inbox and outbox."""

    async def receive(self, message: ReceivedMessage, tell: ProjectJob = project_nothing) -> Receipt:
        """Judge a message and take its effect, with its inbox row and what is told of it, in one transaction.

        A message id that was seen before has no effect. A verdict that answers the package in hand ends the job or
        queues it again; an answer queues its parked job again. `tell` is asked where a job changed. A verdict that
        comes before its job awaits it, and what the rule defers, is kept: it has its effect when `change` or `claim`
        finds that its turn has come. Only messages that had an effect or are kept are remembered by their id, so
        that one which was refused is judged again when it is sent again.

        Raises:
            JournalError: nothing was written; the message must not be acknowledged.
        """
        ...

    async def claim(
        self, *, most_weight: float | None = None, tell: ProjectJob = project_nothing
    ) -> JobRow | None:
        """Take the next job that may be worked on and hold its run; none where there is nothing to do.

        Those are `queued` ones whose time has come and `running` ones whose owner is gone, the longest waiting
        first, with small ones before large ones that came a little earlier. A job that was begun `MOST_ATTEMPTS`
        times becomes `dead` instead, `tell` is asked about it, and the next one is looked at. Of jobs that were begun
        `TRUSTED_ATTEMPTS` times and did not advance, an owner is given one at a time, until it has advanced. Messages
        whose turn has come have their effect first. It never waits: an owner who may be dead is watched from one call
        to the next.
        """
        ...

    async def change(self, change: JobChange, tell: ProjectJob = project_nothing) -> None:
        """Say how a job stands that is held here, and give its run up unless it is `running` still.

        A job that is to await a verdict or an answer which is there already goes on at once. An end is final: only
        the same end may be said again.

        Raises:
            RunLost: another owner has it, or it is not held here.
            JournalError: its events could not be written, and it is not only put off; or it has ended otherwise.
        """
        ...

    async def find_job(self, job: JobId) -> JobRow | None:
        """Return one job."""
        ...

    async def list_jobs(self, states: Sequence[JobState] = ()) -> list[JobRow]:
        """Return jobs in the order in which they came; all states where none is given."""
        ...

    async def list_decisions(self, *, is_open: bool = True, job: JobId | None = None) -> list[Decision]:
        """Return decisions in the order in which they were asked: open ones, or answered ones; all jobs' or one's."""
        ...

    async def find_decision(self, prefix: str) -> Decision | None:
        """Return the one decision whose id starts so."""
        ...

    async def decide(self, made: DecisionMade, tell: ProjectJob = project_nothing) -> Receipt:
        """Take a person's answer: `accept`, or why not (`ack_duplicate`, `dead_letter`); queues the parked job."""
        ...

    async def take_answer(self, decision: DecisionId) -> Decision | None:
        """Return an answered decision that was not taken before and has not expired, and mark it as taken.

        A crash after this and before the run has journaled what it does with the answer leaves it taken; `taken` of
        `Alongside` marks it in the transaction of those events.
        """
        ...

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        """Return messages of the outbox in their order, and lease them to this owner for a few seconds.

        What another owner has leased is left out, and so is what comes after it of the same job: the messages of a
        job go out in their order. What this owner leased before and did not mark is returned again.
        """
        ...

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Lease messages that this owner has leased for as long again; of others nothing changes."""
        ...

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that the broker has confirmed these messages."""
        ...

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message that the broker cannot deliver out of the way until it is released; it is not lost."""
        ...

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return the messages that the broker could not deliver, in their order."""
        ...

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Have messages go out again that were refused, where what kept them back may be mended."""
        ...

    async def forget(
        self, before: float, beyond: RetentionCursor = RETENTION_START
    ) -> RetentionCursor | None:
        """Forget the ids of messages that were taken in, or went out, before an instant: of a thousand each, at most.

        Forgotten are those that have had their effect, those that the broker has confirmed and whose job has ended,
        and those whose turn never came: they name a job or a decision that is not known, or a package that is not
        out. A verdict on a package that is out stays until its job can take it, and what has to go out stays, too. A
        message whose id was forgotten would be taken in again, so the instant lies further back than a message may
        be old.

        Returns:
            Where to go on; none where everything was looked at.
        """
        ...

    async def count_states(self) -> dict[JobState, int]:
        """Return how many jobs are in each state, for metrics."""
        ...
