"""The real daemon is killed at random moments with many jobs in flight, again and again, and
started again.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import job_id, read_ledger, whole_job
from tests.crash.daemon_processes import Daemon, Fleet, fleet
from tests.crash.measurements import note
from tests.crash.oracle import violations
from tests.crash.run_size import SEED, chance, volume
from tests.support.rabbitmq import Broker

IN_FLIGHT = volume(8, 20)
KILLS = volume(3, 200)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(200, 3600))]


async def test_no_kill_loses_a_job_or_repeats_a_step_that_was_done(
    tmp_path: Path, broker: Broker
) -> None:
    random = chance()
    recoveries, loads = list[float](), list[float]()
    async with fleet(tmp_path, broker.url, section={"slots": IN_FLIGHT}) as plant:
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
        await plant.until_all_ended()
        found = plant.found()

    # Where no job was in flight at any of few kills, there is no recovery.
    ordered = sorted(recoveries) or [0.0]
    again = sum(call.event == "start" for call in found.ledger) - _calls_needed(plant)
    note(
        "kills",
        kills=len(found.crashes),
        jobs=len(found.submitted),
        lost=sum(broken.startswith("I1:") for broken in violations(found)),
        done_steps_begun_again=sum(broken.startswith("I3:") for broken in violations(found)),
        calls_begun_again=again,
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


def _first_start(plant: Fleet, daemon: Daemon, before: int) -> list[float]:
    starts = plant.begun()
    return [starts[before] - daemon.begun] if len(starts) > before else []


def _calls_needed(plant: Fleet) -> int:
    return len(
        {(call.job, call.key) for call in read_ledger(plant.folder) if call.event == "start"}
    )
