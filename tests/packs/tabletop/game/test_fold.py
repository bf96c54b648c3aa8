"""The fold: hit points stay in their bounds, and replay of any prefix gives the state that the game
had there.
"""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tests.packs.tabletop.playing import world_with
from wavewright.packs.tabletop.game.events import (
    EVENTS,
    GameBegan,
    GameEvent,
    TurnBegan,
    TurnUndone,
)
from wavewright.packs.tabletop.game.fold import Timeline, advance, fold_events
from wavewright.packs.tabletop.game.rules import events_of_call
from wavewright.packs.tabletop.game.state import options_of
from wavewright.packs.tabletop.game.world import PLAYER
from wavewright.planner.types import JsonObject
from wavewright.tools.functions.errors import ToolError

WORLD = world_with(player={"items": {"gold": 200, "healing potion": 2}})


def events_of_choices(seed: str, choices: list[int]) -> list[GameEvent]:
    """Return the events of a game: somebody chooses among what is allowed, enemies hit, and turns
    are undone.
    """
    timeline, events = Timeline(), list[GameEvent]()

    def happen(*new: GameEvent) -> None:
        nonlocal timeline
        for event in new:
            timeline = advance(timeline, event)
            events.append(event)

    happen(GameBegan(seed, WORLD))
    for number, choice in enumerate(choices):
        state = timeline.state
        if choice % 11 == 10 and timeline.before_turn is not None:
            happen(TurnUndone(state.turn))
            continue
        happen(TurnBegan(number, "x"))
        actor = PLAYER if state.combat is None else state.combat.current
        options = options_of(state, actor)
        calls: list[tuple[str, JsonObject]] = [
            (option.tool, option.params) for option in options if option.tool != "talk"
        ]
        if state.combat is not None and state.side_of(actor) == "hostile":
            standing = state.standing("party")
            calls = [("attack", JsonObject(target=one.id)) for one in standing] or [
                ("end_combat", {})
            ]
        try:
            happen(*events_of_call(state, *calls[choice % len(calls)]) if calls else ())
        except ToolError:  # the player lies on the ground: an ally has to act, or the fight to end
            happen(*events_of_call(state, "end_combat", {}))
    return events


@given(seed=st.text(max_size=5), choices=st.lists(st.integers(0, 400), max_size=60))
@settings(max_examples=40)
def test_any_game_keeps_its_laws(seed: str, choices: list[int]) -> None:
    events = events_of_choices(seed, choices)
    timelines = [Timeline()]
    for event in events:
        timelines.append(advance(timelines[-1], event))
        for creature in timelines[-1].state.creatures.values():
            assert 0 <= creature.hit_points <= creature.max_hit_points
            assert all(count > 0 for count in creature.items.values())
            assert all(turns > 0 for turns in creature.conditions.values())
    gold = [
        sum(one.items.get("gold", 0) for one in line.state.creatures.values())
        for line in timelines[1:]
    ]
    assert {*gold} == {gold[0]}
    read_again = EVENTS.validate_json(EVENTS.dump_json(tuple(events)))
    for count in {0, len(events) // 3, len(events) // 2, len(events)}:
        assert fold_events(read_again[:count]).state == timelines[count].state


@given(choices=st.lists(st.integers(0, 9), min_size=1, max_size=30))
@settings(max_examples=20)
def test_an_undone_turn_leaves_nothing_behind(choices: list[int]) -> None:
    events = events_of_choices("one", choices)
    last = max(number for number, event in enumerate(events) if isinstance(event, TurnBegan))
    undone = fold_events([*events, TurnUndone(0)])

    assert undone.state == fold_events(events[:last]).state
