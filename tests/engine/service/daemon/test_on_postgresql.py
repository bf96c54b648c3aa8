"""The daemon with its store in PostgreSQL: the same promises, by the change of one address."""

from __future__ import annotations

import signal
from uuid import uuid4

import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from tests.support.postgres import PostgresServer
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.messages.models import JobRequest, ValidationResult, package_id
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio


async def test_what_a_killed_daemon_has_begun_another_goes_on_with(
    site: DaemonSite, client: BrokerClient, start: StartDaemon, postgres: PostgresServer
) -> None:
    wanted, other = str(uuid4()), str(uuid4())
    site.environment["WAVEWRIGHT_PG_URL"] = postgres.database()
    first = start("--slots", "1")
    await first.started()
    await client.send(JobRequest(job_id=wanted, job=job(("say", "before"), ("hold", "midway"))))
    await site.until(lambda: site.calls()["hold midway"] == 1)
    second = start("--slots", "1")
    await second.started()

    first.signal(signal.SIGKILL)
    await first.ended()
    site.open_gate()
    await client.send(JobRequest(job_id=other, job=job(("say", "other"))))
    for one in (wanted, other):
        await client.until_told(one, "JOB_COMPLETED")

    assert site.calls() == {"say before": 1, "hold midway": 2, "held midway": 1, "say other": 1}
    assert len(client.packages) == 2
    assert not (site.folder / ".wavewright" / "journal.sqlite").exists()


async def test_people_and_validators_answer_a_job_that_lies_in_the_database(
    site: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    postgres: PostgresServer,
    wavewright: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = str(uuid4())
    site.environment["WAVEWRIGHT_PG_URL"] = postgres.database()
    site.write(functions="say: {needs_approval: true}", daemon="validation: {iterations: 2}")
    monkeypatch.chdir(site.folder)
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    document: JsonObject = {**job(("say", "it")), "targets": {"first": ["A", "B"], "at_once": 2}}
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=document))
        asked = await client.until_asked(2)
    answers = [
        await anyio.to_thread.run_sync(wavewright, "answer", str(one["decision_id"]), choice)
        for one, choice in zip(
            [*asked, *asked], ["approve", "approve", "refuse", "approve"], strict=True
        )
    ]
    async with in_process():
        await client.until_told(wanted, "PACKAGE_SENT")
        await site.until(lambda: site.calls()["say it"] == 2)
    for target in ("B", "A"):
        package = package_id(JobId(wanted), 1, target)
        accepted = ValidationResult(
            job_id=wanted, package_id=package, accepted=True, iteration=1, feedback=[]
        )
        await client.send(accepted)
    async with in_process():
        await client.until_told(wanted, "JOB_COMPLETED")

    assert [one.code for one in answers] == [0, 0, 1, 1]
    assert site.calls() == {"say it": 2}
    assert len(client.packages) == 2
