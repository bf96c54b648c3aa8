"""The daemon from outside: messages in by the broker, statuses, packages and questions out."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from wavewright.engine.service.job_store.records import DecisionId, DecisionMade, JobId
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import GoalRequest, JobRequest
from wavewright.planner.types import JsonObject
from wavewright.tools.functions.threads import THREADS_PER_RUN

pytestmark = pytest.mark.anyio

TEMPLATE = """\
name: zone
goal: Find out about a zone
available_tools: [{name: say}]
inputs_schema:
  type: object
  properties: {variables: {type: array, items: {type: string}}, depth: {type: integer}}
plan:
  steps: [{id: zone, tool: say, params: {text: "${inputs.variables[0]} at ${inputs.depth}"}}]
  result: ${steps.zone}
"""


async def test_a_job_comes_in_and_statuses_and_its_package_go_out(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=job(("say", "one"), ("say", "two"))))
        done = await client.until_told(wanted, "JOB_COMPLETED")

    assert client.statuses(wanted) == [
        "ACCEPTED",
        "JOB_STARTED",
        "STEP_PROGRESS",
        "STEP_PROGRESS",
        "PACKAGE_SENT",
        "JOB_COMPLETED",
    ]
    assert client.repeats == []
    [message] = client.packages
    package = json.loads(message.body)["payload"]
    assert package["package"]["result"] == "two"
    assert (package["package_id"], package["iteration"]) == (done["package_id"], 1)
    assert site.calls() == {"say one": 1, "say two": 1}


async def test_a_goal_in_words_is_a_job_of_the_template_that_the_settings_name(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    (site.folder / "zone.yaml").write_text(TEMPLATE)
    site.write(daemon="goal_template: zone.yaml")
    request = GoalRequest(
        job_id=wanted, goal="Research it", depth=1, budget_tokens=500, target="Westfall"
    )
    async with in_process():
        await client.send(request)
        done = await client.until_told(wanted, "JOB_COMPLETED")

    package = json.loads(client.packages[0].body)["payload"]["package"]
    assert package["result"] == "Westfall at 1"
    assert (package["job"], package["goal"]) == ("Westfall", "Research it")
    assert done["target"] == "Westfall"


async def test_a_job_that_cannot_be_run_fails_with_the_reason_and_is_not_tried_again(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    unsound, outside, shapeless = (str(uuid4()) for _ in range(3))
    async with in_process() as running:
        await client.send(JobRequest(job_id=unsound, job=job(("nobody", "x"))))
        await client.send(JobRequest(job_id=outside, job={"name": "x", "plan": "../plan.yaml"}))
        await client.send(JobRequest(job_id=shapeless, job={"name": "x", "plann": 1}))
        reasons = [
            str((await client.until_told(one, "JOB_FAILED"))["reason"])
            for one in (unsound, outside, shapeless)
        ]
        async with open_stores(site.settings) as stores:
            rows = await stores.jobs.list_jobs()
            runs = await stores.journal.list_runs()

    assert "nobody" in reasons[0]
    assert "leads out of the project's folder" in reasons[1]
    assert "plann" in reasons[2]
    assert [row.state for row in rows] == ["failed"] * 3
    # Also of those that could not begin: nobody is told that there is something to resume.
    assert [run.status for run in runs] == ["failed"] * 3
    assert client.packages == []
    lines = map(json.loads, running.log.getvalue().splitlines())
    logged = tuple(line["message"] for line in lines if line["event"] == "error")
    assert len(logged) == len(reasons)
    assert all(reason.endswith(logged) for reason in reasons)


async def test_what_is_no_message_is_laid_aside_and_what_comes_after_it_is_done(
    client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process():
        await client.send_raw(b"{")
        await client.send_raw(b"{}")
        await client.send(JobRequest(job_id=wanted, job=job(("say", "well"))))
        await client.until_told(wanted, "JOB_COMPLETED")
        letters = await client.dead_letters(2)

    # Several messages are taken in at once, so their order is nobody's promise.
    assert sorted(one.body for one in letters) == [b"{", b"{}"]
    kinds = [str(one.headers["x-wavewright-reason"]).partition(":")[0] for one in letters]
    assert sorted(kinds) == ["missing_field", "not_json"]


async def test_with_a_key_only_signed_messages_have_an_effect_and_what_goes_out_is_signed(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    key = "0123456789abcdef"
    site.environment["WAVEWRIGHT_HMAC_KEY"] = key
    wanted, unsigned = str(uuid4()), str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=unsigned, job=job(("say", "no"))))
        await client.send(JobRequest(job_id=wanted, job=job(("say", "yes"))), key=key.encode())
        await client.until_told(wanted, "JOB_COMPLETED")
        [letter] = await client.dead_letters(1)

    assert site.calls() == {"say yes": 1}
    assert str(letter.headers["x-wavewright-reason"]).startswith("bad_signature")
    assert len(str(client.packages[0].headers["x-wavewright-signature"])) == 64


@pytest.mark.parametrize(("choice", "calls"), [("approve", {"say it": 1}), ("refuse", {})])
async def test_a_step_that_needs_approval_waits_without_a_slot_until_it_is_given(
    site: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    choice: str,
    calls: dict[str, int],
) -> None:
    site.write(functions="say: {needs_approval: true}, hold: {}", daemon="slots: 1")
    wanted, other = str(uuid4()), str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))))
        asked = await client.until_told(wanted, "DECISION_REQUIRED")
        site.open_gate()
        await client.send(JobRequest(job_id=other, job=job(("hold", "meanwhile"))))
        await client.until_told(other, "JOB_COMPLETED")
    async with open_stores(site.settings) as stores:
        waiting = await stores.jobs.find_job(JobId(wanted))
        [decision] = await stores.jobs.list_decisions()
        made = DecisionMade(DecisionId(str(asked["decision_id"])), choice, "somebody")
        receipt = await stores.jobs.decide(made)
    async with in_process():
        await client.until_told(
            wanted, "JOB_COMPLETED" if choice == "approve" else "JOB_PARTIALLY_COMPLETED"
        )
    async with open_stores(site.settings) as stores:
        used = await stores.jobs.find_decision(decision.id)

    assert waiting is not None
    assert waiting.state == "waiting"
    assert "step 's0' calls 'say'" in decision.question
    assert 'text: "it"' in decision.context
    [question] = client.questions
    assert (question["decision_id"], question["options"]) == (decision.id, ["approve", "refuse"])
    assert receipt.action == "accept"
    assert used is not None
    assert used.used is not None
    assert {call: count for call, count in site.calls().items() if call.startswith("say")} == calls


async def test_two_daemons_on_one_store_do_each_job_once(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = [str(uuid4()) for _ in range(8)]
    async with in_process(), in_process():
        for number, one in enumerate(wanted):
            await client.send(JobRequest(job_id=one, job=job(("say", f"{number}"))))
        for one in wanted:
            await client.until_told(one, "JOB_COMPLETED")

    assert site.calls() == {f"say {number}": 1 for number in range(8)}
    assert len(client.packages) == 8


def large_job(text: str) -> JsonObject:
    """Return a job that holds, and then does a dozen things at once."""
    many: list[JsonObject] = [
        {"id": f"m{number}", "tool": "say", "params": {"text": "more"}, "depends_on": ["first"]}
        for number in range(12)
    ]
    first: JsonObject = {"id": "first", "tool": "hold", "params": {"text": text}}
    return {"name": text, "plan": {"steps": [first, *many]}}


async def test_the_last_slot_is_for_small_jobs_while_large_ones_hold_the_others(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    site.write(daemon="slots: 3")
    large, other, waiting, small = (str(uuid4()) for _ in range(4))
    async with in_process():
        await client.send(JobRequest(job_id=large, job=large_job("large")))
        await client.send(JobRequest(job_id=other, job=large_job("other")))
        await site.until(lambda: site.calls().total() == 2)
        await client.send(JobRequest(job_id=waiting, job=large_job("waiting")))
        await client.until_told(waiting, "ACCEPTED")
        await client.send(JobRequest(job_id=small, job=job(("say", "small"))))
        await client.until_told(small, "JOB_COMPLETED")
        before_the_gate = site.calls()
        site.open_gate()
        for each in (large, other, waiting):
            await client.until_told(each, "JOB_COMPLETED")

    assert before_the_gate == {"hold large": 1, "hold other": 1, "say small": 1}


async def test_a_job_that_asks_for_more_than_the_settings_allow_fails_and_says_what_may_be_had(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    asked = job(("say", "it"))
    asked["overrides"] = {"limits": {"max_items": 2_000_000, "concurrency": 100_000}}
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=asked))
        failed = await client.until_told(wanted, "JOB_FAILED")

    assert failed["reason"] == (
        "limits.max_items is 2,000,000, and a job that is sent may have 10,000 at most; "
        "limits.concurrency is 100,000, and a job that is sent may have 256 at most"
    )
    assert site.calls() == {}


async def test_a_job_of_hundreds_of_calls_that_wait_keeps_no_small_one_waiting(
    site: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    site.write(daemon="slots: 2")
    large, small = (str(uuid4()) for _ in range(2))
    calls: list[JsonObject] = [
        {"id": f"m{number}", "tool": "hold", "params": {"text": f"{number}"}}
        for number in range(200)
    ]
    limits: JsonObject = {"limits": {"max_steps": 200, "concurrency": 200}}
    document: JsonObject = {"name": "large", "overrides": limits, "plan": {"steps": [*calls]}}
    async with in_process():
        await client.send(JobRequest(job_id=large, job=document))
        await site.until(lambda: site.calls().total() >= THREADS_PER_RUN)
        await client.send(JobRequest(job_id=small, job=job(("say", "small"))))
        await client.until_told(small, "JOB_COMPLETED")
        before_the_gate = site.calls()
        site.open_gate()
        await client.until_told(large, "JOB_COMPLETED")

    assert before_the_gate["say small"] == 1
    assert before_the_gate.total() == THREADS_PER_RUN + 1
