"""A job and its template, folded into a goal; and what is wrong with either, at its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wavewright.config.documents import read_document
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.diagnostics.rendering import render_text
from wavewright.planner.language.goals import Goal, GoalTemplate, Job
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.goal_resolution import check_template, resolve_goal, unknown_names
from wavewright.planner.reading.reader import read_model

TEMPLATE: dict[str, Any] = {
    "name": "outlook",
    "goal": "Look at ${inputs.stocks.size()} stocks of ${inputs.market}",
    "targets": {"variables": "stocks", "benchmarks": "indices", "key": "code"},
    "inputs_schema": {
        "type": "object",
        "properties": {
            "stocks": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "required": ["code"]},
            },
            "indices": {"type": "array", "items": {"type": "string"}},
            "market": {"type": "string", "default": "ASX"},
            "days": {"type": "integer"},
        },
        "required": ["stocks", "indices"],
        "additionalProperties": False,
    },
    "available_tools": [{"name": "price"}],
    "limits": {"max_steps": 5, "rounds": 1},
    "output_tags": ["a"],
}


def template_of(**changes: Any) -> GoalTemplate:
    return GoalTemplate.model_validate_json(json.dumps({**TEMPLATE, **changes}))


def goal_of(job: str, **changes: Any) -> Goal:
    document = read_document(job, "job.yaml")
    return resolve_goal(read_model(document, Job), template_of(**changes), document)


def refusal_of(job: str, **changes: Any) -> str:
    with pytest.raises(PlanError) as refused:
        goal_of(job, **changes)
    return render_text(refused.value.diagnostics, refused.value.source)


def test_targets_become_inputs_under_the_templates_names() -> None:
    goal = goal_of("name: j\nvariables: [{code: GNP}]\nbenchmarks: [XJO]\ninputs: {days: 5}\n")

    assert goal.inputs == {
        "stocks": [{"code": "GNP"}],
        "indices": ["XJO"],
        "days": 5,
        "market": "ASX",
    }
    assert (goal.name, goal.job) == ("outlook", "j")


def test_targets_that_are_declared_and_not_given_are_empty() -> None:
    assert goal_of("name: j\nvariables: [{code: GNP}]\n").inputs["indices"] == []


def test_targets_may_be_given_as_inputs() -> None:
    assert goal_of("name: j\ninputs: {stocks: [{code: GNP}]}\n").inputs["stocks"] == [
        {"code": "GNP"}
    ]


def test_the_goals_text_speaks_of_the_inputs() -> None:
    assert goal_of("name: j\nvariables: [{code: GNP}]\n").text == "Look at 1 stocks of ASX"
    assert (
        goal_of("name: j\nvariables: [{code: GNP}]\ngoal: only ${inputs.stocks[0].code}\n").text
        == "only GNP"
    )


def test_the_job_wins_field_by_field() -> None:
    goal = goal_of(
        "name: j\nvariables: [{code: GNP}]\noverrides: {limits: {rounds: 0}, output_tags: [b], thinking_level: high}\n"
    )

    assert (goal.limits.max_steps, goal.limits.rounds) == (5, 0)
    assert goal.output_tags == ("b",)
    assert goal.thinking_level == "high"


def test_an_override_of_what_does_not_exist_is_refused_at_its_place() -> None:
    assert refusal_of(
        "name: j\nvariables: [{code: GNP}]\noverrides:\n  limits: {max_step: 3}\n"
    ) == (
        "error[E104]: 'max_step' is no field of 'limits'\n"
        " --> job.yaml:4:12\n"
        "  |\n"
        "4 |   limits: {max_step: 3}\n"
        "  |            ^^^^^^^^\n"
        "  = help: did you mean 'max_steps'?"
    )


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param("name: j\n", [("E107", "/variables")], id="no target"),
        pytest.param(
            "name: j\nvariables: [{cod: GNP}]\n",
            [("E105", "/variables/0")],
            id="a target without its key",
        ),
        pytest.param(
            "name: j\nvariables: [{code: A}]\nbenchmarks: [3]\n",
            [("E106", "/benchmarks/0")],
            id="a type",
        ),
        pytest.param(
            "name: j\nvariables: [{code: A}]\ninputs: {days: x, dyas: 3}\n",
            [("E106", "/inputs/days"), ("E104", "/inputs/dyas")],
            id="everything at once",
        ),
        pytest.param(
            "name: j\nvariables: [{code: A}]\ninputs: {stocks: [{code: B}]}\n",
            [("E107", "/inputs/stocks")],
            id="twice",
        ),
        pytest.param(
            "name: j\nvariables: [{code: A}]\ngoal: see ${inputs.x}\n",
            [("E302", "/goal")],
            id="the text",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused_at_their_place(
    job: str, expected: list[tuple[str, str]]
) -> None:
    with pytest.raises(PlanError) as refused:
        goal_of(job)

    assert [(one.code, one.pointer) for one in refused.value.diagnostics] == expected
    assert all(one.span is not None for one in refused.value.diagnostics)


def test_a_missing_input_says_how_to_give_it() -> None:
    schema = {
        "type": "object",
        "required": ["market"],
        "properties": {"market": {"type": "string"}},
    }

    assert "add it to the job's 'inputs': market: …" in refusal_of(
        "name: j\n", inputs_schema=schema, goal="x"
    )


def test_a_sound_template_has_nothing_to_say() -> None:
    assert check_template(template_of(), {"price": ToolSignature(name="price")}) == []


def test_whatever_a_template_names_has_to_exist() -> None:
    template = template_of(
        available_tools=[{"name": "price"}, {"name": "prize"}],
        rules={"data_tools": ["fetch"], "terminal": [{"tool": "anlyze"}]},
        gates=[
            {"id": "g__1", "on_tool": "price", "check": "true"},
            {"id": "h", "on_tool": "index", "check": "true"},
        ],
        recipes=[
            {"gate": "i", "reason": "because"},
            {"gate": "h", "reason": "because", "add": [{"id": "a", "tool": "fetsch"}]},
        ],
        targets={"visited": "sen"},
        inputs_schema={"type": "object", "properties": {"seen": {"type": "array"}}},
        output_schema={"type": "nonsense"},
    )

    found = check_template(template, {"price": ToolSignature(name="price")})

    assert [(one.code, one.pointer) for one in found] == [
        ("E201", "/available_tools/1/name"),
        ("E202", "/rules/data_tools"),
        ("E202", "/rules/terminal/0/tool"),
        ("E202", "/gates/1/on_tool"),
        ("E202", "/recipes/1/add/0/tool"),
        ("E407", "/recipes/0/gate"),
        ("E123", "/gates/0/id"),
        ("E104", "/targets/visited"),
        ("E107", "/output_schema"),
    ]


def test_only_tools_that_there_are_are_suggested_to_a_template() -> None:
    template = template_of(
        available_tools=[{"name": "prize"}], rules={"data_tools": ["price"], "may_fail": ["prce"]}
    )

    found = check_template(template, {"price": ToolSignature(name="price")})

    assert [one.hint for one in found] == [
        "did you mean 'price'?",
        "add it to `available_tools`",
        "did you mean 'price'?",
    ]


def test_a_template_names_parameters_that_its_tools_take() -> None:
    def recipe(param: str, value: object = None, **of: str) -> dict[str, object]:
        return {"reason": "stale", "set_params": {param: value or True}, **of}

    template = template_of(
        rules={
            "primary_params": {"price": "cod"},
            "terminal": [{"tool": "price", "params": {"force": 1, "farce": True}}],
        },
        gates=[{"id": "fresh", "on_tool": "price", "check": "true"}],
        recipes=[
            recipe("force", gate="fresh"),
            recipe("fource", gate="fresh"),
            recipe("codes", on="feedback", step="prices"),
            recipe("forte", gate="whole"),
            recipe("force", "yes", gate="fresh"),
            recipe("force", "${inputs.forced}", gate="fresh"),
            recipe("days", [1, "2"], gate="whole"),
        ],
        plan={
            "steps": [{"id": "prices", "tool": "price"}],
            "gates": [{"id": "whole", "on": "prices", "check": "true"}],
        },
    )
    price = ToolSignature(
        name="price",
        input_schema={
            "type": "object",
            "properties": {
                "code": {},
                "force": {"type": "boolean"},
                "days": {"type": "array", "items": {"$ref": "#/$defs/Day"}},
            },
            "$defs": {"Day": {"type": "integer"}},
            "additionalProperties": False,
        },
    )

    found = check_template(template, {"price": price})

    misfits = [(one.pointer, one.message) for one in found if one.code == "E205"]
    assert misfits == [
        (
            "/rules/terminal/0/params/force",
            "the goal template sets 'force' of 'price', which is 1, but must be a boolean",
        ),
        (
            "/recipes/4/set_params/force",
            "the goal template sets 'force' of 'price', which is 'yes', but must be a boolean",
        ),
        (
            "/recipes/6/set_params/days/1",
            "the goal template sets 'days' of 'price', which is '2', but must be an integer",
        ),
    ]
    assert [(one.code, one.pointer, one.hint) for one in found if one.code == "E203"] == [
        ("E203", "/rules/primary_params/price", "did you mean 'code'?"),
        ("E203", "/rules/terminal/0/params/farce", "did you mean 'force'?"),
        ("E203", "/recipes/1/set_params/fource", "did you mean 'force'?"),
        ("E203", "/recipes/2/set_params/codes", "did you mean 'code'?"),
        ("E203", "/recipes/3/set_params/forte", "did you mean 'force'?"),
    ]


def test_literals_are_allowed_of_fields_that_the_result_has() -> None:
    template = template_of(
        allow_literals=["title", "rows.note", "rows.nota", "titel", "meta.any", "result"],
        output_schema={
            "type": "object",
            "properties": {
                "title": {"type": ["string", "null"]},
                "rows": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"note": {"type": "string"}}},
                },
                "meta": {"type": "object"},
            },
        },
    )

    found = check_template(template, {"price": ToolSignature(name="price")})

    assert [(one.code, one.pointer, one.hint) for one in found] == [
        ("E303", "/allow_literals", "did you mean 'note'?"),
        ("E303", "/allow_literals", "did you mean 'title'?"),
    ]


def test_a_name_that_only_a_recipe_or_allow_literals_has_is_refused_in_a_job_as_well() -> None:
    template = template_of(
        recipes=[{"gate": "frish", "reason": "old", "set_params": {"force": True}}],
        gates=[{"id": "fresh", "on_tool": "price", "check": "true"}],
        allow_literals=["titel"],
        output_schema={"type": "object", "properties": {"title": {"type": "string"}}},
    )

    assert [(one.code, one.pointer) for one in unknown_names(template)] == [
        ("E407", "/recipes/0/gate"),
        ("E303", "/allow_literals"),
    ]


def test_what_a_recovery_may_drop_is_of_a_gate_a_tool_or_a_step() -> None:
    template = template_of(
        may_drop=["fresh", "fresh__prices", "price", "prices", "old", "frish"],
        gates=[{"id": "fresh", "on_tool": "price", "check": "true"}],
        plan={
            "steps": [{"id": "prices", "tool": "price"}],
            "gates": [{"id": "old", "on": "prices", "check": "true"}],
        },
    )

    found = check_template(template, {"price": ToolSignature(name="price")})

    assert [(one.code, one.pointer, one.hint) for one in found] == [
        ("E407", "/may_drop", "did you mean 'fresh'?")
    ]


def test_a_recipe_names_its_gate_letter_by_letter_as_it_is_looked_for() -> None:
    gate = {"id": "fresh", "on_tool": "price", "check": "true"}
    recipes = [{"gate": name, "reason": "old"} for name in ("fresh", "Fresh")]
    template = template_of(gates=[gate], recipes=recipes)

    found = check_template(template, {"price": ToolSignature(name="price")})

    assert [(one.code, one.pointer, one.hint) for one in found] == [
        ("E407", "/recipes/1/gate", "did you mean 'fresh'?")
    ]


def test_a_recipe_for_feedback_is_for_a_step_of_the_plan() -> None:
    def recipe(step: str) -> dict[str, object]:
        return {"on": "feedback", "reason": "asked", "step": step, "set_params": {"days": 5}}

    plan = {
        "steps": [{"id": "prices", "tool": "price"}, {"id": "clean", "plan": "clean.plan.yaml"}]
    }
    template = template_of(
        recipes=[recipe("price"), recipe("prices"), recipe("clean.fetch")], plan=plan
    )

    found = check_template(template, {"price": ToolSignature(name="price")})

    assert [(one.code, one.pointer) for one in found] == [("E301", "/recipes/0/step")]
    assert found[0].hint == "did you mean 'prices'?"
