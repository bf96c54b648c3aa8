"""`wavewright runs` and `wavewright show`: what the journal holds."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import CommandLine
from tests.engine.normalized_output import settled, worded
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.builder import read_package


@pytest.fixture
def run(wavewright: CommandLine, project: Path) -> str:
    """The id of a run that was achieved."""
    assert project.is_dir()
    assert wavewright("run", "plans/words.job.yaml").code == 0
    [row] = rows(wavewright)
    return str(row["run"])


def rows(wavewright: CommandLine, *arguments: str) -> list[JsonObject]:
    return cast(
        "list[JsonObject]", json.loads(wavewright("runs", "--format", "json", *arguments).out)
    )


def test_an_empty_journal_is_no_fault_and_none_is_made_by_looking(
    wavewright: CommandLine, project: Path
) -> None:
    listed = wavewright("runs")
    as_json = wavewright("runs", "--format", "json")

    assert (listed.code, listed.out) == (0, "no runs yet; `wavewright run JOB` starts one\n")
    assert (as_json.code, as_json.out) == (0, "[]\n")
    assert not (project / ".wavewright").exists()


@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_run_is_not_found_where_nothing_ran(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion, command: str
) -> None:
    answer = wavewright(command, "2026")

    assert answer.code == 2
    assert worded(answer, project) == snapshot


def test_runs_are_listed_newest_first_up_to_the_limit(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    (project / "plan.yaml").write_text(
        "steps: [{id: a, tool: list_notes, params: {folders: notes}}]\n"
    )
    wavewright("run", "plan.yaml")

    listed = rows(wavewright)
    newest = rows(wavewright, "--limit", "1")

    assert [row["status"] for row in listed] == ["failed", "achieved"]
    assert listed[1] == {
        "run": run,
        "job": "words",
        "status": "achieved",
        "started": listed[1]["started"],
        "finished": listed[1]["finished"],
        "steps": 3,
        "ok": 3,
        "failed": 0,
        "owner": None,
        "tokens": 0,
    }
    assert newest == listed[:1]


def test_a_run_is_shown_with_the_times_of_its_package(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    written = read_package((project / ".wavewright" / "runs" / run / "package.json").read_bytes())

    shown = json.loads(wavewright("show", run, "--format", "json").out)

    assert shown["timings"] == written.timings.model_dump(mode="json")


def test_the_table_of_runs_is_as_wide_as_its_names(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    table = wavewright("runs").out.splitlines()

    assert project.is_dir()
    assert table[0].split() == ["run", "job", "status", "started", "steps"]
    assert table[1].startswith(f"{run}  words  achieved")
    assert table[1].endswith("3/3")
    assert len(table) == 2


def test_a_run_is_shown_as_text(
    wavewright: CommandLine, project: Path, run: str, snapshot: SnapshotAssertion
) -> None:
    shown = wavewright("show", run)

    assert shown.code == 0
    assert settled(shown.out, project) == snapshot


def test_the_package_that_is_shown_is_the_one_that_was_written(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    written = read_package((project / ".wavewright" / "runs" / run / "package.json").read_bytes())

    shown = wavewright("show", run, "--format", "json")
    package = read_package(shown.out.encode())

    assert shown.code == 0
    assert package.result == written.result
    assert package.execution_log == written.execution_log
    assert package.review == written.review


def test_the_report_is_shown_as_a_page(wavewright: CommandLine, run: str) -> None:
    shown = wavewright("show", run, "--format", "html")

    assert shown.code == 0
    assert shown.out.lower().startswith("<!doctype html>")
    assert run in shown.out
    assert "<script" not in shown.out


def test_events_are_shown_one_a_line_in_their_order(wavewright: CommandLine, run: str) -> None:
    shown = wavewright("show", run, "--format", "events")
    kinds = [json.loads(line)["kind"] for line in shown.out.splitlines()]

    assert shown.code == 0
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    assert kinds.count("step_finished") == 3


@pytest.mark.parametrize("part", [slice(0, 12), slice(-6, None), slice(-6, -2)])
def test_a_run_is_known_by_the_beginning_of_its_id_or_of_its_tail(
    wavewright: CommandLine, run: str, part: slice
) -> None:
    assert wavewright("show", run[part]).code == 0


def test_a_run_is_known_by_the_beginning_of_its_jobs_id(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    job_file = project / "plans" / "words.job.yaml"
    job_file.write_text(job_file.read_text() + "schedule: {every: 1h}\n")
    [job] = re.findall(r"[0-9a-f-]{36}", wavewright("schedules", "run", "plans/words.job.yaml").out)

    waiting = wavewright("show", job)
    with closing(sqlite3.connect(project / ".wavewright" / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE job SET run = ? WHERE job = ?", (run, job))
    shown = [wavewright(*command, job[:8]) for command in (("show",), ("verify",), ("logs",))]

    assert (waiting.code, waiting.out) == (2, "")
    assert "has not begun: its job waits for a daemon" in waiting.err
    assert [answer.code for answer in shown] == [0, 0, 0]
    assert f"run {run}: intact" in shown[1].out


def test_a_beginning_that_fits_several_runs_is_never_guessed(
    wavewright: CommandLine, project: Path, run: str, snapshot: SnapshotAssertion
) -> None:
    wavewright("run", "plans/words.job.yaml")

    answer = wavewright("show", run[:2])

    assert answer.code == 2
    assert worded(answer, project) == snapshot


def test_an_unknown_run_is_told_with_the_newest_one(
    wavewright: CommandLine, project: Path, run: str, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright("show", "nobody")

    assert run in answer.err
    assert answer.code == 2
    assert worded(answer, project) == snapshot


def test_a_run_without_a_plan_has_events_to_show_and_nothing_else(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    (project / "plan.yaml").write_text(
        "steps: [{id: a, tool: list_notes, params: {folders: notes}}]\n"
    )
    wavewright("run", "plan.yaml")
    [row] = rows(wavewright)

    answer = wavewright("show", str(row["run"]))
    events = wavewright("show", str(row["run"]), "--format", "events")

    assert answer.code == 1
    assert worded(answer, project) == snapshot
    assert "E203" in events.out


@pytest.mark.parametrize("name", ["w", "w" * 100])
def test_columns_keep_apart_however_long_a_jobs_name_is(
    wavewright: CommandLine, project: Path, name: str
) -> None:
    job = (project / "plans" / "words.job.yaml").read_text().replace("name: words", f"name: {name}")
    (project / "plans" / "named.job.yaml").write_text(job)
    wavewright("run", "plans/named.job.yaml")

    head, row = wavewright("runs").out.splitlines()

    assert head.split() == ["run", "job", "status", "started", "steps"]
    assert row[head.index("status") :].startswith("achieved")
    assert len(row) < 120


@pytest.mark.parametrize("command", ["show", "replay"])
def test_a_command_without_an_id_means_the_newest_run(
    wavewright: CommandLine, project: Path, run: str, command: str
) -> None:
    assert wavewright("run", project / "plans" / "words.job.yaml").code == 0
    newest, older = (str(row["run"]) for row in rows(wavewright))
    assert older == run

    answer = wavewright(command)

    assert answer.code == 0, answer.err
    assert newest in answer.out
    assert older not in answer.out


def test_resume_without_an_id_means_the_newest_run(wavewright: CommandLine, run: str) -> None:
    answer = wavewright("resume")

    assert answer.code == 2
    assert f"run '{run}' has ended (achieved); there is nothing to resume" in answer.err


def test_a_prefix_of_several_runs_is_refused_with_their_names(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    wavewright("run", project / "plans" / "words.job.yaml")
    known = [str(row["run"]) for row in rows(wavewright)]

    answer = wavewright("show", "20")

    assert answer.code == 2
    assert "2 runs start with '20'" in answer.err
    assert all(name in answer.err for name in known)


def test_runs_are_listed_by_status_and_time(
    wavewright: CommandLine, project: Path, run: str
) -> None:
    (project / "plan.yaml").write_text(
        "steps: [{id: a, tool: list_notes, params: {folders: notes}}]\n"
    )
    wavewright("run", "plan.yaml")

    def found(*arguments: str) -> list[object]:
        return [row["status"] for row in rows(wavewright, *arguments)]

    assert found("--status", "achieved") == ["achieved"]
    assert found("--status", "achieved", "--status", "failed") == ["failed", "achieved"]
    assert found("--status", "achieved", "--limit", "5", "--since", "1h") == ["achieved"]
    assert found("--status", "waiting") == found("--status", "interrupted") == []
    assert found("--since", "2999-01-01") == []
    assert len(found("--since", "2020-01-01T00:00:00")) == 2
    assert wavewright("runs", "--since", "2999-01-01").out == "no such runs\n"
    refused = wavewright("runs", "--since", "soon")
    assert refused.code == 2
    assert refused.err == (
        "error: --since 'soon' is neither a date nor a duration\n  = help: write it as 2010-03-01, or as 12h or 7d\n"
    )


def test_a_run_that_waits_is_found_by_its_status(wavewright: CommandLine, project: Path) -> None:
    (project / "tools" / "post.py").write_text(
        'def post() -> str:\n    """Post."""\n    return ""\n'
    )
    (project / "wavewright.yaml").write_text(
        "tools: [{path: tools/post.py, functions: {post: {needs_approval: true}}}]\n"
    )
    (project / "post.yaml").write_text("steps: [{id: post, tool: post}]\n")
    wavewright("run", "post.yaml", "--approve", "wait")

    assert [row["status"] for row in rows(wavewright, "--status", "waiting")] == [
        "waiting_for_approval"
    ]
    assert rows(wavewright, "--status", "interrupted") == []


def test_a_quiet_run_shows_its_outcome_and_its_errors_only(
    wavewright: CommandLine, project: Path
) -> None:
    assert project.is_dir()

    quiet = wavewright("run", "plans/words.job.yaml", "--quiet")
    wrong = wavewright("run", "plans/nothing.yaml", "-q")

    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out.startswith("GOAL ACHIEVED")
    assert wrong.err.startswith("error")
