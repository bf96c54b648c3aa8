"""What the engine adds to code that reads chunks: a run over a folder, beside the bare loop over
its chunks.

Times are those of the processor, all threads together, so that other load on the machine counts
little. Each run is in a process of its own, because the peak of a process's memory never comes down
again.
"""

from __future__ import annotations

import datetime as dt
import gc
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
from wavewright.engine import Wavewright
from wavewright.engine.main import GC_THRESHOLD
from wavewright.executor.events.types import StepFinished
from wavewright.packs.extraction.prose import ProseSettings, prose_reader
from wavewright.packs.knowledge.documents import read_documents_tool
from wavewright.packs.knowledge.generation import generate_records, least_records
from wavewright.packs.knowledge.models import Chunk
from wavewright.packs.knowledge.settings import KnowledgeSettings
from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.functions.tool import ToolCall

PROSE = prose_reader(ProseSettings().model)

SIZES = (250, 1_000)


def measure_knowledge() -> None:
    """Print the time of a chunk in whole runs, in their step and in the bare loop, and the peak
    memory of the runs.
    """
    rows: list[list[object]] = []
    for size in SIZES:
        printed = subprocess.run(  # noqa: S603 - this very module
            [sys.executable, "-m", "benchmarks.knowledge", str(size)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        found = json.loads(printed.splitlines()[-1])
        bare, step, run = found["bare"], found["step"], found["run"]
        rows.append(
            [
                size,
                f"{1000 * bare / size:.2f}",
                f"{1000 * step / size:.2f}",
                f"{1000 * run / size:.2f}",
                f"{step / bare:.2f}",
                f"{size / step:.0f}",
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
            "chunks a second, step",
            "MB at the peak",
        ],
        rows,
    )


async def _run(job: str) -> dict[str, float]:
    """Run a job; return when its steps ended, in seconds of the processor."""
    ended: dict[str, float] = {}
    async with Wavewright.from_project() as wavewright:
        async for event in wavewright.stream(job):
            if isinstance(event, StepFinished):
                assert event.status != "failed", event.error
                ended[event.step] = time.process_time()
    return ended


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
        gc.set_threshold(GC_THRESHOLD)
        before = _bare(folder, size)
        started = time.process_time()
        ended = anyio.run(_run, "notes.job.yaml")
        run = time.process_time() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        bare = (before + _bare(folder, size)) / 2
        os.chdir("/")
        # The steps run one after the other: a fan-out starts when the documents are read.
        step = ended["records"] - ended["documents"]
        return {"bare": bare, "step": step, "run": run, "peak": peak}


def _bare(folder: Path, size: int) -> float:
    """Return the seconds of the processor that the loop over the chunks takes."""
    read = read_documents_tool(KnowledgeSettings(documents="notes"), folder)
    request = ToolCall(
        RunId("run"),
        StepId("step"),
        "read",
        {"folder": "."},
        StepKey("key"),
        dt.datetime.now(dt.UTC),
    )
    found = cast("JsonObject", anyio.run(read.call, request))
    chunks = [Chunk.model_validate(one) for one in cast("list[Json]", found["chunks"])]
    assert len(chunks) == size
    started = time.process_time()
    for chunk in chunks:
        (generate_records(chunk, PROSE) or least_records(chunk)).model_dump(mode="json")
    return time.process_time() - started


def _note(number: int) -> str:
    """Return a note of about 1,500 characters, of which a third of the sentences name something."""
    lines = [
        f"Boat {number} is a boat of the Skerry Line. Keeper {number} commands Boat {number} every winter.",
        f"Boat {number} lies north of Harbour {number % 40}. Harbour {number % 40} is a harbour of the coast.",
        "It is said that the weather was worse in the years before, and that nobody minded it much.",
    ]
    return f"# Boat {number}\n\n" + "\n\n".join(
        f"{line} ({part})" for part in range(5) for line in lines
    )


if __name__ == "__main__":
    print(json.dumps(_measured(int(sys.argv[1]))))
