"""A run that does not reach its goal at once, and what the template's recipes make of it."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.stale_quotes_project import JOB, TEMPLATE, take_calls, write_quotes_project
from wavewright.planner.types import StepId
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package

RECIPE = "  - {gate: fresh, set_params: {force: true}, reason: the quotes are stale}\n"


def run_quotes_project(
    wavewright: CommandLine, folder: Path, *options: str, template: str = TEMPLATE, job: str = JOB
) -> tuple[int, Package, str]:
    """Run the project's job and return the exit code, the package and the report."""
    write_quotes_project(folder, template=template, job=job)
    ran = wavewright("run", "quotes.job.yaml", "--output", "out", *options)
    [file] = (folder / "out").glob("*/package.json")
    page = html.unescape(file.with_name("report.html").read_text(encoding="utf-8"))
    return ran.code, read_package(file.read_bytes()), page


def statuses(package: Package) -> dict[str, str]:
    return {report.id: report.status for report in package.execution_log}


def test_stale_data_is_fetched_again_and_the_goal_achieved(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    code, package, _ = run_quotes_project(wavewright, tmp_path)

    assert code == 0
    assert package.status == "achieved"
    assert package.result == "2 quotes at 1.25"
    assert statuses(package) == {"quotes": "ok", "rate": "ok", "sheet": "ok", "quotes_2": "ok"}
    assert package.timings.rounds == 1
    assert package.timings.waves == max(report.wave for report in package.execution_log) == 2
    assert not any(gate.has_failed for gate in package.gates if gate.step != StepId("quotes"))


def test_what_had_finished_is_kept_and_what_was_blocked_is_run(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    _, package, _ = run_quotes_project(wavewright, tmp_path)
    rounds = {report.id: report.round for report in package.execution_log}

    assert take_calls(tmp_path) == {
        "fetch GNP False": 1,
        "fetch SKS False": 1,
        "fetch GNP True": 1,
        "fetch SKS True": 1,
        "rate": 1,
        "write_down": 1,
    }
    assert rounds == {"quotes": 0, "rate": 0, "sheet": 1, "quotes_2": 1}


def test_patch_and_first_verdict_are_in_the_package_and_in_the_report(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    _, package, page = run_quotes_project(wavewright, tmp_path)
    [patch] = package.patches
    [earlier] = package.earlier_reviews

    assert patch.reason == "the quotes are stale"
    assert patch.plan_hash == package.plan_hash
    assert patch.patch["expect"] == ["fresh__quotes_2"]
    assert "+ quotes_2: fetch, instead of quotes" in patch.diff
    assert "params.quotes: ${steps.quotes} -> ${steps.quotes_2}" in patch.diff
    assert not earlier.goal_achieved
    assert "+ quotes_2: fetch, instead of quotes" in page
    assert earlier.summary in page


def test_the_call_of_the_second_round_is_told_from_the_first(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    _, package, _ = run_quotes_project(wavewright, tmp_path)
    params = {(call.step, call.index): call.params for call in package.calls}

    assert params[StepId("quotes"), 0] == {"code": "GNP"}
    assert params[StepId("quotes_2"), 0] == {"code": "GNP", "force": True}
    assert len({call.key for call in package.calls}) == len(package.calls)


def test_what_did_not_help_is_not_tried_again_however_many_rounds_are_left(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    # In 2012 even the forced quotes are old.
    code, package, _ = run_quotes_project(
        wavewright,
        tmp_path,
        template=f"{TEMPLATE}limits: {{rounds: 9}}\n",
        job=JOB.replace("as_of: 2010-03-01", "as_of: 2012-03-01"),
    )

    assert code == 1
    assert package.status == "not_achieved"
    assert [patch.round for patch in package.patches] == [1]
    assert take_calls(tmp_path)["fetch GNP True"] == 1
    assert statuses(package)["sheet"] == "blocked"


@pytest.mark.parametrize(("rounds", "patches"), [(0, []), (1, [1]), (2, [1])])
def test_no_more_patches_are_applied_than_there_are_rounds(
    wavewright: CommandLine, tmp_path: Path, rounds: int, patches: list[int]
) -> None:
    code, package, _ = run_quotes_project(
        wavewright, tmp_path, template=f"{TEMPLATE}limits: {{rounds: {rounds}}}\n"
    )

    assert code == (0 if rounds else 1)
    assert [patch.round for patch in package.patches] == patches


@pytest.mark.parametrize(("answer", "code"), [("always", 0), ("never", 1)])
def test_a_goal_may_ask_a_person_before_any_patch(
    wavewright: CommandLine, tmp_path: Path, answer: str, code: int
) -> None:
    ended, package, _ = run_quotes_project(
        wavewright, tmp_path, "--approve", answer, template=f"{TEMPLATE}auto_approve: false\n"
    )

    assert ended == code
    assert len(package.patches) == 1 - code
    assert any("not approved" in warning for warning in package.warnings) == bool(code)


def test_a_patch_that_brings_a_write_needs_a_persons_word(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    recipe = (
        "  - gate: fresh\n"
        "    reason: somebody must know\n"
        "    add: [{id: alarm, tool: write_down, params: {quotes: [], rate: 0.0}}]\n"
    )
    code, package, _ = run_quotes_project(
        wavewright, tmp_path, "--approve", "never", template=TEMPLATE.replace(RECIPE, recipe)
    )

    assert code == 1
    assert package.patches == ()
    assert any(
        "'alarm', which calls 'write_down' (write)" in warning for warning in package.warnings
    )
    assert "write_down" not in take_calls(tmp_path)


def _acting_recipe(tool: str) -> str:
    """Return the recipe that also adds a step with a side effect, and the policy that may allow it."""
    params = "{quotes: [], rate: 0.0}" if tool == "write_down" else "{text: stale}"
    return (
        "  - gate: fresh\n"
        "    reason: somebody must know\n"
        "    set_params: {force: true}\n"
        f"    add: [{{id: alarm, tool: {tool}, params: {params}}}]\n"
        "recovery: {allow: same-effects}\n"
    )


@pytest.mark.parametrize("schedule", ["waves", "dataflow"])
def test_a_goal_may_let_patches_call_again_what_the_plan_calls(
    wavewright: CommandLine, tmp_path: Path, schedule: str
) -> None:
    template = TEMPLATE.replace(RECIPE, _acting_recipe("write_down")) + f"schedule: {schedule}\n"
    code, package, page = run_quotes_project(
        wavewright, tmp_path, "--approve", "never", template=template
    )
    said = "the goal let a recovery patch act without approval (recovery.allow): 'alarm'"

    assert code == 0
    assert statuses(package)["alarm"] == "ok"
    assert said in package.warnings
    assert said in page


def test_a_patch_with_a_tool_that_the_plan_does_not_call_is_not_allowed(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    template = TEMPLATE.replace(RECIPE, _acting_recipe("tell")).replace(
        "{name: rate},", "{name: rate}, {name: tell},"
    )
    write_quotes_project(tmp_path, template=template)
    with (tmp_path / "desk.py").open("a") as tools:
        tools.write('\n\ndef tell(text: str) -> str:\n    """Tell somebody."""\n    return text\n')
    settings = tmp_path / "wavewright.yaml"
    settings.write_text(settings.read_text() + "      tell: {effects: [egress]}\n")

    ran = wavewright("run", "quotes.job.yaml", "--output", "out")

    assert ran.code == 1
    assert "'alarm', which calls 'tell' (egress)" in ran.err
    assert "patch not approved" in ran.err
    assert "fetch GNP True" not in take_calls(tmp_path)


def test_a_patch_that_makes_faults_is_dropped_and_the_package_says_why(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    recipe = "  - {gate: fresh, set_params: {forced: true}, reason: the quotes are stale}\n"
    code, package, _ = run_quotes_project(
        wavewright, tmp_path, template=TEMPLATE.replace(RECIPE, recipe)
    )

    assert code == 1
    assert package.status == "not_achieved"
    assert any("E203" in warning and "recovery" in warning for warning in package.warnings)


def test_the_rounds_are_events_for_machines(wavewright: CommandLine, tmp_path: Path) -> None:
    write_quotes_project(tmp_path)
    ran = wavewright("run", "quotes.job.yaml", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    plans = [
        (event["rung"], event.get("round", 0))
        for event in events
        if event["kind"] == "plan_accepted"
    ]

    assert plans == [("given", 0), ("patch", 1)]


def test_no_round_begins_once_the_time_of_the_run_is_up(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    write_quotes_project(tmp_path, template=f"{TEMPLATE}limits: {{run_timeout: 400ms}}\n")
    with (tmp_path / "desk.py").open("a") as tools:
        tools.write(
            "\n\nasync def rate() -> float:\n"
            '    """Never answer."""\n'
            "    import anyio\n"
            "    await anyio.sleep_forever()\n"
            "    return 0.0\n"
        )

    ran = wavewright("run", "quotes.job.yaml", "--output", "out")
    [file] = (tmp_path / "out").glob("*/package.json")
    package = read_package(file.read_bytes())

    assert ran.code == 1
    assert package.patches == ()
    assert statuses(package)["rate"] == "cancelled"
    assert take_calls(tmp_path)["fetch GNP True"] == 0
