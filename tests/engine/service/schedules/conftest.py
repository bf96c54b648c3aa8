"""A project with schedules, and stores of both kinds; the clock is moved by the tests."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.engine.service.schedules.scheduler import JobScheduler
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.stores import journal_of

START = 1_800_000_000.0
"""A full hour in UTC."""
JOB = """\
schedule: {schedule}
plan:
  inputs: {{day: none}}
  steps: [{{id: say, tool: summarize_content, params: {{content: "${{inputs.day}}"}}}}]
"""


@dataclass
class Site:
    """A project whose schedules run on a clock that is moved."""

    settings: Settings
    journal: StoredJournal
    now: float = START
    output: io.StringIO = field(default_factory=io.StringIO)

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.journal)

    def write(self, schedule: str, name: str = "jobs/news/digest.yaml", text: str = JOB) -> None:
        """Write the file of a job with a schedule."""
        file = self.settings.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(schedule=schedule), encoding="utf-8")

    def daemon(self) -> JobScheduler:
        """Return the scheduler of a daemon that has just started."""
        log = StructuredLog(agent="daemon", domain="jobs", stream=self.output)
        return JobScheduler(self.settings, ScheduleStore(self.journal), log, clock=lambda: self.now)

    def said(self, event: str) -> list[dict[str, object]]:
        """Return the log's lines of an event."""
        lines = map(json.loads, self.output.getvalue().splitlines())
        return [line for line in lines if line["event"] == event]

    def outcomes(self) -> list[object]:
        return [line["outcome"] for line in self.said("schedule_due")]


@pytest.fixture(params=["sqlite", "postgres"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    settings = load_settings(tmp_path, {})
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        settings = replace(settings, journal_url=server.database())
    async with journal_of(settings) as journal:
        yield Site(settings, journal)
