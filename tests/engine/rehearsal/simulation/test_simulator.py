"""`wavewright dry-run --simulate`: every branch of a plan, over outputs that are made up."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import cast

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.engine.conftest import REPOSITORY, CommandLine
from tests.engine.normalized_output import settled
from tests.engine.rehearsal.simulation.effects_project import SimulatedProject, entries, scenarios
from tests.engine.stale_quotes_project import write_quotes_project
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.simulation import simulate
from wavewright.engine.run.jobs.resolving import resolve_job_file
from wavewright.planner.types import JsonObject

FANNED = """\
goal: Send what the orders say
inputs: {shop: north}
steps:
  - {id: orders, tool: list_orders, params: {shop: "${inputs.shop}"}}
  - {id: details, tool: fetch_order, for_each: "${steps.orders}", params: {id: "${item}"}}
  - {id: verdict, tool: check_order, params: {id: "${steps.orders.size() > 0 ? steps.orders[0] : 'none'}"}}
  - {id: praise, tool: note, when: steps.verdict.is_large, params: {text: large}, optional: true}
  - {id: letter, tool: send, params: {text: "${string(steps.details.size())} orders"}}
gates:
  - {id: fresh, on: details, fresh_within: 3d}
  - {id: paid, on: details, check: output.amount > 10.0, severity: warn}
result: ${steps.letter}
"""


@pytest.mark.parametrize("job", ["stocks", pytest.param("synthetic", marks=pytest.mark.long)])
def test_the_plans_of_the_repository_have_no_fault_and_no_idle_gate(job: str) -> None:
    settings = load_settings(REPOSITORY, {})
    order = resolve_job_file(REPOSITORY / "plans" / f"{job}.job.yaml", None, settings)

    report = simulate(order, settings)

    assert (report.faults, report.failures, report.always_passed, report.always_failed) == (
        0,
        (),
        (),
        (),
    )
    # The goal asks for a stock at least, so there is no fan-out of none.
    assert {found.side for found in report.unreached} == {"0"}


def test_the_starter_projects_simulation_as_text(
    wavewright: CommandLine, project: Path, snapshot: SnapshotAssertion
) -> None:
    answer = wavewright("dry-run", "plans/words.job.yaml", "--simulate")

    assert (answer.code, answer.err) == (0, "")
    assert settled(answer.out, project) == snapshot


def test_every_branch_is_reached_and_what_would_have_happened_is_report(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(FANNED)

    report = simulation.simulate()

    assert report["faults"] == 0
    assert (report["reached"], entries(report, "unreached")) == (report["branches"], [])
    assert (report["always_passed"], report["always_failed"]) == ([], [])
    assert report["approvals"] == ["step 'letter' calls 'send', which needs approval"]
    assert entries(report, "effects") == [
        {"step": "praise", "tool": "note", "effects": "write"},
        {"step": "letter", "tool": "send", "effects": "egress, write"},
    ]


def test_each_scenario_reaches_what_it_is_named_after(simulation: SimulatedProject) -> None:
    simulation.plan(FANNED)

    found = scenarios(simulation.simulate())

    assert found["happy path"]["verdict"] == "achieved"
    assert found["happy path"]["failed_gates"] == []
    assert found["optional step praise fails"]["verdict"] == "achieved"
    assert found["optional step praise fails"]["steps"]["praise"] == "failed"  # type: ignore[index, call-overload]
    assert found["details runs over no item"]["steps"]["details"] == "empty"  # type: ignore[index, call-overload]
    assert found["when of praise is false"]["steps"]["praise"] == "skipped"  # type: ignore[index, call-overload]
    assert "fresh" in found["gate fresh fails"]["failed_gates"]  # type: ignore[operator]
    assert found["gate fresh fails"]["verdict"] == "not_achieved"


def test_the_same_seed_gives_the_same_report_and_another_other_outputs(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(BROKEN)

    first, again, other = (
        simulation.simulate(),
        simulation.simulate(),
        simulation.simulate("--seed", "7"),
    )

    assert first == again
    assert other["seed"] == 7
    assert other != first


BROKEN = """\
steps:
  - {id: verdict, tool: check_order, params: {id: a}}
  - {id: details, tool: fetch_order, params: {id: b}}
  - id: share
    tool: note
    params: {text: "${string(100 / steps.verdict.count)}: ${steps.details.lines[0]}"}
