"""The job that researches a zone of the world that comes with the project, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import REPOSITORY, CommandLine
from wavewright.planner.types import Json, JsonObject

pytest.importorskip("selectolax")

JOB = REPOSITORY / "plans" / "lore" / "one_zone.job.yaml"


def test_one_command_researches_a_zone_from_nothing(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    done = wavewright("run", str(JOB), "--output", str(tmp_path))

    [folder] = tmp_path.iterdir()
    package = json.loads((folder / "package.json").read_text())
    found = package["result"]
    assert done.code == 0
    assert package["status"] == "achieved"
    assert found["zone_data"]["level_range"] == {"min": 8, "max": 16}
    assert [npc["name"] for npc in found["npcs"] if npc["zone_id"]] == ["Corin Marr", "Sela Thrupp"]
    assert {one["data_point"] for one in found["conflicts"]} == {
        "Harrow Fen: level_range",
        "Fen Runners: inter_faction ashen_company",
    }
    assert all(
        record["sources"] for record in (found["zone_data"], *found["npcs"], *found["factions"])
    )
    assert "Golden Hand" not in json.dumps(found)
    report = (folder / "report.html").read_text()
    assert 'aria-label="Relations: Harrow Fen"' in report
    assert "Corin Marr belongs to Fen Runners" in report
    assert "12-20 (https://world.example/notes/travellers-companion.html)" in report


def test_a_zone_of_which_no_page_says_anything_is_not_achieved(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    page = "<title>Ash Ford</title><main><h1>Ash Ford</h1><p>Ash Ford is a town.</p></main>"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "ash-ford.html").write_text(page)
    search = {"provider": "local", "folder": "site", "base_url": "https://ash.example"}
    job = {
        "version": 1,
        "name": "nowhere",
        "goal_template": "zone_research",
        "inputs": {"target": "Mirrormere"},
        "tools": {"lore": {"web": {"search": search}}},
    }
    (tmp_path / "zone.job.json").write_text(json.dumps(job))

    done = wavewright("run", str(tmp_path / "zone.job.json"))

    assert done.code == 1
    assert "GOAL NOT ACHIEVED" in done.out


@pytest.mark.parametrize("template", ["zone_research", "zone_research_orchestrated"])
def test_the_research_of_a_zone_leaves_no_output_unread(
    wavewright: CommandLine, tmp_path: Path, template: str
) -> None:
    world = json.dumps(
        {"lore": {"web": {"search": {"provider": "local", "folder": str(JOB.parent / "world")}}}}
    )
    job = tmp_path / "zone.job.yaml"
    job.write_text(
        f"version: 1\nname: zone\ngoal_template: {template}\ninputs: {{target: Fen}}\ntools: {world}\n"
    )

    checked = wavewright("check", str(job))

    assert checked.code == 0, checked.out + checked.err
    assert "W801" not in checked.out + checked.err


def test_two_waves_of_zones_discover_nothing_in_the_last_one_and_know_what_was_visited_and_failed(
    wavewright: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search = {
        "provider": "local",
        "folder": str(JOB.parent / "world"),
        "base_url": "https://world.example",
    }
    names = {"type": "array", "items": {"type": "string"}}
    given = {"is_last_wave": {"type": "boolean"}, "visited": names, "failed": names}
    target = {"type": "string", "pattern": "^[A-Z]", "description": "No zone is called `nowhere`"}
    job = {
        "name": "zones",
        "goal_template": "zone_research",
        "inputs": {"visited": ["Saltwind Coast"]},
        "targets": {"first": ["Harrow Fen", "nowhere"], "depth": 2, "at_once": 2},
        "overrides": {
            "inputs_schema": {"type": "object", "properties": {"target": target, **given}}
        },
        "tools": {"lore": {"web": {"search": search}}},
    }
    (tmp_path / "zones.job.yaml").write_text(json.dumps(job))

    shown = wavewright("dry-run", "zones.job.yaml", "--format", "json")
    done = wavewright("run", "zones.job.yaml")

    expected = 'is_last_wave = false, visited = ["Saltwind Coast"], failed = []'
    assert any(expected in note for note in json.loads(shown.out)["notes"])
    assert "failed: nowhere" in done.err
    rows = json.loads(wavewright("runs", "--format", "json").out)
    [root] = [row["run"] for row in rows if row["job"] == "zones"]
    targets = json.loads(wavewright("show", root, "--format", "json").out)["targets"]
    waves: dict[int, list[tuple[JsonObject, Json]]] = {}
    for one in targets:
        if one["status"] != "failed":
            lines = wavewright("show", one["run"], "--format", "events").out.splitlines()
            events = [json.loads(line) for line in lines]
            [inputs] = [each["goal"]["inputs"] for each in events if each["kind"] == "run_started"]
            [connected] = [
                each.get("output")
                for each in events
                if each["kind"] == "step_finished" and each["step"] == "connected"
            ]
            waves.setdefault(one["wave"], []).append((inputs, connected))
    assert [one["target"] for one in targets if one["wave"] < 2] == [
        "Harrow Fen",
        "nowhere",
        "Lanternmere",
        "The Sunken Vault",
    ]
    for inputs, connected in waves[1]:
        assert inputs["visited"] == ["Saltwind Coast", "Harrow Fen"]
        assert (inputs["failed"], inputs["is_last_wave"]) == (["nowhere"], False)
        assert "Harrow Fen" not in str(connected)
    assert len(waves[1]) == 2
    for inputs, connected in waves[2]:
        assert inputs["visited"] == [
            "Saltwind Coast",
            "Harrow Fen",
            "Lanternmere",
            "The Sunken Vault",
        ]
        assert inputs["is_last_wave"] is True
        assert connected is None


def test_a_contradiction_between_pages_is_an_event_of_the_run(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    wavewright("run", str(JOB), "--output", str(tmp_path))

    [folder] = tmp_path.iterdir()
    run = json.loads((folder / "package.json").read_text())["run"]
    events = [
        json.loads(line) for line in wavewright("show", run, "--format", "events").out.splitlines()
    ]
    told = [one["body"] for one in events if one.get("topic") == "tool_event"]
    found = [one["fields"] for one in told if one["event"] == "conflict_detected"]
    assert [one["data_point"] for one in found] == [
        "Harrow Fen: level_range",
        "Fen Runners: inter_faction ashen_company",
    ]
    assert all(one["source_a"] and one["source_b"] for one in found)
