"""The steps of jobs are made by workers that are killed, frozen and stopped, for coordinators that
die as well.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.crash.fleet_judge import BUGS, MOST_DEATHS, fleet_violations
from tests.crash.fleet_processes import HEARTBEAT, Site, site
from tests.crash.measurements import note
from tests.crash.run_size import IS_WHOLE, SEED, chance, volume
from tests.support.postgres import OwnServer, PostgresServer
from tests.support.rabbitmq import Broker

IN_FLIGHT = volume(2, 8)
ROUNDS = volume(1, 12)
LONGEST = 2.5 if IS_WHOLE else 0.7
"""Seconds, and heartbeats, for which the database is away and there is no coordinator."""
FAULTS = [
    "kill",
    "outage",
    "replace",
    *(["freeze", "drain", "break", "suspend"] if IS_WHOLE else []),
]

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(120, 3600))]


async def test_no_fault_of_a_fleet_loses_a_call_or_repeats_one_that_was_not_hit(
    tmp_path: Path, broker: Broker, own_postgres: OwnServer
) -> None:
    random = chance()
    async with site(tmp_path, broker.url, own_postgres) as plant:
        for _ in range(ROUNDS):
            for fault in random.sample(FAULTS, len(FAULTS)):
                await _top_up(plant)
                await anyio.sleep(random.uniform(0.2, 1.0))
                await _strike(plant, fault, random.randrange(2), random)
        await plant.plant.until_all_ended()
        seen = await plant.look()

    starts = Counter((call.job, call.key) for call in seen.found.ledger if call.event == "start")
    note(
        "fleet",
        faults=ROUNDS * len(FAULTS),
        jobs=len(seen.found.submitted),
        calls=len(starts),
        made_again=sum(starts.values()) - len(starts),
        violations=len(fleet_violations(seen)),
        seed=SEED,
    )
    broken = fleet_violations(seen)
    assert not broken, "\n".join(broken)


async def _top_up(plant: Site) -> None:
    """Have so many jobs in flight, one of them with long calls."""
    await plant.submit(long=1)
    while len(plant.plant.submitted) - len(plant.plant.ended()) < IN_FLIGHT:
        await plant.submit()


async def _strike(plant: Site, fault: str, number: int, random: Random) -> None:
    match fault:
        case "kill":
            plant.kill_worker(number)
        case "freeze":
            await plant.freeze_worker(number, random.uniform(2, 4) * HEARTBEAT)
        case "drain":
            await plant.drain_worker(number)
        case "outage":
            await plant.stop_database(random.uniform(0.5, LONGEST) * HEARTBEAT)
        case "break":
            await plant.break_connections()
        case "suspend":
            await plant.suspend_daemon()
        case _:
            await plant.replace_daemon(random.uniform(0, LONGEST))


@pytest.mark.long
async def test_a_call_that_ends_its_workers_ends_three_of_them(
    tmp_path: Path, broker: Broker, postgres: PostgresServer
) -> None:
    async with site(tmp_path, broker.url, postgres, workers=MOST_DEATHS + 1) as plant:
        poisoned = await plant.submit_poison()
        await plant.plant.until_all_ended()
        await plant.submit()
        await plant.plant.until_all_ended()
        alive = sum(worker.running.poll() is None for worker in plant.workers)
        seen = await plant.look()

    assert alive == 1
    assert {row.job: row.state for row in seen.found.rows}[poisoned] in ("failed", "completed")
    assert sum(call.tool == "poison" for call in seen.found.ledger) == MOST_DEATHS


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS)
async def test_a_bug_is_found(
    tmp_path: Path, broker: Broker, postgres: PostgresServer, bug: str
) -> None:
    fault, finding = BUGS[bug]
    async with site(tmp_path, broker.url, postgres, bug=bug) as plant:
        await plant.submit(long=3)
        await plant.plant.until_begun(1)
        await _strike(plant, fault, plant.last_called(), chance())
        await plant.plant.until_all_ended()
        seen = await plant.look()

    found = fleet_violations(seen)
    assert any(one.startswith(finding) for one in found), found
