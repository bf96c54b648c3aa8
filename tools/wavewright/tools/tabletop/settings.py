"""What a project sets for the pack `tabletop`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from wavewright.config.sections import LogLevel
from wavewright.engine import TwinSettings
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import JsonObject
from wavewright.tools.packs import validated_settings
from wavewright.tools.tabletop.game.world import SHIPPED_WORLD, World, read_world

AUTO_RUN_CAP: Final = 20
"""Most turns of enemies in one turn of the player, unless a setting says otherwise."""


class TabletopSettings(DocumentModel):
    """All settings of the pack."""

    games: str = ".wavewright/games.sqlite"
    """File with the journal of the games."""
    world: str | None = None
    """File with the world of new games, in place of the pack's own."""
    seed: str | None = None
    """Of the dice of new games; a random one for each where absent."""
    auto_run_cap: Annotated[int, Field(ge=1, le=1000)] = AUTO_RUN_CAP
    """Most turns of enemies in one turn of the player."""
    log_level: LogLevel = "info"
    """Lowest level of the lines that `wavewright play` logs; `debug` has one for each phase."""
    twin: TwinSettings | None = None
    """A second pipeline of the turn, which is run beside it on some turns and compared."""

    def games_file(self, root: Path) -> Path:
        """Return the file of the journal."""
        return root / Path(self.games).expanduser()

    def world_of(self, root: Path) -> World:
        """Return the world of new games.

        Raises:
            PackError: its file cannot be read.
        """
        return read_world(SHIPPED_WORLD if self.world is None else root / Path(self.world).expanduser())


def read_settings(settings: JsonObject) -> TabletopSettings:
    """Return the settings of the pack.

    Raises:
        PackError: fields are unknown or have wrong values.
    """
    return validated_settings("tabletop", TabletopSettings, settings)
