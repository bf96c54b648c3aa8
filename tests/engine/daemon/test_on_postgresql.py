"""The daemon with its store in PostgreSQL: the same promises, by the change of one address."""

from __future__ import annotations

import signal
from uuid import uuid4

import pytest

from tests.engine.daemon.conftest import StartDaemon
from tests.engine.daemon.yard import Counterpart, Yard, job
from tests.support.postgres import PostgresServer
from wavewright.engine.messages.requests import JobRequest

pytestmark = pytest.mark.anyio


async def test_what_a_killed_daemon_has_begun_another_goes_on_with(
    yard: Yard, counterpart: Counterpart, start: StartDaemon, postgres: PostgresServer
) -> None:
    wanted, other = str(uuid4()), str(uuid4())
    yard.environment["WAVEWRIGHT_PG_URL"] = postgres.database()
    first = start("--slots", "1")
    await first.started()
    await counterpart.send(JobRequest(job_id=wanted, job=job(("say", "before"), ("hold", "midway"))))
    await yard.until(lambda: yard.calls()["hold midway"] == 1)
    second = start("--slots", "1")
    await second.started()

    first.signal(signal.SIGKILL)
    await first.ended()
    yard.open_gate()
    await counterpart.send(JobRequest(job_id=other, job=job(("say", "other"))))
    for one in (wanted, other):
        await counterpart.until_told(one, "JOB_COMPLETED")

    assert yard.calls() == {"say before": 1, "hold midway": 2, "held midway": 1, "say other": 1}
    assert len(counterpart.packages) == 2
    assert not (yard.folder / ".wavewright" / "journal.sqlite").exists()
