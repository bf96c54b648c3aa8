"""What of a journal is compared: all but time, place and what merely happened to come first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.rehearsal.recordings.conftest import ProjectMaker
from tests.engine.rehearsal.recordings.normalized_journal import normalized_journal
from wavewright.executor.events.types import Event, ItemFinished, OutputStreamed, StepFinished
from wavewright.planner.types import StepId, StepKey

ITEMS = [
    ItemFinished(1.0, StepId("a"), index, StepKey(f"k{index}"), "ok", output=index, seconds=index)
    for index in range(3)
]


def test_which_item_ended_first_and_when_does_not_last() -> None:
    later = [replace(event, at=9.0, seconds=5.0, attempts=2) for event in reversed(ITEMS)]

    assert normalized_journal(later) == normalized_journal(ITEMS)


def test_keys_are_told_apart_and_not_told() -> None:
    others = [replace(event, key=StepKey(f"x{event.index}")) for event in ITEMS]
    same = [replace(event, key=StepKey("same")) for event in ITEMS]

    assert normalized_journal(others) == normalized_journal(ITEMS)
    assert normalized_journal(same) != normalized_journal(ITEMS)


@pytest.mark.parametrize(
    "changed",
    [
        replace(ITEMS[1], output=7),
        replace(ITEMS[1], status="empty"),
        replace(ITEMS[1], index=7),
    ],
    ids=["output", "status", "item"],
)
def test_whatever_an_item_came_to_lasts(changed: Event) -> None:
    assert normalized_journal([ITEMS[0], changed, ITEMS[2]]) != normalized_journal(ITEMS)


def test_a_text_that_was_streamed_lasts_however_it_was_cut() -> None:
    whole = [OutputStreamed(1.0, StepId("a"), "one two")]
    pieces = [OutputStreamed(1.0, StepId("a"), "one "), OutputStreamed(2.0, StepId("a"), "two")]

    assert normalized_journal(pieces) == normalized_journal(whole)


def test_the_order_of_rounds_lasts(quotes_project: ProjectMaker) -> None:
    ran, _ = quotes_project().record()
    last = next(place for place, event in enumerate(ran.events) if isinstance(event, StepFinished))
    moved = [*ran.events[:last], *ran.events[last + 1 :], ran.events[last]]

    assert normalized_journal(moved) != normalized_journal(ran.events)
