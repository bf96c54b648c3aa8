"""What a game begins with: maps of places, items and creatures, read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias, get_args

from pydantic import Field, model_validator

from wavewright.planner import DocumentModel
from wavewright.tools import read_pack_file

SHIPPED_WORLD: Final = Path(__file__).with_name("world.yaml")
PLAYER: Final = "player"
GOLD: Final = "gold"
DICE_PATTERN: Final = r"^[1-9][0-9]?d[1-9][0-9]{0,2}([+-][0-9]{1,3})?$"

Side: TypeAlias = Literal["party", "neutral", "hostile"]
"""Whom a creature stands by: the player and hired allies, nobody, or the enemies."""
Condition: TypeAlias = Literal["poisoned", "frightened"]
"""`poisoned` costs hit points at the begin of each own turn in a fight; `frightened` makes attacks
worse.
"""
CONDITIONS: Final = get_args(Condition)
CONDITION_TURNS: Final = 3
"""How many of its turns a creature has a condition."""
Count: TypeAlias = Annotated[int, Field(ge=1)]


class Place(DocumentModel):
    """A place on one of the maps."""

    name: str
    map: str
    at: Annotated[tuple[int, int], Field(strict=False)]
    """Column and row on its map."""
    exits: Annotated[tuple[str, ...], Field(strict=False)]
    description: str
    needs: str | None = None
    """An item that the player has to carry to come in."""


class Item(DocumentModel):
    """A kind of item."""

    description: str
    heals: Annotated[str, Field(pattern=DICE_PATTERN)] | None = None
    """Dice of the hit points that it gives back to whoever in the party is given it; it is used up.
    """


class CreatureSheet(DocumentModel):
    """A creature at the begin of a game: the player, a person, or an enemy."""

    name: str
    side: Side
    place: str
    hit_points: Count
    armor: Annotated[int, Field(ge=1, le=30)]
    """What an attack on it has to reach."""
    attack: int
    """Added to the die of its attacks."""
    damage: Annotated[str, Field(pattern=DICE_PATTERN)]
    agility: int
    """Added to the die of its initiative."""
    items: dict[str, Count] = {}
    experience: Annotated[int, Field(ge=0)] = 0
    """What the player learns by its defeat."""
    inflicts: Condition | None = None
    """Condition of whom it hits."""
    about: str = ""
    offer: str = ""
    """What a person says first while it has something to sell, or may be hired."""
    lines: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """What a person says, one line after the other, where no model speaks for it."""
    ally_lines: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """What it says in place of both once it has joined the party."""
    prices: dict[str, Count] = {}
    """What a person sells, in gold."""
    hire: Count | None = None
    """Gold for which a person joins the party."""


class World(DocumentModel):
    """Places, items and creatures of a new game."""

    opening: str
    ending: str = ""
    """What is told when no enemy is left."""
    start: str
    """Place of the player."""
    refuge: str
    """Place where the party rests, and a beaten one comes to itself."""
    places: dict[str, Place]
    items: dict[str, Item]
    creatures: dict[str, CreatureSheet]

    @model_validator(mode="after")
    def _refers_to_what_there_is(self) -> Self:
        used = {
            "places": {self.start, self.refuge}
            | {place for one in self.places.values() for place in one.exits}
            | {creature.place for creature in self.creatures.values()},
            "items": {place.needs for place in self.places.values() if place.needs}
            | {
                item
                for creature in self.creatures.values()
                for item in [*creature.items, *creature.prices]
            }
            | {GOLD},
            "creatures": {PLAYER},
        }
        known: Mapping[str, set[str]] = {
            "places": {*self.places},
            "items": {*self.items},
            "creatures": {*self.creatures},
        }
        for what, names in used.items():
            if absent := sorted(names - known[what]):
                msg = f"{what} lacks {', '.join(map(repr, absent))}, which the world refers to"
                raise ValueError(msg)
        return self


@lru_cache(maxsize=8)
def read_world(file: Path = SHIPPED_WORLD) -> World:
    """Return the world of a file.

    Raises:
        PackError: it cannot be read, or holds something else.
    """
    return read_pack_file(file, World, "tabletop.world")
