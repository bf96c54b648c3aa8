"""The clock of the daemon's whole process jumps, as `libfaketime` makes it: what `test_clock.py`
does to one port.

Debian's package `faketime` has the library; `.ci/faketime` installs it where it may.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import MODEL_KEY, asking_job, job_id, read_asked, whole_job
from tests.crash.daemon_processes import Fleet, fleet, until
from tests.crash.measurements import note
from tests.crash.oracle import violations
from tests.crash.run_size import volume
from tests.crash.test_model_calls import answer_and_note
from tests.support.rabbitmq import Broker
from tests.support.session_server import unavailable
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.engine.service.job_store.records import JobId
from wavewright.planner.types import JsonObject

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.timeout(volume(60, 900)),
]
HOUR, DAY = 3_600, 86_400


@pytest.fixture(autouse=True)
def reachable_clock() -> None:
    if LIBRARY is None:
        unavailable("no libfaketime here; Debian's package `faketime` has it")


JUMPS = [-25 * HOUR, -HOUR, -1, HOUR, 25 * HOUR, 0, 90 * DAY, 300 * DAY, -90 * DAY, 0]
"""Where the clock is set to, in seconds from the true time."""


# libfaketime 0.9.10 refuses the deadlines by which Python sleeps, where the monotonic clock is the
# true one.
SLEEP = """\
import threading
import time

time.sleep = lambda seconds: threading.Event().wait(seconds) and None
"""


def set_clock(folder: Path, seconds: int) -> None:
    draft = folder / "clock.new"
    draft.write_text(f"{seconds:+d}\n")
    draft.replace(folder / "clock")


def give_clock(plant: Fleet) -> Callable[[int], None]:
    """Have the daemons of a fleet go by a clock of their own; return what sets it."""
    set_clock(plant.folder, 0)
    patches = plant.folder / "patches"
    patches.mkdir()
    (patches / "sitecustomize.py").write_text(SLEEP)
    plant.environment |= {
        "LD_PRELOAD": str(LIBRARY),
        "PYTHONPATH": str(patches),
        "FAKETIME_TIMESTAMP_FILE": str(plant.folder / "clock"),
        "FAKETIME_CACHE_DURATION": "1",
        # A machine whose clock is set has a monotonic one that nobody sets.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    return lambda seconds: set_clock(plant.folder, seconds)


async def test_a_clock_that_is_set_while_jobs_are_worked_on_repeats_and_loses_nothing(
    tmp_path: Path, broker: Broker
) -> None:
    async with fleet(tmp_path, broker.url, section={"slots": 6}) as plant:
        jump = give_clock(plant)
        daemon = plant.start()
        await daemon.is_ready()
        for seconds in JUMPS:
            before = plant.starts()
            for _ in range(4):
                job = job_id(len(plant.submitted))
                await plant.submit(job, whole_job(job, pause=0.2, posts=False))
            await plant.until_begun(before + 12)
            jump(seconds)
            # The library looks at the file once a second.
            await anyio.sleep(1.1)
        await plant.until_all_ended()
        found, is_same = plant.found(clock_is_true=False), daemon.running.poll() is None
        times = [call.at - time.time() for call in found.ledger]
    broken = violations(found)
    note("process clock", jumps=len(JUMPS), jobs=len(found.submitted), violations=len(broken))
    assert broken == []
    assert is_same
    # The clock was indeed another one.
    assert min(times) < -80 * DAY
    assert max(times) > 290 * DAY


async def test_no_clock_that_is_set_gives_a_days_budget_back(
    tmp_path: Path, broker: Broker, model_server: FakeModelServer
) -> None:
    """A day pays for the three questions of one job; each next job waits until a day comes that
    never was before.
    """
    answer_and_note(model_server, lambda _job: tmp_path)
    models: JsonObject = {"base_url": model_server.openai_url, "max_output_tokens": 200}
    settings: JsonObject = {
        "model": "openai-chat:scripted",
        "models": models,
        "budgets": {"recovery_share": 0.0, "day": {"calls": 3}},
    }
    async with fleet(tmp_path, broker.url, section={"slots": 2}, settings=settings) as plant:
        jump = give_clock(plant)
        plant.environment["WAVEWRIGHT_API_KEY"] = MODEL_KEY
        daemon = plant.start()
        await daemon.is_ready()
        jobs = [job_id(number) for number in range(3)]

        await ask_for(plant, jobs[0], "JOB_COMPLETED")
        await ask_for(plant, jobs[1], "JOB_PAUSED")
        for seconds in (-25 * HOUR, -HOUR, 0):
            await nothing_is_asked(plant, jump, seconds)
        jump(25 * HOUR)
        await until(lambda: "JOB_COMPLETED" in plant.told(jobs[1]))
        await ask_for(plant, jobs[2], "JOB_PAUSED")
        for seconds in (0, -25 * HOUR, 24 * HOUR):
            await nothing_is_asked(plant, jump, seconds)
        jump(90 * DAY)
        await until(lambda: "JOB_COMPLETED" in plant.told(jobs[2]))
        found = plant.found(clock_is_true=False)
    note(
        "day under a clock that is set",
        days=3,
        calls=len(found.asked),
        violations=len(violations(found)),
    )
    assert violations(found) == []
    assert len(found.asked) == 9


async def ask_for(plant: Fleet, job: JobId, status: str) -> None:
    await plant.submit(job, asking_job(job))
    await until(lambda: status in plant.told(job))


async def nothing_is_asked(plant: Fleet, jump: Callable[[int], None], seconds: int) -> None:
    before = len(read_asked(plant.folder))
    jump(seconds)
    await anyio.sleep(3.5)
    assert len(read_asked(plant.folder)) == before, (
        f"I7: the budget was there again at {seconds:+d} s"
    )
