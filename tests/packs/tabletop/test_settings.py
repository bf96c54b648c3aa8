"""The tools of the game for plans: in games of a file, under keys that make a repeated call one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.tools.calling import request
from wavewright.packs.tabletop import TOOL_NAMES
from wavewright.planner.types import Json, JsonObject, StepKey
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.packs import PackError, load_pack


def call(tool: str, params: JsonObject, root: Path, key: str) -> Json:
    tools = {
        one.signature.name: one
        for one in load_pack("tabletop", {"games": "games.sqlite"}, root).tools
    }
    return anyio.run(partial(tools[tool].call, replace(request(params), key=StepKey(key))))


def test_a_call_acts_in_its_game_and_a_repeat_of_it_does_nothing(tmp_path: Path) -> None:
    first = call("tabletop.roll", {"game": "a", "dice": "3d6", "reason": "luck"}, tmp_path, "1")

    assert str(first).startswith("Rowan rolls 3d6 for luck: ")
    assert (
        call("tabletop.roll", {"game": "a", "dice": "3d6", "reason": "luck"}, tmp_path, "1")
        == first
    )
    assert (
        call("tabletop.move", {"game": "a", "place": "inn"}, tmp_path, "2")
        == "Rowan goes to The Dry Boot inn."
    )
    with pytest.raises(ToolError, match="no way leads from The Dry Boot inn"):
        call("tabletop.move", {"game": "a", "place": "gate"}, tmp_path, "3")
    assert (
        call("tabletop.move", {"game": "b", "place": "gate"}, tmp_path, "3")
        == "Rowan goes to North gate."
    )


def test_the_pack_brings_what_it_names_and_declares_that_it_writes() -> None:
    pack = load_pack("tabletop")

    assert pack.tool_names == TOOL_NAMES
    assert all("write" in tool.signature.effects for tool in pack.tools)


def test_settings_that_are_wrong_are_refused_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"pack 'tabletop': 'auto_run_cap'"):
        load_pack("tabletop", {"auto_run_cap": 0})
    world = tmp_path / "world.yaml"
    world.write_text(
        "opening: hm\nstart: nowhere\nrefuge: nowhere\nplaces: {}\nitems: {}\ncreatures: {}\n"
    )
    with pytest.raises((PackError, ToolError), match="places lacks 'nowhere'"):
        anyio.run(
            load_pack("tabletop", {"world": "world.yaml"}, tmp_path).tools[0].call,
            request({"game": "a"}),
        )
