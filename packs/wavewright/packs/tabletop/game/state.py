"""The state of a game as frozen values, what the rules allow somebody to do next, and what happens,
in words.

The words are what tools answer, what the rule-based game master says, and what a log shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from wavewright.packs.tabletop.game import events as happened
from wavewright.packs.tabletop.game.events import GameEvent, Option
from wavewright.packs.tabletop.game.world import (
    CONDITION_TURNS,
    CONDITIONS,
    GOLD,
    PLAYER,
    Condition,
    CreatureSheet,
    Item,
    Place,
    Side,
    World,
)
from wavewright.planner import JsonObject

_EXPERIENCE_PER_LEVEL: Final = 100
"""A player of level n may rise when it has n times as much experience."""

_REMEMBERED_TEXTS: Final = 12
"""Texts of the game so far that agents are told."""

_ABOUT: Final = re.compile(
    r"(?:the|an?)\s+(?:[\w'’-]+\s+){0,3}?(?P<noun>\w+)(?=[,:.;]|\s(?:who|with|of|in|from|at|for)\b|$)",
    re.IGNORECASE,
)
"""How the sheet of a person begins: `The village's healer: …`."""

Mode: TypeAlias = Literal["narrative", "combat", "dialogue"]


@dataclass(frozen=True, slots=True)
class Creature:
    """The player, a person or an enemy, as it is now."""

    id: str
    sheet: CreatureSheet
    side: Side
    place: str
    hit_points: int
    max_hit_points: int
    attack: int
    armor: int
    items: Mapping[str, int]
    conditions: Mapping[Condition, int] = field(default_factory=dict[Condition, int])
    """How many of its turns each condition lasts."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.sheet.name

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called: its id, its name, and what it is about, as `smith`."""
        what = _ABOUT.match(self.sheet.about)
        return (self.id, self.name.lower(), *([what["noun"].lower()] if what else []))

    @property
    def is_standing(self) -> bool:
        """Whether it can act."""
        return self.hit_points > 0

    def has(self, item: str, count: int = 1) -> bool:
        """Whether it carries that many of an item."""
        return self.items.get(item, 0) >= count


@dataclass(frozen=True, slots=True)
class Combat:
    """A fight that goes on."""

    order: tuple[tuple[str, int], ...]
    """Creatures with their initiative, the highest first."""
    current: str
    """Whose turn it is."""
    round: int = 1


@dataclass(frozen=True, slots=True)
class GameState:
    """Everything that the rules know."""

    seed: str = ""
    refuge: str = ""
    ending: str = ""
    turn: int = 0
    """Turns that were begun and not undone."""
    dice: int = 0
    """Dice that were thrown: the number of the next one."""
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])
    items: Mapping[str, Item] = field(default_factory=dict[str, Item])
    creatures: Mapping[str, Creature] = field(default_factory=dict[str, Creature])
    came_from: str = ""
    """Where the player was before it came to where it is."""
    combat: Combat | None = None
    dialogue: tuple[str, ...] = ()
    """People with whom the player talks."""
    talks: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often the player spoke to each person."""
    experience: int = 0
    level: int = 1
    said: tuple[str, ...] = ()
    """The last texts of players and agents, with their speakers."""

    @property
    def player(self) -> Creature:
        """The player's creature."""
        return self.creatures[PLAYER]

    @property
    def mode(self) -> Mode:
        """What the game is about now."""
        if self.combat is not None:
            return "combat"
        return "dialogue" if self.dialogue else "narrative"

    @property
    def is_ally_turn(self) -> bool:
        """Whether a hired ally acts next in a fight."""
        combat = self.combat
        return (
            combat is not None
            and combat.current != PLAYER
            and self.side_of(combat.current) == "party"
        )

    @property
    def is_won(self) -> bool:
        """Whether no enemy stands anywhere."""
        return not any(one.side == "hostile" and one.is_standing for one in self.creatures.values())

    @property
    def is_level_due(self) -> bool:
        """Whether the player has the experience of the next level."""
        return self.experience >= self.experience_needed

    @property
    def experience_needed(self) -> int:
        """The experience of the next level."""
        return self.level * _EXPERIENCE_PER_LEVEL

    def side_of(self, who: str) -> Side:
        """Return whom a creature stands by."""
        return self.creatures[who].side

    def standing(self, side: Side) -> tuple[Creature, ...]:
        """Return who of a side can act where the player is; in a fight, who takes part in it."""
        here = (one for one in self.creatures.values() if one.side == side and one.is_standing)
        if self.combat is None:
            return tuple(one for one in here if one.place == self.player.place)
        fighters = {name for name, _ in self.combat.order}
        return tuple(one for one in here if one.id in fighters)

    def with_said(self, speaker: str, text: str) -> GameState:
        """Return the state with another text."""
        return replace(self, said=(*self.said, f"{speaker}: {text}")[-_REMEMBERED_TEXTS:])

    def with_creature(self, who: str, creature: Creature) -> GameState:
        """Return the state with another version of a creature."""
        return replace(self, creatures={**self.creatures, who: creature})


