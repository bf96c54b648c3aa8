from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from wavewright.config.documents import read_document
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.diagnostics.rendering import render_text
from wavewright.planner.language.goals import GoalTemplate, Job
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.reading.reader import (
    read_model,
    read_model_file,
    read_plan,
    read_plan_file,
    read_tools_file,
)
from wavewright.planner.types import Json

YAML = """\
version: 1
goal: Compare two gauges
steps:
  - id: levels
    tool: read_gauge
    for_each: [north, south]
    params: {gauge: "${item}"}
    timeout: 1m30s
  - id: report
    tool: write_report
    params:
      title: Levels on 2010-03-01
      on: ${steps.levels}
gates:
  - {id: fresh, on: levels, fresh_within: 24h}
"""

JSON = """\
{
  "version": 1, "goal": "Compare two gauges",
  "steps": [
    {"id": "levels", "tool": "read_gauge", "for_each": ["north", "south"], "params": {"gauge": "${item}"},
     "timeout": 90},
    {"id": "report", "tool": "write_report",
     "params": {"title": "Levels on 2010-03-01", "on": "${steps.levels}"}}
  ],
  "gates": [{"id": "fresh", "on": "levels", "fresh_within": 86400}]
}
"""

BROKEN = """\
version: "1"
stepps: []
steps:
  - id: 1 level
    tool: 7
    params: [gauge]
    for_each: true
    timeout: soon
    optional: yes
    retry: {attempts: 0, on: timeout}
  - just a word
  - tool: read_gauge
    depend_on: [a]
gates:
  - {id: fresh, on: levels}
  - {id: full, on: levels, check: "true", severity: blok}
caps:
  - {field: level, max: 1.5, because: ""}
"""


def complaints(content: str, name: str = "plans/levels.yaml") -> str:
    text = read_plan(content, name)
    assert text.plan is None
    return render_text(text.diagnostics, text.source)


def test_json_and_yaml_are_two_notations_of_one_plan() -> None:
    from_yaml, from_json = read_plan(YAML, "levels.yaml"), read_plan(JSON, "levels.json")

    assert from_yaml.diagnostics == from_json.diagnostics == ()
    assert from_yaml.plan is not None
    assert from_yaml.plan == from_json.plan


def test_a_plan_that_was_stored_is_read_back() -> None:
    plan = read_plan(YAML, "levels.yaml").plan
    assert plan is not None

    stored = plan.model_dump_json(by_alias=True)

    assert read_plan(stored, "stored.json").plan == plan


def test_everything_that_is_wrong_is_said_at_once_in_the_order_of_the_text(
    snapshot: SnapshotAssertion,
) -> None:
    assert complaints(BROKEN) == snapshot


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ("with: {gauge: 1}", "it is called 'params' here"),
        ("needs: [b]", "it is called 'depends_on' here"),
        ("loop: [1, 2]", "it is called 'for_each' here"),
        ("if: 'true'", "it is called 'when' here"),
        ("continue_on_error: true", "it is called 'optional' here"),
        ("depend_on: [b]", "did you mean 'depends_on'?"),
        ("retry: 3", "write an object, of such fields: {attempts: …, on: …"),
        ("depends_on: {b: 1}", "write a list, with `- ` before each of its entries"),
    ],
)
def test_what_other_systems_write_is_said_in_the_words_of_plans(step: str, hint: str) -> None:
    assert f"= help: {hint}" in complaints(f"steps:\n  - {{id: a, tool: read_gauge, {step}}}\n")


@pytest.mark.parametrize(
    ("plan", "hint"),
    [
        ("tasks: []", "it is called 'steps' here"),
        ("steps: []\noutputs: {a: 1}", "it is called 'result' here"),
        ("steps: {a: {tool: read_gauge}}", "write a list, with `- ` before each of its entries"),
    ],
)
def test_what_other_systems_call_parts_of_a_plan_is_said_in_its_words(plan: str, hint: str) -> None:
    said = complaints(plan)

    assert f"= help: {hint}" in said
    assert said.count("error[") == 1


def test_a_tool_of_another_name_is_no_missing_tool() -> None:
    said = complaints("steps:\n  - {id: a, uses: read_gauge}\n")

    assert "= help: it is called 'tool' here" in said
    assert said.count("error[") == 1


def test_a_person_may_not_write_what_only_a_repair_can_read() -> None:
    assert complaints("{'steps': []}", "plan.json").startswith("error[E101]")


