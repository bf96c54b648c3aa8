"""The daemon as a process that is stopped, killed and started again: nothing is lost, nothing done
twice.
"""

from __future__ import annotations

import signal
from collections import Counter
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from wavewright.engine.service.messages.models import JobRequest

pytestmark = pytest.mark.anyio

RAISING = '''

class OwnEnd(BaseException):
    """What its author has made no `Exception`."""


def own() -> str:
    """Raise a class of its own."""
    raise OwnEnd("enough")


def closed() -> str:
    """Raise what closes a generator."""
    raise GeneratorExit


async def interrupted() -> str:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


def grouped() -> str:
    """Raise a group of what ends a program."""
    raise BaseExceptionGroup("of a tool", [SystemExit(3), KeyboardInterrupt()])


async def async_grouped() -> str:
    """Raise such a group on the event loop."""
    raise BaseExceptionGroup("of a tool", [SystemExit(3), KeyboardInterrupt()])


def half() -> str:
    """Name a file whose name is no UTF-8, as the system gives it."""
    print("\\udce9t\\udce9")
    raise FileNotFoundError("no file \\udce9t\\udce9.txt")


def digits() -> int:
    """Give more digits than Python writes."""
    return 10**5000
'''


async def test_a_killed_daemon_is_gone_on_for_by_the_next_and_no_finished_step_runs_again(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    first = start()
    await first.started()
    await client.send(
        JobRequest(job_id=wanted, job=job(("say", "before"), ("hold", "midway"), ("say", "after")))
    )
    await site.until(lambda: site.calls()["hold midway"] == 1)

    first.signal(signal.SIGKILL)
    await first.ended()
    site.open_gate()
    start()
    await client.until_told(wanted, "JOB_COMPLETED")
    await client.read()

    assert site.calls() == {"say before": 1, "hold midway": 2, "held midway": 1, "say after": 1}
    assert len(client.packages) == 1
    assert client.statuses(wanted).count("ACCEPTED") == 1
    assert "JOB_RESUMED" in client.statuses(wanted)


async def test_term_writes_down_what_runs_and_the_next_daemon_goes_on_at_once(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted, waiting = str(uuid4()), str(uuid4())
    first = start("--slots", "1")
    await first.started()
    await client.send(JobRequest(job_id=wanted, job=job(("say", "before"), ("hold", "midway"))))
    await site.until(lambda: site.calls()["hold midway"] == 1)
    await client.send(JobRequest(job_id=waiting, job=job(("say", "later"))))

    first.signal(signal.SIGTERM)
    code = await first.ended()
    await client.read()
    told_before = client.statuses(waiting)
    site.open_gate()
    start()
    for one in (wanted, waiting):
        await client.until_told(one, "JOB_COMPLETED")

    assert code == 0
    assert [line["event"] for line in first.lines][-1] == "daemon_shutdown"
    # What it had no slot for it may have taken in, and did not begin.
    assert "JOB_STARTED" not in told_before
    assert site.calls() == {"say before": 1, "hold midway": 2, "held midway": 1, "say later": 1}


async def test_term_lets_a_call_with_an_effect_come_to_its_end_and_begins_none(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    site.write(functions="say: {effects: [write]}, hold: {effects: [write]}")
    wanted = str(uuid4())
    first = start()
    await first.started()
    await client.send(JobRequest(job_id=wanted, job=job(("hold", "midway"), ("say", "after"))))
    await site.until(lambda: site.calls()["hold midway"] == 1)

    first.signal(signal.SIGTERM)
    await first.started("daemon_stopping")
    site.open_gate()
    code = await first.ended()
    before = site.calls()
    start()
    await client.until_told(wanted, "JOB_COMPLETED")

    assert code == 0
    assert before == {"hold midway": 1, "held midway": 1}
    # Nobody has to ask whether it took effect, and nobody makes it again.
    assert site.calls() == before + Counter({"say after": 1})


async def test_a_second_term_ends_the_daemon_at_once(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    first = start()
    await first.started()
    await client.send(JobRequest(job_id=wanted, job=job(("hold", "midway"))))
    await site.until(lambda: site.calls()["hold midway"] == 1)

    first.signal(signal.SIGTERM)
    await first.started("daemon_stopping")
    first.signal(signal.SIGTERM)
    code = await first.ended()
    site.open_gate()
    start()
    await client.until_told(wanted, "JOB_COMPLETED")

    assert code in {0, 128 + signal.SIGTERM}


async def test_a_daemon_whose_event_loop_hangs_ends_by_one_term_nevertheless(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    hung = start()
    await hung.started()
    await client.send(JobRequest(job_id=str(uuid4()), job=job(("block", "everything"))))
    await site.until(lambda: site.calls()["block everything"] == 1)

    hung.signal(signal.SIGTERM)

    assert await hung.ended() == 0


async def test_whatever_a_tool_raises_fails_its_step_and_the_daemon_goes_on(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    with (site.folder / "yard.py").open("a") as file:
        file.write(RAISING)
    names = ("own", "closed", "interrupted", "grouped", "async_grouped", "half", "digits")
    site.write(functions=", ".join(f"{name}: {{}}" for name in ("say", *names)))
    daemon = start()
    await daemon.started()
    jobs = {name: str(uuid4()) for name in names}
    for name, one in jobs.items():
        await client.send(JobRequest(job_id=one, job=job(name)))
    good = str(uuid4())
    await client.send(JobRequest(job_id=good, job=job(("say", "well"))))

    await client.until_told(good, "JOB_COMPLETED")
    for one in jobs.values():
        await client.until_told(one, "JOB_PARTIALLY_COMPLETED")
    daemon.signal(signal.SIGTERM)

    assert await daemon.ended() == 0


async def test_a_request_that_comes_again_is_one_job_and_one_package(
    site: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted, message = str(uuid4()), str(uuid4())
    request = JobRequest(job_id=wanted, job=job(("say", "once")))
    await start().started()

    for _ in range(3):
        await client.send(request, message=message)
    # Another message about the same job is the same job.
    await client.send(request)
    await client.until_told(wanted, "JOB_COMPLETED")
    other = str(uuid4())
    await client.send(JobRequest(job_id=other, job=job(("say", "other"))))
    await client.until_told(other, "JOB_COMPLETED")
    await client.read()

    assert site.calls() == {"say once": 1, "say other": 1}
    assert len(client.packages) == 2
    assert client.repeats == []
