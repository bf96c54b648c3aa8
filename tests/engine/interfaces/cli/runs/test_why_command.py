"""`wavewright show --why`: a confidence with the steps by which each cap reaches it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine

TOOLS = '''
def look(what: str) -> list[str]:
    """Look something up."""
    return [what]


def join(parts: list[list[str]]) -> str:
    """Join what was found."""
    return " ".join(part for found in parts for part in found)
'''
PLAN = """\
let: {crowded: "${inputs.size() > 2}"}
steps:
  - {id: people, tool: look, params: {what: Ada}}
  - {id: places, tool: look, params: {what: Mill}}
  - {id: folk, tool: join, params: {parts: ["${steps.people}"]}}
gates:
  - {id: several, on: people, check: output.size() > 1, severity: warn}
caps:
  - {field: places, when: "inputs.size() > 0", max: 0.1, because: inputs were given}
  - {field: places, when: "crowded", max: 0.2, because: there are many inputs}
result: {people: "${steps.folk}", places: "${steps.places}"}
"""


@pytest.fixture
def reviewed(wavewright: CommandLine, tmp_path: Path) -> str:
    """The id of a run whose gate has left a warning."""
    (tmp_path / "desk.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text("tools: [{path: desk.py, functions: [look, join]}]\n")
    (tmp_path / "folk.plan.yaml").write_text(PLAN)
    ran = wavewright("run", "folk.plan.yaml")
    assert ran.code == 0, ran.err
    [row] = json.loads(wavewright("runs", "--format", "json").out)
    return str(row["run"])


def test_a_field_is_shown_with_the_way_of_each_cap(wavewright: CommandLine, reviewed: str) -> None:
    people, places = (
        wavewright("show", reviewed, "--why", "people"),
        wavewright("show", reviewed, "--why", "places"),
    )

    assert people.out.splitlines()[3:] == [
        "  at most 0.80: reviewed by code alone; no model read the result",
        "  at most 0.80: gate 'several' left a warning on step 'people'",
        "    people (look) 0.80  gates: several fail",
        "    folk (join) 0.80",
        "so people is 0.80: gate 'several' left a warning on step 'people'",
    ]
    assert (
        "  not at most 0.10: inputs were given (its condition is false: inputs.size() > 0)"
        in places.out
    )
    assert "there are many inputs (its condition is false: crowded)" in places.out
    assert "left a warning on step 'people' (nothing of it leads here)" in places.out


def test_the_reasons_are_json_too_and_are_in_the_report(
    wavewright: CommandLine, reviewed: str
) -> None:
    found = json.loads(wavewright("show", reviewed, "--why", "people", "--format", "json").out)
    page = wavewright("show", reviewed, "--format", "html").out

    assert found["caps"][-1]["way"] == ["people", "folk"]
    assert [step["step"] for step in found["steps"]] == ["people", "folk"]
    assert "people → folk</td>" in page


def test_a_field_that_is_not_there_is_named_with_those_that_are(
    wavewright: CommandLine, reviewed: str
) -> None:
    answer = wavewright("show", reviewed, "--why", "peple")

    assert answer.code == 2
    assert "has no field 'peple'" in answer.err
    assert "people" in answer.err
