"""What the rules do and what they refuse, whoever asks for it."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from tests.packs.tabletop.playing import after, new_state, world_with
from wavewright.packs.tabletop.game.events import (
    Attacked,
    ConditionChanged,
    GameEvent,
    HitPointsChanged,
    Moved,
    Rolled,
)
from wavewright.packs.tabletop.game.rules import events_of_call
from wavewright.packs.tabletop.game.state import describe_events, options_of
from wavewright.planner.types import JsonObject
from wavewright.tools.functions.errors import ToolError

Calls: TypeAlias = tuple[tuple[str, JsonObject], ...]
TO_MINE: Calls = (("move", {"place": "gate"}), ("move", {"place": "entrance"}))
HIRED: Calls = (
    ("move", {"place": "inn"}),
    ("give", {"item": "gold", "receiver": "sela", "count": 10}),
    ("move", {"place": "square"}),
)


FIGHT: Calls = (*TO_MINE, ("start_combat", {}))
REFUSED: list[tuple[Calls, str, JsonObject, str]] = [
    (
        (),
        "give",
        {"item": "gold", "giver": "mira", "receiver": "player", "count": 1000},
        "Mira has no 1000 gold",
    ),
    (
        (),
        "give",
        {"item": "gold", "giver": "mira", "receiver": "player", "count": 5},
        "Mira gives no gold away",
    ),
    ((), "give", {"item": "gold", "receiver": "player", "count": 5}, "has the gold already"),
    ((), "give", {"item": "gold", "receiver": "mira", "count": 0}, "has no 0 gold"),
    ((), "give", {"item": "iron key", "giver": "borin", "receiver": "player"}, "hand anything"),
    ((), "give", {"item": "gold", "receiver": "goblin"}, "nothing is given to enemies"),
    ((), "move", {"place": "shrine"}, "no way leads from Village square"),
    ((), "start_combat", {}, "no enemy at the player's place"),
    ((), "attack", {"target": "goblin"}, "there is no fight"),
    ((), "end_combat", {}, "there is no fight to end"),
    ((), "talk", {"npc": "sela"}, "Sela is nobody to talk to here"),
    ((), "talk", {"npc": "nobody"}, "nobody is called 'nobody'"),
    ((), "roll", {"dice": "1d1", "reason": "x"}, "is no dice"),
    ((), "roll", {"dice": "1000d6", "reason": "x"}, "is no dice"),
    ((), "level_up", {"choice": "attack"}, "needs 100 experience"),
    (
        (),
        "create_place",
        {"name": "Square", "description": "x"},
        "cannot be the name of a new place",
    ),
    (FIGHT, "start_combat", {}, "a fight going on"),
    (FIGHT, "move", {"place": "gate"}, "a fight going on"),
    (FIGHT, "end_combat", {}, "the fight goes on: Goblin, Wolf"),
    (
        FIGHT,
        "attack",
        {"target": "player", "attacker": "player"},
        "not Rowan's turn",
    ),
    (FIGHT, "attack", {"target": "goblin"}, "Wolf cannot attack Goblin"),
    (
        FIGHT,
        "give",
        {"item": "healing potion", "receiver": "player"},
        "not Rowan's",
    ),
]


@pytest.mark.parametrize(("before", "tool", "params", "reason"), REFUSED)
def test_what_the_rules_do_not_allow_is_refused(
    before: Calls, tool: str, params: JsonObject, reason: str
) -> None:
    with pytest.raises(ToolError, match=reason):
        events_of_call(after(new_state(), *before), tool, params)


def test_a_sale_costs_its_price_and_a_potion_heals_and_ends_poison() -> None:
    bought = after(
        new_state(hit_points=1, conditions={"poisoned": 3}),
        ("give", {"item": "healing potion", "giver": "mira", "receiver": "player"}),
    )
    drunk = after(bought, ("give", {"item": "healing potion", "receiver": "player"}))

    assert (bought.player.items["gold"], bought.creatures["mira"].items["gold"]) == (17, 20)
    assert (bought.player.items["healing potion"], drunk.player.items["healing potion"]) == (2, 1)
    assert drunk.player.hit_points > 4
    assert not drunk.player.conditions


def test_a_potion_heals_no_more_than_was_lost() -> None:
    events = events_of_call(new_state(), "give", {"item": "healing potion", "receiver": "player"})

    assert HitPointsChanged("player", 0, "healing potion") in events


def test_an_ally_joins_for_its_wages_follows_and_fights() -> None:
    state = after(new_state(), *HIRED, *TO_MINE, ("start_combat", {}))

    assert state.creatures["sela"].place == "entrance"
    assert state.combat is not None
    assert {name for name, _ in state.combat.order} == {"player", "sela", "goblin", "wolf"}


def test_a_closed_place_opens_with_its_item() -> None:
    state = new_state(place="hall")
    with pytest.raises(ToolError, match="the player has no iron key"):
        events_of_call(state, "move", {"place": "shrine"})

    assert (
        after(
            new_state(place="hall", items={"iron key": 1}), ("move", {"place": "shrine"})
        ).player.place
        == "shrine"
    )


def test_poison_costs_hit_points_at_each_turn_and_ends_by_itself() -> None:
    world = world_with(
        player={"hit_points": 90, "armor": 1, "attack": 0}, spider={"hit_points": 400, "attack": 30}
    )
    state = after(new_state(place="tunnel", world=world), ("start_combat", {}))
    lost = list[int]()
    while state.combat is not None and state.combat.round < 3:
        mine = state.combat.current == "player"
        before = state.player.hit_points
        state = after(state, ("attack", {"target": "spider" if mine else "player"}))
        if not mine:
            lost.append(before - state.player.hit_points)
            assert state.player.conditions == {
                "poisoned": 2
            }  # three turns, and the first has begun

    assert all(points >= 2 for points in lost)  # the bite and the poison


def test_every_option_that_is_suggested_is_allowed() -> None:
    states = [
        new_state(),
        after(new_state(), *HIRED),
        after(new_state(hit_points=3), *HIRED, *TO_MINE, ("start_combat", {})),
    ]
    for state in states:
        actor = "player" if state.combat is None else state.combat.current
        for option in options_of(state, actor):
            assert events_of_call(state, option.tool, option.params)


def test_equal_seeds_and_equal_calls_give_equal_dice_and_other_seeds_other_dice() -> None:
    def rolls(seed: str) -> list[tuple[int, ...]]:
        events = events_of_call(after(new_state(seed), *TO_MINE), "start_combat", {})
        return [event.faces for event in events if isinstance(event, Rolled)]

    assert rolls("one") == rolls("one") != rolls("two")


def test_dice_are_fair_enough() -> None:
    thrown = events_of_call(new_state(), "roll", {"dice": "99d6", "reason": "many"})
    faces = thrown[0].faces if isinstance(thrown[0], Rolled) else ()

    assert {*faces} == {1, 2, 3, 4, 5, 6}
    assert not any(isinstance(event, Attacked) for event in thrown)


def test_a_party_rests_at_the_refuge_and_comes_to_itself_there_with_half_of_its_hit_points() -> (
    None
):
    rested = after(new_state(hit_points=3), ("move", {"place": "inn"}))
    assert rested.player.hit_points == rested.player.max_hit_points == 14

    hit: JsonObject = {"attack": 99, "damage": "9d9", "agility": 99}
    beaten = after(
        new_state(world=world_with(goblin=hit, wolf={"place": "hall"}), place="entrance"),
        ("start_combat", {}),
        ("attack", {"target": "player"}),
        ("end_combat", {}),
    )
    assert (beaten.player.place, beaten.player.hit_points, beaten.combat) == ("inn", 7, None)


def test_what_several_events_did_to_one_creature_is_told_with_what_is_left_once() -> None:
    state = new_state(hit_points=9)
    events: list[GameEvent] = [
        HitPointsChanged("player", -3, "1d6"),
        ConditionChanged("player", "poisoned", 3),
        HitPointsChanged("player", -1, "poisoned"),
        ConditionChanged("player", "poisoned", 2),
        Moved("player", "square"),
        Moved("sela", "square"),
    ]

    assert describe_events(events, state) == (
        "Rowan loses 3 hit points. Rowan is poisoned. Rowan loses 1 hit point by being poisoned, 9 of 14 left. "
        "Rowan and Sela go to Village square."
    )
