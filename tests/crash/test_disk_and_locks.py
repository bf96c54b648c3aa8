"""The disk fills and somebody else keeps the file locked: the daemon takes nothing in, and goes on
by itself later.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.crash import oracle
from tests.crash.crash_project import JOURNAL, job_id, request_of, whole_job, write_workplace
from tests.crash.daemon_processes import fleet, until
from tests.crash.file_broker import FileBroker
from tests.crash.measurements import note
from tests.crash.minimal_daemon import Agreeing, little_daemon
from tests.crash.run_size import volume
from tests.crash.sqlite_shim import Shim, SqliteUnreachable, fill_from, let_pass
from tests.repository.tree import ROOT
from tests.support.rabbitmq import Broker
from tests.support.session_server import unavailable
from wavewright.engine.service.job_store.records import JobId
from wavewright.executor.store.errors import JournalError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(200, 3600))]


LOCK_PATIENCE = 10.0
"""Seconds for which the store waits for somebody else's lock: no call may be repeated for a shorter
one.
"""


@pytest.fixture(scope="module")
def shim() -> Iterator[Shim]:
    try:
        made = Shim(let_pass)
    except SqliteUnreachable as reason:
        unavailable(str(reason))
    yield made
    made.remove()


async def test_a_disk_that_is_full_from_any_write_on_loses_nothing_once_there_is_room(
    tmp_path: Path, shim: Shim
) -> None:
    """There is room again while the daemon that met the full disk still works; another goes on
    where it gave up.
    """
    tried, unaided = 0, 0
    undisturbed, broker, _ = _workplace(tmp_path, 0)
    shim.changes, shim.strike = 0, let_pass
    await _serve(undisturbed, broker)
    changes = shim.changes
    for number in range(1, changes, volume(changes // 6, 11)):
        folder, broker, job = _workplace(tmp_path, number)
        room = threading.Event()
        shim.changes, shim.strike = 0, fill_from(number, room.is_set)
        gave_up, gone = await _serve_until_room(folder, broker, shim, number, room)
        is_full = shim.changes >= number
        if gave_up:
            broker.in_hand.clear()
            _end_process(folder)
            await _serve(folder, broker)

        assert oracle.violations(_found(folder, broker, job, gone)) == [], (
            f"full from write {number} on"
        )
        assert is_full or not gave_up
        tried += is_full
        unaided += is_full and not gave_up
    shim.strike = let_pass
    note("disk full", points=tried, unaided=unaided)
    assert tried >= volume(5, 100)
    assert unaided


async def _serve_until_room(
    folder: Path, broker: FileBroker, shim: Shim, number: int, room: threading.Event
) -> tuple[bool, float]:
    """Let one daemon meet the full disk and have room later; return whether it gave up, and when
    there was room.
    """
    gave_up, gone, is_done = False, 0.0, anyio.Event()

    async def serve() -> None:
        nonlocal gave_up
        try:
            await _serve(folder, broker)
        except JournalError:
            gave_up = True
        is_done.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            while shim.changes < number and not is_done.is_set():  # noqa: ASYNC110 - a thread that writes comes to it
                await anyio.sleep(0.005)
            await anyio.sleep(0.1)
            gone = time.time()
            room.set()
    return gave_up, gone


def _workplace(tmp_path: Path, number: int) -> tuple[Path, FileBroker, JobId]:
    """Write a project whose broker holds a request."""
    folder, job = tmp_path / str(number), job_id(number)
    write_workplace(folder, {"validation": {"iterations": 2}})
    broker = FileBroker(folder / "broker")
    broker.put(request_of(job, whole_job(job)))
    return folder, broker, job


def _end_process(folder: Path) -> None:
    """Have the daemon that gave up look like a process that has ended, as it would; here its
    successor's is the same.

    What it could not write on the full disk is that it no longer has its runs.
    """
    with closing(sqlite3.connect(folder / JOURNAL)) as file, file:
        if file.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone():
            file.execute("UPDATE run SET process_start = 'ended' WHERE owner IS NOT NULL")


async def _serve(folder: Path, broker: FileBroker) -> None:
    async with little_daemon(folder, broker=broker) as daemon:
        await daemon.serve(Agreeing())


def _found(folder: Path, broker: FileBroker, job: str, gone: float) -> oracle.Findings:
    sent = [oracle.Message(one.message, one.kind, one.sha256, one.body) for one in broker.sent()]
    return oracle.look(folder, [job], sent, broker.dead(), crashes=[gone])


FILLING = """\
from pathlib import Path

from tests.crash.sqlite_shim import Shim, fill_from

FULL, MET = Path("disk-is-full"), Path("disk-was-met")


def has_room():
    if FULL.exists():
        MET.touch()
        return False
    return True


Shim(fill_from(1, has_room))
"""


@pytest.mark.usefixtures("shim")
async def test_a_daemon_whose_disk_was_full_goes_on_by_itself(
    tmp_path: Path, broker: Broker
) -> None:
    """The real daemon, with the same shim in its process: nobody starts it again, and nothing is
    asked of it.
    """
    async with fleet(tmp_path, broker.url, section={"slots": 6}) as plant:
        patches, full, met = (
            tmp_path / name for name in ("patches", "disk-is-full", "disk-was-met")
        )
        patches.mkdir()
        (patches / "sitecustomize.py").write_text(FILLING)
        plant.environment["PYTHONPATH"] = f"{patches}{os.pathsep}{ROOT}"
        daemon = plant.start()
        await daemon.is_ready()
        for _ in range(volume(1, 6)):
            before = plant.starts()
            for _ in range(4):
                job = job_id(len(plant.submitted))
                await plant.submit(job, whole_job(job, pause=0.1))
            await plant.until_begun(before + 6)
            full.touch()
            await until(met.exists)
            await anyio.sleep(0.5)
            # What was in flight could not be written down.
            plant.crashed()
            full.unlink()
            met.unlink()
            # A job that met it five times, with no step done between, would be given up.
            await plant.until_all_ended()
        found, is_same = plant.found(), daemon.running.poll() is None

    note("disk full, unaided", jobs=len(found.submitted), violations=len(oracle.violations(found)))
    assert oracle.violations(found) == []
    assert is_same
    assert '"error_type": "JournalNotWritten"' in daemon.text()


@pytest.mark.parametrize("seconds", [pytest.param(3.0), pytest.param(15.0, marks=pytest.mark.long)])
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
            with closing(
                sqlite3.connect(tmp_path / JOURNAL, timeout=10, isolation_level=None)
            ) as other:
                other.execute("BEGIN IMMEDIATE")
                await anyio.sleep(seconds)
                if seconds > LOCK_PATIENCE:
                    plant.crashed()
                other.execute("ROLLBACK")
        await plant.until_all_ended()
        found, is_same = plant.found(), daemon.running.poll() is None

    note(
        "locked",
        seconds=seconds,
        jobs=len(found.submitted),
        violations=len(oracle.violations(found)),
    )
    assert oracle.violations(found) == []
    assert is_same
