"""What the engine adds to code that reads chunks: a run over a folder, beside the bare loop over its chunks.

Each run is in a process of its own, because the peak of a process's memory never comes down again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

import anyio

from benchmarks.measure import show_table
from wavewright.engine.main import main
from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.functions.tool import ToolCall
from wavewright.tools.knowledge.documents import read_documents_tool
from wavewright.tools.knowledge.generation import generate_records, least_records
from wavewright.tools.knowledge.models import Chunk
from wavewright.tools.knowledge.settings import KnowledgeSettings

SIZES = (250, 1_000)


def measure_knowledge() -> None:
    """Print chunks a second of whole runs and of the bare loop, and the peak memory of the runs."""
    rows: list[list[object]] = []
    for size in SIZES:
        told = subprocess.run(  # noqa: S603 - this very module
            [sys.executable, "-m", "benchmarks.knowledge", str(size)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        found = json.loads(told.splitlines()[-1])
        bare, step, run = found["bare"], found["step"], found["run"]
        rows.append(
            [
                size,
                f"{1000 * bare / size:.2f}",
                f"{1000 * step / size:.2f}",
                f"{1000 * run / size:.2f}",
                f"{step / bare:.1f}",
                f"{found['peak']:.0f}",
            ]
        )
    show_table(
        "A folder to a graph, without a model",
        [
            "chunks",
            "ms a chunk, bare loop",
            "ms a chunk, step extract_chunk",
            "ms a chunk, whole run",
            "step ÷ bare",
            "MB at the peak",
        ],
        rows,
    )


def _measured(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "notes").mkdir()
        for number in range(size):
            (folder / "notes" / f"boat-{number:04}.md").write_text(_note(number), encoding="utf-8")
        settings = {"packs": {"knowledge": {"documents": "notes", "graph": {"path": "graph.db"}}}}
        (folder / "wavewright.yaml").write_text(json.dumps(settings))
        job = {"name": "notes", "goal_template": "knowledge_graph", "inputs": {"folder": "."}}
        (folder / "notes.job.yaml").write_text(json.dumps(job))
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        os.chdir(folder)
        started = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.redirect_stderr(told):
            assert main(["run", "notes.job.yaml", "--json", "--output", "out"]) == 0, told.getvalue()
        run = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        events = [json.loads(line) for line in told.getvalue().splitlines() if line.startswith('{"kind"')]
        ends = [event for event in events if event["kind"] == "step_finished"]
        step = next(event["seconds"] for event in ends if event["step"] == "records")
        os.chdir("/")
        read = read_documents_tool(KnowledgeSettings(documents="notes"), folder)
        request = ToolCall(
            RunId("run"), StepId("step"), "read", {"folder": "."}, StepKey("key"), dt.datetime.now(dt.UTC)
        )
        found = cast("JsonObject", anyio.run(read.call, request))
        chunks = [Chunk.model_validate(one) for one in cast("list[Json]", found["chunks"])]
        assert len(chunks) == size
        started = time.perf_counter()
        for chunk in chunks:
            (generate_records(chunk) or least_records(chunk)).model_dump(mode="json")
        return {"bare": time.perf_counter() - started, "step": step, "run": run, "peak": peak}


def _note(number: int) -> str:
    """Return a note of about 1,500 characters, of which a third of the sentences name something."""
    lines = [
        f"Boat {number} is a boat of the Skerry Line. Keeper {number} commands Boat {number} every winter.",
        f"Boat {number} lies north of Harbour {number % 40}. Harbour {number % 40} is a harbour of the coast.",
        "It is said that the weather was worse in the years before, and that nobody minded it much.",
    ]
    return f"# Boat {number}\n\n" + "\n\n".join(f"{line} ({part})" for part in range(5) for line in lines)


if __name__ == "__main__":
    print(json.dumps(_measured(int(sys.argv[1]))))
