"""The disk fills and somebody else keeps the file locked: the daemon takes nothing in, and goes on by itself later."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.crash import oracle
from tests.crash.figures import note
from tests.crash.file_broker import FileBroker
from tests.crash.fleet import fleet
from tests.crash.little_daemon import Agreeing, little_daemon
from tests.crash.sqlite_shim import Shim, SqliteUnreachable, fill_from, let_pass
from tests.crash.volume import volume
from tests.crash.workplace import JOURNAL, job_id, request_of, whole_job, write_workplace
from tests.support.rabbitmq import Broker
from wavewright.executor.journal_errors import JournalError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(200, 3600))]
EVERY = volume(67, 7)


@pytest.fixture(scope="module")
def shim() -> Iterator[Shim]:
    try:
        made = Shim(let_pass)
    except SqliteUnreachable as reason:
        pytest.skip(str(reason))
    yield made
    made.remove()


async def test_a_disk_that_is_full_from_any_write_on_loses_nothing_once_there_is_room(
    tmp_path: Path, shim: Shim
) -> None:
    """A daemon in this process meets the full disk, gives up or waits, and goes on when there is room again."""
    tried = 0
    for number in range(1, volume(600, 900), EVERY):
        folder = tmp_path / str(number)
        write_workplace(folder, {"validation": {"iterations": 2}})
        broker, job = FileBroker(folder / "broker"), job_id(number)
        broker.put(request_of(job, whole_job(job)))
        room = threading.Event()
        shim.changes, shim.strike = 0, fill_from(number, room.is_set)
        failed = False
        try:
            with anyio.move_on_after(0.7):
                await _serve(folder, broker)
        except JournalError:
            failed = True
        is_over, gone = shim.changes < number, time.time()
        room.set()
        broker.in_hand.clear()
        await _serve(folder, broker)

        assert oracle.violations(_found(folder, broker, job, gone)) == [], f"full from write {number} on"
        tried += not is_over
        assert failed or not is_over or broker.sent()
    shim.strike = let_pass
    note("disk full", points=tried)
    assert tried >= volume(6, 80)


async def _serve(folder: Path, broker: FileBroker) -> None:
    async with little_daemon(folder, broker=broker) as daemon:
        await daemon.serve(Agreeing())


def _found(folder: Path, broker: FileBroker, job: str, gone: float) -> oracle.Findings:
    sent = [oracle.Message(one.message, one.kind, one.sha256, one.body) for one in broker.sent()]
    return oracle.look(folder, [job], sent, broker.dead(), crashes=[gone])


@pytest.mark.parametrize("seconds", [pytest.param(3.0), pytest.param(15.0, marks=pytest.mark.crash)])
async def test_a_lock_of_somebody_else_delays_jobs_and_loses_none(
    tmp_path: Path, broker: Broker, seconds: float
) -> None:
    """Longer than the store has patience for, in the long case."""
    async with fleet(tmp_path, broker.url, section={"slots": 6}) as plant:
        daemon = plant.start()
        await daemon.is_ready()
        for _ in range(volume(1, 6)):
            before = plant.starts()
            for _ in range(6):
                job = job_id(len(plant.submitted))
                await plant.submit(job, whole_job(job, pause=0.1))
            await plant.until_begun(before + 6)
            with closing(sqlite3.connect(tmp_path / JOURNAL, timeout=10, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await anyio.sleep(seconds)
                plant.crashed()
                other.execute("ROLLBACK")
        await plant.until_all_ended()
        found, is_same = plant.found(), daemon.running.poll() is None

    note("locked", seconds=seconds, jobs=len(found.submitted), violations=len(oracle.violations(found)))
    assert oracle.violations(found) == []
    assert is_same
