"""What tells repeats is kept for as long as there can be one, and no longer."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from uuid import uuid4

import pytest

from tests.engine.daemon.conftest import InProcess
from tests.engine.daemon.daemon_project import Counterpart, Yard, job
from wavewright.engine.messages.models import JobRequest

pytestmark = pytest.mark.anyio


def remembered(yard: Yard) -> tuple[int, int]:
    """Return how many messages that came and that went out the store knows."""
    with closing(sqlite3.connect(yard.settings.journal)) as store:
        tables = ("inbox", "outbox")
        came, went = (store.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)  # noqa: S608
    return came, went


async def test_runs_are_removed_when_they_ended_longer_ago_than_the_settings_keep_them(
    yard: Yard, counterpart: Counterpart, in_process: InProcess
) -> None:
    yard.write(more="retention: 30d")
    wanted = str(uuid4())
    async with in_process() as first:
        await counterpart.send(JobRequest(job_id=wanted, job=job(("say", "once"))))
        await counterpart.until_told(wanted, "JOB_COMPLETED")
    within_the_time = runs_in(yard)
    folder = yard.settings.output_dir / within_the_time[0]
    # As `wavewright run` in the same project would have left it.
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    async with in_process(lambda: time.time() + 29 * 86_400) as earlier:
        await yard.until(lambda: bool(earlier.said("daemon_started")))
    async with in_process(lambda: time.time() + 31 * 86_400) as later:
        await yard.until(lambda: bool(later.said("runs_removed")))

    assert len(within_the_time) == 1
    assert first.said("runs_removed") + earlier.said("runs_removed") == []
    assert [line["runs"] for line in later.said("runs_removed")] == [1]
    assert runs_in(yard) == []
    assert not folder.exists()


def runs_in(yard: Yard) -> list[str]:
    """Return the ids of the runs in the journal."""
    with closing(sqlite3.connect(yard.settings.journal)) as store:
        return [run for (run,) in store.execute("SELECT run FROM run").fetchall()]


async def test_ids_of_messages_are_forgotten_when_none_like_them_could_be_taken_in_any_more(
    yard: Yard, counterpart: Counterpart, in_process: InProcess
) -> None:
    yard.write(daemon="max_age: 600\n  skew: 60\n  remember: 700")
    wanted = str(uuid4())
    async with in_process():
        await counterpart.send(JobRequest(job_id=wanted, job=job(("say", "once"))))
        await counterpart.until_told(wanted, "JOB_COMPLETED")
    after_the_job = remembered(yard)
    async with in_process(lambda: time.time() + 650):
        await counterpart.send(JobRequest(job_id=str(uuid4()), job=job(("say", "too old"))))
        await counterpart.dead_letters(1)
    within_the_time = remembered(yard)
    async with in_process(lambda: time.time() + 800):
        await yard.until(lambda: remembered(yard) == (0, 0))

    assert after_the_job == within_the_time
    assert after_the_job[0] == 1
    assert after_the_job[1] > 3
