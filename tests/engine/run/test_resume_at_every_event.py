"""A run that ends at any point of its journal comes, resumed, to the very package of one that was
never stopped.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.engine.run_in_process import run_request
from tests.engine.stale_quotes_project import take_calls, write_quotes_project
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.executor.events.types import Event, ItemFinished, StepFinished
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import Schedule
from wavewright.reviewer.records import Package, Timings

pytestmark = pytest.mark.anyio


class Agreeing:
    """Approves of everything."""

    async def approve(self, request: ApprovalRequest) -> bool:
        del request
        return True


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    write_quotes_project(tmp_path)
    return load_settings(tmp_path)


async def package_of(request: RunRequest, settings: Settings, journal: MemoryJournal) -> Package:
    done = await run_request(request, settings=settings, journal=journal, approver=Agreeing())
    await journal.aclose()
    assert done.context.package is not None, done.halted
    return done.context.package


def timeless(package: Package) -> Package:
    """Return the package without what differs from one run to the next: its times and the head of the journal."""
    log = tuple(
        step.model_copy(update={"started": None, "seconds": 0.0}) for step in package.execution_log
    )
    calls = tuple(call.model_copy(update={"seconds": 0.0}) for call in package.calls)
    return package.model_copy(
        update={
            "timings": Timings(),
            "execution_log": log,
            "calls": calls,
            "journal_head": None,
        }
    )


def journaled(events: list[Event]) -> Counter[str]:
    """Return the calls whose end the events hold, as the tools note them."""
    made: Counter[str] = Counter()
    for event in events:
        match event:
            case ItemFinished(step=step, index=index):
                made[f"fetch {('GNP', 'SKS')[index]} {step != 'quotes'}"] += 1
            case StepFinished(step="rate"):
                made["rate"] = 1
            case StepFinished(step="sheet", status="ok"):
                made["write_down"] += 1
            case _:
                pass
    return made


@pytest.mark.parametrize("schedule", ["waves", "dataflow"])
async def test_a_run_that_was_cut_after_any_event_ends_with_the_same_package(
    settings: Settings, schedule: Schedule
) -> None:
    whole = MemoryJournal()
    request = RunRequest(job_file=settings.root / "quotes.job.yaml", schedule=schedule)
    expected = await package_of(request, settings, whole)
    [row] = await whole.list_runs()
    events = await whole.load(row.run)
    all_calls = take_calls(settings.root)

    assert expected.status == "achieved"
    assert expected.result == "2 quotes at 1.25"
    assert [patch.round for patch in expected.patches] == [1]
    assert all_calls == journaled(events)

    # The start and the plan as it was given are one append, so no crash can part them.
    for cut in range(2, len(events)):
        journal = MemoryJournal()
        await journal.append(row.run, events[:cut])
        await journal.close_run(row.run)
        package = await package_of(RunRequest(run=row.run), settings, journal)
        made = take_calls(settings.root)

        where = f"cut after event {cut}, {type(events[cut - 1]).__name__}"
        assert timeless(package) == timeless(expected), where
        assert made == all_calls - journaled(events[:cut]), where
