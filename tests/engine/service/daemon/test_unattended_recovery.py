"""A daemon with nobody beside it: a model's patch acts where the goal lets it, and otherwise the
job asks.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import REVIEW, BrokerClient, DaemonSite
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.messages.models import JobRequest
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

TEMPLATE = """\
name: saying
goal: Say it loudly
available_tools: [{name: say}, {name: hold}]
gates: [{id: loud, on: first, check: output == 'LOUD', severity: block, hint: say it in capitals}]
recovery: {allow: same-effects}
"""
JOB: JsonObject = {"goal_template": "saying.yaml", "inputs": {"loud": "LOUD"}}
PLAN: JsonObject = {
    "steps": [{"id": "first", "tool": "say", "params": {"text": "quiet"}}],
    "result": "${steps.first}",
}


@pytest.fixture
def modelled(
    site: DaemonSite, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> DaemonSite:
    """A daemon whose runs a model plans, reviews and patches."""
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
        site.environment[name] = value
    site.write(functions="say: {effects: [write]}, hold: {effects: [write, egress]}")
    (site.folder / "saying.yaml").write_text(TEMPLATE)
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(REVIEW, when=asked_for("review"))
    return site


def patch(tool: str) -> JsonObject:
    step: JsonObject = {
        "id": "again",
        "tool": tool,
        "params": {"text": "${inputs.loud}"},
        "supersedes": "first",
    }
    return {"reason": "it was not loud", "ops": [{"op": "add", "step": step}]}


async def test_a_patch_that_calls_again_what_the_plan_calls_needs_no_word(
    modelled: DaemonSite, client: BrokerClient, in_process: InProcess, model_server: FakeModelServer
) -> None:
    model_server.answer(patch("say"), when=asked_for("patch"))
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=JOB))
        await client.until_told(wanted, "JOB_COMPLETED")

    assert modelled.calls() == {"say quiet": 1, "say LOUD": 1}
    assert client.questions == []


async def test_a_patch_with_another_effect_asks_before_it_acts(
    modelled: DaemonSite, client: BrokerClient, in_process: InProcess, model_server: FakeModelServer
) -> None:
    model_server.answer(patch("hold"), when=asked_for("patch"))
    wanted = str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=JOB))
        [question] = await client.until_asked(1)

    assert "'again', which calls 'hold' (" in str(question)
    assert modelled.calls() == {"say quiet": 1}
