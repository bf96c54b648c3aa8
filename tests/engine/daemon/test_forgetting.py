"""What tells repeats is kept for as long as there can be one, and no longer."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from uuid import uuid4

import pytest

from tests.engine.daemon.conftest import InProcess
from tests.engine.daemon.yard import Counterpart, Yard, job
from wavewright.engine.messages.requests import JobRequest

pytestmark = pytest.mark.anyio


def remembered(yard: Yard) -> tuple[int, int]:
    """Return how many messages that came and that went out the store knows."""
    with closing(sqlite3.connect(yard.settings.journal)) as store:
        tables = ("inbox", "outbox")
        came, went = (store.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)  # noqa: S608
    return came, went


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
