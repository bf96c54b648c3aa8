"""The outbox, as the relay sees it, with a count of what has gone out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wavewright.engine.operations.message_log import log_sent
from wavewright.engine.operations.watch import Telemetry
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.records import MessageId, OutgoingMessage


@dataclass(frozen=True, slots=True)
class MeteredOutbox:
    """The part of the job store that the relay needs; every message that the broker has confirmed is counted."""

    jobs: JobStore
    watch: Telemetry
    _leased: dict[MessageId, OutgoingMessage] = field(default_factory=dict[MessageId, OutgoingMessage])

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        """Return messages in their order, and lease them to this owner for a few seconds."""
        found = await self.jobs.pending(most)
        self._leased.clear()
        self._leased.update((outgoing.message, outgoing) for outgoing in found)
        return found

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Lease these messages, which are this owner's, for a few seconds more."""
        await self.jobs.renew(messages)

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that the broker has confirmed these messages."""
        await self.jobs.mark_sent(messages)
        for message in messages:
            if (outgoing := self._leased.get(message)) is not None:
                self._count_sent(outgoing)

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message that cannot be delivered out of the way."""
        await self.jobs.mark_refused(message, reason)

    async def list_refused(self) -> list[OutgoingMessage]:
        """Return the messages that could not be delivered, in their order."""
        return await self.jobs.list_refused()

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Have these go out again."""
        await self.jobs.release(messages)

    def _count_sent(self, sent: OutgoingMessage) -> None:
        self.watch.metrics.count_sent(sent.kind)
        log_sent(self.watch.log, sent)
