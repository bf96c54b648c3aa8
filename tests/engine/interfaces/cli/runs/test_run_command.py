"""`wavewright run` as a user meets it: real prices, gates, recovery, approval."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from tests.engine.conftest import REPOSITORY, CommandLine
from wavewright.planner.types import Json, StepId
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package

pytest.importorskip("vega_datasets", reason="the extra 'equities' is not installed")


def only_package(folder: Path) -> Package:
    [path] = folder.glob("*/package.json")
    return read_package(path.read_bytes())


def test_the_stocks_job_is_achieved_on_real_prices(wavewright: CommandLine, tmp_path: Path) -> None:
    ran = wavewright("run", REPOSITORY / "plans" / "stocks.job.yaml", "--output", tmp_path / "out")
    package = only_package(tmp_path / "out")

    assert ran.code == 0, ran.err
    assert ran.out.startswith("GOAL ACHIEVED")
    assert package.status == "achieved"
    assert package.rung == "template"
    assert isinstance(package.result, dict)
    stocks = package.result["stocks"]
    assert isinstance(stocks, list)
    assert [stock["code"] for stock in stocks if isinstance(stock, dict)] == [
        "AAPL",
        "AMZN",
        "IBM",
        "MSFT",
        "GOOG",
    ]


def test_no_model_answered_and_the_package_says_so(wavewright: CommandLine, tmp_path: Path) -> None:
    wavewright("run", REPOSITORY / "plans" / "stocks.job.yaml", "--output", tmp_path / "out")
    review = only_package(tmp_path / "out").review

    assert review is not None
    assert review.reviewer == "code"
    assert review.confidence <= 0.8
    assert {cap.max for cap in review.caps if cap.applied and cap.origin == "engine"} >= {0.8, 0.9}


def test_old_prices_are_stopped_by_the_freshness_gate_after_one_recovery(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    ran = wavewright(
        "run", REPOSITORY / "plans" / "stocks_stale.job.yaml", "--output", tmp_path / "out"
    )
    package = only_package(tmp_path / "out")
    status = {step.id: step.status for step in package.execution_log}

    assert ran.code == 1
    assert package.status == "not_achieved"
    assert status[StepId("summary")] == "blocked"
    assert [patch.round for patch in package.patches] == [1]
    assert "as_of" in ran.out
    assert "What would fix it" in ran.out


def test_as_of_on_the_command_line_mends_the_stale_job(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    job = REPOSITORY / "plans" / "stocks_stale.job.yaml"

    ran = wavewright("run", job, "--as-of", "2010-03-01", "--output", tmp_path / "out")

    assert ran.code == 0, ran.err


def test_the_report_stands_beside_the_package_and_asks_the_network_for_nothing(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    wavewright("run", REPOSITORY / "plans" / "stocks.job.yaml", "--output", tmp_path / "out")
    [report] = (tmp_path / "out").glob("*/report.html")
    page = html.unescape(report.read_text(encoding="utf-8"))

    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "<link" not in page


def test_events_are_lines_of_json_for_machines(wavewright: CommandLine, project: Path) -> None:
    ran = wavewright("run", "plans/words.job.yaml", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]

    assert project.is_dir()
    assert [event["kind"] for event in events][:3] == ["run_started", "noted", "plan_accepted"]
    assert events[-1]["kind"] == "outcome"
    assert events[-1]["status"] == "achieved"


def test_both_schedules_come_to_the_same_result(wavewright: CommandLine, tmp_path: Path) -> None:
    job = REPOSITORY / "plans" / "stocks.job.yaml"
    results: list[Json] = []
    for schedule in ("waves", "dataflow"):
        wavewright("run", job, "--schedule", schedule, "--output", tmp_path / schedule)
        results.append(only_package(tmp_path / schedule).result)

    assert results[0] == results[1]


def test_a_plan_file_stands_for_a_job(wavewright: CommandLine, project: Path) -> None:
    ran = wavewright("run", project / "plans" / "words.plan.yaml")

    assert ran.code == 0, ran.err


def test_a_job_may_be_written_in_toml(wavewright: CommandLine, project: Path) -> None:
    job = project / "plans" / "words.toml"
    job.write_text(
        'version = 1\nname = "words"\ngoal_template = "word_ranking"\nplan = "words.plan.yaml"\n'
        'as_of = 2026-01-31\n[inputs]\nfolder = "notes"\ntop = 2\n'
    )

    ran = wavewright("run", job, "--output", project / "out")
    package = only_package(project / "out")

    assert ran.code == 0, ran.err
    assert package.now.startswith("2026-01-31")
    assert isinstance(package.result, dict)
    assert package.result["words"] == [{"word": "plan", "count": 3}, {"word": "names", "count": 2}]


@pytest.fixture
def posting_project(project: Path) -> Path:
    """A project with a tool that writes a file and may do so only with approval."""
    (project / "tools" / "post.py").write_text(
        "from pathlib import Path\n\n\n"
        "def post(text: str) -> str:\n"
        '    """Post a text."""\n'
        "    Path('posted.txt').write_text(text)\n"
        "    return text\n"
    )
    (project / "wavewright.yaml").write_text(
        "tools:\n"
        "  - path: tools/post.py\n"
        "    functions:\n"
        "      post: {effects: [write], needs_approval: true}\n"
    )
    (project / "post.yaml").write_text(
        "steps:\n  - {id: post, tool: post, params: {text: hello}}\n"
    )
    return project


def test_a_tool_that_needs_approval_is_not_called_without(
    wavewright: CommandLine, posting_project: Path
) -> None:
    ran = wavewright("run", "post.yaml", "--approve", "never")

    assert ran.code == 1
    assert "step 'post' calls 'post', which needs approval" in ran.err
    assert not (posting_project / "posted.txt").exists()


def test_an_approved_tool_is_called(wavewright: CommandLine, posting_project: Path) -> None:
    ran = wavewright("run", "post.yaml", "--approve", "always")

    assert ran.code == 0, ran.err
    assert (posting_project / "posted.txt").read_text() == "hello"


def test_an_unsound_plan_runs_nothing_and_the_run_is_on_record(
    wavewright: CommandLine, project: Path
) -> None:
    plan = project / "plan.yaml"
    plan.write_text("steps:\n  - {id: a, tool: list_notes, params: {folders: notes}}\n")

    ran = wavewright("run", plan)
    listed = json.loads(wavewright("runs", "--format", "json").out)

    assert ran.code == 1
    assert "error[E203]" in ran.err
    assert "plan.yaml:2:" in ran.err
    assert [run["status"] for run in listed] == ["failed"]


def test_a_gate_of_a_skipped_step_is_told(wavewright: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        """
version: 1
inputs: {wanted: false}
steps:
  - {id: rare, tool: look, when: inputs.wanted}
  - {id: usual, tool: look}
gates: [{id: seen, on: rare, check: "output == 'here'"}]
result: ${steps.usual}
"""
    )
    (tmp_path / "look.py").write_text('def look() -> str:\n    """Look."""\n    return "here"\n')
    (tmp_path / "wavewright.yaml").write_text("tools: [{path: look.py}]\n")

    answer = wavewright("run", "plan.yaml")

    assert "gate 'seen' was not asked: step 'rare' was skipped" in answer.out
