"""A run over notes is killed while its model reads a chunk; it goes on there, and no answer is
asked for twice.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.run_size import IS_WHOLE, volume
from tests.engine.conftest import CommandLine
from tests.engine.model_runs.knowledge_project import (
    CREWS,
    FLEET,
    READING,
    REVIEW,
    Notes,
    boat_of,
    records_of,
)
from wavewright.engine.rehearsal.fake_model.replies import AnswerLike, silence
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for

pytest.importorskip("selectolax")
pytestmark = pytest.mark.timeout(volume(60, 300))


class Killer:
    """Answers questions about notes, and kills the run that asks about one of these boats for the
    first time.
    """

    def __init__(self, boats: Sequence[str]) -> None:
        self._boats = [*boats]
        self.running: subprocess.Popen[str] | None = None

    def __call__(self, request: FakeModelRequest) -> AnswerLike:
        boat = boat_of(request)
        assert boat is not None
        if boat not in self._boats:
            return records_of(boat)
        self._boats.remove(boat)
        assert self.running is not None
        self.running.kill()
        return silence()

    def run(self, folder: Path, *arguments: str) -> int:
        """Run a command in a process of its own; return how it ended."""
        command = [sys.executable, "-m", "wavewright.engine.main", *arguments]
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as self.running:
            _, told = self.running.communicate(timeout=60)
        assert "Traceback" not in told
        return self.running.returncode


def facts(package: dict[str, Any]) -> tuple[Any, list[Any], list[Any]]:
    """Return what a graph holds."""
    [document] = package["documents"]
    graph = document["content"]["graph"]
    return package["result"]["counts"], graph["nodes"], graph["edges"]


KILLS: Final = [*([boat] for boat in CREWS), [*CREWS]] if IS_WHOLE else [["Petrel"]]


@pytest.mark.parametrize("boats", KILLS, ids="-".join)
def test_a_killed_run_goes_on_at_the_chunk_that_it_was_killed_in(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    boats: list[str],
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    killer = Killer(boats)
    model_server.answer(REVIEW, when=asked_for("review"))
    model_server.answer(killer, when=READING)
    notes = Notes(tmp_path, wavewright, FLEET)
    job = notes.write_job("knowledge_graph")

    ended = killer.run(tmp_path, "run", str(job), "--output", "out")
    [run] = json.loads(wavewright("runs", "--format", "json").out)
    for _ in boats:
        assert ended == -signal.SIGKILL
        ended = killer.run(tmp_path, "resume", run["run"], "--output", "out")
    package = notes.take_package()
    asked = Counter(boat_of(one) for one in model_server.requests if READING in one.text)

    assert ended == os.EX_OK
    assert asked == {boat: 1 + boats.count(boat) for boat in CREWS}
    whole = tmp_path / "whole"
    whole.mkdir()
    monkeypatch.chdir(whole)
    assert facts(package) == facts(Notes(whole, wavewright, FLEET).run("knowledge_graph"))


def test_a_run_that_is_killed_while_it_writes_the_graph_writes_it_once(
    tmp_path: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes(tmp_path, wavewright, FLEET)
    first = notes.run("knowledge_graph")
    (tmp_path / "notes" / "petrel.md").unlink()
    job = notes.write_job("knowledge_graph")
    command = [
        sys.executable,
        "-m",
        "wavewright.engine.main",
        "run",
        str(job),
        "--json",
        "--output",
        "out",
    ]

    # The write waits for this lock, and never gets it.
    with closing(sqlite3.connect(tmp_path / "graph.db", isolation_level=None)) as graph:
        graph.execute("BEGIN IMMEDIATE")
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            assert any(is_start_of_write(line) for line in running.stdout)
            running.kill()
    killed = json.loads(wavewright("runs", "--format", "json").out)[0]
    ended = wavewright("resume", killed["run"], "--output", "out")
    package = notes.take_package()

    assert running.returncode == -signal.SIGKILL
    assert ended.code == os.EX_OK
    whole = tmp_path / "whole"
    whole.mkdir()
    monkeypatch.chdir(whole)
    kept = Notes(whole, wavewright, FLEET)
    (whole / "notes" / "petrel.md").unlink()
    assert facts(package) == facts(kept.run("knowledge_graph"))
    assert facts(package) != facts(first)
    assert package["result"]["difference"]["removed"]


def is_start_of_write(line: str) -> bool:
    event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    return (event.get("kind"), event.get("step")) == ("step_started", "graph")
