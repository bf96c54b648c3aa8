"""A job with several targets at the daemon: told of each, a package for each, and on after a crash."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from uuid import uuid4

import anyio
import pytest

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import PATIENCE, BrokerClient, DaemonSite
from wavewright.engine.run.decisions.questions import OpenQuestion
from wavewright.engine.service.job_store.records import DecisionId, DecisionMade, JobId
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import GoalRequest, JobRequest, package_id
from wavewright.engine.service.questions import find_question, list_questions
from wavewright.planner.types import Json, JsonObject

pytestmark = pytest.mark.anyio

TOOLS = '''

def survey(place: str) -> dict:
    """Look at a place."""
    near = {"Westfall": ["Duskwood", "Elwynn"], "Duskwood": ["Westfall", "Far far away"]}
    _note(f"survey {place}")
    while place == "Duskwood" and (_HERE / "closed").exists():
        time.sleep(0.01)
    return {"place": place, "near": near.get(place, [])}
'''
TEMPLATE = """\
name: survey
goal: Survey ${inputs.target}
available_tools: [{name: survey}]
inputs_schema:
  type: object
  properties: {target: {type: string, maxLength: 10}, depth: {type: integer}}
  required: [target]
targets: {expand: "${steps.seen.near}"}
plan:
  steps: [{id: seen, tool: survey, params: {place: "${inputs.target}"}}]
  result: ${steps.seen.place}
"""


@pytest.fixture
def places(site: DaemonSite) -> DaemonSite:
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    (site.folder / "survey.yaml").write_text(TEMPLATE)
    site.write(functions="say: {}, survey: {}", daemon="goal_template: survey.yaml")
    return site


def job(**targets: object) -> JsonObject:
    document: JsonObject = json.loads(
        json.dumps({"name": "places", "goal_template": "survey.yaml", "targets": targets})
    )
    return document


def told(client: BrokerClient, job: str, name: str) -> list[tuple[object, object]]:
    """Return how targets have begun and ended, each status with the target's name."""
    own = (one for one in client.seen if one["job_id"] == job and one.get(name))
    return [(one["status"], one[name]) for one in own if one["status"] != "STEP_PROGRESS"]


async def test_each_target_is_told_of_and_has_a_package_and_a_failed_one_ends_nothing(
    places: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process() as running:
        await client.send(JobRequest(job_id=wanted, job=job(first=["Westfall"], depth=2)))
        done = await client.until_told(wanted, "JOB_PARTIALLY_COMPLETED")
        await client.read()

    payloads = [json.loads(message.body)["payload"] for message in client.packages]
    assert told(client, wanted, "target") == [
        ("TARGET_STARTED", "Westfall"),
        ("TARGET_COMPLETED", "Westfall"),
        ("TARGET_STARTED", "Duskwood"),
        ("TARGET_COMPLETED", "Duskwood"),
        ("TARGET_STARTED", "Elwynn"),
        ("TARGET_COMPLETED", "Elwynn"),
        ("TARGET_STARTED", "Far far away"),
        ("TARGET_FAILED", "Far far away"),
    ]
    assert [one["target"] for one in payloads] == ["Westfall", "Duskwood", "Elwynn"]
    assert [one["package_id"] for one in payloads] == [
        package_id(JobId(wanted), 1, target) for target in ("Westfall", "Duskwood", "Elwynn")
    ]
    assert [one["package"]["goal"] for one in payloads][:2] == [
        "Survey Westfall",
        "Survey Duskwood",
    ]
    assert (done["targets_completed"], done["targets_total"]) == (3, 4)
    progress = [one for one in client.seen if one["status"] == "STEP_PROGRESS"]
    assert [(one["target"], one["steps_completed"]) for one in progress] == [
        (target, 1) for target in ("Westfall", "Duskwood", "Elwynn")
    ]
    assert [one["target"] for one in failures(done)] == ["Far far away"]
    # The log says of each what it says of any run.
    for event in ("run_started", "pipeline_step_completed", "run_tokens"):
        said = [one["target"] for one in running.said(event) if one["target"] != "places"]
        assert said == ["Westfall", "Duskwood", "Elwynn"]


def failures(done: JsonObject) -> list[JsonObject]:
    found = done["targets_failed"]
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, dict)]


