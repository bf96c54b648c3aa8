"""The memory of runs, kept beside their events.

Kept answers lie in the journal for as long as a run may have to go on; its end deletes them. A run that is resumed
*learns* them once; what is kept meanwhile is not given out again, for nobody asks for it twice in one life.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Protocol

from wavewright.planner.types import JsonObject, RunId


class AnswerBook(Protocol):
    """The part of a journal that keeps answers."""

    async def keep_answer(self, run: RunId, key: str, body: str) -> None:
        """Keep an answer of a run that is open here; it is durable when this returns.

        Raises:
            JournalError: it could not be written, or the run has another owner.
        """
        ...

    async def kept_answers(self, run: RunId) -> list[tuple[str, str]]:
        """Return keys and bodies in the order in which they were kept."""
        ...


class RunMemory:
    """Kept answers of the runs that this process works on."""

    def __init__(self, book: AnswerBook) -> None:
        """Keep answers in that book."""
        self._book = book
        self._known = dict[tuple[RunId, str], deque[str]]()

    async def learn(self, run: RunId) -> None:
        """Take in what was kept for a run, before it goes on.

        Raises:
            JournalError: it cannot be read.
        """
        self._known = {place: kept for place, kept in self._known.items() if place[0] != run}
        for key, body in await self._book.kept_answers(run):
            self._known.setdefault((run, key), deque()).append(body)

    def recall(self, run: RunId, key: str) -> JsonObject | None:
        """Return the next kept answer under the key, which then is given out no more."""
        kept = self._known.get((run, key))
        if not kept:
            return None
        answer: JsonObject = json.loads(kept.popleft())
        return answer

    async def keep(self, run: RunId, key: str, answer: JsonObject) -> None:
        """Keep an answer.

        Raises:
            JournalError: it could not be written, or the run has another owner.
        """
        await self._book.keep_answer(run, key, json.dumps(answer))
