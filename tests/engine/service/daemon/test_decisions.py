"""Questions to people: the job is waiting until somebody answers, by message or at the command
line.
"""

from __future__ import annotations

import time
from uuid import uuid4

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import (
    PATIENCE,
    REVIEW,
    BrokerClient,
    DaemonSite,
    job,
)
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.decisions.approvals import APPROVAL_SECONDS
from wavewright.engine.service.daemon.maintenance import ApprovalRenewal
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobId,
    JobRow,
)
from wavewright.engine.service.job_store.stores import Stores, open_stores
from wavewright.engine.service.messages.models import JobRequest, UserDecisionResponse
from wavewright.planner.types import JsonObject, RunId

pytestmark = pytest.mark.anyio

KEY = "0123456789abcdef"
ASK: JsonObject = {"ask": {"question": "Which text?", "options": ["one", "two"]}}
PLAN: JsonObject = {
    "reasoning": "It was said which.",
    "steps": [{"why": "asked for", "id": "say", "tool": "say", "params": {"text": "two"}}],
    "result": "${steps.say}",
}
TEMPLATE = """\
name: saying
goal: Say a text
available_tools: [{name: say}]
"""


@pytest.fixture
def cautious(site: DaemonSite) -> DaemonSite:
    """A project in which nothing is said without a person's word; messages are signed."""
    site.write(functions="say: {needs_approval: true}")
    site.environment["WAVEWRIGHT_HMAC_KEY"] = KEY
    return site


@pytest.fixture
def at_the_yard(
    wavewright: CommandLine, site: DaemonSite, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line in the daemon's project."""
    monkeypatch.chdir(site.folder)
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    return wavewright


def answer_to(asked: JsonObject, choice: str) -> UserDecisionResponse:
    return UserDecisionResponse(decision_id=str(asked["decision_id"]), choice=choice)


async def row_of(site: DaemonSite, wanted: str) -> JobRow:
    async with open_stores(site.settings) as stores:
        row = await stores.jobs.find_job(JobId(wanted))
    assert row is not None
    return row


async def test_an_approval_by_message_is_taken_once_by_the_job_that_asked(
    cautious: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted, message = str(uuid4()), str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))), key=KEY.encode())
        asked = await client.until_told(wanted, "DECISION_REQUIRED")
        for _ in range(3):
            await client.send(answer_to(asked, "approve"), message=message, key=KEY.encode())
        await client.send(answer_to(asked, "refuse"), key=KEY.encode())
        await client.until_told(wanted, "JOB_COMPLETED")
    async with open_stores(cautious.settings) as stores:
        [decision] = await stores.jobs.list_decisions(is_open=False)

    assert cautious.calls() == {"say it": 1}
    assert len(client.questions) == 1
    assert (decision.choice, decision.by) == ("approve", "tester")
    assert set(decision.binding) == {"run", "plan_hash", "step", "params", "nonce"}
    assert decision.expires == decision.asked + APPROVAL_SECONDS


async def test_a_word_that_nobody_vouches_for_approves_nothing(
    cautious: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    del cautious.environment["WAVEWRIGHT_HMAC_KEY"]
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))))
        asked = await client.until_told(wanted, "DECISION_REQUIRED")
        await client.send(answer_to(asked, "approve"))
        [letter] = await client.dead_letters(1)

    assert str(letter.headers["x-wavewright-reason"]).startswith("wrong_identity")
    assert (await row_of(cautious, wanted)).state == "waiting"
    assert cautious.calls() == {}


async def test_an_answer_that_was_not_offered_is_laid_aside_and_the_job_waits_on(
    cautious: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))), key=KEY.encode())
        asked = await client.until_told(wanted, "DECISION_REQUIRED")
        await client.send(answer_to(asked, "perhaps"), key=KEY.encode())
        [letter] = await client.dead_letters(1)

    assert str(letter.headers["x-wavewright-reason"]).startswith("bad_payload")
    assert (await row_of(cautious, wanted)).state == "waiting"


