"""Verdicts on the packages of a job's targets: each for itself, in any order, and none for ever."""

from __future__ import annotations

import json
import signal
from collections import Counter
from uuid import uuid4

import anyio
import pytest

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import PATIENCE, BrokerClient, DaemonSite
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import (
    GoalRequest,
    JobRequest,
    ValidationResult,
    package_id,
)
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

TOOLS = '''

def survey(place: str, feedback: list[str] = []) -> dict:
    """Look at a place, heeding what was said of it before."""
    _note(f"survey {place} {feedback}")
    while feedback and (_HERE / "closed").exists():
        time.sleep(0.01)
    near = {"Westfall": ["Duskwood", "Elwynn"], "Duskwood": ["Moonbrook"]}
    return {"place": place, "near": near.get(place, [])}
'''
TEMPLATE = """\
name: survey
goal: Survey ${inputs.target}
available_tools: [{name: survey}]
inputs_schema:
  type: object
  properties: {target: {type: string}, depth: {type: integer}}
  required: [target]
targets: {expand: "${steps.seen.near}"}
plan:
  steps: [{id: seen, tool: survey, params: {place: "${inputs.target}"}}]
  result: ${steps.seen.place}
"""


@pytest.fixture
def judged(site: DaemonSite) -> DaemonSite:
    """A project whose places are looked at twice at most."""
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    (site.folder / "survey.yaml").write_text(TEMPLATE)
    site.write(
        functions="survey: {}",
        daemon="goal_template: survey.yaml\n  validation: {iterations: 2}",
    )
    return site


def job(**targets: object) -> JsonObject:
    document: JsonObject = json.loads(
        json.dumps({"name": "places", "goal_template": "survey.yaml", "targets": targets})
    )
    return document


def verdict(
    wanted: str, target: str, *texts: str, number: int = 1, accepted: bool = False
) -> ValidationResult:
    return ValidationResult(
        job_id=wanted,
        package_id=package_id(JobId(wanted), number, target),
        accepted=accepted,
        iteration=number,
        feedback=[*texts],
    )


async def until_sent(client: BrokerClient, *wanted: tuple[str, int]) -> None:
    """Wait until the packages of these targets are out."""
    with anyio.fail_after(PATIENCE):
        while not {*wanted} <= {*sent(client)}:
            await client.read()
            await anyio.sleep(0.02)


def sent(client: BrokerClient) -> list[tuple[object, object]]:
    """Return the targets and numbers of the packages that have come."""
    payloads = [json.loads(one.body)["payload"] for one in client.packages]
    return [(one.get("target"), one["iteration"]) for one in payloads]


async def test_a_target_ends_with_its_verdict_and_the_next_wave_waits_for_all_of_them(
    judged: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=job(first=["Westfall"], depth=1)))
        await until_sent(client, ("Westfall", 1))
        await client.send(verdict(wanted, "Westfall", "more"))
        await until_sent(client, ("Westfall", 2))
        before = sent(client)
        await client.send(verdict(wanted, "Westfall", number=2, accepted=True))
        await until_sent(client, ("Duskwood", 1), ("Elwynn", 1))
        # In another order than they were sent, and one is rejected for the last time.
        await client.send(verdict(wanted, "Elwynn", accepted=True))
        await client.send(verdict(wanted, "Duskwood"))
        await until_sent(client, ("Duskwood", 2))
        await client.send(verdict(wanted, "Duskwood", number=2))
        done = await client.until_told(wanted, "JOB_PARTIALLY_COMPLETED")

    assert before == [("Westfall", 1), ("Westfall", 2)]
    assert judged.calls() == Counter(
        {
            "survey Westfall []": 1,
            "survey Westfall ['more']": 1,
            "survey Duskwood []": 1,
            "survey Duskwood ['The package was rejected.']": 1,
            "survey Elwynn []": 1,
        }
    )
    assert (done["targets_completed"], done["targets_total"]) == (2, 3)
    assert done["targets_failed"] == [
        {"target": "Duskwood", "error": "2 of 2 packages were rejected"}
    ]
    of_westfall = [one["status"] for one in client.seen if one.get("target") == "Westfall"]
    assert of_westfall == [
        "TARGET_STARTED", "STEP_PROGRESS", "PACKAGE_SENT", "VALIDATION_RECEIVED",
        "STEP_PROGRESS", "PACKAGE_SENT", "VALIDATION_RECEIVED", "TARGET_COMPLETED",
    ]  # fmt: skip


async def test_verdicts_on_targets_may_come_early_twice_and_while_nobody_is_there(
    judged: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    request = GoalRequest(job_id=wanted, goal="Look", depth=1, budget_tokens=500, target="Westfall")
    # It is there before the job is.
    await client.send(verdict(wanted, "Westfall", accepted=True))
    await client.send(request)
    async with in_process():
        await until_sent(client, ("Westfall", 1), ("Duskwood", 1), ("Elwynn", 1))
    for _ in range(2):
        await client.send(verdict(wanted, "Elwynn", accepted=True))
        await client.send(verdict(wanted, "Duskwood", accepted=True))
        await client.send(verdict(wanted, "Westfall", "too late"))
        await client.send(verdict(wanted, "Nowhere", "never sent"))
    async with in_process():
        done = await client.until_told(wanted, "JOB_COMPLETED")
        await client.send(verdict(wanted, "Duskwood", "too late", number=2))
    async with open_stores(judged.settings) as stores:
        row = await stores.jobs.find_job(JobId(wanted))

    assert row is not None
    assert (row.state, row.sent) == ("completed", ())
    assert (done["targets_completed"], done["targets_total"]) == (3, 3)
    assert judged.calls() == Counter(
        f"survey {place} []" for place in ("Westfall", "Duskwood", "Elwynn")
    )
    assert len(sent(client)) == 3


async def test_a_daemon_that_is_killed_after_a_rejection_is_gone_on_for(
    judged: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    (judged.folder / "closed").touch()
    first = start()
    await first.started()
    await client.send(JobRequest(job_id=wanted, job=job(first=["Elwynn", "Moonbrook"], at_once=2)))
    await until_sent(client, ("Elwynn", 1), ("Moonbrook", 1))
    await client.send(verdict(wanted, "Elwynn", "more"))
    await judged.until(lambda: judged.calls()["survey Elwynn ['more']"] == 1)
    first.signal(signal.SIGKILL)
    await first.ended()
    (judged.folder / "closed").unlink()
    await client.send(verdict(wanted, "Moonbrook", accepted=True))
    start()
    await until_sent(client, ("Elwynn", 2))
    await client.send(verdict(wanted, "Elwynn", number=2, accepted=True))
    await client.until_told(wanted, "JOB_COMPLETED")

    assert judged.calls() == Counter(
        {"survey Elwynn []": 1, "survey Moonbrook []": 1, "survey Elwynn ['more']": 2}
    )
    assert len(sent(client)) == 3
