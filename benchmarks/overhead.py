"""What a step costs beside its own work: in memory, and with every event on the disk."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.bare import run_bare
from benchmarks.engine import run_engine
from benchmarks.measure import MICROSECOND, best_of, best_of_calls, show_table
from benchmarks.shapes import SHAPES, layered, plan_of
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.planner.language.plan import Plan
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import RunId

JOURNALED_TURNS = 7

_runs = itertools.count()


def measure_memory(sizes: tuple[int, ...]) -> None:
    """Print the cost of a step in memory beside the bare executor's."""
    rows: list[list[object]] = []
    cases = [(name, make, False) for name, make in SHAPES.items()]
    for name, make, in_lists in [*cases, ("layered, references in lists", layered, True)]:
        for size in sizes:
            shape = make(size)
            plan = plan_of(shape, in_lists=in_lists)
            graph = PlanGraph.of(plan)
            turns = 15 if size <= 1000 else 3
            bare, engine, whole = (
                seconds / size / MICROSECOND
                for seconds in best_of(
                    turns,
                    partial(run_bare, shape),
                    partial(run_engine, plan, graph=graph),
                    partial(_run_from_text, plan),
                )
            )
            rows.append([name, size, bare, engine, engine / bare, whole, whole / bare])
    show_table(
        "Overhead in memory, µs of processor time a step",
        [
            "shape",
            "steps",
            "bare asyncio",
            "engine",
            "ratio",
            "with the graph from the plan's text",
            "ratio",
        ],
        rows,
    )


async def _run_from_text(plan: Plan) -> None:
    # A plan has one graph for as long as it is there; its copy has none yet.
    await run_engine(plan.model_copy())


def measure_journaled(sizes: tuple[int, ...]) -> None:
    """Print the cost of a step with a synced SQLite journal, beside one commit of the same disk."""
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        for name, make in SHAPES.items():
            for size in sizes:
                plan = plan_of(make(size))
                graph = PlanGraph.of(plan)
                opening, engine, commits = list[float](), list[float](), list[float]()
                # In turns: what a commit takes changes with whatever else the disk has to do.
                for turn in range(JOURNALED_TURNS):
                    path = Path(folder) / f"{name}-{size}-{turn}"
                    before = commit_seconds(path.with_suffix(".before"))
                    opened, ran = asyncio.run(
                        journaled_seconds(plan, graph, path.with_suffix(".db"))
                    )
                    after = commit_seconds(path.with_suffix(".after"))
                    opening.append(opened)
                    engine.append(ran / size)
                    commits.append((before + after) / 2)
                ratios = [step / commit for step, commit in zip(engine, commits, strict=True)]
                rows.append(
                    [
                        name,
                        size,
                        min(engine) / MICROSECOND,
                        statistics.median(engine) / MICROSECOND,
                        statistics.median(commits) / MICROSECOND,
                        statistics.median(ratios),
                        statistics.median(opening) * 1000,
                    ]
                )
    show_table(
        "Overhead journaled (SQLite, WAL, synchronous=FULL), µs a step",
        [
            "shape",
            "steps",
            "engine, best",
            "engine, median",
            "one commit, median",
            "commits' time a step",
            "opening a run, ms",
        ],
        rows,
    )


async def journaled_seconds(plan: Plan, graph: PlanGraph, path: Path) -> tuple[float, float]:
    """Return the seconds of opening a new file and a run in it, and of the run's steps."""
    run = RunId(f"bench_{next(_runs)}")
    start = time.perf_counter()
    async with SqliteJournal(path) as journal:
        await journal.open_run(run)
        opened = time.perf_counter()
        await run_engine(plan, graph=graph, run=run, journal=journal)
        return opened - start, time.perf_counter() - opened


def commit_seconds(path: Path, commits: int = 300) -> float:
    """Return the seconds of one commit of one row with the journal's own settings."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("create table row (body text)")

    def write() -> None:
        for _ in range(commits):
            connection.execute("begin immediate")
            connection.execute("insert into row values (?)", ("x" * 250,))
            connection.execute("commit")

    seconds = best_of_calls(1, write)
    connection.close()
    return seconds / commits