@pytest.mark.parametrize(
    ("content", "codes"),
    [
        pytest.param("[]", ["E106"], id="a list"),
        pytest.param("{}", ["E105"], id="an empty object"),
        pytest.param('{"steps": [{"id": "a"}]}', ["E105"], id="no tool"),
        pytest.param('{"steps": [], "stepz": 1}', ["E104"], id="unknown field"),
        pytest.param('{"steps": [{"id": "a b", "tool": "t"}]}', ["E118"], id="step id"),
        pytest.param(
            '{"steps": [], "gates": [{"id": "g", "on": "a"}]}', ["E123"], id="gate without a kind"
        ),
        pytest.param(
            '{"steps": [], "gates": [{"id": "g-1", "on": "a", "check": "true"}]}',
            ["E123"],
            id="gate id",
        ),
        pytest.param(
            '{"steps": [{"id": "a", "tool": "t", "timeout": true}]}',
            ["E107"],
            id="truth value as duration",
        ),
        pytest.param(
            '{"steps": [{"id": "a", "tool": "t", "min_ok": -1}]}', ["E107"], id="out of bounds"
        ),
        pytest.param(
            '{"steps": [{"id": "a", "tool": "t", "min_ok": 1.5}]}', ["E106"], id="fraction"
        ),
    ],
)
def test_each_fault_of_shape_has_its_code(content: str, codes: list[str]) -> None:
    assert [one.code for one in read_plan(content, "plan.json").diagnostics] == codes


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            '{"cannot_plan": "no tool fits"}',
            "this is no plan: a planner answered 'cannot_plan': 'no tool fits'",
        ),
        ('{"ask": {"question": "which?"}}', "this is no plan: a planner answered 'ask'"),
    ],
)
def test_a_stored_answer_without_a_plan_is_told_from_a_faulty_plan(
    answer: str, message: str
) -> None:
    (found,) = read_plan(answer, "plan.json").diagnostics

    assert (found.code, found.message) == ("E121", message)


def test_a_number_for_an_id_is_not_answered_with_a_string_that_is_no_id() -> None:
    (found,) = read_plan('{"steps": [{"id": 1, "tool": "t"}]}', "plan.json").diagnostics

    assert (found.code, found.hint) == (
        "E106",
        "an id is a word, because numbers shift when a plan is changed: write s1 for 1",
    )


def test_an_unknown_field_is_answered_with_the_nearest_or_with_all_there_are() -> None:
    (near,) = read_plan(
        '{"steps": [{"id": "a", "tool": "t", "dependson": []}]}', "plan.json"
    ).diagnostics
    (far,) = read_plan(
        '{"steps": [], "gates": [{"id": "g", "on": "a", "judge": {"rubric": "r", "x": 1}}]}',
        "p.json",
    ).diagnostics

    assert (near.message, near.hint) == (
        "'dependson' is no field of step 'a'",
        "did you mean 'depends_on'?",
    )
    assert far.hint == "there is 'rubric'"


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ('"gates": []', "it is a field of the plan: write it there, beside 'steps'"),
        ('"caps": []', "it is a field of the plan: write it there, beside 'steps'"),
        ('"retry": {"timeout": 3}', "it is a field of step 'a': write it there, beside 'retry'"),
    ],
)
def test_a_field_that_is_written_too_deep_is_answered_with_where_it_belongs(
    step: str, hint: str
) -> None:
    text = f'{{"steps": [{{"id": "a", "tool": "t", {step}}}]}}'
    (found,) = read_plan(text, "plan.json").diagnostics

    assert (found.code, found.hint) == ("E104", hint)


def test_the_fields_that_there_are_stand_in_the_hint_where_none_is_near() -> None:
    (unknown,) = read_plan('{"steps": [], "1": 2}', "plan.json").diagnostics

    assert str(unknown.hint).startswith("there are 'caps', 'gates', ")


def test_a_field_of_several_types_gives_one_fault() -> None:
    (found,) = read_plan(
        '{"steps": [{"id": "a", "tool": "t", "for_each": 3}]}', "plan.json"
    ).diagnostics

    assert (
        found.message == "'for_each' of step 'a' should be a string or a list, and is the number 3"
    )


def test_where_one_of_several_types_nearly_fits_only_its_faults_are_told() -> None:
    document = read_document("name: x\nplan:\n  steps:\n    - {id: a}\n", "job.yaml")

    with pytest.raises(PlanError) as caught:
        read_model(document, Job)

    assert [(one.code, one.pointer) for one in caught.value.diagnostics] == [
        ("E105", "/plan/steps/0")
    ]


def test_a_wrong_operation_of_a_patch_is_named() -> None:
    document = read_document(
        '{"base": "sha256:0", "reason": "r", "ops": [{"op": "ad"}, {"step": {}}]}', "p.json"
    )

    with pytest.raises(PlanError) as caught:
        read_model(document, PlanPatch)

    assert [(one.code, one.pointer, one.hint) for one in caught.value.diagnostics] == [
        ("E107", "/ops/0/op", "did you mean 'add'?"),
        ("E105", "/ops/1", "add 'op'"),
    ]


@pytest.mark.parametrize("as_of", ["2010", "1267401600", '"1267401600"', "true"])
def test_an_instant_is_never_read_from_a_number(as_of: str) -> None:
    document = read_document(f"name: x\nas_of: {as_of}\n", "job.yaml")

    with pytest.raises(PlanError, match="write a date"):
        read_model(document, Job)