async def test_a_goal_about_a_target_goes_on_to_its_neighbours_as_deep_as_it_says(
    places: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    request = GoalRequest(
        job_id=wanted,
        goal="Look at ${inputs.target}",
        depth=1,
        budget_tokens=500,
        target="Westfall",
    )
    async with in_process():
        await client.send(request)
        done = await client.until_told(wanted, "JOB_COMPLETED")
        await client.read()

    assert [
        pair for pair in told(client, wanted, "target") if str(pair[0]).startswith("TARGET")
    ] == [
        ("TARGET_STARTED", "Westfall"),
        ("TARGET_COMPLETED", "Westfall"),
        ("TARGET_STARTED", "Duskwood"),
        ("TARGET_COMPLETED", "Duskwood"),
        ("TARGET_STARTED", "Elwynn"),
        ("TARGET_COMPLETED", "Elwynn"),
    ]
    assert (done["targets_completed"], done["targets_total"]) == (3, 3)
    assert len(client.packages) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_daemon_that_ends_in_the_middle_is_gone_on_for_with_the_next_target(
    places: DaemonSite, client: BrokerClient, start: StartDaemon, number: signal.Signals
) -> None:
    wanted = str(uuid4())
    (places.folder / "closed").touch()
    first = start()
    await first.started()
    await client.send(JobRequest(job_id=wanted, job=job(first=["Westfall"], depth=1)))
    await places.until(lambda: places.calls()["survey Duskwood"] == 1)
    first.signal(number)
    await first.ended()
    (places.folder / "closed").unlink()
    start()
    await client.until_told(wanted, "JOB_COMPLETED")
    await client.read()
    async with open_stores(places.settings) as stores:
        rows = await stores.journal.list_runs()

    assert places.calls() == Counter(
        {"survey Westfall": 1, "survey Duskwood": 2, "survey Elwynn": 1}
    )
    targets = [json.loads(message.body)["payload"]["target"] for message in client.packages]
    assert sorted(targets) == ["Duskwood", "Elwynn", "Westfall"]
    # The root run and one for each target, however often it was begun.
    assert len(rows) == 4


async def test_several_targets_of_a_wave_run_at_once(
    places: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    (places.folder / "closed").touch()
    wanted = str(uuid4())
    async with in_process():
        document = job(first=["Duskwood", {"name": "Elwynn", "priority": -1}], at_once=2)
        await client.send(JobRequest(job_id=wanted, job=document))
        # Elwynn ends while Duskwood does not.
        await client.until_told(wanted, "TARGET_COMPLETED")
        (places.folder / "closed").unlink()
        await client.until_told(wanted, "JOB_COMPLETED")
        await client.read()

    completed = [
        name for status, name in told(client, wanted, "target") if status == "TARGET_COMPLETED"
    ]
    assert completed == ["Elwynn", "Duskwood"]


async def test_a_target_that_needs_a_word_parks_the_job_when_the_rest_of_its_wave_is_done(
    places: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    places.write(functions="say: {needs_approval: true}, survey: {}", daemon="slots: 1")
    steps: list[Json] = [{"id": "said", "tool": "say", "params": {"text": "${inputs.target}"}}]
    document: JsonObject = {
        "name": "places",
        "plan": {"steps": steps, "result": "${inputs.target}"},
        "targets": {"first": ["A", "B"], "at_once": 2},
    }
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=document))
        asked = await client.until_asked(2)
        await until_waiting(places)
        listed, found = await questions(places)
        await decide(places, asked[1], "approve")
        await places.until(lambda: len(places.calls()) == 1)
    async with in_process():
        await decide(places, asked[0], "approve")
        await client.until_told(wanted, "JOB_COMPLETED")
        await client.read()

    assert places.calls() == Counter({"say A": 1, "say B": 1})
    assert len(client.questions) == 2
    # Those of targets are the job's: each is listed once, and found by the id of its run, too.
    assert (
        [one.id for one in listed]
        == [one["decision_id"] for one in asked]
        == [one.id for one in found]
    )
    # Both are asked at once, so either may come first.
    about = {one.context.partition("\n")[0] for one in listed}
    assert about == {"about the target A", "about the target B"}
    assert len(client.packages) == 2


async def until_waiting(site: DaemonSite) -> None:
    async with open_stores(site.settings) as stores:
        with anyio.fail_after(PATIENCE):
            while not await stores.jobs.list_jobs(["waiting"]):  # noqa: ASYNC110 - the daemon sets it
                await anyio.sleep(0.02)


async def questions(site: DaemonSite) -> tuple[list[OpenQuestion], list[OpenQuestion]]:
    """Return what is listed, and what is found by the runs that ask."""
    async with open_stores(site.settings) as stores:
        listed = await list_questions(stores.journal, stores.jobs, time.time())
        found = [
            await find_question(stores.journal, stores.jobs, one.run, time.time()) for one in listed
        ]
    return listed, found


async def decide(site: DaemonSite, asked: JsonObject, choice: str) -> None:
    """Answer as somebody at the command line would."""
    async with open_stores(site.settings) as stores:
        made = DecisionMade(DecisionId(str(asked["decision_id"])), choice, "somebody")
        receipt = await stores.jobs.decide(made)
    assert receipt.action == "accept"
