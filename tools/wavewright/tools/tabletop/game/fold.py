"""The fold: events, one after the other, make the state; an undo takes back the last turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from wavewright.tools.tabletop.game import events as happened
from wavewright.tools.tabletop.game.events import GameEvent
from wavewright.tools.tabletop.game.state import Combat, Creature, GameState, begin_state, with_items
from wavewright.tools.tabletop.game.world import GOLD


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
        case happened.Said() | happened.DialogueBegan() | happened.DialogueEnded() | happened.Talked():
            return _with_words(state, event)
        case happened.ExperienceGained(amount=amount):
            return replace(state, experience=state.experience + amount)
        case happened.LevelGained():
            return _with_level(state, event)
        case happened.PlaceAdded():
            return _with_place(state, event)
        case happened.CombatBegan() | happened.CombatTurnBegan() | happened.CombatEnded():
            return _in_combat(state, event)
        case happened.Given():
            return _with_given(state, event)
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
            return replace(creature, conditions={**others, condition: turns} if turns > 0 else others)
        case happened.Moved(place=place):
            return replace(creature, place=place)
        case happened.Consumed(item=item):
            return with_items(creature, item, -1)
        case happened.JoinedParty():
            return replace(creature, side="party")
        case _:
            return creature


def _with_words(
    state: GameState,
    event: happened.Said | happened.DialogueBegan | happened.DialogueEnded | happened.Talked,
) -> GameState:
    match event:
        case happened.Said(speaker=speaker, text=text):
            return state.with_said(speaker, text)
        case happened.DialogueBegan(npcs=npcs):
            return replace(state, dialogue=npcs)
        case happened.DialogueEnded():
            return replace(state, dialogue=())
        case happened.Talked(npc=npc):
            return replace(state, talks={**state.talks, npc: state.talks.get(npc, 0) + 1})


def _in_combat(
    state: GameState, event: happened.CombatBegan | happened.CombatTurnBegan | happened.CombatEnded
) -> GameState:
    match event:
        case happened.CombatBegan(order=order):
            return replace(state, combat=Combat(order, current=order[0][0]), dialogue=())
        case happened.CombatTurnBegan(who=who, round=number) if state.combat is not None:
            return replace(state, combat=replace(state.combat, current=who, round=number))
        case happened.CombatTurnBegan():
            return state
        case happened.CombatEnded():
            return replace(state, combat=None)


def _with_given(state: GameState, event: happened.Given) -> GameState:
    moves = ((event.giver, event.item, -event.count), (event.receiver, event.item, event.count))
    paid = ((event.receiver, GOLD, -event.price), (event.giver, GOLD, event.price)) if event.price else ()
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