async def test_a_waiting_job_outlives_the_daemon_and_goes_on_with_what_is_typed(
    cautious: DaemonSite, client: BrokerClient, start: StartDaemon, at_the_yard: CommandLine
) -> None:
    wanted = str(uuid4())
    first = start()
    await first.started()
    await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))), key=KEY.encode())
    asked = await client.until_told(wanted, "DECISION_REQUIRED")
    first.close()
    listed = await anyio.to_thread.run_sync(at_the_yard, "decisions")
    alone = await anyio.to_thread.run_sync(
        at_the_yard, "resume", (await row_of(cautious, wanted)).run
    )
    answered = await anyio.to_thread.run_sync(
        at_the_yard, "answer", str(asked["decision_id"])[:8], "1"
    )
    again = await anyio.to_thread.run_sync(
        at_the_yard, "answer", str(asked["decision_id"]), "refuse"
    )
    left = await anyio.to_thread.run_sync(at_the_yard, "decisions")
    calls_before = cautious.calls()
    start()
    await client.until_told(wanted, "JOB_COMPLETED")

    assert f"wavewright answer {str(asked['decision_id'])[:8]} approve" in listed.out
    assert alone.code == 1
    assert f"belongs to a job of a daemon, {wanted}, which is waiting" in alone.err
    assert f"approval of a step, job a job {wanted}, asked" in listed.out
    assert "  s0 calls say with\n" in listed.out
    assert "answered 'approve'" in answered.out
    assert again.code == 1
    assert "the first answer is final" in again.err
    assert left.out == "nothing waits for an answer\n"
    assert calls_before == {}
    assert cautious.calls() == {"say it": 1}


async def test_a_planners_question_parks_the_job_until_it_is_answered(
    site: DaemonSite, client: BrokerClient, in_process: InProcess, model_server: FakeModelServer
) -> None:
    site.environment.update(model_server.environment())
    (site.folder / "saying.yaml").write_text(TEMPLATE)
    model_server.answer(ASK, PLAN, when=asked_for("plan"))
    model_server.answer(REVIEW, when=asked_for("review"))
    wanted = str(uuid4())
    async with in_process():
        await client.send(
            JobRequest(job_id=wanted, job={"name": "saying", "goal_template": "saying.yaml"})
        )
        asked = await client.until_told(wanted, "DECISION_REQUIRED")
    async with in_process():
        # Nobody vouches for the sender, and a question takes an answer from anybody.
        await client.send(answer_to(asked, "two"))
        await client.until_told(wanted, "JOB_COMPLETED")

    assert [one["question"] for one in client.questions] == ["Which text?"]
    assert "two" in model_server.requests[1].text
    assert site.calls() == {"say two": 1}


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            {"id": "s", "tool": "say", "params": {"text": "it"}},
            "which needs approval, and nobody can be asked",
        ),
        (
            {"id": "s", "tool": "ask_person", "params": {"question": "Which?"}},
            "asks a person, and nobody can be",
        ),
    ],
    ids=["approval", "question"],
)
async def test_a_daemon_that_asks_nobody_refuses_a_plan_that_needs_a_person(
    site: DaemonSite, client: BrokerClient, in_process: InProcess, step: JsonObject, why: str
) -> None:
    site.write(functions="say: {needs_approval: true}, hold: {}", daemon="decisions: false")
    wanted = str(uuid4())
    before: JsonObject = {"id": "before", "tool": "hold", "params": {"text": "first"}}
    async with in_process():
        await client.send(
            JobRequest(job_id=wanted, job={"name": "a job", "plan": {"steps": [before, step]}})
        )
        failed = await client.until_told(wanted, "JOB_FAILED")

    assert why in str(failed)
    assert client.questions == []
    assert site.calls() == {}


