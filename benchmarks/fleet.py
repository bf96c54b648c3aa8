"""What calls cost on a fleet of two workers on this machine, beside the same calls in the process of the run."""

from __future__ import annotations

import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks.measure import show_table
from tests.support.postgres import NoServer, PostgresServer, serving
from tests.support.prepared_command import RunningCommand, new_process
from wavewright.engine import Wavewright
from wavewright.planner.types import Json

TOOLS = '''\
import asyncio


async def nothing(number: int) -> int:
    """Return the number."""
    return number


async def nap(number: int, seconds: float) -> int:
    """Sleep."""
    await asyncio.sleep(seconds)
    return number
'''
SLOTS = 50
TURNS = 3
CALLS = 1_000
NAPS, NAP_SECONDS = 400, 0.05


def measure_fleet() -> None:
    """Print seconds and rates of no-op calls and of short sleeps, here and on the fleet."""
    try:
        with serving(syncs=True) as server, tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
            anyio.run(_measure, server, Path(folder))
    except NoServer as reason:
        print(f"\nNot measured: {reason}.")


async def _measure(server: PostgresServer, folder: Path) -> None:
    url = server.database()
    sites = {name: _project(folder / name, on_fleet=name == "fleet") for name in ("here", "fleet")}
    os.environ["WAVEWRIGHT_PG_URL"] = url
    workers = [_worker(sites["fleet"], number) for number in range(2)]
    try:
        rows = [await _row(name, site) for name, site in sites.items()]
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
            worker.wait()
    show_table(
        f"A fleet of two workers with {SLOTS} slots each, journal in PostgreSQL, {2 * SLOTS} calls at once",
        [
            "calls are made",
            "one no-op call, median ms",
            f"{CALLS:,} no-op calls, calls a second",
            f"{NAPS} sleeps of {NAP_SECONDS:g} s, over the floor",
        ],
        rows,
    )


async def _row(name: str, site: Path) -> list[object]:
    async with Wavewright.from_project(site) as ww:
        one = [await _seconds(ww, site, "nothing", 1) for _ in range(5 * TURNS)]
        empty = [await _seconds(ww, site, "nothing", 1, repeats=10) for _ in range(TURNS)]
        many = min([await _seconds(ww, site, "nothing", CALLS) for _ in range(TURNS)])
        naps = min([await _seconds(ww, site, "nap", NAPS, seconds=NAP_SECONDS) for _ in range(TURNS)])
    chain = (statistics.median(empty) - statistics.median(one)) / 9
    floor = NAPS * NAP_SECONDS / (2 * SLOTS)
    return [name, chain * 1e3, CALLS / many, naps / floor]


async def _seconds(
    ww: Wavewright, site: Path, tool: str, count: int, *, repeats: int = 1, **params: Json
) -> float:
    """Return the time of the steps of a run; `repeats` steps follow one another, each with so many calls."""
    steps: list[Json] = [
        {
            "id": f"s{place}",
            "tool": tool,
            "for_each": f"${{inputs.numbers.map(n, n + {place * 10_000})}}",
            "params": {"number": "${item}", **params},
            "max_items": count,
            "depends_on": [f"s{place - 1}"] if place else [],
        }
        for place in range(repeats)
    ]
    plan = {
        "version": 1,
        "goal": "Measure",
        "inputs": {"numbers": [*range(count)]},
        "steps": steps,
        "result": 1,
    }
    (site / "measured.plan.yaml").write_text(json.dumps(plan), encoding="utf-8")
    loaded = ww.load("measured.plan.yaml")
    started = time.perf_counter()
    run = await ww.run(loaded)
    assert run.status == "achieved", run.package.review
    return time.perf_counter() - started


def _project(folder: Path, *, on_fleet: bool) -> Path:
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    settings: dict[str, Json] = {"tools": ["tools.py"], "concurrency": 2 * SLOTS}
    if on_fleet:
        settings["fleet"] = {"tools": ["*"]}
    (folder / "wavewright.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def _worker(folder: Path, number: int) -> RunningCommand:
    log = folder / f"worker-{number}.log"
    worker = new_process(["worker", "--slots", str(SLOTS)], folder, os.environ, log)
    while not log.exists() or "worker_started" not in log.read_text(encoding="utf-8"):
        time.sleep(0.1)  # noqa: TID251 - another process is waited for
    return worker
