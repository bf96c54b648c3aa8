"""What the page of a game shows: the lines of the talk, and the board beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from wavewright.tools.tabletop.game import events as happened
from wavewright.tools.tabletop.game.events import GameEvent
from wavewright.tools.tabletop.game.options import options_of
from wavewright.tools.tabletop.game.state import Creature, GameState
from wavewright.tools.tabletop.game.world import GOLD

_CELL: Final = (132, 76)
"""Width and height of a cell of a map, in pixels of the drawing."""
_PHASE: Final = re.compile(r"(?P<indent> *)(?P<name>[\w ]+?)(?::|  +(?P<about>.*))")
_NO_FACES: Final[tuple[int, ...]] = ()


class TalkLine(NamedTuple):
    """One line of the talk."""

    id: int
    """Of the event that it tells."""
    kind: str
    who: str
    text: str
    faces: tuple[int, ...] = _NO_FACES
    """Of dice."""


@dataclass(slots=True)
class Transcript:
    """The lines of a game, and what is known of its last turn, from its events one by one."""

    lines: list[TalkLine] = field(default_factory=list[TalkLine])
    options: tuple[str, ...] = ()
    phases: list[str] = field(default_factory=list[str])
    """Phases of the last turn that have begun, in their order."""
    is_busy: bool = False
    """Whether a turn is under way."""
    last_id: int = 0
    last_undo: int = 0
    """Id of the last event that took lines back."""
    _turns: list[tuple[int, tuple[str, ...]]] = field(default_factory=list[tuple[int, tuple[str, ...]]])
    """For each turn that counts, how many lines there were before it, and the options."""

    @property
    def can_undo(self) -> bool:
        """Whether a turn is left to be undone."""
        return bool(self._turns)

    def add(self, id_: int, event: GameEvent, state: GameState) -> None:
        """Take an event; `state` tells the names."""
        self.last_id = id_
        match event:
            case happened.TurnBegan(message=message):
                self._turns.append((len(self.lines), self.options))
                self.phases, self.options, self.is_busy = [], (), True
                self.lines.append(TalkLine(id_, "player", "You", message))
            case happened.TurnUndone() if self._turns:
                kept, self.options = self._turns.pop()
                del self.lines[kept:]
                self.phases, self.last_undo = [], id_
            case happened.PhaseBegan(phase=phase):
                self.phases.append(phase)
            case happened.Said(speaker=speaker, text=text, speech=speech):
                self.lines.append(TalkLine(id_, speech, _speaker(speaker, state), text))
            case happened.Rolled(who=who, reason=reason, faces=faces, sides=sides, modifier=modifier):
                shown = f"{len(faces)}d{sides}" + (f"{modifier:+}" if modifier else "")
                text = f"rolls {shown} for {reason}: {event.total}"
                self.lines.append(TalkLine(id_, "roll", _speaker(who, state), text, faces))
            case happened.Suggested(options=options):
                self.options = tuple(option.label for option in options)
            case happened.TurnEnded(halted=halted):
                self.is_busy = False
                if halted is not None and halted.startswith("FAILED"):
                    self.lines.append(TalkLine(id_, "failed", "Error", f"The turn {halted.lower()}"))
            case _:
                pass

    def lines_since(self, id_: int) -> list[TalkLine]:
        """Return the lines of later events."""
        return [line for line in self.lines if line.id > id_]


def _speaker(name: str, state: GameState) -> str:
    return state.creatures[name].name if name in state.creatures else name.replace("_", " ").capitalize()


class _ShownPlace(NamedTuple):
    name: str
    x: int
    y: int
    is_here: bool


class _ShownMap(NamedTuple):
    """The map on which the player is; places are at the centres of cells."""

    name: str
    text: str
    width: int
    height: int
    places: tuple[_ShownPlace, ...]
    ways: tuple[tuple[int, int, int, int], ...]


class _ShownCreature(NamedTuple):
    name: str
    side: str
    hit_points: int
    most: int
    conditions: str
    initiative: int | None
    is_next: bool


class _ShownPhase(NamedTuple):
    name: str
    about: str
    depth: int
    is_guard: bool
    state: Literal["", "done", "now"]


@dataclass(frozen=True, slots=True)
class Board:
    """Everything beside the talk."""

    options: tuple[str, ...]
    is_busy: bool
    can_undo: bool
    map: _ShownMap
    creatures: tuple[_ShownCreature, ...]
    round: int
    """Of the fight; 0 where there is none."""
    level: int
    experience: int
    items: str
    phases: tuple[_ShownPhase, ...]


def board_of(transcript: Transcript, state: GameState, header: str) -> Board:
    """Return the board of a state; `header` is the pipeline of a turn as text."""
    options = transcript.options
    if not options and not transcript.is_busy and not state.is_ally_turn:
        options = tuple(option.label for option in options_of(state))
    carried = ", ".join(f"{count} {item}" for item, count in sorted(state.player.items.items()) if count)
    return Board(
        options=options,
        is_busy=transcript.is_busy,
        can_undo=transcript.can_undo,
        map=_shown_map(state),
        creatures=tuple(_shown_creatures(state)),
        round=0 if state.combat is None else state.combat.round,
        level=state.level,
        experience=state.experience,
        items=f"You carry {carried}." if carried else f"You carry no {GOLD} and nothing else.",
        phases=tuple(_shown_phases(header, transcript)),
    )


def _shown_map(state: GameState) -> _ShownMap:
    here = state.places[state.player.place]
    on_map = {name: place for name, place in state.places.items() if place.map == here.map}
    left = min(place.at[0] for place in on_map.values())
    top = min(place.at[1] for place in on_map.values())
    centres = {
        name: (
            (place.at[0] - left) * _CELL[0] + _CELL[0] // 2,
            (place.at[1] - top) * _CELL[1] + _CELL[1] // 2,
        )
        for name, place in on_map.items()
    }
    pairs = {frozenset((name, way)) for name, place in on_map.items() for way in place.exits if way in on_map}
    ends = [sorted(pair) for pair in pairs if len(pair) == 2]
    beyond = [state.places[way].name for way in here.exits if way not in on_map]
    ways = [state.places[way].name for way in here.exits]
    text = f"Map of {here.map}. You are at {here.name}; ways lead to {', '.join(ways)}."
    return _ShownMap(
        here.map + (f", with a way to {', '.join(beyond)}" if beyond else ""),
        text,
        max(x for x, _ in centres.values()) + _CELL[0] // 2,
        max(y for _, y in centres.values()) + _CELL[1] // 2,
        tuple(_ShownPlace(on_map[name].name, x, y, on_map[name] is here) for name, (x, y) in centres.items()),
        tuple((*centres[one], *centres[other]) for one, other in sorted(ends)),
    )


def _shown_creatures(state: GameState) -> Iterator[_ShownCreature]:
    combat = state.combat
    if combat is None:
        here = [
            one for one in state.creatures.values() if one.place == state.player.place or one.side == "party"
        ]
        yield from (_shown_creature(one, None, is_next=False) for one in here if one.is_standing)
        return
    for who, initiative in combat.order:
        yield _shown_creature(state.creatures[who], initiative, is_next=who == combat.current)


def _shown_creature(one: Creature, initiative: int | None, *, is_next: bool) -> _ShownCreature:
    conditions = ", ".join(f"{name} for {left}" for name, left in one.conditions.items())
    return _ShownCreature(
        one.name, one.side, one.hit_points, one.max_hit_points, conditions, initiative, is_next
    )


def _shown_phases(header: str, transcript: Transcript) -> Iterator[_ShownPhase]:
    begun: Sequence[str] = transcript.phases
    for text in header.splitlines():
        match = _PHASE.match(text)
        if match is None:
            continue
        name, is_guard = match["name"], match["about"] is None
        is_now = transcript.is_busy and begun[-1:] == [name]
        state: Literal["", "done", "now"] = "now" if is_now else "done" if name in begun else ""
        yield _ShownPhase(name, match["about"] or "", len(match["indent"]) // 4, is_guard, state)
