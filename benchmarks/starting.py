"""How long the command line takes to start, beside an empty interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.engine import ADD
from benchmarks.measure import show_table
from benchmarks.shapes import layered, plan_of

TURNS = 9


def measure_starting() -> None:
    """Print the start-up times of the most common commands."""
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        plan, tools = Path(folder) / "plan.json", Path(folder) / "tools.json"
        made = plan_of(layered(20, 5)).model_copy(update={"result": "${steps.s19}"})
        plan.write_text(
            made.model_dump_json(by_alias=True, exclude_defaults=True), encoding="utf-8"
        )
        tools.write_text(json.dumps([ADD.model_dump(mode="json", by_alias=True)]), encoding="utf-8")
        program = [sys.executable, "-m", "wavewright.engine.main"]
        job = str(Path(folder) / "mine" / "plans" / "words.job.yaml")
        subprocess.run(  # noqa: S603
            [*program, "init", str(Path(folder) / "mine")], check=True, capture_output=True
        )
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "wavewright --version": [*program, "--version"],
            "wavewright --help": [*program, "--help"],
            "wavewright check, 20 steps": [*program, "check", str(plan), "--tools", str(tools)],
            "wavewright check JOB": [*program, "check", job],
            "wavewright run JOB": [*program, "run", job],
        }
        where = Path(folder) / "mine"
        best = {name: float("inf") for name in commands}
        codes = dict.fromkeys(commands, 0)
        for _ in range(TURNS):
            for name, command in commands.items():
                start = time.perf_counter()
                codes[name] = subprocess.run(  # noqa: S603 - our own commands
                    command, cwd=where, check=False, capture_output=True
                ).returncode
                best[name] = min(best[name], time.perf_counter() - start)
    floor = best["python -c pass"]
    rows = [
        [name, seconds * 1000, seconds / floor]
        if codes[name] == 0
        else [name, f"exit code {codes[name]}", "-"]
        for name, seconds in best.items()
    ]
    show_table("Start-up, ms", ["command", "best", "times an empty interpreter"], rows)
