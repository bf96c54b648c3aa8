"""The table: what the phases and agents of a turn do is journaled here, and what a crash left is
taken up again.

A turn that was interrupted is played again from its begin. What its phases do is looked up among
the recorded batches before anything is done, so no dice are rolled twice, and no agent that has
answered is asked again. An agent that had not answered goes on from the answers of its model that
are journaled; where it does otherwise than before, that happens after what is recorded.

Words of an agent that are still arriving are a *draft*: kept in memory, and replaced by the text
that is journaled.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, cast

import anyio

from wavewright.executor import Journal, JournalDamaged, MemoryJournal, Noted
from wavewright.packs.tabletop.game.events import (
    EVENTS,
    GameEvent,
    PhaseBegan,
    Refused,
    Said,
    Speech,
    TurnBegan,
    TurnEnded,
)
from wavewright.packs.tabletop.game.fold import Timeline, fold_events
from wavewright.packs.tabletop.game.rules import events_of_call, tool_signatures
from wavewright.packs.tabletop.game.state import GameState, describe_events
from wavewright.planner import Json, JsonObject, RunId, canonical_json, validator_of
from wavewright.tools import ToolError

_TOPIC: Final = "tabletop"
"""Topic of the notes."""
TURN_KEY: Final = "turn"
"""Key of the batch that begins a turn."""
EventsOf: TypeAlias = Callable[[GameState], Sequence[GameEvent]]


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
        note = Noted(self.clock(), _TOPIC, {"key": batch.key, "events": events})
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
                if note.topic == _TOPIC
            ]
        except (KeyError, ValueError) as error:
            raise JournalDamaged(
                f"game {self.run!r} holds an event that this version cannot read",
                hint="open it with the version that wrote it",
            ) from error


@dataclass(slots=True)
class GameTable:
    """One game while it is played: its log, its state, and the events of the turn under way."""

    log: GameLog
    game_id: str
    timeline: Timeline = field(default_factory=Timeline)
    events: list[GameEvent] = field(default_factory=list[GameEvent])
    """All events that have happened, the first has the id 1."""
    turn_events: list[GameEvent] = field(default_factory=list[GameEvent])
    """Those of the turn under way."""
    turn_id: int = 0
    """Id of the event with which the last turn began: no two turns have the same, also after an
    undo.
    """
    draft: Said | None = None
    """What an agent has said so far of an answer that is under way."""
    _recorded: deque[Batch] = field(default_factory=deque[Batch])
    """Batches of an interrupted turn that are not played again yet; their events are among
    `events`.
    """
    _keys: Counter[str] = field(default_factory=Counter[str])
    _phases: list[PhaseBegan] = field(default_factory=list[PhaseBegan])
    """Phases that began since the last batch; they are journaled with the next one."""
    _calls: dict[str, Batch] = field(default_factory=dict[str, Batch])
    """Batches outside turns by key."""
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Is set at the next change, and replaced by another one."""

    @property
    def state(self) -> GameState:
        """The state after all that has happened in the turn so far."""
        return self.timeline.state

    async def load(self) -> TurnBegan | None:
        """Read the log; return the begin of a turn that was interrupted.

        Raises:
            JournalError: it cannot be read.
        """
        for batch in await self.log.load():
            self._number_turn(batch)
            self.events += batch.events
            if self._recorded or batch.key == TURN_KEY:
                self._recorded.append(batch)
                if isinstance(batch.events[-1], TurnEnded):
                    self._play_recorded()
            else:
                self.timeline = fold_events(batch.events, self.timeline)
                self._calls[batch.key] = batch
        first = self._recorded[0].events[0] if self._recorded else None
        return first if isinstance(first, TurnBegan) else None

    def begin_turn(self) -> None:
        """Forget the turn before."""
        self.turn_events = []
        self._keys.clear()
        self._phases.clear()

    def announce(self, phase: str) -> None:
        """Take note that a phase begins; it is journaled with what happens next."""
        self._phases.append(PhaseBegan(phase))

    async def record(self, name: str, make: EventsOf) -> Sequence[GameEvent]:
        """Let events happen, or return those of an equal batch of the interrupted turn.

        Args:
            name: What they come of; equal names of one turn are told apart by their number.
            make: Makes the events of the state.

        Raises:
            JournalError: they cannot be written.
            ToolError: raised by `make`; nothing happens.
        """
        async with self._lock:
            key = self._key(name)
            if self._is_recorded(key):
                return self._play_recorded(key)
            events = (*self._phases, *make(self.state))
            if events and self._recorded:
                # It is done otherwise than before the crash: after all that has happened.
                self._play_recorded()
                events = (*self._phases, *make(self.state))
            if events:
                await self._write(Batch(key, events))
            return events

    async def say(self, speaker: str, text: str, speech: Speech = "narration") -> None:
        """Say something to the player; nothing where the text is empty."""
        if text:
            await self.record(f"say:{speaker}:{speech}", lambda _: [Said(speaker, text, speech)])

    async def call(self, tool: str, params: JsonObject, scope: str = "") -> str:
        """Call a tool of the game and return in words what happened.

        Args:
            tool: Its name.
            params: Its parameters.
            scope: Who calls it: equal calls of one scope are one after the other, of two scopes
                two.

        Raises:
            ToolError: the rules do not allow it, or the parameters do not fit.
        """
        name = f"{scope}/{tool}:{canonical_json(params).decode()}"
        return self._answer(
            await self.record(name, lambda state: events_or_refusal(state, tool, params))
        )

    async def call_once(self, tool: str, params: JsonObject, key: str) -> str:
        """Call a tool beside the turns, unless a call of this key was made; return in words what
        happened.

        Raises:
            ToolError: the rules do not allow it, or the parameters do not fit.
        """
        async with self._lock:
            batch = self._calls.get(f"call:{key}")
            if batch is None:
                batch = Batch(f"call:{key}", tuple(events_or_refusal(self.state, tool, params)))
                await self._write(batch)
                self._calls[batch.key] = batch
            return self._answer(batch.events)

    def hear(self, speaker: str, text: str, speech: Speech) -> None:
        """Add the next words of an agent to the draft."""
        said = "" if self.draft is None else self.draft.text
        self.draft = Said(speaker, said + text, speech)
        self.wake()

    def drop_draft(self) -> None:
        """Forget the words that were said so far: they were no answer, or the answer is recorded."""
        if self.draft is not None:
            self.draft = None
            self.wake()

    def twin(self) -> GameTable:
        """Return a table in memory on which the turn under way has just begun, for a second
        pipeline.
        """
        return GameTable(
            GameLog(MemoryJournal(), self.log.run),
            self.game_id,
            self.timeline,
            turn_events=[*self.turn_events],
            turn_id=self.turn_id,
        )

    def scope(self, name: str) -> str:
        """Return a name for the next thing of this name in the turn, other than all before."""
        return self._key(f"scope:{name}")

    async def has_recorded(self, name: str) -> bool:
        """Whether the interrupted turn holds the batch of a name; if so, all up to it has happened
        now.
        """
        async with self._lock:
            if self._is_recorded(name):
                self._play_recorded(name)
                return True
            return False

    def wake(self) -> None:
        """Wake those who wait for a change."""
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    def _answer(self, events: Sequence[GameEvent]) -> str:
        """Return the events of a call in words.

        Raises:
            ToolError: the rules refused it.
        """
        if refused := next((event for event in events if isinstance(event, Refused)), None):
            raise ToolError(refused.reason)
        return describe_events(events, self.state)

    async def _write(self, batch: Batch) -> None:
        """Journal a batch and let it happen; both are done also where the caller is cancelled
        meanwhile.
        """
        with anyio.CancelScope(shield=True):
            await self.log.append(batch)
        self._phases.clear()
        self._number_turn(batch)
        self._keep(batch.events)
        self.events += batch.events
        self.wake()

    def _number_turn(self, batch: Batch) -> None:
        if batch.key == TURN_KEY:
            self.turn_id = len(self.events) + 1

    def _key(self, name: str) -> str:
        self._keys[name] += 1
        number = self._keys[name]
        return name if number == 1 else f"{name}#{number}"

    def _keep(self, events: Sequence[GameEvent]) -> None:
        self.timeline = fold_events(events, self.timeline)
        self.turn_events += events
        if any(isinstance(event, Said) for event in events):
            self.draft = None

    def _is_recorded(self, key: str) -> bool:
        return any(batch.key == key for batch in self._recorded)

    def _play_recorded(self, key: str | None = None) -> Sequence[GameEvent]:
        """Let the recorded batches happen up to the one of the key, or all of them; return the
        events of the last.
        """
        events: Sequence[GameEvent] = ()
        while self._recorded:
            batch = self._recorded.popleft()
            events = batch.events
            self._keep(events)
            if batch.key == key:
                self._phases.clear()
                break
        return events


def events_or_refusal(state: GameState, tool: str, params: JsonObject) -> Sequence[GameEvent]:
    """Return what a call of a tool makes happen; a refusal is an event too."""
    try:
        misfits = validator_of(tool_signatures()[tool].input_schema).violations(params)
        if misfits:
            return [Refused(tool, "; ".join(f"{one.pointer} {one.message}" for one in misfits[:3]))]
        return events_of_call(state, tool, params)
    except ToolError as error:
        return [Refused(tool, error.message)]
