"""Timing and tables.

Whatever is compared is measured in turns within one process, and the best of the turns counts:
other work on the machine can make a turn slower but never quicker, and it meets both sides alike.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence

MICROSECOND = 1e-6


def best_of(turns: int, *candidates: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the best processor time of each candidate, in seconds; they take turns."""
    best = [float("inf")] * len(candidates)
    for _ in range(turns):
        for number, candidate in enumerate(candidates):
            best[number] = min(best[number], asyncio.run(_timed(candidate)))
    return best


def best_of_calls(
    turns: int, candidate: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the best time of a plain call, in seconds, by a clock."""
    best = float("inf")
    for _ in range(turns):
        gc.collect()
        start = clock()
        candidate()
        best = min(best, clock() - start)
    return best


async def _timed(candidate: Callable[[], Awaitable[object]]) -> float:
    gc.collect()
    start = time.process_time()
    await candidate()
    return time.process_time() - start


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "|".join(" --- " for _ in columns) + "|")
    for row in rows:
        print("| " + " | ".join(_cell(value) for value in row) + " |", flush=True)


def _cell(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
