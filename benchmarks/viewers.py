"""The live page: drawings of large runs, and two hundred viewers of one busy run.

Run, page and viewers are processes of their own. The run is made in turns without and with viewers.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.measure import best_of_calls, show_table
from wavewright.engine import Wavewright
from wavewright.reviewer import Package
from wavewright.reviewer.report.page import render_run

VIEWERS = 200
TURNS = 3
STEPS, ITEMS = 10, 1_000
"""Of the busy run, whose steps follow each other; each item is a call and an event."""
WIDE = 40
"""Steps of a wave of the runs that are drawn."""
_TOKEN = "token-of-the-benchmark"  # noqa: S105 - of a page that lives as long as the benchmark
_TOOLS = "async def tick(number: int) -> int:\n    return number\n"
_RUN = """
import sys
from wavewright.engine import Wavewright

assert Wavewright.from_project(".").run_sync("busy.plan.yaml", run=sys.argv[1]).status == "achieved"
"""
_VIEWERS = """
import asyncio, sys

async def follow(port, run):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((f"GET /runs/{run}/stream HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n"
                  f"Authorization: Bearer TOKEN\\r\\n\\r\\n").encode())
    while await reader.read(1 << 20):
        pass
    writer.close()

async def main():
    await asyncio.gather(*(follow(int(sys.argv[1]), sys.argv[2]) for _ in range(int(sys.argv[3]))))

asyncio.run(main())
"""


def tick(number: int) -> int:
    """Return a number."""
    return number


def measure_viewers() -> None:
    """Print how long large runs take to draw, and what viewers cost a run and the page."""
    rows: list[list[object]] = []
    for steps in (40, 1_000, 10_000):
        package = asyncio.run(_package(steps))
        seconds = best_of_calls(TURNS, partial(render_run, package))
        rows.append([f"{steps:,}", seconds * 1000, len(render_run(package)) / 1024])
    show_table(
        f"A run as a page, best of {TURNS}; more than 1,000 steps are folded",
        ["steps", "ms", "KiB"],
        rows,
    )
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        _measure_busy_run(Path(folder))


async def _package(steps: int) -> Package:
    """Return the package of a real run, whose steps read one of the wave before."""
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        async with Wavewright(tools=[tick], journal=Path(folder, "runs.db")) as ww:
            items = [
                {
                    "id": f"s{number}",
                    "tool": "tick",
                    "params": {
                        "number": number if number < WIDE else f"${{steps.s{number - WIDE}}}"
                    },
                }
                for number in range(steps)
            ]
            file = Path(folder, "large.json")
            limits = {"max_steps": steps, "max_waves": steps}
            plan = {"version": 1, "steps": items, "result": "${steps.s0}"}
            job = {"name": "large", "overrides": {"limits": limits}, "plan": plan}
            file.write_text(json.dumps(job))  # noqa: ASYNC240 - nothing else is waiting
            return (await ww.run(file)).package


def _measure_busy_run(folder: Path) -> None:
    (folder / "wavewright.yaml").write_text("tools: [tools.py]\n")
    (folder / "tools.py").write_text(_TOOLS)
    steps = [
        {
            "id": f"s{number}",
            "tool": "tick",
            "for_each": [*range(ITEMS)],
            "params": {"number": "${item}"},
            **({"depends_on": [f"s{number - 1}"]} if number else {}),
        }
        for number in range(STEPS)
    ]
    plan = {"version": 1, "steps": steps, "result": "${steps.s0}"}
    (folder / "busy.plan.yaml").write_text(json.dumps(plan))
    seconds: dict[int, list[float]] = {0: [], VIEWERS: []}
    memory: list[float] = []
    with _page(folder) as (page, port):
        for turn in range(TURNS):
            for viewers, found in seconds.items():
                taken, seen = _timed_run(folder, port, page, f"busy-{turn}-{viewers}", viewers)
                found.append(taken)
                memory += seen
    alone, watched = (min(found) for found in seconds.values())
    show_table(
        f"A run of {STEPS * ITEMS:,} calls, best of {TURNS}",
        ["viewers", "seconds", "ratio"],
        [[0, alone, 1.0], [VIEWERS, watched, watched / alone]],
    )
    quarters = [
        memory[len(memory) * part // 4 : len(memory) * (part + 1) // 4] for part in range(4)
    ]
    show_table(
        f"RSS of the page, MiB, in the quarters of {TURNS * STEPS * ITEMS:,} events with {VIEWERS} viewers",
        ["first", "second", "third", "fourth"],
        [[max(quarter, default=0.0) for quarter in quarters]],
    )


@contextmanager
def _page(folder: Path) -> Generator[tuple[int, int]]:
    """Yield the process and the port of the page."""
    environment = {**os.environ, "WAVEWRIGHT_VIEW_TOKEN": _TOKEN}
    command = [sys.executable, "-m", "wavewright.engine.main", "view", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(  # noqa: S603 - our own command line
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as page:
        assert page.stdout is not None
        try:
            printed = ""
            while not (found := re.search(r"127\.0\.0\.1:(\d+)", printed)):
                line = page.stdout.readline()
                assert line, printed
                printed += line
            yield page.pid, int(found[1])
        finally:
            page.kill()


def _timed_run(
    folder: Path, port: int, page: int, run: str, viewers: int
) -> tuple[float, list[float]]:
    """Return the seconds of a run, and the memory of the page while it was watched."""
    program = _VIEWERS.replace("TOKEN", _TOKEN)
    memory: list[float] = []
    watching = subprocess.Popen([sys.executable, "-c", program, str(port), run, str(viewers)])  # noqa: S603 - above
    try:
        time.sleep(1.0)  # noqa: TID251 - viewers connect
        began = time.perf_counter()
        with subprocess.Popen([sys.executable, "-c", _RUN, run], cwd=folder) as running:  # noqa: S603
            while running.poll() is None:
                if viewers:
                    memory.append(_resident(page))
                time.sleep(0.02)  # noqa: TID251 - the run is a process of its own
        assert running.returncode == 0, running.returncode
        return time.perf_counter() - began, memory
    finally:
        watching.kill()
        watching.wait()


def _resident(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0
