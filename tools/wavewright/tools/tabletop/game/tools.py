"""The rules as tools: a signature for each, and the call that does one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import JsonObject
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.tabletop.game.events import GameEvent
from wavewright.tools.tabletop.game.play import Play
from wavewright.tools.tabletop.game.rules import GrowthRules
from wavewright.tools.tabletop.game.state import GameState

GAME_DATA: Final = "tabletop"
"""Name of the run data that says how far a game is: two equal calls at different points of it are two calls."""
GAME_TOOLS: Final = ("start_combat", "attack", "end_combat", "move", "talk", "give", "roll")
GROWTH_TOOLS: Final = ("level_up", "create_place")


@lru_cache(maxsize=1)
def tool_signatures() -> Mapping[str, ToolSignature]:
    """Return the signatures of all tools of the game: each writes, and what it writes is the game."""
    rules = GrowthRules(Play(GameState()))
    return {
        name: make_tool(getattr(rules, name), name=name, effects={"read", "write"}, idempotent=True).signature
        for name in (*GAME_TOOLS, *GROWTH_TOOLS)
    }


def events_of_call(state: GameState, tool: str, params: JsonObject) -> tuple[GameEvent, ...]:
    """Return what a call of a tool makes happen.

    Raises:
        ToolError: the rules do not allow it.
    """
    play = Play(state)
    call: Callable[..., None] = getattr(GrowthRules(play), tool)
    call(**params)
    return tuple(play.events)
