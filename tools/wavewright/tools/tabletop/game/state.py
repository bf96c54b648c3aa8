"""The state of a game as frozen values, and what the rules allow somebody to do next in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from wavewright.planner.types import JsonObject
from wavewright.tools.tabletop.game.events import Option
from wavewright.tools.tabletop.game.world import (
    GOLD,
    PLAYER,
    Condition,
    CreatureSheet,
    Item,
    Place,
    Side,
    World,
)

_EXPERIENCE_PER_LEVEL: Final = 100
"""A player of level n may rise when it has n times as much experience."""

_REMEMBERED_TEXTS: Final = 12
"""Texts of the game so far that agents are told."""

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
        return combat is not None and combat.current != PLAYER and self.side_of(combat.current) == "party"

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
        yield Option(f"attack {opponent.name}", "attack", {"target": opponent.id, "attacker": actor.id})
    if actor.side == "party":
        yield from _potions(state, actor)


def _in_peace(state: GameState, actor: Creature) -> Iterator[Option]:
    if state.standing("hostile") and actor.is_standing:
        yield Option("attack", "start_combat", {})
    for person in state.standing("neutral"):
        yield Option(f"talk to {person.name}", "talk", {"npc": person.id})
        for item, price in person.sheet.prices.items():
            if person.has(item) and actor.has(GOLD, price):
                params: JsonObject = {"item": item, "giver": person.id, "receiver": PLAYER, "count": 1}
                yield Option(f"buy {item} from {person.name} for {price} gold", "give", params)
        if (hire := person.sheet.hire) and actor.has(GOLD, hire):
            wages: JsonObject = {"item": GOLD, "giver": PLAYER, "receiver": person.id, "count": hire}
            yield Option(f"hire {person.name} for {hire} gold", "give", wages)
    for place in state.places[actor.place].exits:
        needed = state.places[place].needs
        if needed is None or actor.has(needed):
            yield Option(f"go to {state.places[place].name}", "move", {"place": place})
    yield from _potions(state, actor)


def _potions(state: GameState, actor: Creature) -> Iterator[Option]:
    """Return who of the party can be healed with something that the actor carries."""
    for item, kind in state.items.items():
        if kind.heals is None or not actor.has(item):
            continue
        for hurt in state.creatures.values():
            if hurt.side == "party" and hurt.place == actor.place and hurt.hit_points < hurt.max_hit_points:
                label = f"drink {item}" if hurt.id == actor.id else f"give {item} to {hurt.name}"
                params: JsonObject = {"item": item, "giver": actor.id, "receiver": hurt.id, "count": 1}
                yield Option(label, "give", params)
