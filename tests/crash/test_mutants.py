"""The programme finds what is planted for it to find; one that finds nothing would prove nothing.

Each check is run twice: on the code as it is, where it finds nothing, and with a bug in it that it
must find.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import JOURNAL, job_id, request_of, small_job, write_workplace
from tests.crash.file_broker import FileBroker
from tests.crash.fleet_judge import BUGS
from tests.crash.forked_daemons import Report, Spec, deaths
from tests.crash.minimal_daemon import Agreeing, little_daemon
from tests.crash.mutants import MUTANTS, plant
from tests.executor.event_examples import run_started
from wavewright.config.sections import BudgetSettings, BudgetsSection
from wavewright.config.settings import load_settings
from wavewright.engine.service.bus import faults as guard
from wavewright.engine.service.bus.faults import BusDown
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor.sqlite.journal import SqliteBudgetStore, SqliteJournal
from wavewright.executor.store.errors import RunLost
from wavewright.planner.ports.budgets import BudgetExceeded, BudgetScope, Spend
from wavewright.planner.types import JsonObject, RunId

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
RUN = RunId("20261121-231907-3f2a7c")

Check = Callable[[Path, str | None], Awaitable[list[str]]]


DEATHS: dict[str, int] = {
    "ack before the commit": 3,
    "ids by chance": 1,
    "a committed write tried again": 1,
    "sent before it is confirmed": 51,
}
"""C3: the point at which a daemon dies, after which another one goes on."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Report]:
    """What became of those deaths, each with its bug and without."""
    numbers, mutants = (*DEATHS.values(), *DEATHS.values()), (*DEATHS, *[None for _ in DEATHS])
    return list(
        deaths(Spec(str(tmp_path_factory.mktemp("bugs")), numbers=numbers, mutants=mutants))
    )


@pytest.mark.parametrize("bug", DEATHS)
def test_a_bug_is_found_by_a_death(reports: list[Report], bug: str) -> None:
    [spoilt] = [report for report in reports if report.mutant == bug]
    clean = [report for report in reports if report.mutant is None and report.number == DEATHS[bug]]

    assert all(report.violations == () for report in clean)
    assert spoilt.violations != ()


async def a_clock_that_goes_back(folder: Path, _mutant: str | None) -> list[str]:
    """C13: what is spent of a day is spent, whatever the clock says afterwards."""
    clock = [1_780_000_000.0]
    found = list[str]()
    async with SqliteBudgetStore(folder / "p.db", _day_of(100), lambda: clock[0]) as budget_store:
        for jump in (0.0, -90_000.0, 90_000.0, -3_600.0):
            clock[0] += jump
            try:
                await budget_store.reserve(
                    BudgetScope(run=RUN, job="j", role="worker"), Spend(calls=1, tokens=100)
                )
            except BudgetExceeded:
                continue
            if jump:
                found.append(f"I7: after a jump of {jump} s the day's budget was there again")
    return found


async def a_late_owner(folder: Path, _mutant: str | None) -> list[str]:
    """C11: an owner that was replaced writes nothing more."""
    path = folder / "j.db"
    async with SqliteJournal(path) as first, SqliteJournal(path) as second:
        await first.open_run(RUN)
        with closing(sqlite3.connect(path, timeout=10)) as file, file:
            file.execute("UPDATE run SET process_start = 'before'")
        await second.open_run(RUN)
        try:
            await first.append(RUN, [run_started(RUN)])
        except RunLost:
            return []
    return ["I8: an owner that was replaced has written"]


