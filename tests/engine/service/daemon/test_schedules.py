"""Jobs that begin by a schedule of the project, in a daemon with a broker."""

from __future__ import annotations

import io
import time

import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.engine.service.schedules.scheduler import JobScheduler

pytestmark = pytest.mark.anyio

JOB = """\
schedule: {every: 1h}
plan: {steps: [{id: said, tool: say, params: {text: on the hour}}]}
"""


async def test_a_job_that_is_due_is_executed_and_told_of_at_the_broker(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    (site.folder / "jobs").mkdir()
    (site.folder / "jobs" / "hourly.yaml").write_text(JOB)
    now = time.time()
    async with open_stores(site.settings) as stores:
        log = StructuredLog(agent="tester", domain="tests", stream=io.StringIO())
        # From its first tick on a schedule is due.
        await JobScheduler(site.settings, ScheduleStore(stores.journal), log, lambda: now).tick()
        async with in_process(lambda: now + 3_600):
            await site.until(lambda: site.calls()["say on the hour"] == 1)
            [job] = await stores.jobs.list_jobs()
            await client.until_told(job.job, "JOB_COMPLETED")

    assert job.request["job_file"] == "jobs/hourly.yaml"
