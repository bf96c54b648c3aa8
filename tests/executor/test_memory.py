"""What a run was answered is known for as long as it is worked on."""

from __future__ import annotations

import pytest

from wavewright.executor.journal import MemoryJournal
from wavewright.executor.memory import RunMemory
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

RUN = RunId("20261122-060000-abc123")


async def test_a_run_that_is_given_up_takes_no_room_and_what_it_was_told_can_be_learnt_again() -> None:
    journal = MemoryJournal()
    await journal.open_run(RUN)
    memory = RunMemory(journal)
    await memory.keep(RUN, "key", {"text": "one"})
    await memory.keep(RUN, "key", {"text": "two"})
    await memory.learn(RUN)
    first = memory.recall(RUN, "key")

    memory.forget(RUN)
    forgotten = memory.recall(RUN, "key")
    await memory.learn(RUN)

    assert (first, forgotten) == ({"text": "one"}, None)
    assert [memory.recall(RUN, "key") for _ in range(3)] == [{"text": "one"}, {"text": "two"}, None]
