"""What calls cost on a fleet of workers on this machine, beside the same calls in the process of
the run.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from benchmarks.measure import show_table
from tests.support.postgres import NoServer, PostgresServer, serving
from tests.support.prepared_command import RunningCommand, new_process
from wavewright.engine import Wavewright
from wavewright.planner.types import Json, JsonObject

TOOLS = '''\
import asyncio


async def nothing(number: int, after: list[int] | None = None) -> int:
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
LONG_NAPS, LONG_SLOTS = 10_000, 500
LAYERS, WIDTH = 10, 200
HEARTBEAT = 2.0
KILL_NAPS, KILL_SECONDS = 200, 0.5


def measure_fleet() -> None:
    """Print seconds and rates of no-op calls and of sleeps, here and on the fleet, and what a dead
    worker costs.
    """
    try:
        with (
            serving(syncs=True) as server,
            tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder,
        ):
            anyio.run(_measure, server, Path(folder))
    except NoServer as reason:
        print(f"\nNot measured: {reason}.")


async def _measure(server: PostgresServer, folder: Path) -> None:
    os.environ["WAVEWRIGHT_PG_URL"] = server.database()
    show_table(
        f"A fleet of two workers with {SLOTS} slots each, journal in PostgreSQL, {2 * SLOTS} calls at once",
        [
            "calls are made",
            "one no-op call, median ms",
            f"{CALLS:,} no-op calls, calls a second",
            f"{NAPS} sleeps of {NAP_SECONDS:g} s, over the floor",
            f"{LAYERS * WIDTH:,} steps in {LAYERS} layers, s",
        ],
        [["here", *await _row(folder, [])], ["on the fleet", *await _row(folder, [SLOTS, SLOTS])]],
    )
    show_table(
        f"{LONG_NAPS:,} sleeps of 1 s, {2 * LONG_SLOTS:,} at once, on two workers",
        ["s", "over the floor"],
        [await _naps(folder, [LONG_SLOTS, LONG_SLOTS], LONG_NAPS, 1.0)],
    )
    show_table(
        f"{NAPS} sleeps of {NAP_SECONDS:g} s on workers of 10 slots",
        ["workers", "s", "over the floor"],
        [[count, *await _naps(folder, [10] * count, NAPS, NAP_SECONDS)] for count in (1, 2, 4)],
    )
    show_table(
        f"{KILL_NAPS} sleeps of {KILL_SECONDS:g} s; one of two workers is killed, with a heartbeat of {HEARTBEAT:g} s",
        ["both live, s", "one is killed, s", "it is dead from the beginning, s"],
        [await _killed(folder)],
    )


async def _row(folder: Path, slots: Sequence[int]) -> list[object]:
    async with _fleet(folder, slots) as (ww, _):
        one = [await _seconds(ww, "nothing", 1) for _ in range(5 * TURNS)]
        ten = [await _seconds(ww, "nothing", 1, repeats=10) for _ in range(TURNS)]
        many = min([await _seconds(ww, "nothing", CALLS) for _ in range(TURNS)])
        naps = min([await _seconds(ww, "nap", NAPS, seconds=NAP_SECONDS) for _ in range(TURNS)])
        layered = min([await _run_seconds(ww, _layers()) for _ in range(TURNS)])
    chain = (statistics.median(ten) - statistics.median(one)) / 9
    return [chain * 1e3, CALLS / many, naps * 2 * SLOTS / (NAPS * NAP_SECONDS), layered]


async def _naps(folder: Path, slots: Sequence[int], count: int, seconds: float) -> list[object]:
    async with _fleet(folder, slots) as (ww, _):
        took = min(
            [
                await _seconds(ww, "nap", count, seconds=seconds)
                for _ in range(1 if seconds == 1 else TURNS)
            ]
        )
    return [took, took * sum(slots) / (count * seconds)]


async def _killed(folder: Path) -> list[object]:
    both, half = [
        await _naps(folder, [SLOTS] * workers, KILL_NAPS, KILL_SECONDS) for workers in (2, 1)
    ]
    took = 0.0
    async with _fleet(folder, [SLOTS, SLOTS]) as (ww, workers), anyio.create_task_group() as group:
        group.start_soon(_kill, workers[0], KILL_SECONDS * 1.5)
        took = await _seconds(ww, "nap", KILL_NAPS, seconds=KILL_SECONDS)
    return [both[0], took, half[0]]


async def _kill(worker: RunningCommand, seconds: float) -> None:
    await anyio.sleep(seconds)
    worker.send_signal(signal.SIGKILL)


async def _seconds(
    ww: Wavewright, tool: str, count: int, *, repeats: int = 1, **params: Json
) -> float:
    """Return the time of a run; `repeats` steps follow one another, each with so many calls."""
    # A step has at most a thousand items.
    parts = [(place, part) for place in range(repeats) for part in range(0, count, 1_000)]
    steps: list[Json] = [
        {
            "id": f"s{place}x{part}",
            "tool": tool,
            "for_each": f"${{inputs.numbers.map(n, n + {place * 100_000 + part})}}",
            "params": {"number": "${item}", **params},
            "depends_on": [f"s{place - 1}x{part}"] if place else [],
        }
        for place, part in parts
    ]
    inputs: JsonObject = {"numbers": [*range(min(count, 1_000))]}
    return await _run_seconds(
        ww, {"version": 1, "goal": "Measure", "inputs": inputs, "steps": steps, "result": 1}
    )


def _layers() -> JsonObject:
    """Return a plan in which each step of a layer reads two of the layer before."""
    steps: list[Json] = [
        {
            "id": f"s{layer}x{place}",
            "tool": "nothing",
            "params": {
                "number": layer * WIDTH + place,
                "after": [
                    f"${{steps.s{layer - 1}x{(place + other) % WIDTH}}}"
                    for other in range(2 * bool(layer))
                ],
            },
        }
        for layer in range(LAYERS)
        for place in range(WIDTH)
    ]
    return {
        "version": 1,
        "name": "layers",
        "goal": "Measure",
        "available_tools": [{"name": "nothing"}],
        "limits": {"max_steps": len(steps)},
        "plan": {"version": 1, "steps": steps, "result": 1},
    }


async def _run_seconds(ww: Wavewright, document: JsonObject) -> float:
    """Return the time of a run, from the plan that is read to the package."""
    file = ww.settings.root / "measured.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    loaded = ww.load(file)
    started = time.perf_counter()
    run = await ww.run(loaded)
    assert run.status == "achieved", run.package.review
    return time.perf_counter() - started


@asynccontextmanager
async def _fleet(
    site: Path, slots: Sequence[int]
) -> AsyncGenerator[tuple[Wavewright, list[RunningCommand]]]:
    """Open a project whose calls workers with so many slots make; the project itself where there is
    none.
    """
    settings: JsonObject = {"tools": ["tools.py"], "concurrency": max(2 * SLOTS, sum(slots))}
    if slots:
        settings["fleet"] = {"tools": ["*"], "heartbeat": HEARTBEAT}
    (site / "tools.py").write_text(TOOLS, encoding="utf-8")
    (site / "wavewright.yaml").write_text(json.dumps(settings), encoding="utf-8")
    workers = [_worker(site, number, count) for number, count in enumerate(slots)]
    try:
        async with Wavewright.from_project(site) as ww:
            # The first run imports what the others use.
            await _seconds(ww, "nothing", 1)
            yield ww, workers
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
            worker.wait()


def _worker(folder: Path, number: int, slots: int) -> RunningCommand:
    log = folder / f"worker-{number}.log"
    log.unlink(missing_ok=True)
    worker = new_process(["worker", "--slots", str(slots)], folder, os.environ, log)
    while not log.exists() or "worker_started" not in log.read_text(encoding="utf-8"):
        time.sleep(0.1)  # noqa: TID251 - another process is waited for
    return worker
