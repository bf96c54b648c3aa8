"""A plan of a hundred thousand steps: what one costs, and what all of them weigh.

Runs in a process of its own, because the peak of a process's memory never comes down again.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measure import MICROSECOND, show_table
from benchmarks.shapes import SHAPES

SMALL, HUGE = 1_000, 100_000
SMALL_TURNS, HUGE_TURNS = 20, 3


def measure_huge() -> None:
    """Print cost and peak memory for each shape."""
    rows: list[list[object]] = []
    for name in SHAPES:
        printed = subprocess.run(  # noqa: S603 - this very module
            [sys.executable, "-m", "benchmarks.huge", name],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        found = json.loads(printed)
        rows.append(
            [
                name,
                found["small"],
                found["huge"],
                found["huge"] / found["small"],
                found["imports"],
                found["plan"],
                found["peak"],
                found["peak"] - found["plan"],
            ]
        )
    show_table(
        f"{HUGE:,} steps in memory",
        [
            "shape",
            f"µs a step of {SMALL:,}",
            f"µs a step of {HUGE:,}",
            "ratio",
            "MB after imports",
            "MB with the plan and its graph",
            "MB at the peak",
            "of them the run",
        ],
        rows,
    )


def peak_megabytes() -> float:
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():
        # What `getrusage` tells a child on Linux may be its parent's peak.
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def seconds_a_step(shape: str, size: int, turns: int) -> tuple[float, float, float]:
    """Return the seconds of one step, best of some turns, and the peak of memory before and after
    the first.
    """
    from benchmarks.engine import run_engine
    from benchmarks.shapes import plan_of
    from wavewright.planner.plans.graph import PlanGraph

    plan = plan_of(SHAPES[shape](size))
    graph = PlanGraph.of(plan)
    before, after, best = peak_megabytes(), 0.0, float("inf")
    for _ in range(turns):
        gc.collect()
        start = time.perf_counter()
        asyncio.run(run_engine(plan, graph=graph))
        best = min(best, time.perf_counter() - start)
        after = after or peak_megabytes()
    return best / size, before, after


def main(shape: str) -> None:
    """Measure one shape and print it as JSON."""
    small, _, imports = seconds_a_step(shape, SMALL, SMALL_TURNS)
    huge, plan, peak = seconds_a_step(shape, HUGE, HUGE_TURNS)
    found = {"small": small / MICROSECOND, "huge": huge / MICROSECOND}
    print(json.dumps({**found, "imports": imports, "plan": plan, "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1])
