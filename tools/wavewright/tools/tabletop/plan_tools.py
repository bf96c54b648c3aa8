"""The tools of the game for plans: each takes the name of a game, and acts in it beside its turns."""

from __future__ import annotations

from pathlib import Path

from wavewright.planner.types import Json
from wavewright.tools.functions.tool import Tool, ToolCall
from wavewright.tools.tabletop.game.rules import GAME_TOOLS, tool_signatures
from wavewright.tools.tabletop.settings import TabletopSettings


def plan_tools(settings: TabletopSettings, root: Path) -> tuple[Tool, ...]:
    """Return the tools over the games of a project; paths in the settings are relative to `root`."""
    return tuple(_plan_tool(name, settings, root) for name in GAME_TOOLS)


def _plan_tool(name: str, settings: TabletopSettings, root: Path) -> Tool:
    own = tool_signatures()[name]
    properties, required = own.input_schema.get("properties"), own.input_schema.get("required", [])
    assert isinstance(properties, dict)
    assert isinstance(required, list)
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
        from wavewright.tools.tabletop.session import Game

        params = {key: value for key, value in request.params.items() if key != "game"}
        file = settings.games_file(root)
        file.parent.mkdir(parents=True, exist_ok=True)
        async with Game.open(file, str(request.params["game"]), world=settings.world_of(root)) as open_game:
            return await open_game.call(name, params, str(request.key))

    return Tool(signature, call)
