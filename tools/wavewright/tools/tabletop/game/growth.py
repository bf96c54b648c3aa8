"""Rules of what grows: the player's level, and the map."""

from __future__ import annotations

import re
from typing import Final, Literal

from wavewright.tools.tabletop.game import events as happened
from wavewright.tools.tabletop.game.play import refusal
from wavewright.tools.tabletop.game.rules import GameRules
from wavewright.tools.tabletop.game.state import EXPERIENCE_PER_LEVEL
from wavewright.tools.tabletop.game.world import Place

MAX_PLACES: Final = 24
"""Of a map with all that was added to it."""
_MAX_NAME: Final = 40
_MAX_DESCRIPTION: Final = 300


class GrowthRules(GameRules):
    """The tools of the agents that raise the player's level and add places."""

    __slots__ = ()

    def level_up(self, choice: Literal["hit_points", "attack", "armor"]) -> None:
        """Raise the player's level, once it has the experience; not during a fight.

        Args:
            choice: What gets better: five hit points more, or one more for attack or armor.
        """
        self._require_peace()
        if not self.play.state.is_level_due:
            state = self.play.state
            needed = state.level * EXPERIENCE_PER_LEVEL
            raise refusal(f"the next level needs {needed} experience, and the player has {state.experience}")
        self.play.emit(happened.LevelGained(choice))

    def create_place(self, name: str, description: str) -> None:
        """Add a place to the map, next to the player's; not during a fight.

        Args:
            name: What it is called.
            description: What is to be seen there.
        """
        self._require_peace()
        state = self.play.state
        shown = " ".join(name.split())[:_MAX_NAME]
        id_ = re.sub(r"\W+", "_", shown.lower()).strip("_")
        if not id_ or id_ in state.places:
            raise refusal(f"{name!r} cannot be the name of a new place", hint="choose another name")
        if len(state.places) >= MAX_PLACES:
            raise refusal(f"the map has {MAX_PLACES} places, and no room for another one")
        here = state.places[state.player.place]
        rows = [place.at[1] for place in state.places.values() if place.map == here.map]
        place = Place(
            name=shown,
            map=here.map,
            at=(here.at[0], max(rows) + 1),
            exits=(state.player.place,),
            description=description[:_MAX_DESCRIPTION],
        )
        self.play.emit(happened.PlaceAdded(id_, place))