def begin_state(seed: str, world: World) -> GameState:
    """Return the state of a new game."""
    creatures = {
        name: Creature(
            id=name,
            sheet=sheet,
            side=sheet.side,
            place=world.start if name == PLAYER else sheet.place,
            hit_points=sheet.hit_points,
            max_hit_points=sheet.hit_points,
            attack=sheet.attack,
            armor=sheet.armor,
            items=sheet.items,
        )
        for name, sheet in world.creatures.items()
    }
    return GameState(
        seed=seed,
        refuge=world.refuge,
        ending=world.ending,
        places=world.places,
        items=world.items,
        creatures=creatures,
    )


def with_items(creature: Creature, item: str, change: int) -> Creature:
    """Return a creature with more or fewer of an item."""
    left = creature.items.get(item, 0) + change
    others = {name: count for name, count in creature.items.items() if name != item}
    return replace(creature, items={**others, item: left} if left > 0 else others)


def options_of(state: GameState, who: str = PLAYER) -> tuple[Option, ...]:
    """Return what a creature can do now; nothing where it is somebody else's turn in a fight."""
    actor = state.creatures[who]
    if state.combat is not None:
        if not state.standing("hostile") or not state.standing("party"):
            return (Option("end the fight", "end_combat", {}),)
        return tuple(_in_fight(state, actor)) if state.combat.current == who else ()
    return tuple(_in_peace(state, actor))


def _in_fight(state: GameState, actor: Creature) -> Iterator[Option]:
    for opponent in state.standing("hostile" if actor.side == "party" else "party"):
        yield Option(
            f"attack {opponent.name}", "attack", {"target": opponent.id, "attacker": actor.id}
        )
    if actor.side == "party":
        yield from _potions(state, actor)


def _in_peace(state: GameState, actor: Creature) -> Iterator[Option]:
    if state.standing("hostile") and actor.is_standing:
        yield Option("attack", "start_combat", {})
    for person in state.standing("neutral"):
        yield Option(f"talk to {person.name}", "talk", {"npc": person.id})
        for item, price in person.sheet.prices.items():
            if person.has(item) and actor.has(GOLD, price):
                label = f"buy {item} from {person.name} for {price} gold"
                yield Option(label, "give", handing(item, person.id, PLAYER))
        if (hire := person.sheet.hire) and actor.has(GOLD, hire):
            wages = handing(GOLD, PLAYER, person.id, hire)
            yield Option(f"hire {person.name} for {hire} gold", "give", wages)
    for place in state.places[actor.place].exits:
        needed = state.places[place].needs
        if needed is None or actor.has(needed):
            yield Option(f"go to {state.places[place].name}", "move", {"place": place})
    yield from _potions(state, actor)


def handing(item: str, giver: str, receiver: str, count: int = 1) -> JsonObject:
    """Return the parameters of the call by which somebody hands something over."""
    return {"item": item, "giver": giver, "receiver": receiver, "count": count}


def _potions(state: GameState, actor: Creature) -> Iterator[Option]:
    """Return who of the party can be healed with something that the actor carries."""
    for item, kind in state.items.items():
        if kind.heals is None or not actor.has(item):
            continue
        for hurt in state.creatures.values():
            if (
                hurt.side == "party"
                and hurt.place == actor.place
                and hurt.hit_points < hurt.max_hit_points
            ):
                label = f"drink {item}" if hurt.id == actor.id else f"give {item} to {hurt.name}"
                yield Option(label, "give", handing(item, actor.id, hurt.id))


def describe_events(events: Iterable[GameEvent], state: GameState) -> str:
    """Return what happened, a sentence for each event; rolls only where nothing came of them.

    Args:
        events: What happened.
        state: The state after it.
    """
    known = [*events]
    narrated = [event for event in known if not isinstance(event, happened.Rolled)] or known
    moved = [event for event in narrated if isinstance(event, happened.Moved)]
    last = {event.who: event for event in narrated if isinstance(event, happened.HitPointsChanged)}
    texts: list[str] = []
    for event in narrated:
        match event:
            case happened.Moved():
                texts.append(_describe_moves(moved, state) if event is moved[0] else "")
            case happened.HitPointsChanged(who=who) if event is not last[who]:
                texts.append(_describe_hit_points(event, state, is_last=False))
            case _:
                texts.append(describe_event(event, state))
    return " ".join(text for text in texts if text)


