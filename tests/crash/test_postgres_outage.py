"""PostgreSQL breaks its connections and restarts while jobs are worked on; what was committed
stays, and once.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import job_id, read_ledger, whole_job
from tests.crash.daemon_processes import Fleet, fleet
from tests.crash.measurements import note
from tests.crash.oracle import Findings, Message, violations
from tests.crash.postgres_tables import read_tables
from tests.crash.run_size import chance, volume
from tests.support.postgres import OwnServer
from tests.support.rabbitmq import Broker

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(200, 1200))]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("kill_connections"),
        pytest.param("restart", marks=pytest.mark.long),
    ],
)
async def test_jobs_survive_a_database_that_goes_away(
    tmp_path: Path, broker: Broker, own_postgres: OwnServer, how: str
) -> None:
    random, times = chance(), volume(1, 15)
    url = own_postgres.database()
    async with fleet(tmp_path, broker.url, section={"slots": 6}) as plant:
        plant.environment["WAVEWRIGHT_PG_URL"] = url
        daemon = plant.start()
        await daemon.is_ready()
        for _ in range(times):
            for _ in range(4):
                job = job_id(len(plant.submitted))
                await plant.submit(job, whole_job(job, pause=0.1))
            await anyio.sleep(random.uniform(0.2, 1.5))
            # Shorter than the store's patience: no call may be repeated for it, so no crash is
            # noted.
            if how == "restart":
                await anyio.to_thread.run_sync(own_postgres.restart)
            else:
                await anyio.to_thread.run_sync(own_postgres.kill_connections, url)
        await plant.until_all_ended()
        is_same = daemon.running.poll() is None
        found = await _look(plant, url)

    note(
        "postgres",
        how=how,
        times=times,
        jobs=len(found.submitted),
        violations=len(violations(found)),
    )
    assert violations(found) == []
    assert is_same


async def _look(plant: Fleet, url: str) -> Findings:
    sent = [Message(one.message, one.kind, one.sha256, one.body) for one in plant.sent]
    tables = await read_tables(url)
    return Findings(
        plant.submitted,
        read_ledger(plant.folder),
        sent,
        plant.dead_jobs(),
        tables.rows,
        tables.events,
        plant.crashes,
        charged=tables.charged,
        faults=tables.faults,
    )
