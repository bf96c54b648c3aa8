"""A daemon that dies while a person is asked, or as the answer comes; and two people who answer at
once.
"""

from __future__ import annotations

import signal
from functools import partial
from subprocess import CompletedProcess
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import PATIENCE, BrokerClient, DaemonSite
from tests.support.prepared_command import run_prepared
from wavewright.engine.service.job_store.records import DecisionId, JobId
from wavewright.engine.service.job_store.rules import FINAL_STATES
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import JobRequest, UserDecisionResponse
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

KEY = "0123456789abcdef"
APPROVED: JsonObject = {
    "id": "last",
    "tool": "say",
    "params": {"text": "${steps.first} ${steps.second}"},
    "needs_approval": True,
}
FIRST: JsonObject = {"id": "first", "tool": "say", "params": {"text": "one"}}
PLANS: dict[str, list[JsonObject]] = {
    "approval": [FIRST, {"id": "second", "tool": "say", "params": {"text": "two"}}, APPROVED],
    "question": [
        FIRST,
        {
            "id": "second",
            "tool": "ask_person",
            "params": {"question": "Which?", "options": ["two", "three"]},
        },
        {"id": "last", "tool": "say", "params": {"text": "${steps.first} ${steps.second}"}},
    ],
}
CHOICES = {"approval": "approve", "question": "two"}


@pytest.fixture
def signed(site: DaemonSite) -> DaemonSite:
    """A project whose messages are signed, so that an approval may come by message."""
    site.environment["WAVEWRIGHT_HMAC_KEY"] = KEY
    return site


async def send_job(client: BrokerClient, kind: str) -> str:
    wanted = str(uuid4())
    job: JsonObject = {
        "name": "a job",
        "plan": {"steps": [*PLANS[kind]], "result": "${steps.last}"},
    }
    await client.send(JobRequest(job_id=wanted, job=job), key=KEY.encode())
    return wanted


async def until_ended(site: DaemonSite, job: str) -> None:
    async with open_stores(site.settings) as stores:
        with anyio.fail_after(PATIENCE):
            while (  # noqa: ASYNC110 - the daemon ends it
                row := await stores.jobs.find_job(JobId(job))
            ) is None or row.state not in FINAL_STATES:
                await anyio.sleep(0.02)


@pytest.mark.parametrize(
    "is_answered_first",
    [
        pytest.param(False, id="while it waits", marks=pytest.mark.long),
        pytest.param(True, id="as the answer comes"),
    ],
)
@pytest.mark.parametrize("kind", PLANS)
async def test_a_daemon_that_is_killed_asks_once_and_the_next_one_goes_on_with_the_answer(
    signed: DaemonSite,
    client: BrokerClient,
    start: StartDaemon,
    kind: str,
    *,
    is_answered_first: bool,
) -> None:
    first = start()
    await first.started()
    wanted = await send_job(client, kind)
    asked = await client.until_told(wanted, "DECISION_REQUIRED")
    answer = UserDecisionResponse(decision_id=str(asked["decision_id"]), choice=CHOICES[kind])

    if is_answered_first:
        await client.send(answer, key=KEY.encode())
    first.signal(signal.SIGKILL)
    await first.ended()
    start()
    if not is_answered_first:
        await client.send(answer, key=KEY.encode())
    await client.until_told(wanted, "JOB_COMPLETED")
    await client.read()

    async with open_stores(signed.settings) as stores:
        decisions = await stores.jobs.list_decisions(is_open=False)
    calls = signed.calls()
    assert len(client.questions) == 1
    assert [(one.choice, one.used is not None) for one in decisions] == [(CHOICES[kind], True)]
    assert calls["say one"] == 1
    assert calls["say one two"] in ({1, 2} if is_answered_first else {1})
    assert len(client.packages) == 1


@pytest.mark.parametrize("kind", PLANS)
async def test_of_two_answers_at_once_one_counts_and_the_other_person_is_told(
    signed: DaemonSite, client: BrokerClient, in_process: InProcess, kind: str
) -> None:
    options = ["approve", "refuse"] if kind == "approval" else ["two", "three"]
    async with in_process():
        wanted = await send_job(client, kind)
        asked = await client.until_told(wanted, "DECISION_REQUIRED")
        decision = str(asked["decision_id"])
        ended = dict[str, CompletedProcess[str]]()

        async def answer(choice: str) -> None:
            command = partial(
                run_prepared, folder=signed.folder, environment=signed.whole_environment()
            )
            ended[choice] = await anyio.to_thread.run_sync(command, "answer", decision, choice)

        async with anyio.create_task_group() as people:
            for choice in options:
                people.start_soon(answer, choice)
        await until_ended(signed, wanted)
    async with open_stores(signed.settings) as stores:
        kept = await stores.jobs.find_decision(DecisionId(decision))

    assert sorted(one.returncode for one in ended.values()) == [0, 1], ended
    [winner] = [choice for choice, one in ended.items() if one.returncode == 0]
    [refused] = [one.stderr for one in ended.values() if one.returncode]
    assert "answered" in refused
    assert kept is not None
    assert kept.choice == winner
    said = {"approve": {"say one two": 1}, "two": {"say one two": 1}, "three": {"say one three": 1}}
    last = {call: count for call, count in signed.calls().items() if call.startswith("say one ")}
    assert last == said.get(winner, {})
