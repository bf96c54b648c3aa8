"""The standing job: targets in cycles, by itself, through restarts; a person chooses at forks."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter

import anyio
import pytest

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import PATIENCE, BrokerClient, DaemonSite
from tests.support.postgres import PostgresServer
from wavewright.engine.rehearsal.fake_model.replies import AnswerMaker, calling_tool
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.daemon.budgets import next_day_start, standing_job
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.messages.models import (
    UserDecisionResponse,
    ValidationResult,
    package_id,
)
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

TOOLS = '''

def survey(place: str, feedback: list[str] = []) -> dict:
    """Look at a place."""
    near = {
        "Westfall": [{"name": "Duskwood", "priority": 1}, {"name": "Elwynn", "priority": 2}],
        "Duskwood": ["Westfall", "Moonbrook"],
    }
    _note(f"survey {place}")
    if place == "Moonbrook":
        raise LookupError("no map shows it")
    while place == "Elwynn" and (_HERE / "closed").exists():
        time.sleep(0.01)
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


class SetClock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def places(site: DaemonSite) -> DaemonSite:
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    (site.folder / "survey.yaml").write_text(TEMPLATE)
    return site


def stand(site: DaemonSite, standing: str, *, more: str = "", top: str = "") -> str:
    """Write the settings with a standing job and return its id."""
    site.write(
        functions="survey: {}, say: {effects: [read]}",
        more=top,
        daemon=f"goal_template: survey.yaml\n  standing: {{start: Westfall, {standing}}}{more}",
    )
    job = standing_job(site.settings.daemon)
    assert job is not None
    return job


def ends(client: BrokerClient) -> list[object]:
    """Return the targets that have ended, in order."""
    return [
        one["target"]
        for one in client.seen
        if one["status"] in {"TARGET_COMPLETED", "TARGET_FAILED"}
    ]


async def until_paused(client: BrokerClient, job: str, times: int) -> None:
    """Read until the job has paused so many times."""
    with anyio.fail_after(PATIENCE):
        while client.statuses(job).count("JOB_PAUSED") < times:
            await client.read()
            await anyio.sleep(0.02)


async def test_each_cycle_is_one_target_and_a_pause_follows_it_through_restarts(
    places: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    job, clock = stand(places, "forks: all, pause: 600, depth: 2"), SetClock()
    seen = list[list[object]]()
    async with in_process(clock):
        await until_paused(client, job, 1)
        seen.append(ends(client))
        clock.now += 600
        await until_paused(client, job, 2)
        seen.append(ends(client))
    async with in_process(clock):
        # Another daemon keeps the pause, and starts no second job.
        clock.now += 599
        await places.until(lambda: places.calls().total() == 2)
        seen.append(ends(client))
        clock.now += 1
        await until_paused(client, job, 3)
        clock.now += 600
        done = await client.until_told(job, "JOB_PARTIALLY_COMPLETED")
        await client.read()
    async with in_process(clock) as after:
        await places.until(lambda: bool(after.said("daemon_started")))

    assert seen == [["Westfall"], ["Westfall", "Elwynn"], ["Westfall", "Elwynn"]]
    assert ends(client) == ["Westfall", "Elwynn", "Duskwood", "Moonbrook"]
    assert done["targets_failed"] == [
        {"target": "Moonbrook", "error": "step 'seen': failed (tool)"}
    ]
    assert places.calls() == Counter(
        f"survey {name}" for name in ("Westfall", "Elwynn", "Duskwood", "Moonbrook")
    )
    assert client.statuses(job).count("ACCEPTED") == 1


async def test_a_person_chooses_the_next_target_at_a_fork_after_a_restart(
    places: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    job = stand(places, "pause: 0, depth: 1")
    async with in_process():
        [asked] = await client.until_asked(1)
    async with in_process() as daemon:
        await client.send(
            UserDecisionResponse(decision_id=str(asked["decision_id"]), choice="Duskwood")
        )
        await client.until_told(job, "JOB_COMPLETED")
        await client.read()

    assert asked["options"] == ["Elwynn", "Duskwood"]
    assert asked["question"] == "Westfall leads to 2 others. Which of them is next?"
    assert ends(client) == ["Westfall", "Duskwood", "Elwynn"]
    assert len(client.questions) == 1
    [chosen] = daemon.said("user_decision_received")
    assert (chosen["decision_id"], chosen["choice"]) == (asked["decision_id"], "Duskwood")


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
async def test_a_killed_daemon_is_followed_in_the_same_cycle_and_calls_nothing_again(
    places: DaemonSite,
    client: BrokerClient,
    start: StartDaemon,
    store: str,
    request: pytest.FixtureRequest,
) -> None:
    if store == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        places.environment["WAVEWRIGHT_PG_URL"] = server.database()
    job = stand(places, "forks: all, pause: 0, depth: 1")
    (places.folder / "closed").touch()
    first = start()
    await places.until(lambda: places.calls()["survey Elwynn"] == 1)
    first.signal(signal.SIGKILL)
    await first.ended()
    (places.folder / "closed").unlink()
    second = start()
    await client.until_told(job, "JOB_COMPLETED")
    await client.read()
    second.signal(signal.SIGTERM)

    assert await second.ended() == 0
    assert ends(client) == ["Westfall", "Elwynn", "Duskwood"]
    assert places.calls()["survey Westfall"] == 1
    loaded = [line for line in second.lines if line["event"] == "checkpoint_loaded"]
    assert next((line["step"], line["queue_size"]) for line in loaded) == (1, 2)


async def test_a_target_that_is_rejected_too_often_has_failed_and_the_next_follows(
    places: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    more = "\n  validation: {iterations: 2}"
    job = stand(places, "forks: all, pause: 0, depth: 1", more=more)
    verdicts = [
        ("Westfall", 1, False),
        ("Westfall", 2, True),
        ("Elwynn", 1, False),
        ("Elwynn", 2, False),
    ]
    async with in_process():
        for count, (target, number, accepted) in enumerate(
            [*verdicts, ("Duskwood", 1, True)], start=1
        ):
            with anyio.fail_after(PATIENCE):
                while len(client.packages) < count:
                    await client.read()
                    await anyio.sleep(0.02)
            package = package_id(JobId(job), number, target)
            sent = json.loads(client.packages[-1].body)["payload"]
            assert (sent["target"], sent["iteration"]) == (target, number)
            await client.send(
                ValidationResult(
                    job_id=job, package_id=package, accepted=accepted, iteration=number, feedback=[]
                )
            )
        done = await client.until_told(job, "JOB_PARTIALLY_COMPLETED")

    assert done["targets_failed"] == [
        {"target": "Elwynn", "error": "2 of 2 packages were rejected"}
    ]


async def test_the_environment_of_the_pack_lore_makes_a_standing_job(
    places: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    places.write(functions="survey: {}", daemon="pack: lore\n  goal_template: survey.yaml")
    # The pack's daemon sends nothing but research about a zone.
    zone = '{zone_data: {name: "${steps.seen.place}"}}'
    (places.folder / "survey.yaml").write_text(TEMPLATE.replace("${steps.seen.place}", zone))
    variables = {
        "STARTING_ZONE": "Westfall",
        "RESEARCH_CYCLE_DELAY_MINUTES": "0",
        "PER_CYCLE_TOKEN_BUDGET": "50000",
        "MAX_RESEARCH_VALIDATE_ITERATIONS": "0",
    }
    daemon = start(**variables)
    [asked] = await client.until_asked(1)
    await client.send(UserDecisionResponse(decision_id=str(asked["decision_id"]), choice="Elwynn"))
    # Duskwood leads to Moonbrook alone, which is on no map.
    await places.until(lambda: daemon.has_said("zone_failed"))

    assert list(places.calls()) == [
        f"survey {zone}" for zone in ("Westfall", "Elwynn", "Duskwood", "Moonbrook")
    ]


REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was found.",
    "missing_data": [],
    "recovery_actions": [],
}
SEARCH = """\
name: survey
goal: Survey ${inputs.target}
available_tools: [{name: say}, {name: agent}]
inputs_schema:
  type: object
  properties: {target: {type: string}, depth: {type: integer}}
