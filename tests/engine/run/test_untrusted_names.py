"""Names of further targets that come from untrusted text: they are untrusted in the runs that they
get.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import JsonObject

TOOLS = '''
from pathlib import Path

_HERE = Path(__file__).parent


def survey(place: str) -> dict:
    """Look at a place."""
    with (_HERE / "calls.txt").open("a") as calls:
        calls.write(f"survey {place}\\n")
    return {"near": ["ABC"], "count": 1}


def post(text: str) -> str:
    """Post a text."""
    with (_HERE / "calls.txt").open("a") as calls:
        calls.write(f"post {text}\\n")
    return text
'''
SETTINGS = """\
tools:
  - path: places.py
    functions:
      survey: {untrusted_output: true}
      post: {effects: [write]}
"""
POST: JsonObject = {"id": "said", "tool": "post", "params": {"text": "Now ${inputs.target}"}}
PLAN: JsonObject = {
    "steps": [{"id": "seen", "tool": "survey", "params": {"place": "${inputs.target}"}}, POST],
    "result": "${steps.said}",
}
ANY: JsonObject = {"type": "string"}
CODE: JsonObject = {"type": "string", "pattern": "^[A-Z]{1,3}$"}


@pytest.fixture
def places(tmp_path: Path, wavewright: CommandLine) -> Path:
    (tmp_path / "places.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text(SETTINGS)
    return tmp_path


def write_job(
    folder: Path,
    *,
    target: JsonObject = ANY,
    expand: str = "${steps.seen.near}",
    depth: int = 1,
    plan: JsonObject | None = PLAN,
) -> None:
    template: JsonObject = {
        "name": "places",
        "goal": "Look around",
        "available_tools": [{"name": "survey"}, {"name": "post"}],
        "inputs_schema": {
            "type": "object",
            "properties": {"target": target, "visited": {"type": "array", "items": ANY}},
        },
        "targets": {"expand": expand, "visited": "visited"},
    }
    job: JsonObject = {
        "name": "places",
        "goal_template": "places.yaml",
        "targets": {"first": ["A"], "depth": depth},
    }
    if plan is not None:
        template["plan"] = plan
    (folder / "places.yaml").write_text(json.dumps(template))
    (folder / "job.yaml").write_text(json.dumps(job))


def calls(folder: Path) -> list[str]:
    file = folder / "calls.txt"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("command", ["check", "dry-run", "run"])
def test_a_found_name_that_would_be_written_is_refused_before_the_first_target(
    wavewright: CommandLine, places: Path, command: str
) -> None:
    write_job(places)

    answer = wavewright(command, "job.yaml")

    assert answer.code == 1
    assert (
        "error[E601]: untrusted text reaches 'text', which is written, of 'post'"
        in answer.out + answer.err
    )
    assert "'targets.expand' → 'inputs.target' → 'text' of 'said'" in answer.out + answer.err
    assert calls(places) == []


def test_names_of_earlier_targets_are_untrusted_where_runs_have_found_them(
    wavewright: CommandLine, places: Path
) -> None:
    text = json.dumps(PLAN).replace("Now ${inputs.target}", "After ${inputs.visited.join(', ')}")
    write_job(places, target=CODE, plan=json.loads(text))

    assert "'inputs.visited' → 'text' of 'said'" in wavewright("check", "job.yaml").out


def test_a_template_is_checked_for_the_targets_that_its_jobs_may_find(
    wavewright: CommandLine, places: Path
) -> None:
    write_job(places)

    assert "E601" in wavewright("check", "places.yaml").out


@pytest.mark.parametrize(
    ("target", "expand", "depth"),
    [
        pytest.param({"enum": ["A", "ABC"]}, "${steps.seen.near}", 1, id="one of a few names"),
        pytest.param(ANY, "${[steps.said + 'BC']}", 1, id="names from trusted text"),
        pytest.param(ANY, "${steps.seen.near}", 0, id="no further targets"),
    ],
)
def test_a_name_without_free_text_is_as_good_as_the_jobs(
    wavewright: CommandLine, places: Path, target: JsonObject, expand: str, depth: int
) -> None:
    write_job(places, target=target, expand=expand, depth=depth)

    answer = wavewright("run", "job.yaml")

    assert answer.code == 0, answer.err
    assert sorted(calls(places)[:2]) == ["post Now A", "survey A"]
    assert len(calls(places)) == 2 + 2 * depth


def test_an_approval_breaks_the_way(wavewright: CommandLine, places: Path) -> None:
    steps: list[JsonObject] = [
        {"id": "seen", "tool": "survey", "params": {"place": "${inputs.target}"}},
        {**POST, "needs_approval": True},
    ]
    write_job(places, plan={"steps": [*steps]})

    answer = wavewright("run", "job.yaml", "--approve", "always")

    assert answer.code == 0, answer.err
    assert "post Now ABC" in calls(places)


def test_a_plan_that_a_model_makes_for_a_found_target_is_checked_with_its_name_as_untrusted(
    wavewright: CommandLine,
    places: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer({"reasoning": "It was asked for.", **PLAN}, when=asked_for("plan"))
    review: JsonObject = {
        "goal_achieved": True,
        "confidence": 0.9,
        "summary": "It was said.",
        "missing_data": [],
        "recovery_actions": [],
    }
    model_server.answer(review, when=asked_for("review"))
    write_job(places, plan=None)

    answer = wavewright("run", "job.yaml")

    # A step that only reads may start while the plan still arrives.
    assert [call for call in calls(places) if call.startswith("post")] == ["post Now A"]
    assert answer.code == 1
    assert "failed: ABC" in answer.err
    assert any(
        "'targets.expand' → 'inputs.target'" in asked.text for asked in model_server.requests
    )
