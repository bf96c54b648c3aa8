"""Model answers of a run, kept in its journal, so that a resumed run does not ask again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from wavewright.executor.events.types import AnswerKept
from wavewright.executor.store.journal import Journal
from wavewright.planner import JsonObject, RunId
from wavewright.planner.ports.model_port import ModelQuestion


class JournalReplayCache:
    """Model answers of the runs of this process, kept in their journal.

    >>> from wavewright.executor import JournalReplayCache, MemoryJournal
    >>> JournalReplayCache(MemoryJournal()) is not None
    True
    """

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        """Keep answers in the journal, with the clock's time in seconds since the epoch."""
        self._journal = journal
        self._clock = clock
        self._answers = dict[RunId, dict[str, deque[JsonObject]]]()

    async def load(self, run: RunId) -> None:
        """Read the kept answers of a run before it continues.

        Raises:
            JournalError: the journal cannot be read.
        """
        known = dict[str, deque[JsonObject]]()
        for event in await self._journal.load(run):
            if isinstance(event, AnswerKept):
                known.setdefault(event.key, deque()).append(event.answer)
        self._answers[run] = known

    def evict(self, run: RunId) -> None:
        """Free the memory of a run that has stopped; its answers stay in the journal."""
        self._answers.pop(run, None)

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Return and remove the next kept answer under a key."""
        kept = self._answers.get(run, {}).get(key)
        return kept.popleft() if kept else None

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Journal an answer and its question.

        Raises:
            JournalError: it could not be written, or the run has another owner.
        """
        await self._journal.append(run, [AnswerKept(self._clock(), key, answer, question)])