@pytest.mark.parametrize("as_of", ["9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.999999"])
def test_an_instant_that_is_in_no_year_in_utc_is_refused(as_of: str) -> None:
    document = read_document(f"name: x\nas_of: {as_of}\n", "job.yaml")

    with pytest.raises(PlanError, match="in UTC lies in the years 1 to 9999"):
        read_model(document, Job)


def test_a_date_is_the_start_of_its_day_in_utc() -> None:
    job = read_model(read_document("name: x\nas_of: 2010-03-01\n", "job.yaml"), Job)

    assert job.as_of is not None
    assert job.as_of.isoformat() == "2010-03-01T00:00:00+00:00"


def test_sets_of_a_template_are_written_as_lists() -> None:
    text = "name: t\ngoal: g\navailable_tools: [{name: a}]\nrules: {tags: {param: p, exclusive: [[x, y]]}}\n"
    template = read_model(read_document(text, "goal.yaml"), GoalTemplate)

    assert template.rules.tags is not None
    assert template.rules.tags.exclusive == (frozenset({"x", "y"}),)


def test_a_missing_file_is_a_diagnostic(tmp_path: Path) -> None:
    (tmp_path / "levels.yaml").write_text(YAML)
    text = read_plan_file(tmp_path / "level.yaml")

    assert [(one.code, one.hint) for one in text.diagnostics] == [
        ("E125", f"did you mean {str(tmp_path / 'levels.yaml')!r}?")
    ]
    assert read_plan_file(tmp_path / "levels.yaml").plan is not None


def test_a_file_of_another_kind_raises_all_its_faults(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("steps: []\nversion: 2\nx: 1\n")

    with pytest.raises(PlanError) as caught:
        read_model_file(file, Plan)

    assert [one.code for one in caught.value.diagnostics] == ["E107", "E104"]
    assert caught.value.source.name == str(file)


def test_a_document_with_very_many_faults_tells_the_first_hundred() -> None:
    text = read_plan('{"steps": [' + ", ".join(['{"x": 1}'] * 500) + "]}", "plan.json")

    assert len(text.diagnostics) == 100
    assert text.diagnostics[-1].message.endswith("(and more faults after this one)")


def test_a_step_whose_id_is_no_name_is_called_by_its_place() -> None:
    text = read_plan(
        f'{{"steps": [{{"id": "{"a" * 5000}", "tool": "work", "params": {{}}}}]}}', "plan.json"
    )

    (diagnostic,) = text.diagnostics
    assert diagnostic.message.startswith("'id' of steps[0] should begin with a letter")
    assert len(diagnostic.message) < 250


def test_a_list_of_signatures_is_read_by_name(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    listed = [
        {
            "name": "fetch",
            "description": "Fetch a page.",
            "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}},
            "output_schema": {"type": "string"},
            "effects": ["egress"],
        },
        {"name": "write", "effects": ["write"]},
    ]
    file.write_text(json.dumps(listed))

    tools = read_tools_file(file)

    assert list(tools) == ["fetch", "write"]
    assert tools["fetch"].output_schema == {"type": "string"}
    assert tools["write"].writes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"name": "fetch"}', "list", id="no list"),
        pytest.param('[{"name": "fetch", "efects": []}]', "efects", id="unknown field"),
        pytest.param(
            '[{"name": "fetch", "effects": ["burn"]}]', "burn|effects", id="unknown effect"
        ),
        pytest.param('[{"name": "a"}, {"name": "a"}]', "tool 'a' is listed twice", id="twice"),
    ],
)
def test_a_file_that_lists_no_signatures_is_refused_at_its_place(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "tools.json"
    file.write_text(text)

    with pytest.raises(PlanError, match=message) as refused:
        read_tools_file(file)

    assert all(diagnostic.span is not None for diagnostic in refused.value.diagnostics)


@pytest.mark.parametrize("quote", ["", '"'])
def test_ids_that_are_numbers_are_told_once_how_they_are_written(quote: str) -> None:
    steps = (
        f'{{"id": {quote}1{quote}, "tool": "a"}}, '
        '{"id": "b", "tool": "a", "params": {"x": "${steps.1.y}"}, "depends_on": [1]}'
    )

    read = read_plan(f'{{"steps": [{steps}]}}', "plan.json")

    hints = [found.hint or "" for found in read.diagnostics]
    assert len(hints) == 2
    assert all(hint.endswith("write s1 for 1") for hint in hints)


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        (["find"], [("E106", "/available_tools/0")]),
        ([3, {"name": "find"}], [("E106", "/available_tools/0")]),
        ([], [("E107", "/available_tools")]),
    ],
)
def test_a_list_is_not_called_too_short_for_the_items_that_are_at_fault(
    tools: list[Json], told: list[tuple[str, str]]
) -> None:
    template = {"version": 1, "name": "t", "goal": "g", "available_tools": tools}

    with pytest.raises(PlanError) as caught:
        read_model(read_document(json.dumps(template), "t.json"), GoalTemplate)

    assert [(one.code, one.pointer) for one in caught.value.diagnostics] == told
