"""The log of a game: its events as notes of a run in a journal, one note for each batch."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from wavewright.executor import Journal, JournalDamaged, Noted
from wavewright.planner.types import Json, RunId
from wavewright.tools.tabletop.game.events import EVENTS, GameEvent

TOPIC: Final = "tabletop"
"""Topic of the notes."""


class Batch(NamedTuple):
    """Events that are journaled at once: all or none of them."""

    key: str
    """What they came of."""
    events: tuple[GameEvent, ...]


@dataclass(frozen=True, slots=True)
class GameLog:
    """The batches of one game; whoever opened the run in the journal owns it."""

    journal: Journal
    run: RunId
    clock: Callable[[], float] = time.time

    def append(self, batch: Batch) -> Awaitable[None]:
        """Write a batch; it is durable when what is returned is done.

        Raises:
            JournalError: when awaited.
        """
        events = cast("Json", EVENTS.dump_python(batch.events, mode="json"))
        note = Noted(self.clock(), TOPIC, {"key": batch.key, "events": events})
        return self.journal.append(self.run, [note])

    async def load(self) -> list[Batch]:
        """Return the batches that were written.

        Raises:
            JournalDamaged: one is not what was written.
        """
        notes = [event for event in await self.journal.load(self.run) if isinstance(event, Noted)]
        try:
            return [
                Batch(str(note.body["key"]), EVENTS.validate_python(note.body["events"]))
                for note in notes
                if note.topic == TOPIC
            ]
        except (KeyError, ValueError) as error:
            raise JournalDamaged(
                f"game {self.run!r} holds an event that this version cannot read",
                hint="open it with the version that wrote it",
            ) from error
