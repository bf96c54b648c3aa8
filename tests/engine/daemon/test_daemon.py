"""The daemon from outside: jobs in by the broker, statuses and packages out."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.engine.daemon.conftest import InProcess
from tests.engine.daemon.yard import Counterpart, Yard, job
from wavewright.engine.messages.requests import JobRequest

pytestmark = pytest.mark.anyio


async def test_a_job_comes_in_and_statuses_and_its_package_go_out(
    yard: Yard, counterpart: Counterpart, in_process: InProcess
) -> None:
    wanted = str(uuid4())
    async with in_process():
        await counterpart.send(JobRequest(job_id=wanted, job=job(("say", "one"), ("say", "two"))))
        done = await counterpart.until_told(wanted, "JOB_COMPLETED")

    assert counterpart.statuses(wanted) == [
        "ACCEPTED",
        "JOB_STARTED",
        "STEP_PROGRESS",
        "STEP_PROGRESS",
        "PACKAGE_SENT",
        "JOB_COMPLETED",
    ]
    [message] = counterpart.packages
    package = json.loads(message.body)["payload"]
    assert package["package"]["result"] == "two"
    assert (package["package_id"], package["iteration"]) == (done["package_id"], 1)
    assert yard.calls() == {"say one": 1, "say two": 1}
