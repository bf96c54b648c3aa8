"""What a journaled step costs in PostgreSQL beside the same in a SQLite file."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import asyncpg

from benchmarks.engine import run_engine
from benchmarks.measure import MICROSECOND, show_table
from benchmarks.overhead import journaled_seconds
from benchmarks.shapes import SHAPES, plan_of
from tests.support.postgres import NoServer, PostgresServer, serving
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import RunId

TURNS = 5

_runs = itertools.count()


def measure_postgres(sizes: tuple[int, ...]) -> None:
    """Print the cost of a step with each journal, and one commit of a server on the same disk that
    syncs.
    """
    try:
        with serving(syncs=True) as server:
            rows = [_row(server, name, size) for name in SHAPES for size in sizes]
    except NoServer as reason:
        print(f"\nNot measured: {reason}.")
        return
    show_table(
        "Overhead journaled in PostgreSQL (synchronous_commit = on) beside SQLite, µs a step",
        [
            "shape",
            "steps",
            "SQLite, median",
            "PostgreSQL, best",
            "PostgreSQL, median",
            "ratio",
            "one commit, median",
            "steps a second",
        ],
        rows,
    )


def _row(server: PostgresServer, name: str, size: int) -> list[object]:
    plan = plan_of(SHAPES[name](size))
    graph = PlanGraph.of(plan)
    near, far, commits = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        url = server.database()
        # In turns: what a commit takes changes with whatever else the disk has to do.
        for turn in range(TURNS):
            _, seconds = asyncio.run(journaled_seconds(plan, graph, Path(folder, f"{turn}.db")))
            near.append(seconds / size)
            far.append(asyncio.run(_seconds(plan, graph, url)) / size)
            commits.append(asyncio.run(_commit_seconds(url)))
    ratios = [there / here for there, here in zip(far, near, strict=True)]
    return [
        name,
        size,
        statistics.median(near) / MICROSECOND,
        min(far) / MICROSECOND,
        statistics.median(far) / MICROSECOND,
        statistics.median(ratios),
        statistics.median(commits) / MICROSECOND,
        round(1 / statistics.median(far)),
    ]


async def _seconds(plan: Plan, graph: PlanGraph, url: str) -> float:
    run = RunId(f"bench_{next(_runs)}")
    async with PostgresJournal(url) as journal:
        await journal.open_run(run)
        started = time.perf_counter()
        await run_engine(plan, graph=graph, run=run, journal=journal)
        return time.perf_counter() - started


async def _commit_seconds(url: str, commits: int = 200) -> float:
    """Return the seconds of one statement that inserts one row, on a connection of its own."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE IF NOT EXISTS bench (body text)")
    started = time.perf_counter()
    for _ in range(commits):
        await connection.execute("INSERT INTO bench VALUES ($1)", "x" * 250)
    seconds = (time.perf_counter() - started) / commits
    await connection.close()
    return seconds
