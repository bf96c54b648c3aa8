"""Steps that keep the event loop from everything else: told of, and ended with their process where
they do not end.
"""

from __future__ import annotations

import gc
import os
import signal
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import InProcess, StartDaemon
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from wavewright.engine.interfaces.cli.service.daemon_command import freeze_startup_objects
from wavewright.engine.service.daemon.process import STALL_EXIT_CODE, exit_by_timer
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import JobRequest

pytestmark = pytest.mark.anyio


TOOLS = '''

def match(text: str) -> bool:
    """Look for what never comes, in a way that takes longer than anybody waits, and holds the interpreter's lock."""
    import re

    _note(f"match {text}")
    return re.match(r"(a+)+$", "a" * 60 + "b") is not None


def freeze(text: str) -> str:
    """Wait in C code for longer than anybody waits, and hold the interpreter's lock."""
    import ctypes

    _note(f"freeze {text}")
    ctypes.PyDLL(None).sleep(3600)
    return text


async def swallow(text: str) -> str:
    """Go on whenever it is cancelled."""
    import asyncio

    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            _note(f"swallowed {text}")


async def pause(text: str) -> str:
    """Keep everything else from going on for some seconds."""
    time.sleep(float(text))
    return text
'''


@pytest.fixture
def stalling(site: DaemonSite) -> DaemonSite:
    with (site.folder / "yard.py").open("a") as file:
        file.write(TOOLS)
    site.write(
        functions="say: {}, block: {}, match: {}, freeze: {}, pause: {}", daemon="stall_limit: 1"
    )
    return site


async def test_a_step_that_stops_the_event_loop_ends_the_daemon_which_says_where_it_was(
    stalling: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    stalled = start()
    await stalled.started()
    await client.send(JobRequest(job_id=wanted, job=job(("say", "before"), ("block", "all"))))

    code = await stalled.ended()
    async with open_stores(stalling.settings) as stores:
        left = await stores.jobs.find_job(JobId(wanted))

    assert code == STALL_EXIT_CODE
    line = stalled.lines[-1]
    assert (line["event"], line["action"], line["jobs"]) == ("loop_stalled", "end", [wanted])
    assert "yard.py" in str(line["where"])
    assert "in block" in str(line["where"])
    # It counts as an attempt, so whoever does it again and again is given up.
    assert left is not None
    assert (left.state, left.attempts) == ("running", 1)


async def test_calls_that_do_not_end_when_they_are_cancelled_give_their_places_back(
    stalling: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    stalling.write(
        functions="say: {}, hold: {timeout: 0.1}, swallow: {timeout: 0.1}", daemon="slots: 1"
    )
    daemon = start()
    await daemon.started()
    # One in a thread that nobody can end, one on the event loop that swallows its cancellation.
    stuck = {tool: str(uuid4()) for tool in ("hold", "swallow")}
    for tool, wanted in stuck.items():
        await client.send(JobRequest(job_id=wanted, job=job((tool, tool))))
    good = str(uuid4())
    await client.send(JobRequest(job_id=good, job=job(("say", "well"))))

    await client.until_told(good, "JOB_COMPLETED")
    for wanted in stuck.values():
        await client.until_told(wanted, "JOB_PARTIALLY_COMPLETED")
    daemon.signal(signal.SIGTERM)
    code = await daemon.ended()

    assert code == 0
    assert "the call of step 's0' swallowed its cancellation and was abandoned" in daemon.text


# What computes ends by the timer of CPU time, or where others use the processors by that of the clock.
@pytest.mark.parametrize(("tool", "endings"), [("match", {-signal.SIGPROF, 1}), ("freeze", {1})])
async def test_a_step_that_holds_the_interpreter_ends_the_daemon_as_well(
    stalling: DaemonSite, client: BrokerClient, start: StartDaemon, tool: str, endings: set[int]
) -> None:
    # The limit holds for each processor that the daemon may run on; one of them is soonest at its
    # end.
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        held = start()
    finally:
        os.sched_setaffinity(0, processors)
    await held.started()
    await client.send(JobRequest(job_id=str(uuid4()), job=job((tool, "it"))))

    code = await held.ended()

    assert code in endings
    assert "yard.py" in held.text
    assert stalling.calls() == {f"{tool} it": 1}


async def test_threads_that_work_at_the_same_time_do_not_use_up_the_time_of_the_loop() -> None:
    exit_by_timer(1_000.0)
    left, _ = signal.getitimer(signal.ITIMER_PROF)
    exit_by_timer(0.0)

    processors = len(os.sched_getaffinity(0))
    assert 1_000.0 * (processors - 0.5) < left <= 1_000.0 * processors + 1
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


async def test_a_stall_that_ends_is_told_of_and_what_waited_goes_on(
    stalling: DaemonSite, client: BrokerClient, in_process: InProcess
) -> None:
    stalling.write(functions="say: {}, pause: {}")
    wanted = str(uuid4())
    async with in_process() as daemon:
        await client.send(JobRequest(job_id=wanted, job=job(("pause", "3.0"), ("say", "after"))))
        await client.until_told(wanted, "JOB_COMPLETED")
        await stalling.until(lambda: bool(daemon.said("loop_turns_again")))

    [line] = daemon.said("loop_stalled")
    assert (line["action"], line["level"], line["jobs"]) == ("wait", "warning", [wanted])


async def test_what_the_start_has_made_is_looked_through_for_garbage_no_more() -> None:
    before = gc.get_threshold()
    try:
        freeze_startup_objects()

        assert len(gc.get_objects()) < gc.get_freeze_count()
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
