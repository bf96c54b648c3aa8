"""Two daemons on one store, and signals: one owner a job, whoever freezes, wakes up late or is
asked to stop.
"""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from math import inf
from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import JOURNAL, job_id, poison_job, small_job, whole_job
from tests.crash.daemon_processes import Daemon, Fleet, fleet, until
from tests.crash.measurements import note
from tests.crash.oracle import violations
from tests.crash.run_size import chance, volume
from tests.support.rabbitmq import Broker
from wavewright.executor.store.leases import LEASE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(200, 3600))]


async def submit_some(plant: Fleet, count: int, pause: float = 0.15) -> None:
    for _ in range(count):
        job = job_id(len(plant.submitted))
        await plant.submit(job, whole_job(job, pause=pause))


async def test_two_daemons_do_each_job_once(tmp_path: Path, broker: Broker) -> None:
    async with fleet(tmp_path, broker.url, section={"slots": 4}) as plant:
        for _ in range(2):
            await plant.start().is_ready()
        await submit_some(plant, volume(4, 100), pause=0.05)
        for job in plant.submitted[:]:
            await plant.submit(job, whole_job(job, pause=0.05))
        await plant.until_all_ended()
        found = plant.found()

    note("two daemons", jobs=len(found.submitted), violations=len(violations(found)))
    assert violations(found) == []
    starts = [(call.job, call.key) for call in found.ledger if call.event == "start"]
    assert len(starts) == len(set(starts))


@pytest.mark.long
async def test_an_owner_that_was_frozen_and_replaced_writes_nothing_more(
    tmp_path: Path, broker: Broker
) -> None:
    """On one machine a frozen owner is alive, and nobody replaces it; here it looks like one on
    another machine.
    """
    times = 10
    woken: dict[int, float] = {}
    async with fleet(tmp_path, broker.url, section={"slots": 4}) as plant:
        for _ in range(times):
            first = plant.start()
            await first.is_ready()
            before = plant.starts()
            await submit_some(plant, 4, pause=0.4)
            await plant.until_begun(before + 2 + 1)
            await _freeze(plant, first)
            frozen_until = anyio.current_time() + LEASE_SECONDS + 0.5
            plant.crashed()
            second = plant.start()
            await plant.until_all_ended()
            # Nobody replaces an owner earlier, so one that wakes up earlier need not ask whether it
            # was.
            await anyio.sleep_until(frozen_until)
            woken[first.running.pid] = time.time()
            first.running.send_signal(signal.SIGCONT)
            await first.says("job_lost")
            await anyio.sleep(1.0)
            for daemon in (first, second):
                daemon.kill()
                plant.daemons.remove(daemon)
        found = plant.found()

    # An owner that is suspended between the check of its lease and the call makes this one call.
    late = [
        call
        for call in found.ledger
        if call.event == "start" and call.at >= woken.get(call.process, inf)
    ]
    found = replace(found, ledger=[call for call in found.ledger if call not in late])
    broken = violations(found)
    note(
        "frozen owners",
        times=times,
        jobs=len(found.submitted),
        late=len(late),
        violations=len(broken),
    )
    assert not broken, "\n".join(broken)
    assert len({call.process for call in late}) == len(late)


async def test_a_daemon_that_dies_before_its_first_beat_is_replaced(
    tmp_path: Path, broker: Broker
) -> None:
    random, times = chance(), volume(1, 20)
    async with fleet(tmp_path, broker.url, section={"slots": 4}) as plant:
        for _ in range(times):
            daemon = plant.start()
            await daemon.is_ready()
            before = plant.starts()
            await submit_some(plant, 2, pause=0.1)
            await plant.until_begun(before + 1)
            await anyio.sleep(random.uniform(0, 0.1))
            plant.kill(daemon)
            successor = plant.start()
            # Five such deaths of one job, none of whose steps was done between, would be taken for
            # its own doing.
            await plant.until_all_ended()
            plant.kill(successor)
        found = plant.found()

    assert violations(found) == []


