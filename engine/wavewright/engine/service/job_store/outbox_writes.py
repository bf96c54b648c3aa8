"""What a run's events cause in the job store, written in their transaction or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    JobChange,
    OutgoingMessage,
)
from wavewright.engine.service.job_store.tables import JobTables
from wavewright.engine.service.job_store.transactions import changed_job, require_job
from wavewright.executor import JournalError
from wavewright.executor.store.transaction import LockOrder, StoreTransaction, lock_order_of
from wavewright.planner import RunId


@dataclass(frozen=True, slots=True)
class OutboxWrites:
    """What is written in one transaction with a run's events, or not at all."""

    messages: tuple[OutgoingMessage, ...] = ()
    change: JobChange | None = None
    """Of a job whose root run is held here; any state but `running` gives that run up with it."""
    decisions: tuple[Decision, ...] = ()
    """What is asked; a decision that is known already stays as it is."""
    taken: tuple[DecisionId, ...] = ()
    """Answers that these events act on: each can be taken once."""

    @property
    def lock_order(self) -> LockOrder:
        """That of the job that is changed; the first where there is none."""
        return lock_order_of("" if self.change is None else self.change.job)

    @property
    def locks(self) -> Sequence[str]:
        """The ids of decisions that are asked, which need not be there yet: an answer comes before
        or sees them.
        """
        return [decision.id for decision in self.decisions]

    async def write(self, transaction: StoreTransaction, written: Sequence[RunId]) -> None:
        """Write it.

        Args:
            transaction: The transaction of the events, in which new decisions are locked.
            written: Runs with events in the transaction, whose leases are checked already.

        Raises:
            RunLost: the job that is changed is not held here.
            JournalError: there is no such job, it has another end, or an answer cannot be taken.
        """
        tables, change = JobTables(transaction), self.change
        job = None if change is None else await require_job(tables, change.job)
        await tables.ask(self.decisions)
        for decision in self.taken:
            if not await tables.take(decision, transaction.now):
                raise JournalError(
                    f"the answer to decision {decision} cannot be taken: "
                    "it was taken before, has expired or was not given",
                    hint="resume the run; it asks again",
                )
        await tables.put_messages(self.messages)
        if change is None or job is None:
            return
        if job.run not in written:
            await transaction.check(job.run)
        await tables.save_job(await changed_job(tables, job, change, transaction.now))
        if change.state != "running":
            await transaction.release(job.run)
