"""The fold: events, one after the other, make the state; an undo takes back the last turn.

A call of a tool is a `Play`: it throws dice and collects events, with the state that they make of
the one before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from wavewright.config import did_you_mean
from wavewright.packs.tabletop.game import events as happened
from wavewright.packs.tabletop.game.events import GameEvent, Rolled
from wavewright.packs.tabletop.game.state import (
    Combat,
    Creature,
    GameState,
    begin_state,
    with_items,
)
from wavewright.packs.tabletop.game.world import DICE_PATTERN, GOLD, PLAYER
from wavewright.tools import ToolError


@dataclass(frozen=True, slots=True)
class Timeline:
    """A state, and what an undo goes back to."""

    state: GameState = field(default_factory=GameState)
    before_turn: Timeline | None = field(default=None, repr=False, compare=False)
    """As it was before the last turn; None where no turn is left to be undone."""


def fold_events(events: Iterable[GameEvent], timeline: Timeline | None = None) -> Timeline:
    """Return what events make of a timeline; of an empty one where none is given."""
    return reduce(advance, events, timeline or Timeline())


def advance(timeline: Timeline, event: GameEvent) -> Timeline:
    """Return what one event makes of a timeline."""
    match event:
        case happened.TurnBegan(message=message):
            begun = replace(timeline.state, turn=timeline.state.turn + 1)
            return Timeline(begun.with_said("Player", message), timeline)
        case happened.TurnUndone():
            return timeline.before_turn or timeline
        case _:
            state = apply(timeline.state, event)
            return timeline if state is timeline.state else replace(timeline, state=state)


def apply(state: GameState, event: GameEvent) -> GameState:
    """Return what one event makes of a state; the same object where it changes nothing."""
    match event:
        case happened.GameBegan(seed=seed, world=world):
            return begin_state(seed, world)
        case happened.Rolled(faces=faces):
            return replace(state, dice=state.dice + len(faces))
        case happened.Said(speaker=speaker, text=text):
            return state.with_said(speaker, text)
        case happened.DialogueBegan(npcs=npcs):
            return replace(state, dialogue=npcs)
        case happened.DialogueEnded():
            return replace(state, dialogue=())
        case happened.Talked(npc=npc):
            return replace(state, talks={**state.talks, npc: state.talks.get(npc, 0) + 1})
        case happened.CombatBegan(order=order):
            return replace(state, combat=Combat(order, current=order[0][0]), dialogue=())
        case happened.CombatTurnBegan(who=who, round=number) if state.combat is not None:
            return replace(state, combat=replace(state.combat, current=who, round=number))
        case happened.CombatEnded():
            return replace(state, combat=None)
        case happened.ExperienceGained(amount=amount):
            return replace(state, experience=state.experience + amount)
        case _:
            return _with_world(state, event)


def _with_world(state: GameState, event: GameEvent) -> GameState:
    """Return what an event makes of creatures and places."""
    match event:
        case happened.LevelGained():
            return _with_level(state, event)
        case happened.PlaceAdded():
            return _with_place(state, event)
        case happened.Given():
            return _with_given(state, event)
        case happened.Moved(who=who, place=place) if who == PLAYER:
            moved = state.with_creature(PLAYER, replace(state.player, place=place))
            return replace(moved, came_from=state.player.place)
        case (
            happened.HitPointsChanged(who=who)
            | happened.ConditionChanged(who=who)
            | happened.Moved(who=who)
            | happened.Consumed(who=who)
            | happened.JoinedParty(who=who)
        ):
            return state.with_creature(who, _changed(state.creatures[who], event))
        case _:
            return state


def _changed(creature: Creature, event: GameEvent) -> Creature:
    match event:
        case happened.HitPointsChanged(change=change):
            points = max(0, min(creature.max_hit_points, creature.hit_points + change))
            return replace(creature, hit_points=points)
        case happened.ConditionChanged(condition=condition, turns=turns):
            others = {name: left for name, left in creature.conditions.items() if name != condition}
            return replace(
                creature, conditions={**others, condition: turns} if turns > 0 else others
            )
        case happened.Moved(place=place):
            return replace(creature, place=place)
        case happened.Consumed(item=item):
            return with_items(creature, item, -1)
        case happened.JoinedParty():
            return replace(creature, side="party")
        case _:
            return creature


def _with_given(state: GameState, event: happened.Given) -> GameState:
    moves = ((event.giver, event.item, -event.count), (event.receiver, event.item, event.count))
    paid = (
        ((event.receiver, GOLD, -event.price), (event.giver, GOLD, event.price))
        if event.price
        else ()
    )
    for who, item, change in (*moves, *paid):
        state = state.with_creature(who, with_items(state.creatures[who], item, change))
    return state


def _with_level(state: GameState, event: happened.LevelGained) -> GameState:
    player = state.player
    match event.choice:
        case "hit_points":
            points = player.max_hit_points + 5
            player = replace(player, max_hit_points=points, hit_points=points)
        case "attack":
            player = replace(player, attack=player.attack + 1)
        case "armor":
            player = replace(player, armor=player.armor + 1)
    return replace(state.with_creature(player.id, player), level=state.level + 1)


def _with_place(state: GameState, event: happened.PlaceAdded) -> GameState:
    ways = {
        name: place.model_copy(update={"exits": (*place.exits, event.id)})
        for name, place in state.places.items()
        if name in event.place.exits
    }
    return replace(state, places={**state.places, **ways, event.id: event.place})


D20: Final = 20
_PARTS: Final = re.compile(r"([0-9]+)d([0-9]+)([+-][0-9]+)?")


@dataclass(frozen=True, slots=True)
class DiceExpression:
    """Dice such as `2d6+3`."""

    count: int
    sides: int
    modifier: int


def read_dice(text: str) -> DiceExpression:
    """Return the dice that a text such as `2d6+3` means.

    Raises:
        ToolError: it means none.
    """
    compact = "".join(text.lower().split())
    compact = f"1{compact}" if compact.startswith("d") else compact
    found = _PARTS.fullmatch(compact) if re.match(DICE_PATTERN, compact) else None
    if found is None or int(found[2]) < 2:
        raise ToolError(f"{text!r} is no dice", hint="write dice such as d20 or 2d6+3, 99 at most")
    return DiceExpression(int(found[1]), int(found[2]), int(found[3] or 0))


def die(seed: str, number: int, sides: int) -> int:
    """Return the face, from 1, of the die of this number in the game of this seed."""
    digest = hashlib.blake2b(f"{seed}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % sides + 1


@dataclass(slots=True)
class Play:
    """Collects the events of a call; they count once they are journaled, and not at all if the call
    is refused.
    """

    state: GameState
    events: list[GameEvent] = field(default_factory=list[GameEvent])

    def emit(self, *events: GameEvent) -> None:
        """Let events happen, one after the other."""
        for event in events:
            self.events.append(event)
            self.state = apply(self.state, event)

    def roll(self, who: str, dice: DiceExpression, reason: str) -> Rolled:
        """Throw dice and return the result."""
        first, seed = self.state.dice, self.state.seed
        faces = tuple(die(seed, first + number, dice.sides) for number in range(dice.count))
        rolled = Rolled(who, reason, dice.sides, faces, dice.modifier)
        self.emit(rolled)
        return rolled

    def check(self, who: str, modifier: int, reason: str) -> Rolled:
        """Throw a die of twenty sides with a modifier."""
        return self.roll(who, DiceExpression(1, D20, modifier), reason)

    def creature(self, name: str) -> Creature:
        """Return the creature that an id or a name means.

        Raises:
            ToolError: there is none.
        """
        wanted = name.strip().lower()
        for creature in self.state.creatures.values():
            if wanted in (creature.id, creature.name.lower()):
                return creature
        known = self.state.creatures
        raise ToolError(
            f"nobody is called {name!r}",
            hint=did_you_mean(wanted, known) or f"there are {', '.join(known)}",
        )
