"""The job that researches a zone of the world that comes with the project, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import REPOSITORY, CommandLine

pytest.importorskip("selectolax")

JOB = REPOSITORY / "plans" / "lore" / "one_zone.job.yaml"


def test_one_command_researches_a_zone_from_nothing(wavewright: CommandLine, tmp_path: Path) -> None:
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
    assert all(record["sources"] for record in (found["zone_data"], *found["npcs"], *found["factions"]))
    assert "Golden Hand" not in json.dumps(found)
    report = (folder / "report.html").read_text()
    assert 'aria-label="Relations: Harrow Fen"' in report
    assert "Corin Marr belongs to Fen Runners" in report
    assert "12-20 (https://world.example/notes/travellers-companion.html)" in report


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
