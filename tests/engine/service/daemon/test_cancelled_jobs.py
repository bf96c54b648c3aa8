"""Jobs of a daemon that a person cancels while they wait for a slot, at work, and while they await
a verdict.
"""

from __future__ import annotations

from uuid import uuid4

import anyio
import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import PATIENCE, BrokerClient, DaemonSite, job
from wavewright.engine.run import cancellation
from wavewright.engine.service.job_store.records import (
    JobId,
    JobRequested,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import JobRequest
from wavewright.executor.events.state import fold

TOOL = '''

async def wait(text: str) -> str:
    """Never answer."""
    import anyio

    _note(f"wait {text}")
    await anyio.sleep_forever()
    return text
'''


@pytest.mark.anyio
async def test_a_job_is_cancelled_in_each_of_its_states(
    site: DaemonSite,
    client: BrokerClient,
    in_process: InProcess,
    wavewright: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancellation, "POLL_SECONDS", 0.02)
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOL)
    site.write(functions="say: {}, wait: {}", daemon="slots: 1\n  validation: {iterations: 1}")
    monkeypatch.chdir(site.folder)
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    judged, running, queued, later = (str(uuid4()) for _ in range(4))

    async def cancel(wanted: str) -> int:
        answer = await anyio.to_thread.run_sync(wavewright, "cancel", wanted[:8], "--by", "ada")
        return answer.code

    with anyio.fail_after(PATIENCE):
        async with in_process():
            await client.send(JobRequest(job_id=judged, job=job(("say", "one"))))
            await client.until_told(judged, "PACKAGE_SENT")
            await client.send(JobRequest(job_id=running, job=job(("wait", "two"))))
            await client.until_told(running, "JOB_STARTED")
            async with open_stores(site.settings) as stores:
                asked = JobRequested(JobId(queued), {"job": job(("say", "three"))})
                await stores.jobs.receive(
                    ReceivedMessage(MessageId(queued), "job_request", "me", 1.0, asked)
                )
            codes = [await cancel(one) for one in (queued, judged, running)]
            ended = [
                await client.until_told(one, "JOB_CANCELLED") for one in (queued, judged, running)
            ]
            await client.send(JobRequest(job_id=later, job=job(("say", "four"))))
            await client.until_told(later, "PACKAGE_SENT")
            again = [await cancel(one) for one in (queued, judged, running)]

    async with open_stores(site.settings) as stores:
        jobs = [await stores.jobs.find_job(JobId(one)) for one in (queued, judged, running)]
        listed = [row.status for row in await stores.journal.list_runs()]
        states = [fold(await stores.journal.load(one.run)) for one in jobs if one is not None]
    assert codes == again == [0, 0, 0]
    assert [one["reason"] for one in ended] == ["cancelled by ada"] * 3
    assert [one.state for one in jobs if one is not None] == ["cancelled"] * 3
    ends = [None if state.finished is None else state.finished.status for state in states]
    assert sorted(listed) == ["achieved", "achieved", "cancelled"]
    assert ends == [None, "achieved", "cancelled"]
    assert site.calls() == {"say one": 1, "wait two": 1, "say four": 1}
