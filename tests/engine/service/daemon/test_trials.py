"""A call that ends its process is proven to do so, and no sound job is given up for the deaths of
others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from tests.engine.service.daemon.conftest import StartDaemon
from tests.engine.service.daemon.daemon_project import (
    BrokerClient,
    DaemonProcess,
    DaemonSite,
    job,
)
from tests.executor.event_examples import run_started, step_finished
from tests.support.prepared_command import PreparedCommand, Spawn
from wavewright.engine.main import main
from wavewright.engine.service.daemon.trials import (
    Suspect,
    TrialResult,
    clearing_note,
    describe_guilt,
    suspects_of,
)
from wavewright.engine.service.job_store import rules
from wavewright.engine.service.messages.models import JobRequest
from wavewright.executor.events.types import Event, Noted, RunFinished, StepStarted
from wavewright.planner.types import RunId, StepId, StepKey

RUN = RunId("20261121-231907-3f2a7c")
A, B = (Suspect(RUN, StepId(name), StepKey(f"key of {name}")) for name in "ab")
RESUMED = Noted(2.0, "resumed", {"announced": True})
STOPPED = RunFinished(2.0, "interrupted", "the run was interrupted")

KILLERS = '''

def crash() -> str:
    """Read where no memory is."""
    _note("crash")
    import ctypes
    ctypes.string_at(0)


def killed() -> str:
    """Be ended as the system ends who takes too much memory."""
    _note("killed")
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)


async def stop() -> str:
    """Send its process the signal that asks for a stop."""
    _note("stop")
    import anyio, os, signal
    os.kill(os.getpid(), signal.SIGTERM)
    await anyio.sleep(60)


async def close() -> str:
    """Close what the process has open."""
    _note("close")
    import anyio, os
    os.closerange(3, 200)
    await anyio.sleep(60)


async def cancel_all() -> str:
    """Cancel what the event loop runs."""
    _note("cancel_all")
    import anyio, asyncio
    for task in asyncio.all_tasks():
        task.cancel()
    await anyio.sleep(60)


async def stop_loop() -> str:
    """Stop the event loop."""
    _note("stop_loop")
    import anyio, asyncio
    asyncio.get_running_loop().stop()
    await anyio.sleep(60)
'''


def starts(*suspects: Suspect) -> list[Event]:
    return [StepStarted(1.0, suspect.step, suspect.key) for suspect in suspects]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], []),
        ([*starts(A)], []),
        ([*starts(A), RESUMED, *starts(A)], [A]),
        ([*starts(A, B), RESUMED, *starts(A)], [A]),
        ([*starts(A), RESUMED, *starts(A), step_finished("a", key=A.key)], []),
        ([*starts(A), RESUMED, *starts(A), clearing_note(A, 3.0)], []),
        ([*starts(A), RunFinished(2.0, "interrupted", "stopped"), RESUMED, *starts(A)], []),
        ([*starts(A), STOPPED, RESUMED, *starts(A), STOPPED], [A]),
        ([*starts(A), STOPPED, *starts(A), step_finished("a", key=A.key), STOPPED], []),
        ([*starts(A), STOPPED, *starts(A), STOPPED, clearing_note(A, 3.0)], []),
        ([RESUMED, RESUMED, RESUMED], []),
    ],
    ids=[
        "nothing",
        "one death",
        "two deaths",
        "a sibling",
        "ended since",
        "cleared since",
        "a stop that was asked for",
        "two stops",
        "ended since a stop",
        "cleared since two stops",
        "deaths without a call",
    ],
)
def test_suspected_is_a_call_in_flight_at_two_deaths(
    events: list[Event], expected: list[Suspect]
) -> None:
    assert suspects_of(RUN, [run_started(RUN), *events]) == expected


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            TrialResult(A, "died", "fetch", exit_code=-9),
            "step a, call of fetch ended its process by signal 9",
        ),
        (
            TrialResult(A, "died", "fetch", index=3, exit_code=0),
            "step a, call of fetch for item 3 ended its process with exit code 0",
        ),
        (
            TrialResult(A, "stalled", "fetch", seconds=30.0),
            "step a, call of fetch blocked its process for 30 seconds",
        ),
    ],
)
def test_a_guilty_call_is_named_with_what_it_did(result: TrialResult, text: str) -> None:
    assert describe_guilt(result) == text


def _without_pauses(arguments: list[str]) -> None:
    rules.ATTEMPT_PAUSES = (0.1,)
    sys.exit(main(arguments))


@pytest.fixture
def spawn() -> Spawn:
    """Daemons that begin a job again at once."""
    return partial(PreparedCommand, target=_without_pauses)


@pytest.fixture
def deadly(site: DaemonSite) -> DaemonSite:
    """A project with tools that end their process."""
    with (site.folder / "yard.py").open("a") as file:
        file.write(KILLERS)
    site.write(
        functions="say: {}, hold: {}, die: {}, block: {}, crash: {}, killed: {}, stop: {}, close: {}, "
        "cancel_all: {}, stop_loop: {}",
        daemon="stall_limit: 3",
    )
    return site


@pytest.mark.anyio
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("call", "ended"),
    [
        pytest.param(
            "die",
            "call of die ended its process with exit code 9",
            id="exit",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "crash",
            "call of crash ended its process by signal 11",
            id="segmentation fault",
            marks=pytest.mark.long,
        ),
        pytest.param("killed", "call of killed ended its process by signal 9", id="kill"),
        pytest.param("stop", "call of stop ended its process by signal 15", id="stop"),
        pytest.param(
            "close",
            "call of close blocked its process for 3 seconds",
            id="closed descriptors",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("block", "it"),
            "call of block blocked its process for 3 seconds",
            id="blocked loop",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_call_that_ends_its_process_is_proven_guilty_within_three_deaths(
    deadly: DaemonSite,
    client: BrokerClient,
    start: StartDaemon,
    call: tuple[str, str] | str,
    ended: str,
) -> None:
    poison, neighbour = str(uuid4()), str(uuid4())
    last, deaths = start(), 0
    await last.started()
    await client.send(JobRequest(job_id=poison, job=job(("say", "first"), call)))
    await client.send(JobRequest(job_id=neighbour, job=job(("hold", "neighbour"))))
    while not await is_given_up(last, deadly):
        deaths += 1
        last = start()
    failed = await client.until_told(poison, "JOB_FAILED")
    [letter] = await client.dead_letters(1)
    deadly.open_gate()
    await client.until_told(neighbour, "JOB_COMPLETED")

    assert deaths <= 3
    assert failed["reason"] == f"step s1, {ended}"
    assert ended in str(letter.headers["x-wavewright-reason"])
    assert deadly.calls()["say first"] == 1


def test_the_process_of_a_trial_ends_once_its_call_has_left_no_file_descriptors() -> None:
    program = """
