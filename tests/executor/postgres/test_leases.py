"""One owner a run in a database: a living one is never robbed, a dead one is replaced, a replaced
one cannot write.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import asyncpg
import pytest

from tests.executor.event_examples import run_finished, run_started, step_finished
from tests.executor.postgres.journal_helpers import OTHER, RUN, seen_from_outside, steps
from tests.support.postgres import PostgresServer
from wavewright.executor.postgres.journal import PostgresEventStore, PostgresJournal
from wavewright.executor.store.entries import append_entry
from wavewright.executor.store.errors import RunBusy, RunLost
from wavewright.executor.store.leases import LeaseProbe, Owner

pytestmark = pytest.mark.anyio

FOREIGN = Owner(
    token="f00",  # noqa: S106 - it guards nothing
    host="elsewhere",
    pid=4711,
    process_start="1",
    pid_namespace="another boot",
)


async def test_a_busy_run_names_its_owner_since_when_and_the_mend(postgres: PostgresServer) -> None:
    url = postgres.database()
    first, second = PostgresEventStore(url, owner=FOREIGN), PostgresEventStore(url)
    await first.claim(RUN)

    with pytest.raises(RunBusy) as caught:
        await second.claim(RUN)

    assert (
        f"run {RUN} is open in another process: pid 4711 on elsewhere, since 20"
        in caught.value.message
    )
    assert "10 s after its last sign of life" in str(caught.value.hint)
    await first.close()
    await second.close()


@contextmanager
def grown_old(postgres: PostgresServer, url: str) -> Generator[None]:
    """Let the lease of the owner elsewhere run out, as the database's clock shows it."""
    postgres.run(
        "UPDATE wavewright.session SET heartbeat_at = heartbeat_at - 11 WHERE token = 'f00'", url
    )
    yield


async def test_of_two_owners_that_claim_a_closed_run_at_once_one_has_it(
    postgres: PostgresServer,
) -> None:
    """The second one waits for the lock of the first, and then sees its lease."""
    url = postgres.database()
    async with PostgresJournal(url) as first, PostgresJournal(url) as second:
        await first.append(RUN, [run_started(RUN)])
        await first.close_run(RUN)
        await second.load(RUN)
        connection = await asyncpg.connect(url)
        locking = connection.transaction()
        await locking.start()
        await connection.execute("SELECT FROM wavewright.run WHERE run = $1 FOR UPDATE", RUN)
        owners = list[PostgresJournal]()

        async def claim(journal: PostgresJournal) -> None:
            with suppress(RunBusy):
                await journal.open_run(RUN)
                owners.append(journal)

        async with anyio.create_task_group() as group:
            for journal in (first, second):
                group.start_soon(claim, journal)
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            with anyio.fail_after(20):
                while await connection.fetchval(waiting) < 2:  # noqa: ASYNC110 - no server sets an event here
                    await anyio.sleep(0.005)
            await locking.rollback()
        await connection.close()

        [owner] = owners
        await owner.append(RUN, steps(1))


