"""The road of a run: which phases it goes through, in which order, and what listeners hear."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.run_in_process import run_request
from tests.engine.stale_quotes_project import write_quotes_project
from wavewright.config.settings import load_settings
from wavewright.config.sources import DocumentError
from wavewright.engine import Outcome, PhaseEvent, PhaseRecord, PhaseStarted
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import ApprovalRequest, withhold_package
from wavewright.executor.store.journal import MemoryJournal

pytestmark = pytest.mark.anyio

TO_THE_PLAN = ["read_job", "gather_tools", "open_run", "make_plan"]
OF_A_PLAN = ["check_plan", "approve", "accept_plan", "execute_plan", "review_run"]
PACKAGE = ["build_package", "publish_package"]


class NobodyAnswers:
    async def approve(self, request: ApprovalRequest) -> None:
        return None


async def run_quotes(
    folder: Path, journal: MemoryJournal, request: RunRequest, told: list[PhaseEvent]
) -> PipelineRun[RunContext]:
    return await run_request(
        request,
        settings=replace(load_settings(folder, {}), root=folder),
        journal=journal,
        approver=NobodyAnswers(),
        publish=withhold_package,
        on_phase=told.append,
    )


async def test_a_run_goes_through_its_phases_and_again_with_a_patched_plan(tmp_path: Path) -> None:
    write_quotes_project(tmp_path)
    told: list[PhaseEvent] = []

    ended = await run_quotes(
        tmp_path, MemoryJournal(), RunRequest(job_file=tmp_path / "quotes.job.yaml"), told
    )

    road = [*TO_THE_PLAN, *OF_A_PLAN, "recover", *OF_A_PLAN, *PACKAGE]
    assert [record.phase for record in ended.records] == road
    assert [event.phase for event in told if isinstance(event, PhaseStarted)] == road


async def test_a_recovery_is_recorded_as_the_way_back_to_the_check(tmp_path: Path) -> None:
    write_quotes_project(tmp_path)

    ended = await run_quotes(
        tmp_path, MemoryJournal(), RunRequest(job_file=tmp_path / "quotes.job.yaml"), []
    )

    [recovery] = [record for record in ended.records if record.phase == "recover"]
    assert (recovery.outcome, recovery.target, recovery.reason) == (
        Outcome.BRANCH,
        "check_plan",
        "the quotes are stale",
    )


async def test_the_labels_of_a_phase_name_the_run_once_it_is_open(tmp_path: Path) -> None:
    write_quotes_project(tmp_path)
    told: list[PhaseEvent] = []

    ended = await run_quotes(
        tmp_path, MemoryJournal(), RunRequest(job_file=tmp_path / "quotes.job.yaml"), told
    )

    named = [
        (type(event).__name__, event.phase)
        for event in told
        if event.labels.get("run") == ended.context.run
    ]
    assert named[0] == ("PhaseRecord", "open_run")


async def test_a_phase_that_raises_is_recorded_as_failed(tmp_path: Path) -> None:
    told: list[PhaseEvent] = []

    with pytest.raises(DocumentError):
        await run_quotes(
            tmp_path, MemoryJournal(), RunRequest(job_file=tmp_path / "none.job.yaml"), told
        )

    last = told[-1]
    assert isinstance(last, PhaseRecord)
    assert (last.phase, last.outcome, last.reason) == (
        "read_job",
        Outcome.FAILED,
        "DocumentError",
    )
