"""The daemon as a process that is stopped, killed and started again: nothing is lost, nothing done twice."""

from __future__ import annotations

import hashlib
import json
import signal
from collections import Counter
from uuid import uuid4

import pytest

from tests.engine.daemon.conftest import StartDaemon
from tests.engine.daemon.yard import Counterpart, DaemonProcess, Yard, job
from wavewright.engine.messages.requests import JobRequest

pytestmark = pytest.mark.anyio


async def test_a_killed_daemon_is_gone_on_for_by_the_next_and_no_finished_step_runs_again(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    first = start()
    await first.started()
    await counterpart.send(
        JobRequest(job_id=wanted, job=job(("say", "before"), ("hold", "midway"), ("say", "after")))
    )
    await yard.until(lambda: yard.calls()["hold midway"] == 1)

    first.signal(signal.SIGKILL)
    await first.ended()
    yard.open_gate()
    start()
    await counterpart.until_told(wanted, "JOB_COMPLETED")
    await counterpart.read()

    assert yard.calls() == {"say before": 1, "hold midway": 2, "held midway": 1, "say after": 1}
    assert len(counterpart.packages) == 1
    assert counterpart.statuses(wanted).count("ACCEPTED") == 1
    assert "JOB_RESUMED" in counterpart.statuses(wanted)


async def test_term_writes_down_what_runs_and_the_next_daemon_goes_on_at_once(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    wanted, waiting = str(uuid4()), str(uuid4())
    first = start("--slots", "1")
    await first.started()
    await counterpart.send(JobRequest(job_id=wanted, job=job(("say", "before"), ("hold", "midway"))))
    await yard.until(lambda: yard.calls()["hold midway"] == 1)
    await counterpart.send(JobRequest(job_id=waiting, job=job(("say", "later"))))

    first.signal(signal.SIGTERM)
    code = await first.ended()
    await counterpart.read()
    told_before = counterpart.statuses(waiting)
    yard.open_gate()
    start()
    for one in (wanted, waiting):
        await counterpart.until_told(one, "JOB_COMPLETED")

    assert code == 0
    assert [line["event"] for line in first.lines][-1] == "daemon_shutdown"
    # What it had no slot for, it did not take in.
    assert told_before == []
    assert yard.calls() == {"say before": 1, "hold midway": 2, "held midway": 1, "say later": 1}


async def test_term_lets_a_call_with_an_effect_come_to_its_end_and_begins_none(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    yard.write(functions="say: {effects: [write]}, hold: {effects: [write]}")
    wanted = str(uuid4())
    first = start()
    await first.started()
    await counterpart.send(JobRequest(job_id=wanted, job=job(("hold", "midway"), ("say", "after"))))
    await yard.until(lambda: yard.calls()["hold midway"] == 1)

    first.signal(signal.SIGTERM)
    await first.started("daemon_stopping")
    yard.open_gate()
    code = await first.ended()
    before = yard.calls()
    start()
    await counterpart.until_told(wanted, "JOB_COMPLETED")

    assert code == 0
    assert before == {"hold midway": 1, "held midway": 1}
    # Nobody has to ask whether it took effect, and nobody makes it again.
    assert yard.calls() == before + Counter({"say after": 1})


async def test_a_second_term_ends_the_daemon_at_once(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    first = start()
    await first.started()
    await counterpart.send(JobRequest(job_id=wanted, job=job(("hold", "midway"))))
    await yard.until(lambda: yard.calls()["hold midway"] == 1)

    first.signal(signal.SIGTERM)
    await first.started("daemon_stopping")
    first.signal(signal.SIGTERM)
    code = await first.ended()
    yard.open_gate()
    start()
    await counterpart.until_told(wanted, "JOB_COMPLETED")

    assert code in {0, 128 + signal.SIGTERM}


async def test_a_daemon_whose_event_loop_hangs_ends_by_one_term_nevertheless(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    hung = start()
    await hung.started()
    await counterpart.send(JobRequest(job_id=str(uuid4()), job=job(("block", "everything"))))
    await yard.until(lambda: yard.calls()["block everything"] == 1)

    hung.signal(signal.SIGTERM)

    assert await hung.ended() == 0


async def test_a_job_that_ends_its_process_is_laid_aside_after_five_attempts(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    poison, good = str(uuid4()), str(uuid4())
    last = start("--slots", "1")
    await last.started()
    await counterpart.send(JobRequest(job_id=poison, job=job("die")))
    await counterpart.send(JobRequest(job_id=good, job=job(("say", "well"))))
    deaths = 0
    while not await is_done_before_it_ends(last, yard):
        deaths += 1
        last = start("--slots", "1")
    failed = await counterpart.until_told(poison, "JOB_FAILED")
    await counterpart.until_told(good, "JOB_COMPLETED")
    [letter] = await counterpart.dead_letters(1)

    assert deaths <= 5
    assert yard.calls()["die"] == deaths
    assert "5" in str(failed["reason"])
    assert str(letter.headers["x-wavewright-reason"]).startswith("max_deliveries")
    assert json.loads(letter.body)["payload"] == {"job_id": poison, "job": job("die")}


async def is_done_before_it_ends(daemon: DaemonProcess, yard: Yard) -> bool:
    """Wait until a daemon has ended or the good job is done; tell which."""
    await yard.until(lambda: daemon.process.poll() is not None or yard.calls()["say well"] == 1)
    return yard.calls()["say well"] == 1


async def test_a_request_that_comes_again_is_one_job_and_one_package(
    yard: Yard, counterpart: Counterpart, start: StartDaemon
) -> None:
    wanted, message = str(uuid4()), str(uuid4())
    request = JobRequest(job_id=wanted, job=job(("say", "once")))
    await start().started()

    for _ in range(3):
        await counterpart.send(request, message=message)
    # Another message about the same job is the same job.
    await counterpart.send(request)
    await counterpart.until_told(wanted, "JOB_COMPLETED")
    other = str(uuid4())
    await counterpart.send(JobRequest(job_id=other, job=job(("say", "other"))))
    await counterpart.until_told(other, "JOB_COMPLETED")
    await counterpart.read()

    assert yard.calls() == {"say once": 1, "say other": 1}
    assert len({hashlib.sha256(one.body).hexdigest() for one in counterpart.packages}) == 2
    assert len(counterpart.packages) == 2