import os, resource
from wavewright.engine.service.daemon.trial_process import ReportChannel
channel = ReportChannel(os.pipe()[1])
channel.write("calls")
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
channel.write("returned")
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert ran.returncode == 1
    assert ran.stderr.endswith("OSError: [Errno 24] Too many open files\n")


@pytest.mark.anyio
@pytest.mark.parametrize("call", ["cancel_all", "stop_loop"])
async def test_a_daemon_that_a_call_ends_was_not_asked_to_stop(
    deadly: DaemonSite, client: BrokerClient, start: StartDaemon, call: str
) -> None:
    daemon = start()
    await daemon.started()
    await client.send(JobRequest(job_id=str(uuid4()), job=job(call)))
    code = await daemon.ended()
    [reason] = [line["reason"] for line in daemon.lines if line["event"] == "daemon_shutdown"]

    assert code == 70
    assert reason == "a tool cancelled its tasks or stopped its event loop"


@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_call_whose_trial_is_stopped_with_the_daemon_is_not_guilty(
    deadly: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    daemon = start()
    await daemon.started()
    await client.send(JobRequest(job_id=wanted, job=job(("hold", "long"))))
    for attempt in range(1, 4):
        await until_held(deadly, attempt)
        daemon.signal(signal.SIGKILL)
        await daemon.ended()
        daemon = start()
    await until_held(deadly, 4)
    # As systemd does: all processes of the service at once.
    [trial] = children_of(daemon.process.pid)
    os.kill(trial, signal.SIGTERM)
    daemon.signal(signal.SIGTERM)
    await daemon.ended()
    start()
    deadly.open_gate()
    await client.until_told(wanted, "JOB_COMPLETED")


async def is_given_up(daemon: DaemonProcess, site: DaemonSite) -> bool:
    """Wait until a daemon has ended or has given a job up; return whether it has."""
    await site.until(
        lambda: daemon.process.poll() is not None or daemon.has_said("job_dead_lettered")
    )
    return daemon.has_said("job_dead_lettered")


async def until_held(site: DaemonSite, count: int) -> None:
    """Wait until the long call was made so many times."""
    await site.until(lambda: site.calls()["hold long"] == count)


@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_sound_call_that_was_in_flight_at_every_death_is_cleared_and_its_job_goes_on(
    deadly: DaemonSite, client: BrokerClient, start: StartDaemon
) -> None:
    wanted = str(uuid4())
    daemon = start()
    await daemon.started()
    await client.send(JobRequest(job_id=wanted, job=job(("hold", "long"), ("say", "after"))))
    for attempt in range(1, 4):
        await until_held(deadly, attempt)
        daemon.signal(signal.SIGKILL)
        await daemon.ended()
        daemon = start()
    # The call of the trial.
    await until_held(deadly, 4)
    scores = memory_scores(daemon.process.pid)
    deadly.open_gate()
    await client.until_told(wanted, "JOB_COMPLETED")

    assert daemon.has_said("call_tried")
    assert deadly.calls()["say after"] == 1
    # Without memory the system ends the trial, and not the daemon.
    assert scores == [1000]


def memory_scores(process: int) -> list[int]:
    """Return how soon Linux ends each child of a process where no memory is left."""
    return [
        int(Path(f"/proc/{child}/oom_score_adj").read_text(encoding="ascii"))
        for child in children_of(process)
    ]


def children_of(process: int) -> list[int]:
    """Return the processes that a process has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [*map(int, children.split())]
