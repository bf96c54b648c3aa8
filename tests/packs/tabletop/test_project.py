"""A game of a project: with its settings, and with its model where it has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.packs.tabletop.game.events import Said
from wavewright.packs.tabletop.project import open_project_game

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("has_model", [False, True])
async def test_the_game_of_a_project_is_played_by_its_model_or_by_rules(
    *, has_model: bool, model_server: FakeModelServer, tmp_path: Path
) -> None:
    (tmp_path / "wavewright.yaml").write_text("packs: {tabletop: {games: saved/games.sqlite}}\n")
    model_server.answer("Rain, and a well.")
    environment = model_server.environment() if has_model else dict[str, str]()
    async with open_project_game(tmp_path, environment=environment) as game:
        events = [one.event async for one in game.turn("look")]

    said = [event.speaker for event in events if isinstance(event, Said)]
    assert said == ["narrative" if has_model else "rule-based game master"]
    assert (tmp_path / "saved" / "games.sqlite").is_file()