targets: {expand: "${[]}"}
plan:
  steps:
    - {id: found, tool: agent, params: {task: "Look for it", tools: [say]}}
    - {id: again, tool: agent, params: {task: "Look for it again", tools: [say]}, depends_on: [found]}
  result: ["${steps.found.answer}", "${steps.again.answer}"]
"""


def searching() -> AnswerMaker:
    """Return what the model says in a loop of three questions, by how far that is."""
    said = (calling_tool("say", text="one"), calling_tool("say", text="two"), "Found.")
    return lambda request: said[sum(message.role == "tool" for message in request.messages)]


async def test_a_spent_cycle_pauses_the_job_at_its_next_call_and_is_no_fall(
    places: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wavewright.engine.run.cancellation.STOP_GRACE_SECONDS", 0.1)
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
        places.environment[name] = value
    model_server.answer(REVIEW, when=asked_for("review"), name="review")
    model_server.answer(searching(), when="Look for it", name="agent")
    (places.folder / "survey.yaml").write_text(SEARCH)
    limit = "pause: 600, depth: 0, tokens_per_cycle: 17000"
    job = stand(places, limit, top="ladders: {planner: [{name: template}]}")
    clock, cycles = SetClock(), 1
    async with in_process(clock) as daemon:
        while not {"JOB_COMPLETED", "JOB_FAILED"} & {*client.statuses(job)}:
            await client.read()
            if client.statuses(job).count("JOB_PAUSED") == cycles:
                cycles += 1
                clock.now += 600
            await anyio.sleep(0.02)
        await client.read()

    assert client.statuses(job)[-1] == "JOB_COMPLETED"
    assert cycles > 1
    spent = daemon.said("budget_exhausted")
    assert [(line["budget_type"], line["action"]) for line in spent] == [("cycle", "pause")] * (
        cycles - 1
    )
    # Nothing that a model has answered is asked again, and no step has fallen to a lower rung.
    assert Counter(exchange.rule for exchange in model_server.ledger) == {"agent": 6, "review": 1}
    [package] = [json.loads(message.body)["payload"]["package"] for message in client.packages]
    assert (package["status"], package["result"]) == ("achieved", ["Found.", "Found."])
    [tokens] = daemon.said("run_tokens")
    assert tokens["total_tokens"] == package["orchestrator_tokens"] + package["worker_tokens"]


async def test_a_spent_day_sleeps_to_midnight_while_spent_cycles_pause_for_the_cycle_alone(
    places: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("run.cancellation", "service.daemon.budgets"):
        monkeypatch.setattr(f"wavewright.engine.{module}.STOP_GRACE_SECONDS", 0.1)
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
        places.environment[name] = value
    model_server.answer(REVIEW, when=asked_for("review"), name="review")
    model_server.answer(searching(), when="Look for it", name="agent")
    (places.folder / "survey.yaml").write_text(SEARCH)
    budgets = "budgets: {day: {calls: 3}}\nladders: {planner: [{name: template}]}"
    job = stand(places, "pause: 600, depth: 0, tokens_per_cycle: 17000", top=budgets)
    clock, slept = SetClock(), list[tuple[int, int]]()
    clock.now = next_day_start(clock.now) - 43_200
    async with in_process(clock) as daemon:
        pauses = 0
        while not {"JOB_COMPLETED", "JOB_FAILED"} & {*client.statuses(job)}:
            await client.read()
            spent = daemon.said("budget_exhausted")
            if len(spent) > pauses:
                pauses += 1
                await until_paused(client, job, pauses)
                if spent[-1]["budget_type"] == "day":
                    # All but a second of the night: nothing is asked.
                    asked, midnight = len(model_server.ledger), next_day_start(clock.now)
                    clock.now = midnight - 1
                    await anyio.sleep(0.3)
                    slept.append((asked, len(model_server.ledger)))
                    clock.now = midnight
                else:
                    clock.now += 600
            await anyio.sleep(0.02)

    assert client.statuses(job)[-1] == "JOB_COMPLETED"
    spent = daemon.said("budget_exhausted")
    assert {(line["budget_type"], line["action"]) for line in spent} == {
        ("cycle", "pause"),
        ("day", "sleep"),
    }
    assert slept
    assert all(before == after for before, after in slept)
    # Nothing that a model has answered is asked again.
    assert Counter(exchange.rule for exchange in model_server.ledger) == {"agent": 6, "review": 1}
