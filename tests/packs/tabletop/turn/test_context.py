"""The context of a turn: wrapping and reloading do nothing the second time, and guards read
transitions.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.packs.tabletop.playing import after, new_state
from wavewright.executor import MemoryJournal
from wavewright.packs.tabletop.game.events import CombatBegan, CombatEnded, CombatTurnBegan, Rolled
from wavewright.packs.tabletop.game.fold import Timeline
from wavewright.packs.tabletop.turn.context import (
    TRANSITIONS,
    TurnContext,
    TurnEvent,
    TurnMachine,
    combat_active,
    combat_just_ended,
    combat_just_started,
    reload_context,
    wrap_ally_action,
)
from wavewright.packs.tabletop.turn.phases import addressed_people
from wavewright.packs.tabletop.turn.table import GameLog, GameTable
from wavewright.planner.types import RunId

EVENTS = st.lists(
    st.sampled_from(
        [
            (CombatBegan((("player", 1),)), CombatTurnBegan("player", 1), CombatEnded("victory")),
            (Rolled("player", "luck", 6, (3,), 0),),
        ]
    ),
    max_size=5,
)


@given(message=st.text(), ally=st.text(max_size=20))
def test_wrapping_twice_is_wrapping_once_and_keeps_what_was_said(message: str, ally: str) -> None:
    wrapped = wrap_ally_action(message, ally)

    assert wrap_ally_action(wrapped, ally) == wrapped
    assert wrapped.endswith(message)
    assert wrapped.startswith("[ALLY_ACTION]")


def test_a_message_that_is_wrapped_already_stays_as_it_is() -> None:
    assert wrap_ally_action("[ALLY_ACTION] Sela: attack", "Sela") == "[ALLY_ACTION] Sela: attack"
    assert wrap_ally_action("attack", "Sela") == "[ALLY_ACTION] Sela: attack"


@given(groups=EVENTS)
def test_reloading_twice_is_reloading_once(groups: list[tuple[Rolled, ...]]) -> None:
    table = GameTable(GameLog(MemoryJournal(), RunId("game")), "game", Timeline(new_state()))
    table.turn_events = [event for group in groups for event in group]
    context = TurnContext("hello", "game", new_state(), table=table)
    once = reload_context(context)

    assert reload_context(once) == once
    fights = sum(isinstance(event, CombatBegan) for event in table.turn_events)
    assert once.machine.taken.count(TurnEvent.COMBAT_ENDED) == fights
    assert (combat_just_started(once), combat_active(once)) == (bool(fights), False)
    assert combat_just_ended(once) == bool(fights)


def test_an_event_that_cannot_happen_now_is_refused() -> None:
    for mode in ("narrative", "combat", "dialogue"):
        for event in TurnEvent:
            if (mode, event) in TRANSITIONS:
                assert TurnMachine(mode).after(event).has_taken(event)
            else:
                with pytest.raises(ValueError, match=f"{event.value} cannot happen in {mode}"):
                    TurnMachine(mode).after(event)


@pytest.mark.parametrize(
    ("message", "people"),
    [
        ("@Mira hello", ("mira",)),
        ("Mira, what now?", ("mira",)),
        ("talk to mira and Sela", ("mira", "sela")),
        ("ask Sela about wolves", ("sela",)),
        ("buy a potion from Mira", ()),
        ("@Borin hello", ()),
        ("I admire the well", ()),
    ],
)
def test_who_is_addressed(message: str, people: tuple[str, ...]) -> None:
    hired = after(
        new_state(),
        ("move", {"place": "inn"}),
        ("give", {"item": "gold", "receiver": "sela", "count": 10}),
        ("move", {"place": "square"}),
    )

    assert addressed_people(message, hired) == people
