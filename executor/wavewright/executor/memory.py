"""The memory of runs, kept among their events.

A run that is resumed *learns* once what its earlier lives were told; what is kept meanwhile is not given out again,
for nobody asks for it twice in one life.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from wavewright.executor.events import AnswerKept
from wavewright.executor.journal import Journal
from wavewright.planner.memory import ModelQuestion
from wavewright.planner.types import JsonObject, RunId


class JournalReplayCache:
    """Kept answers of the runs that this process works on, in their journal."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        """Keep answers in that journal; the clock gives seconds since the epoch."""
        self._journal = journal
        self._clock = clock
        self._answers = dict[RunId, dict[str, deque[JsonObject]]]()

    async def load(self, run: RunId) -> None:
        """Take in what was kept for a run, before it goes on.

        Raises:
            JournalError: it cannot be read.
        """
        known = dict[str, deque[JsonObject]]()
        for event in await self._journal.load(run):
            if isinstance(event, AnswerKept):
                known.setdefault(event.key, deque()).append(event.answer)
        self._answers[run] = known

    def evict(self, run: RunId) -> None:
        """Let go of what was learnt for a run that is not worked on any more; it stays in the journal."""
        self._answers.pop(run, None)

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Return the next kept answer under the key, which then is given out no more."""
        kept = self._answers.get(run, {}).get(key)
        return kept.popleft() if kept else None

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Keep an answer, and what was asked.

        Raises:
            JournalError: it could not be written, or the run has another owner.
        """
        await self._journal.append(run, [AnswerKept(self._clock(), key, answer, question)])
