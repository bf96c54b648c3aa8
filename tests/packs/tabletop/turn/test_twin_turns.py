"""A second pipeline of the turn, run beside the first: it changes no game, asks no model, and what
differs is told.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packs.tabletop.playing import world_with
from tests.packs.tabletop.turn.test_agents import game_with_model, scripted_master
from wavewright.config.errors import WavewrightError
from wavewright.engine import PhaseResult, Pipeline, TwinReport, proceed
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor import MemoryJournal
from wavewright.packs.tabletop.project import open_project_game
from wavewright.packs.tabletop.session import Game
from wavewright.packs.tabletop.turn.agents import TurnAgents
from wavewright.packs.tabletop.turn.context import TurnContext
from wavewright.packs.tabletop.turn.header import TurnTwin, turn_pipeline
from wavewright.packs.tabletop.turn.phases import (
    DetectNpcDialogueTargets,
    ExecuteAgent,
    SelectAgent,
)

pytestmark = pytest.mark.anyio

MODULE = """
from wavewright.packs.tabletop.turn.header import turn_pipeline


def shorter(agents, cap):
    return turn_pipeline(agents, 1, name="shorter")


def wrong(agents, cap):
    return "no pipeline"
"""


CROWDED = world_with(player={"hit_points": 90, "agility": -90}, spider={"place": "entrance"})


def equal_pipeline(agents: TurnAgents, cap: int) -> Pipeline[TurnContext, TurnContext]:
    return turn_pipeline(agents, cap, name="equal")


@dataclass(frozen=True)
class Shout:
    """Say it louder."""

    name: str = "Shout"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        return proceed(context.with_updates(user_message=f"{context.user_message}!"))


def shouting(agents: TurnAgents, cap: int) -> Pipeline[TurnContext, TurnContext]:
    del cap
    return (
        Pipeline.builder("shouting")
        .phase(DetectNpcDialogueTargets())
        .phase(Shout())
        .phase(SelectAgent(agents.registry))
        .phase(ExecuteAgent(agents))
        .build()
    )


def impatient(agents: TurnAgents, cap: int) -> Pipeline[TurnContext, TurnContext]:
    return turn_pipeline(agents, min(cap, 1), name="impatient")


async def test_an_equal_pipeline_agrees_and_asks_no_model(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(scripted_master)
    reports: list[TwinReport] = []
    twin = TurnTwin(equal_pipeline, reports.append)
    async with game_with_model(model_server, tmp_path, MemoryJournal(), twin=twin) as game:
        for message in ("Through the gate", "Into the mine", "At them", "I strike", "@Mira hello"):
            assert [one async for one in game.turn(message)]
        asked, state = len(model_server.requests), game.state

    assert len(reports) == 5
    assert [report for report in reports if not report.agrees] == []
    assert len(model_server.requests) == asked
    alone = MemoryJournal()
    async with game_with_model(model_server, tmp_path, alone) as game:
        for message in ("Through the gate", "Into the mine", "At them", "I strike", "@Mira hello"):
            assert [one async for one in game.turn(message)]
        assert game.state == state


async def test_what_differs_is_told_by_phase_and_the_game_is_that_of_the_first() -> None:
    reports: list[TwinReport] = []
    async with Game.open(
        MemoryJournal(), seed="one", world=CROWDED, twin=TurnTwin(impatient, reports.append)
    ) as game:
        for message in ("go to gate", "go to entrance"):
            assert [one async for one in game.turn(message)]
        state = game.state
    async with Game.open(MemoryJournal(), seed="one", world=CROWDED) as alone:
        for message in ("go to gate", "go to entrance"):
            assert [one async for one in alone.turn(message)]
        assert alone.state == state

    assert reports[0].agrees
    [difference] = reports[1].differences
    assert (difference.phase, difference.kind) == ("CombatAutoRun", "changed")
    places = {change.dotted_path for change in difference.changes}
    assert "reason" in places
    assert "context.game_state.combat.current" in places


async def test_a_question_that_the_first_pipeline_did_not_ask_is_not_asked(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    model_server.answer(scripted_master)
    reports: list[TwinReport] = []
    twin = TurnTwin(shouting, reports.append)
    async with game_with_model(model_server, tmp_path, MemoryJournal(), twin=twin) as game:
        assert [one async for one in game.turn("Is there luck")]

    [report] = reports
    assert report.failure.startswith(
        "EffectNotAnswered: the first pipeline did not do ask narrative"
    )
    assert len(report.effects_only_second) == 1
    assert len(model_server.requests) == 2


@pytest.mark.parametrize(
    ("twin", "told"),
    [
        ("{pipeline: 'mine:shorter', sample: 1}", ""),
        ("{pipeline: 'mine:missing'}", "the module 'mine' has no function 'missing'"),
        ("{pipeline: 'mine:wrong'}", "mine:wrong returns str and no pipeline"),
        ("{pipeline: 'other:shorter'}", "there is no module 'other'"),
        ("{pipeline: mine}", "'twin.pipeline' should match"),
        ("{pipeline: 'mine:shorter', sample: 2}", "'twin.sample'"),
    ],
)
async def test_a_setting_names_the_second_pipeline(twin: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "wavewright.yaml").write_text(f"packs: {{tabletop: {{twin: {twin}}}}}\n")
    (tmp_path / "mine.py").write_text(MODULE)
    reports: list[TwinReport] = []
    context = pytest.raises(WavewrightError, match=re.escape(told)) if told else nullcontext()
    with context:
        async with open_project_game(tmp_path, report_twin=reports.append, environment={}) as game:
            assert [one async for one in game.turn("look")]

    assert [(one.first, one.second, one.agrees) for one in reports] == (
        [] if told else [("turn", "shorter", True)]
    )