STOPS_WITHIN = 10.0
ENDS_AT_ONCE = 2.0
"""Seconds, on a machine that does other work as well."""
LADDER = [
    pytest.param([signal.SIGTERM], {0}, id="TERM"),
    pytest.param([signal.SIGINT], {0}, id="INT", marks=pytest.mark.long),
    pytest.param([signal.SIGHUP], {0}, id="HUP", marks=pytest.mark.long),
    pytest.param(
        [signal.SIGTERM, signal.SIGTERM], {0, 143}, id="TERM twice", marks=pytest.mark.long
    ),
    pytest.param([signal.SIGQUIT], {131}, id="QUIT", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("signals", "codes"), LADDER)
async def test_a_signal_ends_the_daemon_in_time_and_loses_nothing(
    tmp_path: Path, broker: Broker, signals: list[signal.Signals], codes: set[int]
) -> None:
    times = volume(1, 10)
    slowest = 0.0
    async with fleet(tmp_path, broker.url, section={"slots": 8}) as plant:
        for phase in range(times):
            daemon = plant.start()
            await daemon.is_ready()
            await submit_some(plant, 3, pause=0.2)
            await anyio.sleep(1.5 * (phase + 0.5) / times)
            begun = anyio.current_time()
            for number in signals:
                daemon.running.send_signal(number)
            await daemon.is_gone(15)
            seconds, code = anyio.current_time() - begun, daemon.running.poll()
            slowest = max(slowest, seconds)
            assert code in codes, daemon.text()[-2000:]
            # Two equal signals are one where the first was not taken yet; then the daemon lets its
            # calls end.
            assert seconds < (ENDS_AT_ONCE if code == 143 else STOPS_WITHIN)
            assert not daemon.has_children()
            plant.is_over(daemon)
        await plant.start().is_ready()
        await plant.until_all_ended()
        found = plant.found()

    note("signals", signals=[one.name for one in signals], times=times, slowest=round(slowest, 1))
    assert violations(found) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [
        pytest.param("kill", id="kills the process"),
        pytest.param("store", id="breaks the thread that writes"),
        pytest.param("raise", id="raises"),
        pytest.param("hang", id="hangs"),
        pytest.param("memory", id="takes all memory"),
    ],
)
async def test_poison_ends_and_takes_nobody_with_it(
    tmp_path: Path, broker: Broker, how: str
) -> None:
    """The neighbours are in flight at each of the deaths: they are not to blame."""
    async with fleet(tmp_path, broker.url, section={"slots": 6}) as plant:
        await plant.start().is_ready()
        poisoned = job_id(1_000)
        for number in range(4):
            await plant.submit(job_id(number), small_job(job_id(number), steps=9, pause=1.5))
        await plant.until_begun(4)
        await plant.submit(poisoned, poison_job(poisoned, how))
        while not set(plant.submitted) <= plant.ended():
            daemon = plant.daemons[0]
            if daemon.running.poll() is not None:
                plant.kill(daemon)
                plant.start()
            await anyio.sleep(0.05)
        if how == "kill":
            await until(lambda: poisoned in plant.dead_jobs())
        found = plant.found()

    states = {row.job: row.state for row in found.rows}
    harm = sum(call.tool == "poison" and call.event == "start" for call in found.ledger)
    note(
        "poison", how=how, begun=harm, deaths=len(plant.crashes), violations=len(violations(found))
    )
    assert violations(found) == []
    assert harm <= 5
    end = states.pop(poisoned)
    # Where the process lives, the run ends without what it wanted; whether the thread that writes
    # lives, is chance.
    assert end == "dead" if how == "kill" else end in ("failed", "completed", "dead")
    assert len(plant.crashes) == 0 if how in ("raise", "hang", "memory") else plant.crashes
    assert set(states.values()) == {"completed"}
    if end == "dead":
        assert poisoned in plant.dead_jobs()


async def _freeze(plant: Fleet, daemon: Daemon) -> None:
    """Stop a daemon outside of a transaction: in one it would keep the whole file from everybody,
    itself included.
    """
    while True:
        daemon.running.send_signal(signal.SIGSTOP)
        try:
            return _move_away(plant.folder)
        except sqlite3.OperationalError:
            daemon.running.send_signal(signal.SIGCONT)
        await anyio.sleep(0.05)


def _move_away(folder: Path) -> None:
    """Have whoever holds runs look as if it were on another machine that has not been heard of for
    a minute.
    """
    with closing(sqlite3.connect(folder / JOURNAL, timeout=0.5)) as file, file:
        file.execute(
            "UPDATE run SET pid_namespace = 'elsewhere', heartbeat_at = heartbeat_at - 60 WHERE owner IS NOT NULL"
        )
        file.execute("UPDATE outbox SET leased = leased - 60 WHERE leased IS NOT NULL")
