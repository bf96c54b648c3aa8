"""The live page: pages of the list of runs over 100,000 of them, in a file and in a database."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TypedDict

import asyncpg

from benchmarks.measure import show_table
from tests.support.postgres import NoServer, serving
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store import run_queries
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner.types import RunId

RUNS = 100_000
TIMES = 9

_RUNS = """
    INSERT INTO run (run, job, created, finished, status, steps, ok, failed)
    SELECT 'run-' || n, CASE n % 1000 WHEN 4 THEN 'rare job ' ELSE 'common job ' END || n, n, n + 1,
           CASE n % 500 WHEN 3 THEN 'failed' ELSE 'achieved' END, 5, 5, 0
    FROM {numbers} ORDER BY n"""
_LABELS = """
    INSERT INTO run_label (kind, value, run)
    SELECT 'template', 'common', no FROM run UNION ALL
    SELECT 'gate', 'rare', no FROM run WHERE no % 2000 = 5 UNION ALL
    SELECT 'model', 'model_' || (no % 3), no FROM run UNION ALL
    SELECT 'tag', 'tag_' || (no % 20), no FROM run"""


class RunFilter(TypedDict, total=False):
    """By what the list is filtered."""

    text: str
    status: str
    labels: Sequence[tuple[str, str]]
    before: RunId


QUESTIONS: Mapping[str, RunFilter] = {
    "all, newest": {},
    "all, from the middle": {"before": RunId(f"run-{RUNS // 2}")},
    "status failed": {"status": "failed"},
    "not ended, none": {"status": "interrupted"},
    "template": {"labels": [("template", "common")]},
    "gate, rare": {"labels": [("gate", "rare")]},
    "gate, none": {"labels": [("gate", "unknown")]},
    "tag and model": {"labels": [("tag", "tag_4"), ("model", "model_1")]},
    "template and failed": {"labels": [("template", "common")], "status": "failed"},
    "tag and text": {"labels": [("tag", "tag_4")], "text": "rare job"},
    "text, rare": {"text": "rare job"},
    "text, none": {"text": "there is no such job"},
}


def measure_viewing() -> None:
    """Print how long each page of the list of runs takes."""
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        near = asyncio.run(_sqlite(Path(folder, "runs.db")))
    far = dict[str, float]()
    try:
        with serving() as server:
            far = asyncio.run(_postgres(server.database()))
    except NoServer as reason:
        print(f"\nPostgreSQL is not measured: {reason}.")
    show_table(
        f"A page of the list of {RUNS:,} runs, ms (median of {TIMES})",
        ["filter", "SQLite", "PostgreSQL"],
        [[name, near[name] * 1000, far.get(name, float("nan")) * 1000] for name in QUESTIONS],
    )


async def _sqlite(path: Path) -> dict[str, float]:
    async with SqliteJournal(path):
        pass
    numbers = f"(WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {RUNS}) SELECT n FROM c)"  # noqa: S608
    with sqlite3.connect(path) as connection:
        connection.execute(_RUNS.format(numbers=numbers))
        connection.execute(_LABELS)
    async with SqliteJournal(path) as journal:
        return await _times(journal)


async def _postgres(url: str) -> dict[str, float]:
    async with PostgresJournal(url) as journal:
        await journal.list_runs()
        connection = await asyncpg.connect(url)
        await connection.execute("SET search_path TO wavewright")
        await connection.execute(_RUNS.format(numbers=f"generate_series(1, {RUNS}) AS n"))
        await connection.execute(_LABELS)
        await connection.execute("ANALYZE")
        await connection.close()
        return await _times(journal)


async def _times(journal: StoredJournal) -> dict[str, float]:
    return {
        name: median([await _seconds(journal, asked) for _ in range(TIMES)])
        for name, asked in QUESTIONS.items()
    }


async def _seconds(journal: StoredJournal, asked: RunFilter) -> float:
    started = time.perf_counter()
    await journal.read(
        lambda transaction: run_queries.list_newest_runs(transaction, **asked, limit=50)
    )
    return time.perf_counter() - started