async def test_a_daemon_that_asks_nobody_fails_a_job_whose_planner_asks(
    site: DaemonSite, client: BrokerClient, in_process: InProcess, model_server: FakeModelServer
) -> None:
    site.write(daemon="decisions: false")
    site.environment.update(model_server.environment())
    (site.folder / "saying.yaml").write_text(TEMPLATE)
    model_server.answer(ASK, when=asked_for("plan"))
    wanted = str(uuid4())
    async with in_process():
        await client.send(
            JobRequest(job_id=wanted, job={"name": "saying", "goal_template": "saying.yaml"})
        )
        failed = await client.until_told(wanted, "JOB_FAILED")

    assert "nobody answers here" in str(failed)
    assert site.calls() == {}


async def test_an_approval_that_came_too_late_counts_for_nothing_and_is_asked_for_anew(
    cautious: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = str(uuid4())
    with monkeypatch.context() as hasty:
        hasty.setattr("wavewright.engine.service.daemon.note_projection.APPROVAL_SECONDS", 0.1)
        async with in_process():
            await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))), key=KEY.encode())
            asked = await client.until_told(wanted, "DECISION_REQUIRED")
    monkeypatch.setattr("wavewright.engine.run.decisions.approvals.APPROVAL_SECONDS", 0.1)
    await anyio.sleep(0.1)
    late, renewed = await answer_late(cautious, asked)
    async with in_process():
        [_, anew] = await client.until_asked(2)
        await client.send(answer_to(anew, "approve"), key=KEY.encode())
        await client.until_told(wanted, "JOB_COMPLETED")

    assert (late, renewed) == ("ignore_stale", [1, 0])
    assert anew["decision_id"] != asked["decision_id"]
    assert cautious.calls() == {"say it": 1}


async def answer_late(site: DaemonSite, asked: JsonObject) -> tuple[str, list[int]]:
    """Answer a question that has expired, and look twice for such; return what came of it."""
    async with open_stores(site.settings) as stores:
        made = DecisionMade(DecisionId(str(asked["decision_id"])), "approve", "somebody")
        receipt = await stores.jobs.decide(made)
        renewal = ApprovalRenewal(stores.jobs, stores.journal, time.time, anyio.lowlevel.checkpoint)
        renewed = [await renewal.renew(), await renewal.renew()]
    return receipt.action, renewed


async def test_an_answer_to_what_is_asked_no_more_keeps_no_job_from_its_rest(
    cautious: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    document: JsonObject = {**job(("say", "it")), "targets": {"first": ["A", "B"], "at_once": 2}}
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=document), key=KEY.encode())
        asked = await client.until_asked(2)
    row = await row_of(cautious, wanted)
    async with open_stores(cautious.settings) as stores:
        # One that its target waits for no more, as if it had failed meanwhile.
        stale = Decision(
            DecisionId(str(uuid4())), row.job, RunId("20261122-060000-abc123"), "step", "Go?"
        )
        await stores.journal.open_run(stale.run)
        await stores.journal.append(stale.run, [], OutboxWrites(decisions=(stale,)))
        await stores.jobs.decide(DecisionMade(stale.id, "approve", "somebody"))
    async with in_process():
        # Else the job would be queued as soon as it is waiting, time and again.
        await until_used(cautious, stale.id)
        for one in asked:
            await client.send(answer_to(one, "approve"), key=KEY.encode())
        await client.until_told(wanted, "JOB_COMPLETED")

    assert cautious.calls() == {"say it": 2}


async def until_used(site: DaemonSite, decision: DecisionId) -> None:
    async with open_stores(site.settings) as stores:
        with anyio.fail_after(PATIENCE):
            while not await is_used(stores, decision):  # noqa: ASYNC110 - the daemon uses it up
                await anyio.sleep(0.02)


async def is_used(stores: Stores, decision: DecisionId) -> bool:
    found = await stores.jobs.find_decision(decision)
    return found is not None and found.used is not None
