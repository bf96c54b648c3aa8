"""A package that is too large to be sent fails what it came of, with the size and the mend."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from wavewright.engine.service.messages.models import JobRequest

TOOLS = '''

def swell(text: str) -> str:
    """Say a text very often."""
    return text * (20_000 if text.startswith("L") else 1)
'''
TEMPLATE = """\
name: swell
goal: Swell ${inputs.target}
available_tools: [{name: swell}]
inputs_schema:
  type: object
  properties: {target: {type: string}}
  required: [target]
targets: {}
plan:
  steps: [{id: swollen, tool: swell, params: {text: "${inputs.target}"}}]
  result: ${steps.swollen}
"""


@pytest.fixture
def narrow(site: DaemonSite) -> DaemonSite:
    """A daemon that sends no message of more than 64 KiB."""
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    (site.folder / "swell.yaml").write_text(TEMPLATE)
    site.write(functions="say: {}, swell: {}", daemon="max_sent: 65536")
    return site


@pytest.mark.anyio
async def test_a_job_whose_package_is_too_large_fails_and_says_how_large(
    narrow: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    large, small = str(uuid4()), str(uuid4())
    async with in_process():
        await client.send(JobRequest(job_id=large, job=job(("swell", "Long text"))))
        failed = await client.until_told(large, "JOB_FAILED")
        await client.send(JobRequest(job_id=small, job=job(("swell", "text"))))
        await client.until_told(small, "JOB_COMPLETED")

    assert str(failed["reason"]).startswith("the message with its package has ")
    assert "more than the 65536 of daemon.max_sent" in str(failed["reason"])
    assert "PACKAGE_SENT" not in client.statuses(large)
    [package] = client.packages
    assert json.loads(package.body)["payload"]["job_id"] == small


@pytest.mark.anyio
async def test_a_target_whose_package_is_too_large_fails_and_the_others_go_on(
    narrow: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    document = {
        "name": "two",
        "goal_template": "swell.yaml",
        "targets": {"first": ["Large", "small"]},
    }
    async with in_process():
        await client.send(JobRequest(job_id=wanted, job=json.loads(json.dumps(document))))
        done = await client.until_told(wanted, "JOB_PARTIALLY_COMPLETED")
        await client.read()

    [failure] = json.loads(json.dumps(done["targets_failed"]))
    assert failure["target"] == "Large"
    assert "daemon.max_sent" in failure["error"]
    [package] = client.packages
    assert json.loads(package.body)["payload"]["target"] == "small"
