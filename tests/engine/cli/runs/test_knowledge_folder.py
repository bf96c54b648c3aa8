"""The job that makes a graph of the notes that come with the project, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import REPOSITORY, CommandLine

pytest.importorskip("selectolax")

JOB = REPOSITORY / "plans" / "knowledge" / "folder.job.yaml"


def test_a_folder_becomes_records_and_a_second_run_calls_nothing(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    first = wavewright("run", str(JOB), "--output", str(tmp_path / "first"))
    again = wavewright("run", str(JOB), "--output", str(tmp_path / "again"))

    assert (first.code, again.code) == (0, 0), first.err + again.err
    [one] = (tmp_path / "first").glob("*/package.json")
    [two] = (tmp_path / "again").glob("*/package.json")
    before, after = json.loads(one.read_text()), json.loads(two.read_text())
    assert before["status"] == "achieved"
    assert before["result"] == after["result"]
    assert before["review"]["confidence"] == after["review"]["confidence"] == 0.6
    events = [
        json.loads(line) for line in wavewright("show", after["run"], "--format", "events").out.splitlines()
    ]
    items = [event for event in events if event.get("kind") == "item_finished"]
    assert len(items) == 7
    assert {item["status"] for item in items} == {"reused"}
