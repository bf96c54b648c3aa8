"""The job that makes a graph of the notes that come with the project, without a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import REPOSITORY, CommandLine

pytest.importorskip("selectolax")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return (
        shutil.copytree(REPOSITORY / "plans" / "knowledge", tmp_path / "knowledge")
        / "folder.job.yaml"
    )


def run(wavewright: CommandLine, job: Path, out: Path) -> dict[str, Any]:
    done = wavewright("run", str(job), "--output", str(out))
    assert done.code == 0, done.out + done.err
    [file] = out.glob("*/package.json")
    package: dict[str, Any] = json.loads(file.read_text())
    return package


def item_states(wavewright: CommandLine, package: dict[str, Any]) -> list[str]:
    """Return how the call for each chunk ended."""
    told = wavewright("show", package["run"], "--format", "events").out.splitlines()
    events = (json.loads(line) for line in told)
    return [event["status"] for event in events if event.get("kind") == "item_finished"]


def test_a_folder_becomes_a_graph_and_a_second_run_extracts_only_what_has_changed(
    wavewright: CommandLine, tmp_path: Path, job: Path
) -> None:
    first = run(wavewright, job, tmp_path / "first")
    again = run(wavewright, job, tmp_path / "again")
    changed = job.parent / "notes" / "collision.txt"
    told = (
        "Tobias Renn saw it from the pier.",
        "Kittiwake carries 40 people.",
        "Kittiwake carries 60 people.",
    )
    changed.write_text("\n\n".join((changed.read_text(), *told)))
    third = run(wavewright, job, tmp_path / "third")

    assert first["status"] == again["status"] == "achieved"
    assert (first["warnings"], first["conflicts"], third["warnings"]) == ([], [], [])
    [conflict] = third["conflicts"]
    assert conflict["subject"] == "Kittiwake"
    assert [one["value"] for one in conflict["values"]] == [*told[1:]]
    assert first["review"]["confidence"] == again["review"]["confidence"] == 0.6
    assert first["result"]["counts"] == again["result"]["counts"]
    assert first["result"]["counts"]["relations"] >= 12
    assert again["result"]["difference"]["added"] == again["result"]["difference"]["removed"] == []
    assert item_states(wavewright, first) == ["ok"] * 7
    assert item_states(wavewright, again) == ["reused"] * 7
    assert sorted(item_states(wavewright, third)) == ["ok"] + ["reused"] * 6
    changed.unlink()
    fourth = run(wavewright, job, tmp_path / "fourth")
    assert fourth["result"]["counts"]["observations"] < third["result"]["counts"]["observations"]
    report = next((tmp_path / "first").glob("*/report.html")).read_text()
    assert "Ines Varga commands Kittiwake on the winter run." in report
