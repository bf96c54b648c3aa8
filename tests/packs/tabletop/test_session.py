"""A game from outside: golden streams of events, undo, what a crash leaves, and who follows it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.packs.tabletop.playing import (
    TO_ENTRANCE,
    WITH_SELA,
    kinds_of,
    phases_of,
    play,
    text_of,
    world_with,
)
from tests.support.prepared_command import run_prepared_python
from wavewright.config.errors import WavewrightError
from wavewright.executor import MemoryJournal, Noted, RunBusy, SqliteJournal
from wavewright.packs.tabletop.game.events import GameEvent, Rolled, Said, TurnBegan, TurnEnded
from wavewright.packs.tabletop.session import MAX_WAITING, Game
from wavewright.packs.tabletop.turn.agents import AgentRequest, ToolUser, TurnAgent
from wavewright.packs.tabletop.turn.header import CREATOR, LEVEL_UP, standard_registry
from wavewright.planner.types import JsonObject, RunId

pytestmark = pytest.mark.anyio

GAME = RunId("game")


async def one_turn_fight(request: AgentRequest, tools: ToolUser) -> str:
    """Begin, win and end a fight in one answer."""
    await tools.call("start_combat", {"enemies": ["goblin"]})
    while (combat := tools.table.state.combat) is not None:
        state = tools.table.state
        if not state.standing("hostile") or not state.standing("party"):
            await tools.call("end_combat", {})
        else:
            side = state.side_of(combat.current)
            await tools.call("attack", {"target": "player" if side == "hostile" else "goblin"})
    return "It was over before it began."


DUELLIST = TurnAgent(
    "duellist",
    "Fights to the end at once.",
    "tabletop/combat",
    ("start_combat", "attack", "end_combat"),
    one_turn_fight,
    selects=lambda context: "duel" in context.user_message,
)
STRONG = world_with(player={"damage": "9d9+9", "attack": 30, "hit_points": 90, "armor": 30})
CROWDED = world_with(player={"hit_points": 90, "agility": -90}, spider={"place": "entrance"})
GROWN = world_with(
    goblin={"experience": 200}, wolf={"place": "hall"}, player={"attack": 30, "damage": "9d9"}
)


@pytest.mark.parametrize(
    ("before", "message", "options"),
    [
        pytest.param([], "@Mira what do you know of spiders?", {}, id="dialogue only"),
        pytest.param([], "look around", {}, id="narrative only"),
        pytest.param(TO_ENTRANCE[:1], "go to entrance", {}, id="combat begins without an ally"),
        pytest.param(WITH_SELA[:-1], "go to entrance", {}, id="combat begins with an ally"),
        pytest.param(WITH_SELA, "attack Goblin", {}, id="an ally's suggestion"),
        pytest.param(
            [*WITH_SELA, "attack Goblin"],
            "attack Wolf",
            {},
            id="an accepted suggestion, and the end",
        ),
        pytest.param(
            TO_ENTRANCE[:1],
            "go to entrance",
            {"world": world_with(player={"hit_points": 1, "armor": 1}), "seed": "two"},
            id="defeat by auto-run",
        ),
        pytest.param([], "attack", {}, id="no enemies"),
        pytest.param(
            TO_ENTRANCE[:1],
            "go to entrance",
            {"world": CROWDED, "cap": 1},
            id="the cap",
        ),
        pytest.param(
            ["go to gate", "go to entrance", *["attack Goblin", "attack Wolf"] * 2],
            "dance with the wolf",
            {},
            id="words that nobody understands in a fight",
        ),
    ],
)
async def test_the_events_of_a_turn_are_these(
    before: Sequence[str], message: str, options: dict[str, object], snapshot: SnapshotAssertion
) -> None:
    *_, events = await play(*before, message, **options)  # type: ignore[arg-type]

    assert text_of(events) == snapshot


async def test_a_fight_that_begins_and_ends_within_one_turn_is_seen(
    snapshot: SnapshotAssertion,
) -> None:
    registry = standard_registry().with_agent(DUELLIST)
    # Beside the enemies without a fight: they were not noticed by an agent that only moves.
    journal = MemoryJournal()
    async with Game.open(journal, seed="one", world=STRONG, registry=registry) as game:
        await game.call("move", {"place": "gate"}, "1")
        await game.call("move", {"place": "entrance"}, "2")
        events = [one.event async for one in game.turn("duel the goblin")]

    assert {"TransitionNarrativeToCombat", "TransitionCombatToNarrative"} <= {*phases_of(events)}
    assert not {"InitialCombatPrompt", "CombatAutoRun"} & {*phases_of(events)}
    assert text_of(events) == snapshot


async def test_level_up_and_creator_join_by_registration_alone(snapshot: SnapshotAssertion) -> None:
    registry = standard_registry().with_agent(LEVEL_UP).with_agent(CREATOR)
    turns = await play(
        *TO_ENTRANCE,
        "attack Goblin",
        "level up: attack",
        "create place Hidden cave: It is dark, and it drips.",
        "go to hidden cave",
        world=GROWN,
        registry=registry,
    )

    assert text_of(turns[-3]) == snapshot(name="level up")
    assert text_of(turns[-2]) == snapshot(name="creator")
    assert "moved" in kinds_of(turns[-1])
    without = await play(*TO_ENTRANCE, "attack Goblin", "level up: attack", world=GROWN)
    assert not {"OfferLevelChoices", "CheckLevelChoice"} & {*phases_of(without[-1])}


async def test_a_game_is_won_when_the_last_enemy_falls() -> None:
    hostile = ("goblin", "wolf", "spider", "skeleton", "cultist")
    tame = {name: JsonObject(side="neutral") for name in hostile[1:]}
    world = world_with(player={"damage": "9d9", "attack": 30, "agility": 99}, **tame)
    *_, events = await play(*TO_ENTRANCE, "attack Goblin", world=world)

    said = [event.text for event in events if isinstance(event, Said)]
    assert said[-1] == world.ending


async def test_undo_takes_back_the_last_turn_and_the_same_dice_fall_again() -> None:
    async with Game.open(MemoryJournal(), seed="one") as game:
        for message in TO_ENTRANCE[:1]:
            assert [one async for one in game.turn(message)]
        before = game.state
        first = [one.event async for one in game.turn("go to entrance")]
        await game.undo()
        assert game.state == before
        second = [one.event async for one in game.turn("go to entrance")]
        assert second == first
        for _ in range(2):
            await game.undo()
        assert game.state.player.place == "square"
        with pytest.raises(WavewrightError, match="no turn is left"):
            await game.undo()


async def test_a_game_says_that_rules_play_it_and_refuses_a_second_turn_at_once() -> None:
    async with Game.open(MemoryJournal()) as game:
        said = [one.event.text for one in game.events_since() if isinstance(one.event, Said)]
        assert "No language model is configured" in said[0]
        turn = game.turn("look")
        await anext(turn)
        with pytest.raises(WavewrightError, match="a turn is under way"):
            await anext(game.turn("look"))
        await turn.aclose()  # whoever read it is gone, and the turn goes on
        await game.settle()
        assert isinstance(game.events_since(game.last_id - 1)[0].event, TurnEnded)


async def test_messages_during_a_turn_wait_one_for_each_player_and_are_taken_in_order() -> None:
    async with Game.open(MemoryJournal(), seed="one") as game:
        game.say("go to inn", "ann")
        for player, message in [
            ("ann", "dance"),
            ("bob", "look"),
            ("ann", "go to square"),
            ("cid", "wave"),
        ]:
            game.say(message, player)
        assert [tuple(one) for one in game.waiting] == [
            ("ann", "go to square"),
            ("bob", "look"),
            ("cid", "wave"),
        ]
        game.withdraw("bob")
        for number in range(MAX_WAITING - 2):
            game.say("look", f"player {number}")
        with pytest.raises(WavewrightError, match="8 messages are waiting already"):
            game.say("look", "one too many")
        await game.settle()
        said = [
            one.event.message for one in game.events_since() if isinstance(one.event, TurnBegan)
        ]
        assert said == ["go to inn", "go to square", "wave", *["look"] * (MAX_WAITING - 2)]
        assert game.waiting == ()
        assert game.state.player.place == "square"


async def test_what_was_undone_is_not_told_to_agents() -> None:
    async with Game.open(MemoryJournal(), seed="one") as game:
        assert [one async for one in game.turn("I sing of goblins")]
        assert "Player: I sing of goblins" in game.state.said
        await game.undo()
        assert "Player: I sing of goblins" not in game.state.said


async def test_who_follows_a_game_sees_each_event_once_wherever_it_begins() -> None:
    seen: list[int] = []
    async with Game.open(MemoryJournal(), seed="one") as game, anyio.create_task_group() as group:

        async def follow(id_: int) -> None:
            async for numbered in game.follow(id_):
                seen.append(numbered.id)
                if isinstance(numbered.event, TurnEnded) and numbered.event.turn == 2:
                    return

        group.start_soon(follow, 2)
        for message in ("look", "go to inn"):
            assert [one async for one in game.turn(message)]
    assert seen == [*range(3, game.last_id + 1)]


async def played_again(
    journal: MemoryJournal, count: int
) -> tuple[list[GameEvent], list[GameEvent]]:
    """Return the events of a game whose process died after this many batches, before and after it
    goes on.
    """
    kept = MemoryJournal()
    await kept.append(GAME, (await journal.load(GAME))[:count])
    await kept.close_run(GAME)
    async with Game.open(kept) as game:
        before = [one.event for one in game.events_since()]
        await game.settle()
        return before, [one.event for one in game.events_since()]


async def test_a_turn_that_was_interrupted_after_any_batch_goes_on_and_rolls_nothing_again() -> (
    None
):
    journal = MemoryJournal()
    await play(*WITH_SELA, "attack Goblin", journal=journal)
    notes = await journal.load(GAME)
    whole = await events_of(journal)
    rolls = [event for event in whole if isinstance(event, Rolled)]
    keys = [str(note.body["key"]) for note in notes if isinstance(note, Noted)]
    begun = [number for number, key in enumerate(keys) if key == "turn"]

    assert len(rolls) >= 6
    for number in range(begun[-2] + 1, len(notes)):
        before, after = await played_again(journal, number)
        end = next(
            (
                place
                for place, event in enumerate(whole)
                if place >= len(before) and event.kind == "turn_ended"
            ),
            0,
        )
        is_between = keys[number] == "turn"
        assert after == (before if is_between else whole[: end + 1]), keys[number - 1]


async def events_of(journal: MemoryJournal) -> list[GameEvent]:
    async with Game.open(journal) as game:
        return [one.event for one in game.events_since()]


PROGRAM = """
import os, signal, sys, anyio
from wavewright.packs.tabletop.session import Game

