"""What a daemon has in the place of a broker where there is none: nothing comes in, and what would
go out of its jobs is marked as sent.

The store may be one that a daemon with a broker works on, too. Whoever has asked for a job through
that broker waits for its messages there, whoever runs the job: they stay in the outbox until such a
daemon publishes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

from wavewright.engine.service.job_store.records import JobId, OutgoingMessage
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages.decoding import came_by_broker
from wavewright.engine.service.messages.delivery import Delivery
from wavewright.executor import JournalError

POLL_SECONDS: Final = 5.0
"""How often the outbox is emptied where `wake` is not called."""


class LocalIntake:
    """A queue to which nobody sends."""

    @property
    def empty_at(self) -> float | None:
        """When the queue was last empty: always."""
        return anyio.current_time()

    def look_again(self) -> None:
        """Do nothing: there is nothing to find."""

    async def take(self) -> Delivery:
        """Wait until this is cancelled."""
        await anyio.sleep_forever()
        raise AssertionError("nothing ends this but its cancellation")


class LocalRelay:
    """Marks messages of jobs that came by no broker as sent; their packages and questions are in the
    store.
    """

    def __init__(self, on_sent: Callable[[OutgoingMessage], None]) -> None:
        self._on_sent = on_sent
        self._woken = anyio.Event()
        self._of_brokers = set[JobId]()
        """Jobs with messages that wait for a daemon with a broker."""

    def wake(self) -> None:
        """Look for messages at once."""
        self._woken.set()

    async def flush(self, outbox: JobStore) -> None:
        """Mark the messages as sent that nobody waits for at a broker."""
        waiting = await outbox.jobs_with_pending()
        # How a job came never changes, and a daemon with a broker may be away for long: each job is
        # looked up once.
        self._of_brokers.intersection_update(waiting)
        for job in waiting:
            if job in self._of_brokers:
                continue
            row = await outbox.find_job(job)
            # Of a job that is not known any more nobody can say how it came.
            if row is None or came_by_broker(row):
                self._of_brokers.add(job)
                continue
            pending = await outbox.pending_of_job(job)
            await outbox.mark_sent([message.message for message in pending])
            for message in pending:
                self._on_sent(message)

    async def run(self, outbox: JobStore) -> None:
        """Mark messages as sent until this is cancelled."""
        while True:
            try:
                await self.flush(outbox)
            except JournalError:
                # The tasks that work with the store report it; the messages stay until it is back.
                await anyio.sleep(POLL_SECONDS)
            with anyio.move_on_after(POLL_SECONDS):
                await self._woken.wait()
            self._woken = anyio.Event()


class LocalBus:
    """A bus without a broker."""

    fault: str | None = None
    """Why messages cannot be consumed or published now: there is never a reason."""

    def __init__(self, on_sent: Callable[[OutgoingMessage], None] = lambda _: None) -> None:
        self.intake = LocalIntake()
        self.relay = LocalRelay(on_sent)

    async def dead_letter(self, delivery: Delivery, kind: str, reason: str) -> None:
        """Acknowledge a delivery that nobody can have sent."""
        del kind, reason
        await delivery.ack()
