"""Verdicts and answers never wait for a slot, and jobs that wait are known to the store."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from tests.engine.service.daemon.test_validation_feedback import package_no, verdict
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import JobRequest
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio


def holding(name: str) -> JsonObject:
    """Return a job that holds its slot until the gate opens."""
    return {
        "name": name,
        "plan": {"steps": [{"id": "held", "tool": "hold", "params": {"text": name}}]},
    }


@pytest.fixture
def narrow(site: DaemonSite) -> DaemonSite:
    """A project with one slot, whose packages await a verdict."""
    site.write(daemon="slots: 1\n  validation: {iterations: 2, timeout: 600}")
    return site


async def test_a_verdict_is_taken_while_all_slots_are_busy(
    narrow: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    judged, busy = str(uuid4()), str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=judged, job=job(("say", "it"))))
        package = await package_no(client, 1)
        await client.send(JobRequest(job_id=busy, job=holding("busy")))
        await narrow.until(lambda: narrow.calls()["hold busy"] == 1)
        await client.send(verdict(package, accepted=True))
        await client.until_told(judged, "JOB_COMPLETED")
        told_of_the_busy = client.statuses(busy)
        narrow.open_gate()
        await package_no(client, 2)

    assert "JOB_COMPLETED" not in told_of_the_busy


async def test_a_verdict_that_came_while_no_daemon_ran_is_judged_before_the_time_is_over(
    narrow: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted, now = str(uuid4()), time.time()
    async with in_process(lambda: now):
        await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))))
        package = await package_no(client, 1)
    await client.send(verdict(package, accepted=True))
    async with in_process(lambda: now + 700) as later:
        await client.until_told(wanted, "JOB_COMPLETED")

    assert not later.said("verdict_overdue")


async def test_jobs_that_wait_for_a_slot_are_seen_and_counted(
    narrow: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    first, *others = (str(uuid4()) for _ in range(3))
    async with in_process(), open_stores(narrow.settings) as stores:
        await client.send(JobRequest(job_id=first, job=holding("first")))
        await narrow.until(lambda: narrow.calls()["hold first"] == 1)
        for one in others:
            await client.send(JobRequest(job_id=one, job=holding(one)))
            await client.until_told(one, "ACCEPTED")
        counted = await stores.jobs.count_states()
        narrow.open_gate()
        await package_no(client, 3)

    assert (counted["running"], counted["queued"]) == (1, 2)