def _describe_moves(moved: Sequence[happened.Moved], state: GameState) -> str:
    """Return who went where, in one sentence: a party goes together."""
    *others, last = (_name(state, event.who) for event in moved)
    who = f"{', '.join(others)} and {last} go" if others else f"{last} goes"
    return f"{who} to {state.places[moved[-1].place].name}."


def describe_event(event: GameEvent, state: GameState) -> str:
    """Return one event as a sentence; empty for one that nothing is to be said of."""
    match event:
        case happened.Rolled(reason=reason, faces=faces, sides=sides, modifier=modifier):
            shown = f"{len(faces)}d{sides}" + (f"{modifier:+}" if modifier else "")
            return f"{_name(state, event.who)} rolls {shown} for {reason}: {event.total}."
        case happened.CombatBegan(order=order):
            listed = ", ".join(f"{_name(state, who)} {initiative}" for who, initiative in order)
            return f"A fight begins. Initiative: {listed}."
        case happened.CombatTurnBegan(who=who):
            return f"It is {_name(state, who)}'s turn."
        case happened.Attacked(attacker=attacker, target=target, total=total, has_hit=has_hit):
            done = "hits" if has_hit else "misses"
            return f"{_name(state, attacker)} {done} {_name(state, target)} with {total}."
        case happened.CombatEnded(outcome=outcome):
            return f"The fight is over: {outcome}."
        case happened.ExperienceGained(amount=amount):
            gained = f"{state.player.name} gains {amount} experience"
            return f"{gained}: {state.experience} of {state.experience_needed}."
        case happened.LevelGained(choice=choice):
            return f"{state.player.name} rises to level {state.level}: {choice.replace('_', ' ')}."
        case happened.PlaceAdded(place=place):
            return f"A way leads to a new place: {place.name}."
        case happened.JoinedParty(who=who):
            return f"{_name(state, who)} joins the party."
        case happened.Refused(reason=reason):
            return f"The rules do not allow it: {reason}."
        case _:
            return _describe_change(event, state)


def _describe_change(event: GameEvent, state: GameState) -> str:
    match event:
        case happened.HitPointsChanged():
            return _describe_hit_points(event, state, is_last=True)
        case happened.ConditionChanged(who=who, condition=condition, turns=turns):
            is_news = turns in (0, CONDITION_TURNS)
            state_text = condition if turns else f"no longer {condition}"
            return f"{_name(state, who)} is {state_text}." if is_news else ""
        case happened.Given(giver=giver, receiver=receiver, item=item, count=count, price=price):
            paid = f" for {price} gold" if price else ""
            return f"{_name(state, receiver)} gets {count} {item} from {_name(state, giver)}{paid}."
        case _:
            return ""


def _describe_hit_points(
    event: happened.HitPointsChanged, state: GameState, *, is_last: bool
) -> str:
    """Return what a creature lost or regained; what is left of it where nothing more is told."""
    creature, change = state.creatures[event.who], event.change
    points = f"{abs(change)} hit point{'' if abs(change) == 1 else 's'}"
    done = f"{creature.name} {'loses' if change < 0 else 'regains'} {points}"
    if event.reason in CONDITIONS:
        done += f" by being {event.reason}"
    if not is_last:
        return f"{done}."
    end = "" if creature.is_standing else " and falls"
    return f"{done}{end}, {creature.hit_points} of {creature.max_hit_points} left."


def describe_scene(state: GameState, *, has_come: bool = False) -> str:
    """Return where the player is, who else is there, and what leads away; who has just come knows
    where it is.
    """
    place = state.places[state.player.place]
    others = [one for one in state.creatures.values() if one.place == state.player.place]
    present = [one.name for one in others if one.is_standing and one.side != "party"]
    ways = ", ".join(state.places[name].name for name in place.exits)
    here = f" Here: {', '.join(present)}." if present else ""
    return f"{'' if has_come else f'{place.name}. '}{place.description}{here} Ways: {ways}."


def describe_party(state: GameState) -> str:
    """Return hit points, conditions and items of the party and of whoever it fights."""
    fighters = {name for name, _ in state.combat.order} if state.combat is not None else set[str]()
    lines: list[str] = []
    for one in state.creatures.values():
        if one.side != "party" and one.id not in fighters:
            continue
        conditions = "".join(f", {name}" for name in one.conditions)
        items = ", ".join(f"{count} {item}" for item, count in one.items.items()) or "nothing"
        points = f"{one.hit_points}/{one.max_hit_points} hit points{conditions}"
        lines.append(f"{one.name} ({one.id}, {one.side}): {points}; carries {items}")
    return "\n".join(lines)


def _name(state: GameState, who: str) -> str:
    return state.creatures[who].name
