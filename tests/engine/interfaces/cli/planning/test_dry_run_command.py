"""`wavewright dry-run`: every format of one record, and nothing called."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import NoReturn, cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import REPOSITORY, CommandLine
from tests.engine.normalized_output import worded
from wavewright.planner.types import JsonObject

STOCKS = REPOSITORY / "plans" / "stocks.job.yaml"
FORMATS = ("text", "json", "mermaid", "html")

TOUCH = '''
from pathlib import Path


def touch(name: str) -> str:
    """Write an empty file."""
    Path(name).touch()
    return name
'''


@pytest.fixture
def touching_project(project: Path) -> Path:
    """A project with a tool whose call can be seen."""
    (project / "tools" / "touch.py").write_text(TOUCH)
    (project / "wavewright.yaml").write_text(
        "tools:\n"
        "  - path: tools/touch.py\n"
        "    functions:\n"
        "      touch: {effects: [write, egress], needs_approval: true, expected_seconds: 90}\n"
    )
    (project / "touch.yaml").write_text(
        "goal: Touch some files\n"
        "inputs: {names: [a, b, c], more: false}\n"
        "steps:\n"
        "  - {id: each, tool: touch, for_each: '${inputs.names}', params: {name: '${item}'}}\n"
        "  - {id: maybe, tool: touch, when: inputs.more, params: {name: d}, optional: true}\n"
        "  - {id: echoes, tool: touch, for_each: '${steps.each}', params: {name: '${item}'}}\n"
        "  - {id: last, tool: touch, params: {name: e}, depends_on: [each, maybe]}\n"
    )
    return project


def record(wavewright: CommandLine, *arguments: str | Path) -> JsonObject:
    answer = wavewright("dry-run", *arguments, "--format", "json")
    assert answer.code == 0, answer.err
    return cast("JsonObject", json.loads(answer.out))


@pytest.mark.parametrize("output_format", FORMATS)
def test_the_starter_projects_job_in_every_format(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion, output_format: str
) -> None:
    answer = wavewright("dry-run", "plans/words.job.yaml", "--format", output_format)

    assert (answer.code, answer.err) == (0, "")
    assert answer.out == snapshot


@pytest.mark.parametrize("output_format", ["text", "json", "mermaid"])
def test_the_stocks_job_in_every_format(
    wavewright: CommandLine, snapshot: SnapshotAssertion, output_format: str
) -> None:
    answer = wavewright("dry-run", STOCKS, "--format", output_format)

    assert (answer.code, answer.err) == (0, "")
    assert answer.out == snapshot


@pytest.mark.parametrize("output_format", ["text", "mermaid"])
def test_side_effects_approvals_and_skipped_steps_are_shown(
    wavewright: CommandLine, touching_project: Path, snapshot: SnapshotAssertion, output_format: str
) -> None:
    answer = wavewright("dry-run", touching_project / "touch.yaml", "--format", output_format)

    assert answer.code == 0
    assert answer.out == snapshot


def test_the_results_of_sub_plans_are_no_calls(
    wavewright: CommandLine, touching_project: Path
) -> None:
    inner = "steps:\n  - {id: a, tool: touch, params: {name: x}}\nresult: ${steps.a}\n"
    loop = "repeat: {until: steps.again == 'y', max: 3}"
    outer = f"steps:\n  - {{id: again, plan: inner.plan.yaml, {loop}}}\nresult: ${{steps.again}}\n"
    for name, text in (("inner", inner), ("outer", outer)):
        (touching_project / f"{name}.plan.yaml").write_text(text)

    answer = record(wavewright, touching_project / "outer.plan.yaml")

    assert cast("JsonObject", answer["estimate"])["calls"] == 3


@pytest.mark.parametrize("output_format", FORMATS)
def test_nothing_is_called_and_nothing_is_journaled(
    wavewright: CommandLine,
    touching_project: Path,
    monkeypatch: pytest.MonkeyPatch,
    output_format: str,
) -> None:
    def refuse(*_: object) -> NoReturn:
        pytest.fail("a dry run opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    before = {path for path in touching_project.rglob("*") if "__pycache__" not in path.parts}

    answer = wavewright("dry-run", "touch.yaml", "--format", output_format)

    assert answer.code == 0
    assert {
        path for path in touching_project.rglob("*") if "__pycache__" not in path.parts
    } == before


def test_calls_are_counted_where_the_inputs_say_how_many(
    wavewright: CommandLine, touching_project: Path
) -> None:
    told = record(wavewright, touching_project / "touch.yaml")
    calls = {str(step["id"]): step["calls"] for step in cast("list[JsonObject]", told["steps"])}

    assert calls == {"each": 3, "maybe": 0, "echoes": None, "last": 1}
    assert told["critical_path"] == {"steps": ["each", "echoes"], "seconds": 180.0}


def test_the_schedule_of_the_option_is_in_the_record(
    wavewright: CommandLine, project: Path
) -> None:
    assert project.is_dir()
    assert (
        record(wavewright, "plans/words.job.yaml", "--schedule", "dataflow")["schedule"]
        == "dataflow"
    )


def test_a_forecast_is_of_a_run_with_the_concurrency_of_the_settings(
    wavewright: CommandLine, touching_project: Path
) -> None:
    settings = touching_project / "wavewright.yaml"
    settings.write_text(f"concurrency: 1\n{settings.read_text()}")

    told = record(wavewright, touching_project / "touch.yaml")

    assert told["concurrency"] == 1
    assert told["critical_path"] == {"steps": ["each", "echoes"], "seconds": 360.0}


@pytest.mark.parametrize("output_format", FORMATS)
def test_an_unsound_plan_gives_its_faults_and_exits_1(
    wavewright: CommandLine, project: Path, output_format: str
) -> None:
    (project / "plan.yaml").write_text(
        "steps: [{id: a, tool: list_notes, params: {folders: notes}}]\n"
    )

    answer = wavewright("dry-run", "plan.yaml", "--format", output_format)

    assert answer.code == 1
    if output_format == "json":
        told = [fault["code"] for fault in json.loads(answer.out)["diagnostics"]]
        assert told == ["E204", "E203"]
    else:
        assert answer.out == ""
    assert "error[E203]" in answer.err
    assert "--> plan.yaml:1:" in answer.err


def test_a_plan_option_replaces_the_jobs_plan(wavewright: CommandLine, project: Path) -> None:
    (project / "plan.yaml").write_text(
        "steps: [{id: only, tool: list_notes, params: {folder: notes}}]\n"
    )

    told = record(wavewright, "plans/words.job.yaml", "--plan", "plan.yaml")

    assert told["waves"] == [["only"]]


def test_the_page_is_one_file_that_asks_the_network_for_nothing(
    wavewright: CommandLine, project: Path
) -> None:
    page = project / "page.html"

    answer = wavewright("dry-run", STOCKS, "--format", "html", "--output", page)
    text = page.read_text(encoding="utf-8")

    assert (answer.code, answer.out) == (0, f"wrote {page}\n")
    assert "default-src 'none'" in text
    assert "<script src" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_data_in_a_plan_is_text_on_the_page(wavewright: CommandLine, project: Path) -> None:
    (project / "plan.yaml").write_text(
        "goal: <script>alert(1)</script>\n"
        "steps: [{id: a, why: '<b>bold</b>', tool: list_notes, params: {folder: '<i>'}}]\n"
    )

    page = wavewright("dry-run", "plan.yaml", "--format", "html").out

    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_no_text_of_a_plan_steers_the_terminal(wavewright: CommandLine, project: Path) -> None:
    hidden = "\\e[1A\\e[2K\\e]0;title\\a\\u202e"
    (project / "plan.yaml").write_text(
        f'goal: "{hidden}"\n'
        f"steps: [{{id: a, tool: list_notes, params: {{folder: notes}}, when: \"'{hidden}' != ''\"}}]\n"
        f'caps: [{{field: overall, max: 0.5, because: "{hidden}"}}]\n'
    )

    text = wavewright("dry-run", "plan.yaml").out

    assert all(char == "\n" or char.isprintable() for char in text)
    assert text.count("\\x1b[1A\\x1b[2K") == 3


def test_gates_keep_their_names_and_a_cap_without_a_condition_has_none(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "plan.yaml").write_text(
        "steps: [{id: a, tool: list_notes, params: {folder: notes}}]\n"
        "gates: [{id: some__notes, on: a, check: output.size() > 0}]\n"
        "caps: [{field: overall, max: 0.5, because: they are few}]\n"
    )

    text = wavewright("dry-run", "plan.yaml").out

    assert "gates some__notes\n" in text
    assert "  overall at most 0.5: they are few\n" in text


def test_what_cannot_be_written_is_told(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright(
        "dry-run", "plans/words.job.yaml", "--output", "notes/planning.md/page.html"
    )

    assert answer.code == 3
    assert worded(answer, project) == snapshot


def test_names_from_data_are_no_words_of_the_graph_language(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "plan.yaml").write_text(
        "steps:\n  - {id: end, tool: list_notes, params: {folder: notes}}\n"
        "  - {id: graph, tool: list_notes, params: {folder: notes}, depends_on: [end]}\n"
    )

    mermaid = wavewright("dry-run", "plan.yaml", "--format", "mermaid").out

    # `end` and `graph` are words of this language.
    assert "s_end ==> s_graph" in mermaid