"""


def test_an_expression_without_a_value_is_a_fault_with_the_smallest_output(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(BROKEN)

    divided, missing = entries(simulation.simulate(), "failures")

    assert (divided["step"], divided["kind"], divided["is_fault"]) == ("share", "expression", True)
    assert divided["outputs"] == {"verdict": {"is_large": False, "count": 0, "note": None}}
    assert "there is no [0]" in str(missing["message"])
    assert [*missing["outputs"]] == ["details"]  # type: ignore[misc]


def test_a_condition_that_held_is_reached_also_where_the_parameters_have_no_value(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "  - {id: last, tool: note, when: '!steps.verdict.is_large',\n"
        "     params: {text: '${string(int(\"x\" + string(steps.verdict.note)))}'}}\n"
    )

    report = simulation.simulate()

    [unreached] = entries(report, "unreached")
    assert (unreached["kind"], unreached["name"]) == ("step", "last")
    assert "condition is false" not in str(unreached["why"])


def test_one_cause_is_report_once_and_addresses_stay_whole(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: sums, tool: totals, params: {table: a}}\n"
        "  - {id: site, tool: place, params: {id: a}}\n"
        "  - {id: last, tool: note, params: {text: '${string(steps.sums.net)} ${steps.site.at}'}}\n"
        "  - {id: other, tool: note, params: {text: '${string(1 / steps.site.size)}'}}\n"
    )

    found = {str(one["step"]): one["outputs"] for one in entries(simulation.simulate(), "failures")}

    assert found["last"] == {"sums": {}}
    site = cast("JsonObject", cast("JsonObject", found["other"])["site"])
    assert re.fullmatch(r"https://example\.org/\d+", str(site["at"]))


def test_a_list_that_stands_in_the_plan_has_one_length(simulation: SimulatedProject) -> None:
    simulation.plan(
        "inputs: {words: [a, b]}\n"
        "steps:\n"
        "  - {id: fixed, tool: note, for_each: [a, b], params: {text: '${item}'}}\n"
        "  - {id: one, tool: note, for_each: ['${inputs.words[0]}'], params: {text: '${item}'}}\n"
        "  - {id: ten, tool: note, for_each: '${lists.range(10)}', params: {text: '${string(item)}'}}\n"
        "  - {id: open, tool: note, for_each: '${inputs.words}', params: {text: '${item}'}}\n"
    )

    report = simulation.simulate()

    assert entries(report, "unreached") == []
    assert set(scenarios(report)) == {
        "happy path",
        "open runs over no item",
        "open runs over one item",
    }


def test_a_step_that_makes_anothers_call_fails_with_other_parameters_or_says_why(
    simulation: SimulatedProject,
) -> None:
    settings = simulation.folder / "wavewright.yaml"
    # Only equal calls of a deterministic tool are made once.
    settings.write_text(
        settings.read_text().replace("fetch_order: {", "fetch_order: {deterministic: true, ")
    )
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "  - {id: first, tool: fetch_order, params: {id: b}, optional: true}\n"
        "  - {id: same, tool: fetch_order, params: {id: b}, optional: true, depends_on: [first]}\n"
        "  - {id: alike, tool: fetch_order, optional: true, depends_on: [same],\n"
        "     params: {id: \"${steps.verdict.count > 0 ? 'b' : 'c'}\"}}\n"
    )

    report = simulation.simulate()

    [unreached] = entries(report, "unreached")
    assert unreached["text"] == "optional step same fails"
    assert unreached["why"] == "an equal call is made before"


def test_what_a_gate_holds_back_is_no_fault(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "  - {id: share, tool: note, params: {text: '${string(100 / steps.verdict.count)}'}}\n"
        "gates:\n"
        "  - {id: some, on: verdict, check: output.count > 0}\n"
    )

    assert entries(simulation.simulate(), "failures") == []


def test_parameters_that_a_tool_refuses_are_a_fault(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "  - {id: share, tool: note, params: {text: '${steps.verdict.note == null ? 1 : steps.verdict.note}'}}\n"
    )

    report = simulation.simulate()

    [found] = entries(report, "failures")
    assert (found["step"], found["kind"]) == ("share", "params")


def test_a_mandatory_step_that_nothing_reaches_is_a_fault(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "  - {id: never, tool: note, when: 'steps.verdict.count > steps.verdict.count', params: {text: a}}\n"
    )

    report = simulation.simulate()

    assert [(found["text"], found["is_fault"]) for found in entries(report, "unreached")] == [
        ("step never succeeds", True),
        ("when of never is true", False),
    ]
    assert report["faults"] == 1


def test_gates_that_never_turn_are_listed(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "gates:\n"
        "  - {id: always, on: verdict, required: [count]}\n"
        "  - {id: never, on: verdict, check: 'output.count != output.count'}\n"
        "  - {id: asked, on: verdict, judge: {rubric: is it good}}\n"
    )

    report = simulation.simulate()

    assert (report["always_passed"], report["always_failed"], report["unevaluated"]) == (
        ["always"],
        ["never"],
        ["asked"],
    )


def test_a_word_of_the_plan_turns_its_condition(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "  - {id: rush, tool: note, when: 'steps.verdict.note == \"urgent\"', params: {text: a}}\n"
        "  - {id: bulk, tool: note, when: 'steps.verdict.count > 5000', params: {text: a}}\n"
    )

    assert entries(simulation.simulate(), "unreached") == []


def test_a_recipe_is_applied_to_a_red_gate_and_helps_or_does_not(
    tmp_path: Path, wavewright: CommandLine
) -> None:
    write_quotes_project(tmp_path)
    (tmp_path / "plan.yaml").write_text((tmp_path / "quotes.job.yaml").read_text())

    report = SimulatedProject(tmp_path, wavewright).simulate()
    found = scenarios(report)

    assert not (tmp_path / "calls.txt").exists()
    assert entries(report, "unreached") == []
    assert (
        found["gate fresh__quotes fails"]["verdict"],
        found["gate fresh__quotes fails"]["rounds"],
    ) == (
        "achieved",
        1,
    )
    assert found["gate fresh__quotes fails and recovery does not help"]["verdict"] == "not_achieved"


def test_waits_between_attempts_take_no_time(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - id: verdict\n"
        "    tool: check_order\n"
        "    params: {id: a}\n"
        "    optional: true\n"
        "    retry: {attempts: 50, wait_initial: 1h, wait_max: 1h, on: [any]}\n"
        "  - {id: last, tool: note, params: {text: b}, depends_on: [verdict]}\n"
    )

    assert entries(simulation.simulate(), "unreached") == []


def test_a_tool_that_promises_nothing_cannot_be_held_to_it(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: any, tool: guess, params: {text: a}}\n"
        "  - {id: each, tool: note, for_each: '${steps.any.lines}', params: {text: '${string(item)}'}}\n"
        "  - {id: share, tool: note, params: {text: '${string(steps.any.share)}'}}\n"
    )

    report = simulation.simulate()

    assert (report["faults"], report["undeclared"], entries(report, "unreached")) == (
        0,
        ["any"],
        [],
    )
    reasons = [found["why_not"] for found in entries(report, "failures")]
    assert set(map(str, reasons)) == {"the schema of guess does not say what is read here"}


def test_open_parts_of_an_output_are_as_the_plan_reads_them(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: rows, tool: rows, params: {table: a}}\n"
        "  - {id: all, tool: entries, params: {table: a}}\n"
        "  - {id: unread, tool: guess, params: {text: a}}\n"
        "  - {id: each, tool: note, for_each: '${steps.rows}', params: {text: '${item.name}'}}\n"
        '  - {id: joined, tool: note, params: {text: "${steps.rows.map(row, row.place.town).join()}"}}\n'
        "  - {id: first, tool: note, for_each: '${steps.all}', params: {text: '${item}'}}\n"
        "gates: [{id: enough, on: rows, check: 'output.all(row, row.amount > 3)'}]\n"
    )

    report = simulation.simulate()

    assert (report["faults"], report["undeclared"], entries(report, "unreached")) == (
        0,
        ["rows", "all"],
        [],
    )
    assert (report["always_passed"], report["always_failed"]) == ([], [])
    assert scenarios(report)["happy path"]["verdict"] == "achieved"


def test_a_key_that_a_mapping_need_not_have_is_a_fault_and_yet_tried(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: sums, tool: totals, params: {table: a}}\n"
        "  - {id: last, tool: note, params: {text: '${string(steps.sums.net)}'}}\n"
    )

    report = simulation.simulate()

    assert (report["faults"], report["undeclared"], entries(report, "unreached")) == (1, [], [])
    [found] = entries(report, "failures")
    assert (found["step"], found["outputs"]) == ("last", {"sums": {}})


def test_a_misspelt_tool_is_told_with_the_tools_that_there_are(
    simulation: SimulatedProject,
) -> None:
    simulation.plan("steps: [{id: a, tool: nots, params: {text: a}}]\n")

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate")

    assert answer.code == 1
    assert "did you mean 'note'?" in answer.err


def test_an_agent_answers_in_the_shape_that_it_is_asked_for(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - id: shaped\n"
        "    tool: agent\n"
        "    params:\n"
        "      task: count\n"
        "      output_schema: {type: object, required: [n], properties: {n: {type: integer, minimum: 1}}}\n"
        "  - {id: free, tool: agent, params: {task: speak}}\n"
        "  - {id: first, tool: note, params: {text: '${string(100 / steps.shaped.answer.n)}'}}\n"
        "  - {id: second, tool: note, params: {text: '${string(steps.free.answer.words)}'}}\n"
    )

    report = simulation.simulate()

    assert (report["faults"], report["undeclared"], entries(report, "unreached")) == (
        0,
        ["free"],
        [],
    )
    assert [found["step"] for found in entries(report, "failures")] == ["second"]


def test_a_model_answers_with_the_fields_that_a_step_asks_for(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - id: wish\n"
        "    ask: {of: Two hours please., for: {hours: 1..8, room: [a, b], who: text?}}\n"
        "  - {id: first, tool: note, params: {text: '${steps.wish.room + string(8 / steps.wish.hours)}'}}\n"
        "  - {id: second, tool: note, params: {text: '${steps.wish.who}'}}\n"
    )

    report = simulation.simulate()

    assert (report["undeclared"], entries(report, "unreached")) == ([], [])
    # Only the field that may be null does not fit.
    assert [found["step"] for found in entries(report, "failures")] == ["second"]
    assert scenarios(report)["happy path"]["verdict"] == "achieved"


def test_the_result_of_a_stopped_run_is_that_of_stop(simulation: SimulatedProject) -> None:
    simulation.plan(
        "stop: {when: steps.all.size() == 0, result: nothing}\n"
        "steps:\n"
        "  - {id: all, tool: entries, params: {table: a}}\n"
        "  - {id: each, tool: note, for_each: '${steps.all}', params: {text: '${string(item)}'}}\n"
        "result: ${steps.all[0]}\n"
    )

    report = simulation.simulate()

    assert "result" not in [found["kind"] for found in entries(report, "failures")]


def test_a_gate_requires_a_field_of_an_entry_by_its_position(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps: [{id: rows, tool: rows, params: {table: a}}]\n"
        "gates: [{id: there, on: rows, required: [0.name]}]\n"
    )

    report = simulation.simulate()

    assert scenarios(report)["happy path"]["verdict"] == "achieved"


def test_a_bound_that_an_input_gives_is_reached(simulation: SimulatedProject) -> None:
    simulation.plan(
        "inputs: {least: 6}\n"
        "steps:\n"
        "  - {id: all, tool: entries, params: {table: a}}\n"
        "gates: [{id: enough, on: all, check: output.size() >= inputs.least}]\n"
    )

    report = simulation.simulate()

    assert (report["faults"], report["always_failed"]) == (0, [])
    assert scenarios(report)["happy path"]["verdict"] == "achieved"


OPEN_INPUTS = """\
inputs: {amounts: [], orders: []}
steps:
  - {id: notes, tool: note, for_each: "${inputs.amounts}", params: {text: a, times: "${item}"}}
  - {id: sum, tool: note, when: "inputs.amounts.size() > 0", params: {text: "${string(inputs.amounts.size())}"}}
  - {id: first, tool: note, when: "inputs.orders.size() > 0", params: {text: a, times: "${inputs.orders[0].amount}"}}
  - {id: after, tool: send, when: has(steps.first), params: {text: "${string(steps.first)}"}}
