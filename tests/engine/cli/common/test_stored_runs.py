"""The run that a command means: where many are kept, few are read to find it."""

from __future__ import annotations

import pytest
from typing_extensions import override

from wavewright.engine.cli.common.stored_runs import root_run_of
from wavewright.executor.events.types import Event, RunFinished, RunStarted
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio


class ReadJournal(MemoryJournal):
    """A journal that notes which runs are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = list[RunId]()

    @override
    async def load(self, run: RunId) -> list[Event]:
        self.read.append(run)
        return await super().load(run)


async def test_for_a_run_without_events_no_run_that_has_ended_is_read() -> None:
    journal, begun = ReadJournal(), RunId("20261127-080000-aaaaaa")
    for number in range(3):
        run = RunId(f"20261127-070000-00000{number}")
        await journal.append(run, [RunStarted(run, 1.0, "job", {}, 1.0), RunFinished(2.0, "achieved")])
        await journal.close_run(run)
    await journal.open_run(begun)

    assert await root_run_of(journal, begun) == begun
    assert journal.read == []
