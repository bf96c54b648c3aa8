"""Binding a plan to its goal: what the goal sets is there, and nothing of the author's has moved."""

from __future__ import annotations

from wavewright.planner.language.goals import AvailableTool, Goal, Rules, TerminalRule
from wavewright.planner.language.plan import Cap, Gate, Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan, mandatory_gates, template_gate_of
from wavewright.planner.types import GateId, StepId

TOOLS = {name: ToolSignature(name=name) for name in ("fetch", "analyze")}

GOAL = Goal(
    name="outlook",
    job="job",
    text="say what comes",
    inputs={"codes": ["A", "B"]},
    tools=(AvailableTool(name="fetch"), AvailableTool(name="analyze")),
    output_tags=("outlook", "costs ${5}"),
    rules=Rules(
        terminal=(
            TerminalRule(
                tool="analyze", params={"tags": "${goal.output_tags}", "codes": "${inputs.codes}"}
            ),
        )
    ),
    gates=(
        Gate(id=GateId("fresh"), on_tool="fetch", check="output.ok"),
        Gate(id=GateId("whole"), on=StepId("b"), required=("x",)),
    ),
    caps=(Cap(field="overall", max=0.5, because="it is a test"),),
)

PLAN = Plan(
    inputs={"codes": [], "own": 1},
    steps=(
        Step(id=StepId("a"), tool="fetch"),
        Step(id=StepId("b"), tool="fetch"),
        Step(
            id=StepId("c"), tool="analyze", params={"data": "${steps.a}"}, depends_on=(StepId("b"),)
        ),
    ),
)


def test_a_gate_on_a_tool_becomes_one_gate_a_step() -> None:
    bound = bind_plan(PLAN, GOAL)

    assert [(gate.id, gate.on) for gate in bound.gates] == [
        ("fresh__a", "a"),
        ("fresh__b", "b"),
        ("whole", "b"),
    ]
    assert all(gate.on_tool is None for gate in bound.gates)


def test_the_template_gate_of_a_bound_gate_is_known() -> None:
    assert template_gate_of(GateId("fresh__a"), GOAL) == "fresh"
    assert template_gate_of(GateId("whole"), GOAL) == "whole"
    assert template_gate_of(GateId("own"), GOAL) is None


def test_the_goals_inputs_win_and_the_plans_own_stay() -> None:
    assert bind_plan(PLAN, GOAL).inputs == {"codes": ["A", "B"], "own": 1}


def test_caps_of_the_goal_are_added() -> None:
    assert bind_plan(PLAN, GOAL).caps == GOAL.caps


def test_terminal_steps_get_their_parameters_as_literals() -> None:
    bound = bind_plan(PLAN, GOAL)

    assert bound.step("c").params == {
        "tags": ["outlook", "costs $${5}"],
        "codes": ["A", "B"],
        "data": "${steps.a}",
    }


def test_a_step_that_another_reads_is_not_terminal() -> None:
    after = Step(id=StepId("d"), tool="fetch", params={"x": "${steps.c}"})
    plan = PLAN.model_copy(update={"steps": (*PLAN.steps, after)})

    assert bind_plan(plan, GOAL).step("c").params == {"data": "${steps.a}"}


def test_binding_leaves_what_the_plan_has_already_for_the_checker() -> None:
    own = Gate(id=GateId("fresh__a"), on=StepId("a"), check="true")
    plan = PLAN.model_copy(update={"gates": (own,)})

    bound = bind_plan(plan, GOAL)

    assert bound.gates[0] == own
    assert [gate.id for gate in bound.gates] == ["fresh__a", "fresh__b", "whole"]


def test_binding_twice_is_binding_once() -> None:
    once = bind_plan(PLAN, GOAL)

    assert bind_plan(once, GOAL) == once


def test_a_bound_plan_can_be_read_back_from_its_json() -> None:
    long_step = Step(id=StepId("s" * 63), tool="fetch")
    bound = bind_plan(Plan(steps=(long_step,)), GOAL)

    assert Plan.model_validate_json(bound.model_dump_json(by_alias=True)) == bound


def test_mandatory_gates_are_the_goals_gates_on_the_plans_steps() -> None:
    assert [gate.id for gate in mandatory_gates(PLAN, GOAL)] == ["fresh__a", "fresh__b", "whole"]
