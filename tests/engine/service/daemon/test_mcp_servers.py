"""A daemon whose jobs call tools of a real MCP server: one session for all of them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite
from tests.support.child_processes import child_processes
from tests.tools.calling import list_server_tools
from wavewright.engine.rehearsal.fake_model.replies import calling_tool
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.service.messages.models import JobRequest
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.mcp.lock import LOCK_NAME, ToolsLock, lock_server, read_lock
from wavewright.tools.mcp.tools import server_settings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not Path("/proc/self/task").exists(), reason="the system does not list a process's children"
    ),
]

SERVERS: JsonObject = {
    "time": {
        "command": sys.executable,
        "args": ["-m", "mcp_server_time", "--local-timezone=UTC"],
        "limit": 2,
        # Agents are offered what reads, and only a trusted server is believed about that.
        "trusted": True,
    }
}
TEMPLATE = """\
name: ask
goal: Know the time
available_tools: [{name: time.get_current_time}, {name: agent}]
"""
REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "It was found.",
    "missing_data": [],
    "recovery_actions": [],
}


@pytest.fixture
async def time_site(site: DaemonSite) -> DaemonSite:
    """The site with the server in its settings and in its lock."""
    site.write(more=f"mcp: {json.dumps({'servers': SERVERS})}")
    listing = await list_server_tools(
        server_settings("time", site.settings.mcp.servers["time"], site.folder, {})
    )
    (site.folder / LOCK_NAME).write_text(ToolsLock(servers={"time": lock_server(listing)}).text)
    return site


def job(*zones: str) -> JsonObject:
    """Return a job that asks for the time in each of these zones at once."""
    params: JsonObject = {"timezone": "${item}"}
    step: JsonObject = {
        "id": "times",
        "tool": "time.get_current_time",
        "for_each": [*zones],
        "params": params,
    }
    return {"name": "times", "plan": {"steps": [step], "result": "${steps.times}"}}


async def test_jobs_share_one_server_that_is_started_again_after_a_crash_and_ends_with_the_daemon(
    time_site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    daemon = start()
    await daemon.started()
    assert child_processes(daemon.process.pid, "mcp_server_time") == []

    zones = ["Europe/Berlin", "Asia/Tokyo", "UTC", "America/Lima"]
    wanted = [str(uuid4()) for _ in range(3)]
    for one in wanted:
        await client.send(JobRequest(job_id=one, job=job(*zones)))
    for one in wanted:
        await client.until_told(one, "JOB_COMPLETED")
    [first] = child_processes(daemon.process.pid, "mcp_server_time")

    os.kill(first, signal.SIGKILL)
    again = str(uuid4())
    await client.send(JobRequest(job_id=again, job=job(*zones)))
    await client.until_told(again, "JOB_COMPLETED")
    [second] = child_processes(daemon.process.pid, "mcp_server_time")
    assert second != first

    daemon.signal(signal.SIGTERM)
    assert await daemon.ended() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
    results = [
        json.loads(message.body)["payload"]["package"]["result"] for message in client.packages
    ]
    assert [[each["timezone"] for each in result] for result in results] == [zones] * 4


async def test_a_lock_that_is_written_while_the_daemon_runs_counts(
    time_site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    accepted = read_lock(time_site.folder)
    server = accepted.servers["time"]
    tool = server.tools["get_current_time"].model_copy(update={"hash": "of something else"})
    changed = server.model_copy(update={"tools": {**server.tools, "get_current_time": tool}})
    lock = time_site.folder / LOCK_NAME
    lock.write_text(ToolsLock(servers={"time": changed}).text)
    daemon = start()
    await daemon.started()
    refused, allowed = str(uuid4()), str(uuid4())

    await client.send(JobRequest(job_id=refused, job=job("UTC")))
    told = await client.until_told(refused, "JOB_PARTIALLY_COMPLETED")
    assert "the tools of MCP server 'time' are not those of tools.lock.json" in str(told["reason"])
    lock.write_text(accepted.text)
    await client.send(JobRequest(job_id=allowed, job=job("UTC")))
    await client.until_told(allowed, "JOB_COMPLETED")


async def test_an_agent_of_a_job_calls_the_server_that_the_steps_of_another_job_call(
    time_site: DaemonSite, client: BrokerClient, start: StartDaemon, model_server: FakeModelServer
) -> None:
    time_site.environment |= model_server.environment()
    (time_site.folder / "ask.yaml").write_text(TEMPLATE)
    model_server.answer(REVIEW, when=asked_for("review"))
    model_server.answer(
        calling_tool("time__get_current_time", timezone="Asia/Tokyo"),
        "Late.",
        when="How late is it?",
    )
    daemon = start()
    await daemon.started()
    agent: JsonObject = {"id": "found", "tool": "agent", "params": {"task": "How late is it?"}}
    asking: JsonObject = {
        "name": "asking",
        "goal_template": "ask.yaml",
        "plan": {"steps": [agent], "result": "${steps.found}"},
    }
    by_agent, by_step = str(uuid4()), str(uuid4())

    async with anyio.create_task_group() as group:
        group.start_soon(client.send, JobRequest(job_id=by_agent, job=asking))
        group.start_soon(client.send, JobRequest(job_id=by_step, job=job("UTC")))
    await client.until_told(by_agent, "JOB_COMPLETED")
    await client.until_told(by_step, "JOB_COMPLETED")

    assert len(child_processes(daemon.process.pid, "mcp_server_time")) == 1
    packages = [json.loads(message.body)["payload"]["package"] for message in client.packages]
    found: list[Json] = [package["result"] for package in packages]
    [output] = [result for result in found if isinstance(result, dict)]
    assert output["answer"] == "Late."
    assert "Asia/Tokyo" in json.dumps(output["collected"])
