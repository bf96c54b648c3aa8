"""What a project sets for the pack `tabletop`, and the tools of the game for plans.

Each tool takes the name of a game, and acts in it beside its turns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from wavewright.config import LogLevel, ReadPath
from wavewright.engine import TwinSettings
from wavewright.packs.tabletop.game.rules import AUTO_RUN_CAP, GAME_TOOLS, tool_signatures
from wavewright.packs.tabletop.game.world import SHIPPED_WORLD, World, read_world
from wavewright.planner import DocumentModel, Json, JsonObject, as_list, as_object
from wavewright.tools import Tool, ToolCall, validated_settings


class TabletopSettings(DocumentModel):
    """All settings of the pack."""

    games: str = ".wavewright/games.sqlite"
    """File with the journal of the games."""
    world: ReadPath | None = None
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
        return read_world(
            SHIPPED_WORLD if self.world is None else root / Path(self.world).expanduser()
        )


def read_settings(settings: JsonObject) -> TabletopSettings:
    """Return the settings of the pack.

    Raises:
        PackError: fields are unknown or have wrong values.
    """
    return validated_settings("tabletop", TabletopSettings, settings)


def plan_tools(settings: TabletopSettings, root: Path) -> tuple[Tool, ...]:
    """Return the tools over the games of a project; paths in the settings are relative to `root`."""
    return tuple(_plan_tool(name, settings, root) for name in GAME_TOOLS)


def _plan_tool(name: str, settings: TabletopSettings, root: Path) -> Tool:
    own = tool_signatures()[name]
    properties = as_object(own.input_schema.get("properties"))
    required = as_list(own.input_schema.get("required"))
    game: Json = {"type": "string", "minLength": 1, "description": "Name of the game."}
    signature = own.model_copy(
        update={
            "name": f"tabletop.{name}",
            "input_schema": {
                **own.input_schema,
                "properties": {"game": game, **properties},
                "required": ["game", *required],
            },
            "output_schema": {"type": "string"},
            "concurrency": 1,
        }
    )

    async def call(request: ToolCall) -> Json:
        from wavewright.packs.tabletop.session import Game

        params = {key: value for key, value in request.params.items() if key != "game"}
        file = settings.games_file(root)
        file.parent.mkdir(parents=True, exist_ok=True)
        async with Game.open(
            file, str(request.params["game"]), world=settings.world_of(root)
        ) as open_game:
            return await open_game.call(name, params, str(request.key))

    return Tool(signature, call)
