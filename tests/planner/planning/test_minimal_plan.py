"""The least plan that a goal's rules ask for: sound, or not there."""

from __future__ import annotations

from typing import Any

from tests.planner.planning_case import JOB, TOOLS, goal_of, params
from wavewright.planner.checks.checker import check
from wavewright.planner.language.goals import AvailableTool, Goal, Job, Rules
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.candidates import NoMinimalPlan, minimal_plan
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.types import JsonSchema

TEXT: JsonSchema = {"type": "string"}
TEXTS: JsonSchema = {"type": "array", "items": TEXT}
NUMBERS: JsonSchema = {"type": "array", "items": {"type": "integer"}}


def made(goal: Goal, tools: dict[str, ToolSignature] = TOOLS) -> Plan:
    plan = minimal_plan(goal, tools)
    assert isinstance(plan, Plan), plan
    assert [
        one for one in check(bind_plan(plan, goal), goal, tools) if one.severity == "error"
    ] == []
    return plan


def refused(goal: Goal, tools: dict[str, ToolSignature] = TOOLS) -> str:
    outcome = minimal_plan(goal, tools)
    assert isinstance(outcome, NoMinimalPlan), outcome
    return outcome.reason


def calls(plan: Plan) -> list[tuple[str, Any, dict[str, Any]]]:
    return [(step.tool, step.for_each, step.params) for step in plan.steps]


def test_required_data_over_the_targets_then_the_analysis_over_its_outputs() -> None:
    assert calls(made(goal_of())) == [
        ("read_sensor", "${inputs.stations}", {"station": "${item.code}"}),
        ("write_report", None, {"readings": "${steps.read_sensor}", "title": "wind today"}),
    ]


def test_targets_that_are_plain_values_are_taken_as_they_are() -> None:
    goal = goal_of(
        {"targets": {"variables": "stations", "benchmarks": "references"}},
        Job(name="j", variables=["ZRH"]),
    )

    assert calls(made(goal))[0] == ("read_sensor", "${inputs.stations}", {"station": "${item}"})


def test_text_of_the_goal_is_never_read_as_an_expression() -> None:
    goal = goal_of(job=JOB.model_copy(update={"name": "cost: ${inputs.secret}"}))

    assert made(goal).steps[1].params["title"] == "cost: $${inputs.secret}"


def test_text_of_the_goal_is_cut_to_what_the_tool_takes() -> None:
    goal = goal_of(job=JOB.model_copy(update={"name": "w" * 100}))

    assert made(goal).steps[1].params["title"] == "w" * 40


def word_tools() -> dict[str, ToolSignature]:
    note: JsonSchema = {"type": "object", "properties": {"text": TEXT}, "required": ["text"]}
    return {
        one.name: one
        for one in (
            ToolSignature(
                name="list_notes", input_schema=params("folder", folder=TEXT), output_schema=TEXTS
            ),
            ToolSignature(
                name="read_note", input_schema=params("path", path=TEXT), output_schema=note
            ),
            ToolSignature(
                name="rank_words",
                input_schema=params(
                    "notes", notes={"type": "array", "items": note}, top={"type": "integer"}
                ),
            ),
        )
    }


WORDS = {
    "available_tools": [{"name": "list_notes"}, {"name": "read_note"}, {"name": "rank_words"}],
    "rules": {"data_tools": ["list_notes", "read_note"], "analysis_tools": ["rank_words"]},
    "gates": [],
}


def test_data_tools_are_added_until_the_analysis_can_be_built_on_them() -> None:
    goal = goal_of(WORDS, Job(name="words", inputs={"folder": "notes"}))

    assert calls(made(goal, word_tools())) == [
        ("list_notes", None, {"folder": "${inputs.folder}"}),
        ("read_note", "${steps.list_notes}", {"path": "${item}"}),
        ("rank_words", None, {"notes": "${steps.read_note}"}),
    ]


def test_without_what_a_tool_needs_there_is_no_plan() -> None:
    assert (
        refused(goal_of(WORDS, Job(name="words")), word_tools())
        == "no values are known for the parameters of 'rank_words'"
    )
    assert (
        refused(goal_of(job=Job(name="no targets")))
        == "no values are known for the parameters of 'read_sensor'"
    )


def test_without_rules_there_is_nothing_to_force() -> None:
    goal = Goal(name="g", job="g", text="t", inputs={}, tools=(AvailableTool(name="read_sensor"),))

    assert refused(goal) == "the goal's rules name no tool that every plan calls"


def test_a_tool_that_writes_gets_no_made_up_words() -> None:
    tools = {
        **TOOLS,
        "post": ToolSignature(
            name="post", input_schema=params("title", title=TEXT), effects=frozenset({"write"})
        ),
    }
    rules = {
        "required_tools": ["read_sensor", "post"],
        "primary_params": {"read_sensor": "station"},
    }
    goal = goal_of({"available_tools": [{"name": "read_sensor"}, {"name": "post"}], "rules": rules})

    assert refused(goal, tools) == "no values are known for the parameters of 'post'"


def test_a_plan_that_breaks_a_rule_is_not_forced() -> None:
    rules = {
        "required_tools": ["read_sensor"],
        "primary_params": {"read_sensor": "station"},
        "tags": {"param": "tags", "required": ["wind"]},
    }

    assert refused(goal_of({"rules": rules})).startswith(
        "it would be faulty: no step asks for 'wind'"
    )


def test_limits_hold_here_as_well() -> None:
    assert refused(goal_of({"limits": {"max_steps": 1}})) == (
        "it would be faulty: the plan has 2 steps, and 1 are allowed"
    )
    assert (
        refused(goal_of({"limits": {"max_items": 1}}))
        == "no values are known for the parameters of 'read_sensor'"
    )


def test_a_step_waits_for_nothing_that_it_waits_for_anyway() -> None:
    data = frozenset({"data"})
    tools = {
        "list_notes": ToolSignature(name="list_notes", output_schema=TEXTS, tags=data),
        "read_note": ToolSignature(
            name="read_note",
            input_schema=params("path", path=TEXT),
            output_schema={"type": "integer"},
            tags=data,
        ),
        "rank": ToolSignature(name="rank", input_schema=params("sizes", sizes=NUMBERS)),
    }
    goal = Goal(
        name="g",
        job="g",
        text="t",
        inputs={},
        tools=tuple(AvailableTool(name=name) for name in tools),
        rules=Rules(required_tools=frozenset(tools), analysis_tools=frozenset({"rank"})),
    )

    plan = made(goal, tools)

    assert [step.tool for step in plan.steps] == ["list_notes", "read_note", "rank"]
    assert [one.code for one in check(bind_plan(plan, goal), goal, tools)] == []
