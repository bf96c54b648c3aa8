"""How jobs, messages and questions should stand, as a plain model says it, and what it is compared
with.

A *desk* is one daemon's opening of the store, be it a file or a database.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobRow,
    JobState,
    MessageId,
    OutgoingMessage,
    Receipt,
    ReceivedMessage,
)
from wavewright.executor.events.types import Event
from wavewright.planner.types import RunId

ENDS = ("completed", "failed", "dead")


class SyncJobStore(Protocol):
    """One daemon's opening of the store; jobs are told of by their state."""

    def receive(self, message: ReceivedMessage) -> Receipt: ...
    def claim(self, most_weight: float | None) -> JobRow | None: ...
    def change(self, change: JobChange) -> None: ...
    def decide(self, made: DecisionMade) -> Receipt: ...
    def take_answer(self, decision: DecisionId) -> Decision | None: ...
    def pending(self, most: int) -> Sequence[OutgoingMessage]: ...
    def mark_sent(self, messages: Sequence[MessageId]) -> None: ...
    def list_jobs(self) -> Sequence[JobRow]: ...
    def append(self, run: RunId, step: str, alongside: OutboxWrites) -> None: ...
    def load(self, run: RunId) -> Sequence[Event]: ...
    def holds(self, run: RunId) -> bool: ...
    def close(self) -> None: ...


@dataclass
class ExpectedJob:
    """A job, as it should stand."""

    number: int
    weight: float
    turn: float
    run: RunId = field(default=RunId(""))
    state: JobState = "queued"
    attempts: int = 0
    failures: int = 0
    iteration: int = 0
    heard: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    """Verdicts that had their effect: of which package, and whether it was accepted."""
    holder: SyncJobStore | None = None
    steps: list[str] = field(default_factory=list[str])

    def tell(self) -> str:
        return f"{self.number} {self.state} {self.attempts} {self.iteration} {len(self.heard)}"


@dataclass
class ExpectedMessage:
    """A message of the outbox, as it should stand."""

    message: str
    job: int
    is_sent: bool = False
    leased_by: SyncJobStore | None = None
    leased: float = -math.inf


@dataclass
class ExpectedDecision:
    """A question, as it should stand."""

    job: int
    choice: str | None = None
    is_taken: bool = False
