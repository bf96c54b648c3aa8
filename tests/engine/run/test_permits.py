"""A run keeps to its permits: its plan, its patches and each call; and what shows what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.stale_quotes_project import write_quotes_project
from wavewright.config.settings import load_settings
from wavewright.engine import Wavewright
from wavewright.engine.run.permit_checks import needed_permits
from wavewright.engine.run.permits import PermitsExceeded
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.reviewer.package.builder import read_package


def _permits(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found


def _change(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**_permits(file), **changes}), encoding="utf-8")


@pytest.fixture
def permits(wavewright: CommandLine, project: Path) -> Path:
    """The file with the permits of the starter's job."""
    assert wavewright("check", "--permits", "plans/words.job.yaml").code == 0
    return project / "plans" / "words.permits.json"


def test_check_writes_the_least_that_a_plan_needs_beside_it(permits: Path) -> None:
    written = _permits(permits)

    assert set(written["tools"]) == {"list_notes", "read_note", "rank_words"}
    assert written["paths"] == {
        "*": ["steps.notes.params.path"],
        "notes": ["steps.files.params.folder"],
    }
    assert (written["hosts"], written["models"], written["secrets"]) == ({}, {}, {})


def test_a_job_without_a_plan_is_told_to_have_no_permits_yet(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEWRIGHT_MODEL", "ollama:qwen3")
    (project / "words.yaml").write_text("goal: Rank the words of all notes.\n", encoding="utf-8")

    checked = wavewright("check", "--permits", "words.yaml")

    assert checked.code == 0
    assert "words.permits.json: not written: it is of a plan" in checked.err
    assert not (project / "words.permits.json").exists()


def test_a_run_that_keeps_to_the_permits_beside_its_job_is_as_without(
    wavewright: CommandLine, permits: Path
) -> None:
    assert permits.is_file()

    assert wavewright("run", "plans/words.job.yaml").code == 0


def test_a_plan_that_needs_more_is_refused_with_the_references_that_force_it(
    wavewright: CommandLine, project: Path, permits: Path
) -> None:
    tools = dict(_permits(permits)["tools"])
    del tools["rank_words"]
    _change(permits, tools=tools, paths={"*": []})

    ran = wavewright("run", "plans/words.job.yaml")

    assert ran.code == 1
    assert "needs more than its permits: tool rank_words (steps.ranking.tool)" in ran.err
    checked = wavewright("check", "plans/words.job.yaml")
    assert checked.code == 1
    assert "needs more than words.permits.json: tool rank_words" in checked.err


READ_ONE = """\
steps:
  - {id: files, tool: list_notes, params: {folder: notes}}
  - {id: note, tool: read_note, params: {path: "${steps.files[0]}"}}
"""


@pytest.mark.parametrize(("folder", "code"), [("notes/", 0), ("other/", 1)])
def test_a_call_is_made_where_its_value_is_permitted(
    wavewright: CommandLine, project: Path, folder: str, code: int
) -> None:
    (project / "plan.yaml").write_text(READ_ONE, encoding="utf-8")
    wavewright("check", "--permits", "plan.yaml")
    _change(project / "plan.permits.json", paths={"notes": [], folder: []})

    ran = wavewright("run", "plan.yaml")

    assert ran.code == code
    refused = "not permitted: path 'notes/planning.md'"
    assert (refused in wavewright("show").out) == bool(code)


def test_a_resumed_run_keeps_the_permits_that_it_began_with(
    wavewright: CommandLine, project: Path
) -> None:
    plan = (
        READ_ONE
        + '  - {id: ok, tool: ask_person, params: {question: "On?"}, depends_on: [files]}\n'
    )
    plan = plan.replace('${steps.files[0]}"}', '${steps.files[0]}"}, depends_on: [ok]')
    (project / "plan.yaml").write_text(plan, encoding="utf-8")
    wavewright("check", "--permits", "plan.yaml")
    file = project / "plan.permits.json"
    _change(file, paths={"notes": [], "other/": []})
    waiting = wavewright("run", "plan.yaml", "--approve", "wait")
    _change(file, paths={"*": []})

    resumed = wavewright("resume", "--answer", "yes")

    assert waiting.code != 0
    assert resumed.code == 1
    assert "not permitted: path 'notes/planning.md'" in wavewright("show").out


def test_no_more_calls_are_made_than_are_permitted(
    wavewright: CommandLine, project: Path, permits: Path
) -> None:
    needed = _permits(permits)["calls"]
    _change(permits, calls=2)

    ran = wavewright("run", "plans/words.job.yaml")

    assert isinstance(needed, int)
    assert ran.code == 1
    assert f"calls up to {needed}" in ran.err


def test_a_plan_of_sub_plans_keeps_to_its_own_permits(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "read.yaml").write_text(
        "inputs: {n: 0}\nsteps: [{id: files, tool: list_notes, params: {folder: notes}}]\n"
        'result: {n: "${inputs.n + 1}", files: "${steps.files}"}\n',
        encoding="utf-8",
    )
    (project / "plan.yaml").write_text(
        "steps:\n  - {id: again, plan: read.yaml, repeat: "
        '{until: "steps.again.n > 9", max: 3, params: {n: "${steps.again.n}"}}}\n'
        'result: "${steps.again.n}"\n',
        encoding="utf-8",
    )
    wavewright("check", "--permits", "plan.yaml")

    ran = wavewright("run", "plan.yaml")

    assert _permits(project / "plan.permits.json")["calls"] == 3
    assert ran.code == 0, ran.out


@pytest.mark.parametrize(("answer", "code"), [("always", 0), ("never", 1)])
def test_a_patch_that_needs_more_than_the_permits_asks(
    wavewright: CommandLine, tmp_path: Path, answer: str, code: int
) -> None:
    write_quotes_project(tmp_path)
    assert wavewright("check", "--permits", "quotes.job.yaml").code == 0

    ran = wavewright("run", "quotes.job.yaml", "--output", "out", "--approve", answer)

    [file] = (tmp_path / "out").glob("*/package.json")
    assert ran.code == code
    assert len(read_package(file.read_bytes()).patches) == 1 - code
    assert "the patch needs more than the permits: calls up to " in ran.err


def test_the_receipt_names_the_permits_of_the_run(wavewright: CommandLine, permits: Path) -> None:
    wavewright("run", "plans/words.job.yaml")

    receipt = json.loads(wavewright("receipt").out)

    assert receipt["permits"] == _permits(permits)


def test_diff_shows_which_permits_are_more_and_which_less(
    wavewright: CommandLine, project: Path
) -> None:
    plan = "steps:\n  - {id: a, tool: list_notes, params: {folder: FOLDER}}\n"
    for name in ("notes", "other"):
        (project / f"{name}.yaml").write_text(plan.replace("FOLDER", name), encoding="utf-8")

    shown = wavewright("diff", "notes.yaml", "other.yaml")
    as_json = json.loads(wavewright("diff", "notes.yaml", "other.yaml", "--format", "json").out)

    assert shown.out.endswith(
        "+ permit path other (steps.a.params.folder)\n- permit path notes (steps.a.params.folder)\n"
    )
    assert as_json["permits"] == {
        "more": [{"kind": "path", "name": "other", "because": ["steps.a.params.folder"]}],
        "less": [{"kind": "path", "name": "notes", "because": ["steps.a.params.folder"]}],
    }


def test_a_run_from_python_keeps_to_the_permits_beside_its_plan(tmp_path: Path) -> None:
    loaded: list[str] = []

    def load(path: str) -> str:
        """Load a note."""
        loaded.append(path)
        return path

    step = {"id": "note", "tool": "load", "params": {"path": "${inputs.path}"}}
    plan = {"inputs": {"path": "notes/a"}, "steps": [step], "result": "${steps.note}"}
    (tmp_path / "note.yaml").write_text(json.dumps(plan), encoding="utf-8")
    permits: dict[str, object] = {"tools": {"load": {"effects": ["read"]}}, "paths": {"notes/": []}}
    (tmp_path / "note.permits.json").write_text(json.dumps(permits), encoding="utf-8")
    engine = Wavewright(tools=[load], journal=tmp_path / "runs.db")

    engine.run_sync(tmp_path / "note.yaml")
    with pytest.raises(PermitsExceeded):
        engine.run_sync(engine.load(tmp_path / "note.yaml", {"path": "/etc/passwd"}))

    assert loaded == ["notes/a"]


@pytest.mark.parametrize(("others", "code"), [(False, 1), (True, 0)])
def test_a_repeated_run_keeps_to_the_permits_of_the_run_unless_others_are_named(
    wavewright: CommandLine, project: Path, *, others: bool, code: int
) -> None:
    (project / "plan.yaml").write_text(READ_ONE, encoding="utf-8")
    wavewright("check", "--permits", "plan.yaml")
    file = project / "plan.permits.json"
    (project / "all.json").write_bytes(file.read_bytes())
    _change(file, paths={"notes": [], "other/": []})
    wavewright("run", "plan.yaml")
    file.unlink()

    repeated = wavewright("retry", *(["--permits", "all.json"] if others else []))

    assert repeated.code == code, repeated.err


@pytest.mark.parametrize("tool", ["ask_model", "dispatch.ask_model.note"])
def test_the_models_are_those_that_stand_in_as_well_whoever_chooses_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    (tmp_path / "wavewright.yaml").write_text(
        "model: openai:small\nmodels: {fallbacks: [openai:large]}\n", encoding="utf-8"
    )
    known = {
        "ask_model": ToolSignature(
            name="ask_model", expected_tokens=10, model_preferences=("auto", "openai:own")
        ),
        "note": ToolSignature(name="note"),
    }
    step = {"id": "a", "tool": tool, "for_each": "${inputs.not_known}"}
    plan = Plan.model_validate({"steps": [step]})

    needed = needed_permits(plan, None, known, load_settings(tmp_path))

    assert set(needed.models) == {"openai:small", "openai:own", "openai:large"}
