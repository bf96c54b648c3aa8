"""The real daemon is killed at random moments with many jobs in flight, again and again, and
started again, on machines of three speeds.

The jobs' attempts follow each other sooner than outside of tests: the kills come every second, and
a job that waits for half an hour is not hit by any.
"""

from __future__ import annotations

import os
import statistics
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import job_id, read_ledger, whole_job
from tests.crash.daemon_processes import Daemon, Fleet, fleet
from tests.crash.measurements import note
from tests.crash.oracle import Findings, violations
from tests.crash.run_size import IS_WHOLE, SEED, chance, volume
from tests.crash.speeds import (
    CROWDED,
    FULL,
    HALTING,
    Speed,
    daemon_with_short_pauses,
    last_daemon_with_short_pauses,
    machine,
)
from tests.support.prepared_command import PreparedCommand
from tests.support.rabbitmq import Broker
from wavewright.engine.service.job_store.rules import CALL_CLEARED
from wavewright.executor.events.types import Noted

IN_FLIGHT = volume(8, 20)
KILLS = int(os.environ.get("WAVEWRIGHT_CRASH_KILLS", volume(3, 200)))
SPEEDS = (FULL, HALTING, CROWDED) if IS_WHOLE else (FULL,)
LAST_JOBS = 600.0
"""Seconds that the jobs which are left after the last kill may take on a slow machine."""

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(200, 7200))]


@pytest.mark.parametrize("speed", SPEEDS, ids=lambda speed: speed.name)
async def test_no_kill_loses_a_job_or_repeats_a_step_that_was_done(
    tmp_path: Path, broker: Broker, speed: Speed
) -> None:
    random = chance()
    recoveries, loads = list[float](), list[float]()
    target = last_daemon_with_short_pauses if speed.is_crowded else daemon_with_short_pauses
    async with (
        fleet(tmp_path, broker.url, section={"slots": IN_FLIGHT}) as plant,
        machine(speed, lambda: [daemon.running.pid for daemon in plant.daemons]),
    ):
        plant.spawn = partial(PreparedCommand, target=target)
        daemon = plant.start()
        await daemon.is_ready()
        for _ in range(KILLS):
            await _top_up(plant)
            await anyio.sleep(random.uniform(0.0, 2.0))
            loads.append(os.getloadavg()[0])
            plant.kill(daemon)
            before = plant.starts()
            in_flight = len(set(plant.submitted) - plant.ended())
            daemon = plant.start()
            await daemon.is_ready()
            if in_flight:
                await plant.until_begun(before + 1)
                recoveries += _first_start(plant, daemon, before)
        await plant.until_all_ended(LAST_JOBS)
        found = plant.found()

    # Where no job was in flight at any of few kills, there is no recovery.
    ordered = sorted(recoveries) or [0.0]
    again = sum(call.event == "start" for call in found.ledger) - _calls_needed(plant)
    note(
        "kills",
        speed=speed.name,
        kills=len(found.crashes),
        jobs=len(found.submitted),
        lost=sum(broken.startswith("I1:") for broken in violations(found)),
        done_steps_begun_again=sum(broken.startswith("I3:") for broken in violations(found)),
        jobs_given_up=sum(broken.startswith("I10:") for broken in violations(found)),
        calls_begun_again=again,
        calls_tried=_trials(found),
        load=round(statistics.median(loads), 1),
        recovery_median=round(statistics.median(ordered), 2),
        recovery_95=round(ordered[int(0.95 * len(ordered))], 2),
        seed=SEED,
    )
    assert violations(found) == []
    assert len(found.crashes) == KILLS


async def _top_up(plant: Fleet) -> None:
    """Have so many jobs in flight."""
    while len(plant.submitted) - len(plant.ended()) < IN_FLIGHT:
        job = job_id(len(plant.submitted))
        await plant.submit(job, whole_job(job, pause=0.1))


def _trials(found: Findings) -> int:
    return sum(
        isinstance(event, Noted) and event.topic == CALL_CLEARED
        for events in found.events.values()
        for event in events
    )


def _first_start(plant: Fleet, daemon: Daemon, before: int) -> list[float]:
    starts = plant.begun()
    return [starts[before] - daemon.begun] if len(starts) > before else []


def _calls_needed(plant: Fleet) -> int:
    return len(
        {(call.job, call.key) for call in read_ledger(plant.folder) if call.event == "start"}
    )
