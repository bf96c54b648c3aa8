"""Projects to record, and whoever says yes in their runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from tests.engine.conftest import project, wavewright
from tests.engine.stale_quotes_project import write_quotes_project
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.recordings.job_recording import (
    JobRecording,
    Recording,
    read_recording,
    record_job,
    replay_job,
    write_recording,
)
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import ApprovalRequest, People
from wavewright.executor.events.types import Event
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.planner.types import RunId

__all__ = ["project", "wavewright"]


class Yes:
    """Approves everything."""

    async def approve(self, request: ApprovalRequest) -> bool:
        return True


@dataclass(frozen=True)
class JobRecorder:
    """Records and replays the job of a folder."""

    folder: Path
    job: str = "quotes.job.yaml"

    @property
    def file(self) -> Path:
        return self.folder / "recordings" / "quotes.json"

    def record(self) -> tuple[JobRecording, Recording]:
        """Run for real, and keep the recording."""

        async def work() -> tuple[JobRecording, Recording]:
            return await record_job(
                self._request(), load_settings(self.folder), People(approver=Yes())
            )

        ran, recording = anyio.run(work)
        write_recording(self.file, recording)
        return ran, recording

    def replay(self, as_of: dt.datetime | None = None) -> JobRecording:
        """Run from the file."""

        async def work() -> JobRecording:
            return await replay_job(
                replace(self._request(), as_of=as_of),
                load_settings(self.folder, {}),
                read_recording(self.file),
                People(approver=Yes()),
                file=self.file,
            )

        return anyio.run(work)

    def _request(self) -> RunRequest:
        return RunRequest(job_file=Path(self.job))


def events_of(folder: Path, run: str) -> list[Event]:
    """Return what the journal of a project holds of a run."""
    with JournalReader.open(load_settings(folder, {}).journal) as journal:
        return journal.load(RunId(run))


ProjectMaker = Callable[..., JobRecorder]


@pytest.fixture
def quotes_project(wavewright: object, tmp_path: Path) -> ProjectMaker:
    """Write the desk project into the working directory."""

    def make(**texts: str) -> JobRecorder:
        write_quotes_project(tmp_path, **texts)
        return JobRecorder(tmp_path)

    return make