async def test_an_expired_owner_is_replaced_after_a_watch_without_a_beat(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    first, second = PostgresEventStore(url, owner=FOREIGN), PostgresEventStore(url)
    await first.claim(RUN)
    with grown_old(postgres, url):
        watch = await second.claim(RUN)
        assert isinstance(watch, LeaseProbe)

        assert await second.claim(RUN, unmoved=watch.lease.heartbeat) is None
    await second.close()
    await first.close()


async def test_an_owner_that_beats_while_it_is_watched_keeps_the_run(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    first, second = PostgresEventStore(url, owner=FOREIGN), PostgresEventStore(url)
    await first.claim(RUN)
    with grown_old(postgres, url):
        watch = await second.claim(RUN)
        assert isinstance(watch, LeaseProbe)
        await first.session.heartbeat()

        with pytest.raises(RunBusy):
            await second.claim(RUN, unmoved=watch.lease.heartbeat)
    await second.close()
    await first.close()


async def test_a_replaced_owner_cannot_write_and_its_other_runs_are_not_disturbed(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    first, second = PostgresEventStore(url, owner=FOREIGN), PostgresEventStore(url)
    assert await first.write([append_entry(RUN, [run_started(RUN)])]) == {}
    await first.claim(OTHER)
    with grown_old(postgres, url):
        watch = await second.claim(RUN)
        assert isinstance(watch, LeaseProbe)
        await second.claim(RUN, unmoved=watch.lease.heartbeat)

    faults = await first.write(
        [append_entry(RUN, [step_finished("late"), run_finished()]), append_entry(OTHER, steps(1))]
    )

    assert set(faults) == {RUN}
    assert isinstance(faults[RUN], RunLost)
    assert f"taken over by pid {os.getpid()}" in faults[RUN].message
    assert await second.write([append_entry(RUN, [step_finished("next")])]) == {}
    await first.close()
    await second.close()
    assert await seen_from_outside(url) == [run_started(RUN), step_finished("next")]
    assert await seen_from_outside(url, OTHER) == steps(1)


async def test_a_replaced_owner_that_gives_up_leaves_the_run_to_the_new_one(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    first, second, third = (
        PostgresEventStore(url, owner=FOREIGN),
        PostgresEventStore(url),
        PostgresEventStore(url),
    )
    await first.claim(RUN)
    with grown_old(postgres, url):
        watch = await second.claim(RUN)
        assert isinstance(watch, LeaseProbe)
        await second.claim(RUN, unmoved=watch.lease.heartbeat)
    await first.close()

    with pytest.raises(RunBusy, match="open already in this process"):
        await third.claim(RUN)
    await second.close()
    assert await third.claim(RUN) is None
    await third.close()


HOLDER = """
import anyio, sys
from wavewright.executor.postgres.journal import PostgresJournal
async def main():
    async with PostgresJournal(sys.argv[1]) as journal:
        await journal.open_run(sys.argv[2])
        print("held", flush=True)
        sys.stdin.read()
anyio.run(main)
"""


@contextmanager
def holder(url: str) -> Generator[subprocess.Popen[str]]:
    """Run a process that has the run open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, url, RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


async def test_a_second_process_is_told_who_has_the_run(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        with holder(url) as process:
            with pytest.raises(RunBusy, match=f"pid {process.pid} on "):
                await journal.open_run(RUN)
            (row,) = await journal.list_runs()
            assert (row.status, row.owner) == (
                "running",
                f"pid {process.pid} on {os.uname().nodename}",
            )
            process.communicate()

            await journal.open_run(RUN)


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the system does not tell when a process started"
)
async def test_a_killed_process_on_this_machine_is_replaced_at_once(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    async with PostgresJournal(url) as journal:
        with holder(url) as process:
            process.kill()
            # It is dead, and still there: nobody has asked how it ended.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222

            assert [row.status for row in await journal.list_runs()] == ["interrupted"]
            await journal.open_run(RUN)


async def test_opening_a_run_waits_out_the_watch_of_a_dead_owner_elsewhere(
    postgres: PostgresServer,
) -> None:
    url = postgres.database()
    elsewhere = PostgresEventStore(url, owner=FOREIGN, lease=0.1)
    await elsewhere.claim(RUN)
    with grown_old(postgres, url):
        async with PostgresJournal(url) as journal:
            await journal.open_run(RUN)
            await journal.append(RUN, [run_started(RUN)])

            assert await journal.load(RUN) == [run_started(RUN)]
    await elsewhere.close()


async def test_it_beats_by_itself_while_the_event_loop_is_blocked(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with PostgresJournal(url, lease=0.03) as journal:
        await journal.open_run(RUN)
        beats = set[object]()
        # Nothing here gives the event loop a turn.
        while len(beats) < 3:
            beats.add(postgres.fetch("SELECT heartbeat FROM wavewright.session", url)[0])
