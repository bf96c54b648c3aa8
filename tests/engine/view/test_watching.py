"""A run that viewers follow whose connections are cut, and who come back with the version that they have."""

from __future__ import annotations

import random
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from tests.executor.event_examples import run_finished, run_started
from wavewright.engine.view.watching import RunFragment, RunWatches
from wavewright.executor.events.types import Noted
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

RUN = RunId("r-1")
NOTES = 30


async def test_a_viewer_that_is_cut_off_at_random_places_sees_the_newest_and_the_last_state(
    tmp_path: Path,
) -> None:
    chance = random.Random(3)  # noqa: S311 - decides where a connection is cut
    seen: list[RunFragment] = []
    async with SqliteJournal(tmp_path / "runs.db") as journal, anyio.create_task_group() as group:
        watches = RunWatches(journal, group, lambda snapshot, _: str(snapshot.events))

        async def work() -> None:
            await journal.append(RUN, [run_started(RUN)])
            for number in range(NOTES):
                await journal.append(RUN, [Noted(2.0 + number, "said", {})])
                await anyio.sleep(0.05)
            await journal.append(RUN, [run_finished()])

        group.start_soon(work)
        with anyio.fail_after(50):
            while not (seen and seen[-1].is_last):
                with anyio.move_on_after(chance.uniform(0.05, 0.6)):
                    async with aclosing(watches.fragments(RUN, seen[-1].version if seen else "")) as coming:
                        async for fragment in coming:
                            seen.append(fragment)
                            if chance.random() < 0.5:
                                break
        group.cancel_scope.cancel()

    events = [int(fragment.version.partition("-")[0]) for fragment in seen]
    assert events == sorted(events)
    assert len({fragment.version for fragment in seen}) == len(seen)
    assert events[-1] == NOTES + 2
    assert f"data: {NOTES + 2}".encode() in seen[-1].message
