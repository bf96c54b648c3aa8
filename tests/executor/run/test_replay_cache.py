"""What a run was answered is known for as long as it is worked on."""

from __future__ import annotations

import pytest

from wavewright.executor.run.reuse import JournalReplayCache
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

RUN = RunId("20261122-060000-abc123")


async def test_a_run_that_is_given_up_takes_no_room_and_what_it_was_told_can_be_learnt_again() -> None:
    journal = MemoryJournal()
    await journal.open_run(RUN)
    memory = JournalReplayCache(journal)
    await memory.put(RUN, "key", {"text": "one"})
    await memory.put(RUN, "key", {"text": "two"})
    await memory.load(RUN)
    first = memory.get(RUN, "key")

    memory.evict(RUN)
    forgotten = memory.get(RUN, "key")
    await memory.load(RUN)

    assert (first, forgotten) == ({"text": "one"}, None)
    assert [memory.get(RUN, "key") for _ in range(3)] == [{"text": "one"}, {"text": "two"}, None]
