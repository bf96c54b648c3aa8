"""What a model has said is said once: a daemon that goes on for a killed one asks only what was
never answered.
"""

from __future__ import annotations

import signal
from collections import Counter
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from wavewright.engine.rehearsal.fake_model.replies import AnswerMaker, calling_tool
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.messages.models import JobRequest
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

TEMPLATE = """\
name: find
goal: Find ${inputs.target}
available_tools: [{name: say}, {name: hold}, {name: agent}]
inputs_schema: {type: object, properties: {target: {type: string}}}
"""
REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was found.",
    "missing_data": [],
    "recovery_actions": [],
}


def plan(target: str) -> JsonObject:
    """Return a plan whose agent looks for the target."""
    params: JsonObject = {"task": f"Look for {target}", "tools": ["say", "hold"]}
    return {
        "steps": [{"why": "it is wanted", "id": "found", "tool": "agent", "params": params}],
        "result": "${steps.found.answer}",
    }


def searching(target: str) -> AnswerMaker:
    """Return what the model says in a loop of four questions, by how far that is; its second tool
    waits.
    """
    said = (
        calling_tool("say", text=target),
        calling_tool("hold", text=target),
        calling_tool("say", text="it"),
        "Found.",
    )
    return lambda request: said[sum(message.role == "tool" for message in request.messages)]


async def test_of_a_planner_an_agent_and_a_reviewer_no_answer_is_asked_for_twice_whatever_dies_between(
    site: DaemonSite, client: BrokerClient, start: StartDaemon, model_server: FakeModelServer
) -> None:
    site.environment |= model_server.environment()
    site.write(functions="say: {effects: [read]}, hold: {effects: [read]}")
    (site.folder / "find.yaml").write_text(TEMPLATE)
    model_server.answer(REVIEW, when=asked_for("review"), name="review")
    for target in ("alone", "among"):
        model_server.answer(searching(target), when=f"Look for {target}", name=f"agent {target}")
        model_server.answer(plan(target), when=f"Find {target}", name=f"planner {target}")
    alone, among = str(uuid4()), str(uuid4())
    one: JsonObject = {"name": "one", "goal_template": "find.yaml"}
    first = start()
    await first.started()
    await client.send(JobRequest(job_id=alone, job={**one, "inputs": {"target": "alone"}}))
    await client.send(
        JobRequest(
            job_id=among,
            job={**one, "targets": {"first": ["among"], "depth": 1}},
        )
    )
    await site.until(lambda: site.calls()["hold alone"] == site.calls()["hold among"] == 1)

    first.signal(signal.SIGKILL)
    await first.ended()
    before = Counter(exchange.rule for exchange in model_server.ledger)
    site.open_gate()
    start()
    for job in (alone, among):
        await client.until_told(job, "JOB_COMPLETED")

    assert before == {"planner alone": 1, "agent alone": 2, "planner among": 1, "agent among": 2}
    assert Counter(exchange.rule for exchange in model_server.ledger) == {
        "planner alone": 1,
        "agent alone": 4,
        "planner among": 1,
        "agent among": 4,
        "review": 2,
    }
    # What the agent's tools had given is not fetched again either; the one that was in flight is.
    assert {call: count for call, count in site.calls().items() if call.startswith("say")} == {
        "say alone": 1,
        "say among": 1,
        "say it": 2,
    }