"""


def test_an_input_of_which_nothing_says_what_it_may_be_makes_no_fault(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(OPEN_INPUTS)

    report = simulation.simulate()

    found = scenarios(report)["notes runs over several items"]
    amounts = cast("JsonObject", found["inputs"])["amounts"]
    assert all(isinstance(amount, int) for amount in cast("list[object]", amounts))
    unreached = {str(entry["text"]): entry for entry in entries(report, "unreached")}
    steps = {text: entry for text, entry in unreached.items() if entry["kind"] == "step"}
    assert report["faults"] == 0
    assert steps.keys() == {"step first succeeds", "step after succeeds"}
    assert "nothing says what input orders may be" in str(steps["step after succeeds"]["why"])


def test_a_result_that_cannot_be_made_of_valid_outputs_is_a_fault(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: orders, tool: list_orders, params: {shop: a}}\n"
        "  - {id: verdict, tool: check_order, params: {id: a}}\n"
        "result: {first: '${steps.orders[0]}', count: '${steps.verdict.count}'}\n"
    )

    report = simulation.simulate()

    [found] = entries(report, "failures")
    assert (found["kind"], found["step"], found["outputs"]) == ("result", None, {"orders": []})
    assert report["faults"] == 1


def test_the_absence_of_an_optional_step_turns_a_condition(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: verdict, tool: check_order, params: {id: a}, optional: true}\n"
        "  - {id: plain, tool: note, when: '!has(steps.verdict)', params: {text: a}}\n"
    )

    assert entries(simulation.simulate(), "unreached") == []


def test_a_gate_that_has_no_value_for_a_valid_output_is_noted(simulation: SimulatedProject) -> None:
    simulation.plan(
        "steps:\n"
        "  - {id: orders, tool: list_orders, params: {shop: a}}\n"
        "gates:\n"
        "  - {id: first, on: orders, check: \"output[0] != ''\"}\n"
    )

    report = simulation.simulate()

    [found] = entries(report, "failures")
    assert (found["gate"], found["is_fault"], found["outputs"]) == ("first", False, {"orders": []})


def test_the_findings_as_text(simulation: SimulatedProject, snapshot: SnapshotAssertion) -> None:
    steps = BROKEN.replace("\n", "\n  ")
    simulation.plan(
        "name: a broken job\n"
        "as_of: 2026-03-01\n"
        "plan:\n"
        f"  {steps}"
        "  - {id: never, tool: send, when: 'steps.verdict.count < steps.verdict.count', params: {text: a}}\n"
        "  gates:\n"
        "    - {id: always, on: details, required: [amount]}\n"
        "    - {id: asked, on: details, judge: {rubric: is it good}}\n"
    )

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate")

    assert (answer.code, answer.err) == (1, "")
    assert answer.out == snapshot


def test_an_unsound_plan_gives_its_faults_at_their_places(simulation: SimulatedProject) -> None:
    simulation.plan("steps: [{id: a, tool: note, params: {word: b}}]\n")

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate")

    assert (answer.code, answer.out) == (1, "")
    assert "--> plan.yaml:1:" in answer.err


def test_a_report_is_written_where_it_is_wanted(simulation: SimulatedProject) -> None:
    simulation.plan(FANNED)

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate", "--output", "report.txt")

    assert (answer.code, answer.out) == (0, "wrote report.txt\n")
    text = (simulation.folder / "report.txt").read_text()
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "report"),
    [
        (["--seed", "3"], "--seed needs --simulate"),
        (["--fixtures", "x.yaml"], "--fixtures needs --simulate"),
        (["--simulate", "--format", "html"], "a simulation has no format 'html'"),
        (["--simulate", "--out", "saved.json"], "--out does not go with --simulate"),
        (["--simulate", "--run", "2026"], "--run does not go with --simulate"),
        (["--simulate", "--patch", "patch.yaml"], "--patch does not go with --simulate"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    simulation: SimulatedProject, options: list[str], report: str
) -> None:
    simulation.plan(FANNED)

    answer = simulation.wavewright("dry-run", "plan.yaml", *options)

    assert answer.code == 2
    assert report in answer.err


def test_a_step_behind_two_conditions_is_reached_by_other_inputs_and_outputs(
    simulation: SimulatedProject,
) -> None:
    simulation.plan(
        "inputs: {mode: fast, shops: [a, b]}\n"
        "steps:\n"
        "  - {id: orders, tool: list_orders, for_each: '${inputs.shops}', params: {shop: '${item}'}}\n"
        "  - {id: verdict, tool: check_order, when: inputs.mode == 'slow', params: {id: a}}\n"
        "  - id: either\n"
        "    tool: note\n"
        "    when: has(steps.verdict) && steps.verdict.note != null && steps.verdict.note.startsWith('VIP')\n"
        "    params: {text: b}\n"
        "    optional: true\n"
    )

    report = simulation.simulate()

    assert entries(report, "unreached") == []
    assert scenarios(report)["when of either is true"]["inputs"] == {
        "mode": "slow",
        "shops": ["a", "b"],
    }


def test_no_model_is_asked_although_one_is_configured(simulation: SimulatedProject) -> None:
    with (simulation.folder / "wavewright.yaml").open("a") as settings:
        settings.write("model: openai:some-model\n")
    simulation.plan(FANNED)

    assert simulation.simulate()["faults"] == 0


@pytest.mark.parametrize("schedule", ["waves", "dataflow"])
def test_both_schedules_can_be_simulated(simulation: SimulatedProject, schedule: str) -> None:
    simulation.plan(FANNED)

    assert entries(simulation.simulate("--schedule", schedule), "unreached") == []


def narrow_tool(simulation: SimulatedProject, pattern: str) -> None:
    (simulation.folder / "tools.py").write_text(
        "from typing import Annotated\n"
        "from pydantic import Field\n\n\n"
        f"def number(shop: str) -> Annotated[str, Field(pattern=r'{pattern}', max_length=20)]:\n"
        '    """Return a number."""\n'
        '    raise SystemExit("a real tool was called")\n'
    )
    (simulation.folder / "wavewright.yaml").write_text(
        "tools: [{path: tools.py, functions: {number: {}}}]\n"
    )
    simulation.plan("steps: [{id: n, tool: number, params: {shop: a}}]\n")


def test_texts_of_a_pattern_need_the_extra_and_say_so(
    simulation: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow_tool(simulation, "^[0-9]{3}:[0-9]{5}$")
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate")

    assert (answer.code, answer.out) == (2, "")
    assert "^[0-9]{3}:[0-9]{5}$" in answer.err
    assert "pip install 'wavewright[testing]'" in answer.err
    (simulation.folder / "fixtures.yaml").write_text("number: '123:45678'\n")
    assert simulation.simulate("--fixtures", "fixtures.yaml")["faults"] == 0


def test_a_pattern_that_only_another_output_has_needs_the_extra_too(
    simulation: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow_tool(simulation, "^[0-9]{3}:[0-9]{5}$")
    tools = simulation.folder / "tools.py"
    tools.write_text(tools.read_text().replace("-> Annotated", "-> int | Annotated"))
    simulation.plan(
        "steps: [{id: n, tool: number, params: {shop: a}}]\n"
        "gates: [{id: some, on: n, check: \"string(output) != '12'\"}]\n"
    )
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate")

    assert (answer.code, answer.out) == (2, "")
    assert "pip install 'wavewright[testing]'" in answer.err


def test_a_tool_whose_outputs_cannot_be_made_asks_for_a_fixture(
    simulation: SimulatedProject,
) -> None:
    narrow_tool(simulation, "^[0-9]{40}$")

    answer = simulation.wavewright("dry-run", "plan.yaml", "--simulate")

    assert (answer.code, answer.out) == (2, "")
    assert "no output could be made for tool 'number'" in answer.err
    assert "--fixtures FILE" in answer.err
