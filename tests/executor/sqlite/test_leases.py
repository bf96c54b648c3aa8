"""A run has one owner: a living one is never robbed, a dead one is replaced, a replaced one cannot
write.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.executor.event_examples import run_started, step_finished
from tests.executor.sqlite.inline_store import InlineEventStore
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.entries import append_entry
from wavewright.executor.store.errors import RunBusy, RunLost
from wavewright.executor.store.leases import (
    Lease,
    LeaseProbe,
    Owner,
    current_pid_namespace,
    judge_lease,
    owner_liveness,
    this_owner,
)
from wavewright.planner.types import RunId

RUN = RunId("20261121-231907-3f2a7c")
FOREIGN = Owner(
    token="f00",  # noqa: S106 - it guards nothing
    host="elsewhere",
    pid=4711,
    process_start="1",
    pid_namespace="another boot",
)

HOLDER = """
import sys
from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.store.writer import run_inline
store = SqliteEventStore(sys.argv[1])
run_inline(store.claim(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
run_inline(store.close())
"""


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _hold(owner: Owner, *, heartbeat_at: float = 1000.0) -> Lease:
    return Lease(owner=owner, since=1000.0, heartbeat=1, heartbeat_at=heartbeat_at, seconds=10.0)


def _beat(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (beat,) = connection.execute("SELECT heartbeat FROM run").fetchone()
    return int(beat)


@contextmanager
def _holder(path: Path) -> Generator[subprocess.Popen[str]]:
    """Run a process that has the run open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


# Judging an owner


def test_this_process_is_alive() -> None:
    owner = this_owner()

    assert owner_liveness(owner, pid_namespace=owner.pid_namespace) == "alive"


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the system does not tell when a process started"
)
def test_a_later_process_of_the_same_pid_is_not_the_owner() -> None:
    owner = replace(this_owner(), process_start="12")

    assert owner_liveness(owner, pid_namespace=owner.pid_namespace) == "gone"


def test_a_pid_in_another_container_or_boot_cannot_be_looked_at() -> None:
    assert (
        owner_liveness(replace(FOREIGN, pid=os.getpid()), pid_namespace=current_pid_namespace())
        == "unknown"
    )


def test_where_starts_are_not_told_a_used_pid_proves_nothing_and_a_free_one_does() -> None:
    owner = replace(this_owner(), process_start="")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass

    assert owner_liveness(owner, pid_namespace=owner.pid_namespace) == "unknown"
    assert (
        owner_liveness(replace(owner, pid=ended.pid), pid_namespace=owner.pid_namespace) == "gone"
    )


@pytest.mark.parametrize("jump", [-1e6, 0.0, 1e6])
def test_no_jump_of_the_clock_takes_a_run_from_a_living_owner_here(jump: float) -> None:
    owner = this_owner()

    assert judge_lease(_hold(owner), now=1000.0 + jump, pid_namespace=owner.pid_namespace) == "busy"


@pytest.mark.parametrize(
    ("age", "claim"),
    [
        pytest.param(0.0, "busy", id="fresh"),
        pytest.param(10.0, "busy", id="last-moment"),
        pytest.param(10.1, "watch", id="expired"),
        pytest.param(-5.0, "watch", id="beat-from-the-future"),
    ],
)
def test_an_owner_that_cannot_be_looked_at_is_believed_for_one_lease(
    age: float, claim: str
) -> None:
    assert judge_lease(_hold(FOREIGN), now=1000.0 + age, pid_namespace="here") == claim


# Claiming in the file


def test_a_busy_run_names_its_owner_since_when_and_the_mend(tmp_path: Path) -> None:
    clock = Clock()
    with (
        InlineEventStore(tmp_path / "j.db", owner=FOREIGN, clock=clock) as first,
        InlineEventStore(tmp_path / "j.db", clock=clock) as second,
    ):
        first.claim(RUN)
        with pytest.raises(RunBusy) as caught:
            second.claim(RUN)

    assert (
        f"run {RUN} is open in another process: pid 4711 on elsewhere, since 19"
        in caught.value.message
    )
    assert caught.value.place == str(tmp_path / "j.db")
    assert "pid 4711 on elsewhere" in str(caught.value.hint)
    assert "10 s after its last sign of life" in str(caught.value.hint)


def test_an_expired_owner_is_replaced_after_a_watch_without_a_beat(tmp_path: Path) -> None:
    clock = Clock()
    with (
        InlineEventStore(tmp_path / "j.db", owner=FOREIGN, clock=clock) as first,
        InlineEventStore(tmp_path / "j.db", clock=clock) as second,
    ):
        first.claim(RUN)
        clock.now += 11
        watch = second.claim(RUN)
        assert isinstance(watch, LeaseProbe)

        assert second.claim(RUN, unmoved=watch.lease.heartbeat) is None


def test_an_owner_that_beats_while_it_is_watched_keeps_the_run(tmp_path: Path) -> None:
    clock = Clock()
    with (
        InlineEventStore(tmp_path / "j.db", owner=FOREIGN, clock=clock) as first,
        InlineEventStore(tmp_path / "j.db", clock=clock) as second,
    ):
        first.claim(RUN)
        clock.now += 11
        watch = second.claim(RUN)
        assert isinstance(watch, LeaseProbe)
        first.heartbeat()

        with pytest.raises(RunBusy):
            second.claim(RUN, unmoved=watch.lease.heartbeat)


def test_a_replaced_owner_cannot_write_and_changes_nothing(tmp_path: Path) -> None:
    clock = Clock()
    with (
        InlineEventStore(tmp_path / "j.db", owner=FOREIGN, clock=clock) as first,
        InlineEventStore(tmp_path / "j.db", clock=clock) as second,
    ):
        first.claim(RUN)
        assert first.write([append_entry(RUN, [run_started(RUN)])]) == {}
        clock.now += 11
        watch = second.claim(RUN)
        assert isinstance(watch, LeaseProbe)
        second.claim(RUN, unmoved=watch.lease.heartbeat)

        faults = first.write([append_entry(RUN, [step_finished("late")])])

        assert isinstance(faults[RUN], RunLost)
        assert f"taken over by pid {os.getpid()}" in faults[RUN].message
        assert second.write([append_entry(RUN, [step_finished("next")])]) == {}
        assert second.reader.load(RUN) == [run_started(RUN), step_finished("next")]


def test_a_replaced_owner_that_gives_up_leaves_the_run_to_the_new_one(tmp_path: Path) -> None:
    clock = Clock()
    with InlineEventStore(tmp_path / "j.db", clock=clock) as second:
        with InlineEventStore(tmp_path / "j.db", owner=FOREIGN, clock=clock) as first:
            first.claim(RUN)
            clock.now += 11
            watch = second.claim(RUN)
            assert isinstance(watch, LeaseProbe)
            second.claim(RUN, unmoved=watch.lease.heartbeat)

        with InlineEventStore(tmp_path / "j.db", clock=clock) as third, pytest.raises(RunBusy):
            third.claim(RUN)


# Real processes


def test_a_second_opening_in_this_process_is_told_so(tmp_path: Path) -> None:
    with (
        InlineEventStore(tmp_path / "j.db") as first,
        InlineEventStore(tmp_path / "j.db") as second,
    ):
        first.claim(RUN)

        with pytest.raises(RunBusy, match="open already in this process"):
            second.claim(RUN)


def test_a_second_process_is_told_who_has_the_run(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with _holder(path) as holder, InlineEventStore(path) as store:
        with pytest.raises(RunBusy, match=f"pid {holder.pid} on "):
            store.claim(RUN)

        assert [
            (row.status, f"pid {holder.pid} on " in str(row.owner))
            for row in store.reader.list_runs()
        ] == [("running", True)]


def test_a_run_is_free_once_its_process_has_closed_it(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with _holder(path) as holder, InlineEventStore(path) as store:
        holder.communicate()

        assert store.claim(RUN) is None


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the system does not tell when a process started"
)
def test_a_killed_process_is_replaced_at_once_even_before_it_is_reaped(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with _holder(path) as holder, InlineEventStore(path) as store:
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)

        assert [row.status for row in store.reader.list_runs()] == ["interrupted"]
        assert store.claim(RUN) is None


@pytest.mark.anyio
async def test_opening_a_run_waits_out_the_watch_of_a_dead_owner_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    elsewhere = InlineEventStore(path, owner=FOREIGN, clock=lambda: 0.0, lease=0.1)
    elsewhere.claim(RUN)

    async with SqliteJournal(path) as journal:
        await journal.open_run(RUN)
        await journal.append(RUN, [run_started(RUN)])

        assert await journal.load(RUN) == [run_started(RUN)]
    elsewhere.close()


@pytest.mark.anyio
async def test_the_writer_beats_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with SqliteJournal(path, lease=0.03) as journal:
        await journal.open_run(RUN)
        beats = set[int]()

        with anyio.fail_after(5):
            while len(beats) < 3:
                beats.add(_beat(path))
                await anyio.sleep(0.001)
