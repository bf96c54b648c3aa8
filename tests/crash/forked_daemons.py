"""Let a daemon die at its first, second, third … place, and look each time what the next one makes
of it.

A program of its own, run by the tests: it has one thread, so it can be copied cheaply for every
death. It prints a line of JSON for each place, and ends after the first at which nobody died any
more.

    python -m tests.crash.forked_daemons '{"kind": "points", "folder": "/tmp/x", "numbers": [17]}'
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count, repeat
from pathlib import Path
from typing import Literal, NoReturn

import pytest
from pydantic_ai.messages import ModelResponse

from tests.crash import crash_points as points, oracle, sqlite_shim
from tests.crash.crash_project import (
    add_line,
    asking_job,
    job_id,
    read_lines,
    request_of,
    whole_job,
    write_workplace,
)
from tests.crash.file_broker import FileBroker
from tests.crash.minimal_daemon import Agreeing, little_daemon
from tests.crash.mutants import plant
from wavewright.engine.service.job_store.records import JobId
from wavewright.executor.sqlite import event_store as journal_store
from wavewright.executor.sqlite.journal import SqliteBudgetStore
from wavewright.planner.ports.budgets import BudgetScope, Reservation, Spend
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject
from wavewright.tools.models.metering import RequestCharge, UsageTracker

Kind = Literal["points", "writes"]
ROOT = Path(__file__).parents[2]
SMALL_LOG = 40_000
"""Bytes after which the write-ahead log is copied: so small that a job sees it happen again and
again.
"""
TRACE = "died_at.jsonl"
DEATHS = "deaths.jsonl"
THREAD_PATIENCE = 60.0
"""Seconds that a thread which was told to end may take on a machine that has much to do."""
MOST_TOKENS = 200
"""Of one answer of a model."""


@dataclass(frozen=True)
class Spec:
    """What is to be done."""

    folder: str
    kind: Kind = "points"
    change: str | None = None
    """The kind of change of a file that is counted, such as "sync"; all of them where none is
    given.
    """
    lane: int = 0
    lanes: int = 1
    numbers: tuple[int, ...] = ()
    """Places to die at; all of this lane where none is given."""
    mutants: tuple[str | None, ...] = ()
    """Bugs to be planted, one for each of the numbers."""
    model: str | None = None
    """The address of a model server; the job then asks it twice."""
    calls: int | None = None
    """How often a day lets it be asked."""
    again: bool = False
    """Whether whoever goes on dies as well, once, at a place drawn from the number."""
    stops_at_violation: bool = False


@dataclass(frozen=True)
class Report:
    """What became of one death."""

    number: int
    place: str
    violations: tuple[str, ...]
    deaths: int
    mutant: str | None = None


def deaths(spec: Spec) -> Iterator[Report]:
    """Run the program and return what it reports."""
    command = [sys.executable, "-m", "tests.crash.forked_daemons", json.dumps(asdict(spec))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        for line in running.stdout:
            report = json.loads(line)
            yield Report(**(report | {"violations": tuple(report["violations"])}))
    assert running.returncode == 0, f"it ended with {running.returncode}"


def again(spec: Spec, number: int) -> str:
    """Return the command that repeats one death."""
    one = replace(spec, folder="/tmp/again", numbers=(number,))  # noqa: S108
    return f"python -m tests.crash.forked_daemons '{json.dumps(asdict(one))}'"


def _main(spec: Spec) -> None:
    _point_at_models()
    _warm_up(spec, Path(spec.folder) / f"warm-{spec.lane}")
    numbers: Iterable[int] = spec.numbers or count(1 + spec.lane, spec.lanes)
    for number, mutant in zip(numbers, spec.mutants or repeat(None), strict=False):
        folder = Path(spec.folder) / f"{spec.kind}-{number}"
        report = _die(spec, folder, number, mutant)
        if report is None:
            return
        print(json.dumps(asdict(report)), flush=True)
        if not report.violations:
            shutil.rmtree(folder)
        elif spec.stops_at_violation:
            return


def _warm_up(spec: Spec, folder: Path) -> None:
    """Do one job here, so that no copy has to load what it takes."""
    _write_job(spec, folder, job_id(0))
    asyncio.run(_serve(folder))
    # A program with threads cannot be copied; those that were told to end do so when it is their turn.
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(THREAD_PATIENCE)
            assert not thread.is_alive(), f"{thread.name} has not ended"
    shutil.rmtree(folder)
    gc.freeze()


def _die(spec: Spec, folder: Path, number: int, mutant: str | None) -> Report | None:
    """Let one daemon die at that place and others go on; nothing where it came to its end."""
    shutil.rmtree(folder, ignore_errors=True)
    job = job_id(number)
    _write_job(spec, folder, job)
    ends = [_child(spec, folder, number, mutant)]
    if ends == [0]:
        return None
    if spec.again:
        second = random.Random(f"{spec.kind} {number}").randrange(1, 150)  # noqa: S311 - only a place to die at
        ends.append(_child(spec, folder, second, mutant))
    # Whoever opens the store must get through however the last one left it.
    ends.append(_child(spec, folder, None, mutant))
    return replace(_report(spec, folder, job, number, ends), mutant=mutant)


def _write_job(spec: Spec, folder: Path, job: JobId) -> None:
    section: JsonObject = {"validation": {"iterations": 2}}
    if spec.model is None:
        write_workplace(folder, section)
    else:
        models: JsonObject = {"base_url": spec.model, "max_output_tokens": MOST_TOKENS}
        budgets: JsonObject = {"recovery_share": 0.0, "day": {"calls": spec.calls or 1_000}}
        write_workplace(
            folder, section, model="openai-chat:scripted", models=models, budgets=budgets
        )
    document = whole_job(job) if spec.model is None else asking_job(job)
    FileBroker(folder / "broker").put(request_of(job, document))


def _report(spec: Spec, folder: Path, job: str, number: int, ends: list[int]) -> Report:
    died = ends.count(points.DIED)
    broker = FileBroker(folder / "broker")
    sent = [
        oracle.Message(sent.message, sent.kind, sent.sha256, sent.body) for sent in broker.sent()
    ]
    places = list(read_lines(folder / TRACE))
    found = oracle.look(
        folder,
        [job],
        sent,
        broker.dead(),
        crashes=[line["at"] for line in read_lines(folder / DEATHS)],
    )
    found = replace(found, is_rationed=spec.calls is not None)
    broken = oracle.violations(found)
    if spec.calls is not None and len(found.asked) > spec.calls:
        broken.append(
            f"I6: a model was asked {len(found.asked)} times, where {spec.calls} were to be had"
        )
    if broker.waiting():
        broken.append(f"I13: {len(broker.waiting())} messages were left in the queue")
    if ends[-1] != 0 or set(ends) - {0, points.DIED}:
        errors = folder / "error.txt"
        text = errors.read_text()[-1500:] if errors.exists() else "without a word"
        broken.append(f"I13: daemons ended with {ends}: {text}")
    return Report(number, " then ".join(str(line["place"]) for line in places), tuple(broken), died)


def _child(spec: Spec, folder: Path, number: int | None, mutant: str | None) -> int:
    """Run a daemon in a copy of this program; return how it ended."""
    child = os.fork()
    if child == 0:
        _live(spec, folder, number, mutant)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == points.DIED:
        # Noted here and not where it dies: its other threads go on until it is gone.
        add_line(folder / DEATHS, {"at": time.time()})
    return code


def _live(spec: Spec, folder: Path, number: int | None, mutant: str | None) -> NoReturn:
    """Be a daemon until everything is done, or until the place to die at."""
    code = 1
    try:
        journal_store._LONG_LOG = SMALL_LOG  # type: ignore[misc]
        if number is not None:
            _arm(spec, number, folder)
        plant(mutant)
        asyncio.run(_serve(folder))
        code = 0
    except BaseException:  # noqa: BLE001 - it is a program of its own, and this its edge
        (folder / "error.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


async def _serve(folder: Path) -> None:
    async with little_daemon(folder) as daemon:
        await daemon.serve(Agreeing())


def _point_at_models() -> None:
    """Have points around what is put aside for a question, its answer, and what it is charged."""
    reserve, settle, answered = (
        SqliteBudgetStore.reserve,
        SqliteBudgetStore.settle,
        UsageTracker.record_response,
    )

    async def reserving(
        self: SqliteBudgetStore, account: BudgetScope, amount: Spend
    ) -> Reservation:
        points.reach("before reserve")
        reservation = await reserve(self, account, amount)
        points.reach("before question")
        return reservation

    async def settling(
        self: SqliteBudgetStore, reservation: Reservation, spent: Spend, use: ModelUse
    ) -> None:
        points.reach("before charge")
        await settle(self, reservation, spent, use)
        points.reach("after charge")

    def replied(self: UsageTracker, tally: RequestCharge, response: ModelResponse) -> None:
        points.reach("model reply")
        answered(self, tally, response)

    patch = pytest.MonkeyPatch()
    patch.setattr(SqliteBudgetStore, "reserve", reserving)
    patch.setattr(SqliteBudgetStore, "settle", settling)
    patch.setattr(UsageTracker, "record_response", replied)


def _arm(spec: Spec, number: int, folder: Path) -> None:
    die = _dying(number, folder)
    if spec.kind == "points":
        points.at_points(die)
        return
    counted = count(1)

    def strike(what: str, _changes: int) -> int:
        if spec.change in {None, what}:
            die(what, next(counted))
        return 0

    sqlite_shim.Shim(strike)


def _dying(number: int, folder: Path) -> Callable[[str, int], None]:
    def act(name: str, reached: int) -> None:
        if reached == number:
            add_line(folder / TRACE, {"place": name})
            os._exit(points.DIED)

    return act


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    _main(Spec(**(given | {name: tuple(given.get(name, ())) for name in ("numbers", "mutants")})))