async def a_line_that_falls_silent(_folder: Path, _mutant: str | None) -> list[str]:
    """C6: no publication ends in silence."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(asyncio.CancelledError())
    told = list[str]()

    async def publish() -> None:
        try:
            await guard.translate_errors(future)
        except BusDown:
            told.append("it was not confirmed")

    async with anyio.create_task_group() as group:
        group.start_soon(publish)
    return [] if told else ["I1: a publication ended, and nobody was told how"]


async def two_calls_at_once(folder: Path, _mutant: str | None) -> list[str]:
    """I6: what is asked for is put aside before the call."""
    spent = 0

    async def call() -> None:
        nonlocal spent
        with suppress(BudgetExceeded):
            await budget_store.reserve(
                BudgetScope(run=RUN, job="j", role="worker"), Spend(calls=1, tokens=60)
            )
            spent += 60

    async with (
        SqliteBudgetStore(folder / "p.db", _day_of(100)) as budget_store,
        anyio.create_task_group() as group,
    ):
        for _ in range(2):
            group.start_soon(call)
    return [f"I6: {spent} of 100 tokens were let out"] if spent > 100 else []


async def junk_in_the_queue(folder: Path, _mutant: str | None) -> list[str]:
    """C10: what is wrong in itself is dead-lettered once."""
    return await _sent_by_hand(folder, b"no message at all")


async def a_message_that_was_cut(folder: Path, _mutant: str | None) -> list[str]:
    """6.2: nothing is repaired on the wire."""
    whole = _request()
    return await _sent_by_hand(folder, whole[:-1], whole[:-2])


async def a_key_twice(folder: Path, _mutant: str | None) -> list[str]:
    """6.2: nobody guesses which of two values is meant."""
    return await _sent_by_hand(folder, _request()[:-1] + b', "message_type": "job_request"}')


async def two_senders(folder: Path, _mutant: str | None) -> list[str]:
    """I8: two daemons send what one would."""
    path = folder / JOURNAL
    write_workplace(folder)
    broker = FileBroker(folder / "broker")
    broker.put(request_of(job_id(1), small_job(job_id(1))))
    async with little_daemon(folder, broker=broker) as daemon:
        await daemon.take_in()
    async with SqliteJournal(path) as one, SqliteJournal(path) as other:
        first = await JobStore(one).pending()
        second = await JobStore(other).pending()
    return ["I8: two daemons have the same messages in hand"] if first and second else []


async def a_loop_that_is_blocked(folder: Path, _mutant: str | None) -> list[str]:
    """C11: who works is believed to live, also where a tool keeps the event loop busy."""
    path = folder / "j.db"
    async with SqliteJournal(path, lease=0.3) as journal:
        await journal.open_run(RUN)
        before = _beat(path)
        time.sleep(1.0)  # noqa: ASYNC251, TID251 - this is what is tried
        after = _beat(path)
    return [] if after > before else ["I8: the owner was silent while its event loop was busy"]


def _beat(path: Path) -> int:
    with closing(sqlite3.connect(path, timeout=10)) as file:
        (beat,) = file.execute("SELECT heartbeat FROM run").fetchone()
    return int(beat)


async def _sent_by_hand(folder: Path, *bodies: bytes) -> list[str]:
    write_workplace(folder)
    broker = FileBroker(folder / "broker")
    for number, body in enumerate(bodies):
        line: JsonObject = {"id": f"hand-{number}", "body": body.decode(), "headers": {}}
        (folder / "broker" / "intake" / f"{number:06}-hand").write_text(json.dumps(line))
    found = list[str]()
    # Without the key of signatures, which would tell as well that something is wrong.
    async with little_daemon(folder, settings=load_settings(folder, {}), broker=broker) as daemon:
        try:
            await daemon.serve(Agreeing())
        except AssertionError as fault:
            found.append(f"I10: {fault}")
        if await daemon.stores.jobs.list_jobs():
            found.append("a message that is wrong in itself was taken for a job")
    if len(broker.dead()) != len(bodies):
        found.append(f"I10: {len(broker.dead())} of {len(bodies)} messages were dead-lettered")
    return found


def _request() -> bytes:
    return request_of(job_id(1), small_job(job_id(1))).body


def _day_of(tokens: int) -> BudgetsSection:
    return BudgetsSection.model_construct(day=BudgetSettings(tokens=tokens))


CHECKS: dict[str, Check] = {
    "a day anew whenever the date differs": a_clock_that_goes_back,
    "no fence": a_late_owner,
    "a foreign cancellation taken for one's own": a_line_that_falls_silent,
    "a charge after the call": two_calls_at_once,
    "dead letters that come again": junk_in_the_queue,
    "an outbox without leases": two_senders,
    "cut messages repaired": a_message_that_was_cut,
    "the first of two keys": a_key_twice,
    "a beat from the event loop": a_loop_that_is_blocked,
}


def test_every_bug_has_a_check() -> None:
    assert CHECKS.keys() | DEATHS.keys() | BUGS.keys() == MUTANTS.keys()


@pytest.mark.parametrize("bug", CHECKS)
async def test_a_bug_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    clean, spoilt = tmp_path / "clean", tmp_path / "spoilt"
    clean.mkdir()
    spoilt.mkdir()
    check = CHECKS[bug]

    found_nothing = await check(clean, None)
    plant(bug, monkeypatch)
    found = await check(spoilt, bug)

    assert found_nothing == []
    assert found != []