async def main() -> None:
    async with Game.open(sys.argv[1], seed="one") as game:
        for message in ("go to gate", "go to entrance"):
            async for numbered in game.turn(message):
                if numbered.event.kind == "rolled" and numbered.event.reason == "attack":
                    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


async def test_a_process_that_is_killed_in_a_turn_loses_nothing_and_rolls_nothing_again(
    tmp_path: Path,
) -> None:
    file = tmp_path / "games.sqlite"
    ended = run_prepared_python("-c", PROGRAM, str(file))
    *_, whole = await play(*TO_ENTRANCE)

    assert ended.returncode == -signal.SIGKILL
    async with Game.open(file) as game:
        await game.settle()
        events = [one.event for one in game.events_since()]
    assert events[-len(whole) :] == whole


async def test_games_of_one_journal_are_apart_and_each_has_one_owner(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "games.sqlite") as journal:
        async with (
            Game.open(journal, "a", seed="one") as first,
            Game.open(journal, "b", seed="one") as second,
        ):
            assert [one async for one in first.turn("go to inn")]
            assert (first.state.player.place, second.state.player.place) == ("inn", "square")
            with pytest.raises(RunBusy):
                async with Game.open(journal, "a"):
                    pass
        async with Game.open(journal, "a") as again:
            assert again.state == first.state
