"""What the page of a game shows: the lines of the talk, and the board beside it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from wavewright.packs.tabletop.game import events as happened
from wavewright.packs.tabletop.game.events import GameEvent
from wavewright.packs.tabletop.game.state import Creature, GameState, options_of

_CELL: Final = (118, 72)
"""Width and height of a cell of a map, in pixels of the drawing."""
_BESIDE: Final = ((-1, 0), (1, 0), (0, 1), (0, -1))
"""Where a place of another map is drawn, seen from the place that a way leads from."""
_SPEAKERS: Final = {"narrative": "Game master", "combat": "Game master", "engine": "The rules"}
_PHASE: Final = re.compile(r"(?P<indent> *)(?P<name>[\w ]+?)(?::|  +(?P<about>.*))")


class TalkLine(NamedTuple):
    """One line of the talk."""

    id: int
    """Of the event that it tells."""
    kind: str
    who: str
    text: str
    roll: happened.Rolled | None = None
    """Dice that it shows after the text."""


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
    _turns: list[tuple[int, tuple[str, ...]]] = field(
        default_factory=list[tuple[int, tuple[str, ...]]]
    )
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
                self.lines.append(TalkLine(id_, speech, speaker_name(speaker, state), text))
            case happened.Rolled(who=who, reason=reason):
                self.lines.append(TalkLine(id_, "roll", speaker_name(who, state), reason, event))
            case happened.Suggested(options=options):
                self.options = tuple(option.label for option in options)
            case happened.TurnEnded(halted=halted):
                self.is_busy = False
                if halted is not None and halted.startswith("FAILED"):
                    self.lines.append(
                        TalkLine(id_, "failed", "Error", f"The turn {halted.lower()}")
                    )
            case _:
                pass


def speaker_name(name: str, state: GameState) -> str:
    """Return what players call a speaker: a creature, or an agent."""
    if name in state.creatures:
        return state.creatures[name].name
    return _SPEAKERS.get(name, name.replace("_", " ").capitalize())


class _ShownPlace(NamedTuple):
    lines: tuple[str, ...]
    """Its name."""
    x: int
    y: int
    kind: Literal["here", "near", "far", "beyond"]
    """`near` is a way off, `beyond` is on another map."""


class _ShownMap(NamedTuple):
    """The map on which the player is; places are at the centres of cells."""

    name: str
    text: str
    width: int
    height: int
    places: tuple[_ShownPlace, ...]
    ways: tuple[tuple[int, int, int, int], ...]


class _ShownPhase(NamedTuple):
    name: str
    about: str
    depth: int
    is_guard: bool
    state: Literal["", "done", "now"]


@dataclass(frozen=True, slots=True)
class Board:
    """Everything beside the talk."""

    state: GameState
    transcript: Transcript
    options: tuple[str, ...]
    map: _ShownMap
    creatures: tuple[tuple[Creature, int | None, bool], ...]
    """Who is there, with the initiative in a fight, and whether it acts next."""
    phases: tuple[_ShownPhase, ...]


def board_of(transcript: Transcript, state: GameState, header: str) -> Board:
    """Return the board of a state; `header` is the pipeline of a turn as text."""
    options = transcript.options
    if not options and not transcript.is_busy and not state.is_ally_turn:
        options = tuple(option.label for option in options_of(state))
    phases = tuple(_shown_phases(header, transcript))
    return Board(state, transcript, options, _shown_map(state), tuple(_creatures(state)), phases)


def _shown_map(state: GameState) -> _ShownMap:
    here = state.places[state.player.place]
    cells = _cells_of(here.map, state)
    left, top = min(x for x, _ in cells.values()), min(y for _, y in cells.values())
    centres = {
        name: ((x - left) * _CELL[0] + _CELL[0] // 2, (y - top) * _CELL[1] + _CELL[1] // 2)
        for name, (x, y) in cells.items()
    }
    pairs = {
        frozenset((name, way))
        for name in centres
        for way in state.places[name].exits
        if way in centres
    }
    ends = [sorted(pair) for pair in pairs if len(pair) == 2]
    ways = ", ".join(state.places[way].name for way in here.exits)
    return _ShownMap(
        here.map,
        f"Map of {here.map}. You are at {here.name}; ways lead to {ways}.",
        max(x for x, _ in centres.values()) + _CELL[0] // 2,
        max(y for _, y in centres.values()) + _CELL[1] // 2,
        tuple(_shown_place(name, *at, state) for name, at in centres.items()),
        tuple((*centres[one], *centres[other]) for one, other in sorted(ends)),
    )


def _cells_of(map_: str, state: GameState) -> dict[str, tuple[int, int]]:
    """Return column and row of each place of a map, and of places of others to which a way leads
    from it.
    """
    cells = {name: place.at for name, place in state.places.items() if place.map == map_}
    for name in [*cells]:
        for way in state.places[name].exits:
            if way in cells:
                continue
            beside = [(cells[name][0] + x, cells[name][1] + y) for x, y in _BESIDE]
            cells[way] = next((at for at in beside if at not in cells.values()), beside[0])
    return cells


def _shown_place(name: str, x: int, y: int, state: GameState) -> _ShownPlace:
    place, here = state.places[name], state.places[state.player.place]
    if place is here:
        kind: Literal["here", "near", "far", "beyond"] = "here"
    elif place.map != here.map:
        kind = "beyond"
    else:
        kind = "near" if name in here.exits else "far"
    return _ShownPlace(
        tuple(textwrap.wrap(place.name, 11, max_lines=3, placeholder="…")), x, y, kind
    )


def _creatures(state: GameState) -> Iterator[tuple[Creature, int | None, bool]]:
    combat = state.combat
    if combat is not None:
        for who, initiative in combat.order:
            yield state.creatures[who], initiative, who == combat.current
        return
    for one in state.creatures.values():
        if one.is_standing and (one.place == state.player.place or one.side == "party"):
            yield one, None, False


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
