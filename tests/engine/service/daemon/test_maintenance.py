"""What tells repeats is kept for as long as there can be one, and no longer."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from wavewright.engine.service.messages.models import JobRequest

pytestmark = pytest.mark.anyio


def remembered(site: DaemonSite) -> tuple[int, int]:
    """Return how many messages that came and that went out the store knows."""
    with closing(sqlite3.connect(site.settings.journal)) as store:
        tables = ("inbox", "outbox")
        came, went = (
            store.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
            for table in tables
        )
    return came, went


async def test_runs_are_removed_when_they_ended_longer_ago_than_the_settings_keep_them(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    site.write(more="retention: 30d")
    wanted = str(uuid4())
    async with in_process() as first:
        await client.send(JobRequest(job_id=wanted, job=job(("say", "once"))))
        await client.until_told(wanted, "JOB_COMPLETED")
    within_the_time = runs_in(site)
    folder = site.settings.output_dir / within_the_time[0]
    # As `wavewright run` in the same project would have left it.
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    async with in_process(lambda: time.time() + 29 * 86_400) as earlier:
        await site.until(lambda: bool(earlier.said("daemon_started")))
    async with in_process(lambda: time.time() + 31 * 86_400) as later:
        await site.until(lambda: bool(later.said("runs_removed")))

    assert len(within_the_time) == 1
    assert first.said("runs_removed") + earlier.said("runs_removed") == []
    assert [line["runs"] for line in later.said("runs_removed")] == [1]
    assert runs_in(site) == []
    assert not folder.exists()


def runs_in(site: DaemonSite) -> list[str]:
    """Return the ids of the runs in the journal."""
    with closing(sqlite3.connect(site.settings.journal)) as store:
        return [run for (run,) in store.execute("SELECT run FROM run").fetchall()]


async def test_ids_of_messages_are_forgotten_when_none_like_them_could_be_taken_in_any_more(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    site.write(daemon="max_age: 600\n  skew: 60\n  remember: 700")
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=job(("say", "once"))))
        await client.until_told(wanted, "JOB_COMPLETED")
    after_the_job = remembered(site)
    async with in_process(lambda: time.time() + 650):
        await client.send(JobRequest(job_id=str(uuid4()), job=job(("say", "too old"))))
        await client.dead_letters(1)
    within_the_time = remembered(site)
    async with in_process(lambda: time.time() + 800):
        await site.until(lambda: remembered(site) == (0, 0))

    assert after_the_job == within_the_time
    assert after_the_job[0] == 1
    assert after_the_job[1] > 3
