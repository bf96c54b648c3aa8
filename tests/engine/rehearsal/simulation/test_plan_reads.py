"""What a plan's expressions read of an output, and what it is presumed to be by that."""

from __future__ import annotations

import pytest

from wavewright.engine.rehearsal.simulation.plan_reads import presumed_schema, shapes_read
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json, JsonSchema, StepId

ANY: JsonSchema = {}
A = StepId("a")


def plan_that(**second: object) -> Plan:
    """Return a plan whose second step reads its first."""
    steps = [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", **second}]
    return Plan.model_validate({"steps": steps})


def presumed(promised: JsonSchema, plan: Plan) -> tuple[JsonSchema, bool]:
    return presumed_schema(promised, plan.step(A), shapes_read(plan).steps[A])


def an_object(**members: Json) -> JsonSchema:
    return {"type": "object", "properties": members, "required": [*members]}


def a_list(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("steps.a", ANY, id="the whole"),
        pytest.param("steps.a.b.c", an_object(b=an_object(c=ANY)), id="members"),
        pytest.param("steps.a['b c']", an_object(**{"b c": ANY}), id="a quoted member"),
        pytest.param("steps.a[0].b", a_list(an_object(b=ANY)), id="an entry"),
        pytest.param("steps.a[inputs.n]", ANY, id="who knows which entry"),
        pytest.param("steps.a.map(x, x.b)", a_list(an_object(b=ANY)), id="a macro"),
        pytest.param(
            "steps.a.map(x, x.b).filter(y, y.c != 'd')[0].e",
            a_list(an_object(b=an_object(c={"type": "string"}, e=ANY))),
            id="a macro of a macro",
        ),
        pytest.param("steps.a.b.size()", an_object(b=ANY), id="a method"),
        pytest.param("steps.a.b.join()", an_object(b={"type": "array"}), id="a method of lists"),
        pytest.param(
            "steps.a.b > 3 && steps.a.c", an_object(b={"type": "integer"}, c=ANY), id="compared"
        ),
        pytest.param(
            "has(steps.a.b) ? steps.a.b : steps.a.c",
            {**an_object(b=ANY, c=ANY), "required": ["c"]},
            id="asked for",
        ),
    ],
)
def test_an_output_that_nobody_describes_has_what_is_read(
    expression: str, expected: JsonSchema
) -> None:
    plan = plan_that(params={"text": f"${{{expression}}}"})

    assert presumed({}, plan) == (expected, False)


def test_items_are_read_by_the_step_that_runs_over_them() -> None:
    plan = plan_that(for_each="${steps.a.rows}", params={"text": "${item.name}"})

    assert presumed({}, plan)[0] == an_object(rows=a_list(an_object(name=ANY)))


def test_of_a_step_that_runs_over_items_the_output_of_one_call_is_meant() -> None:
    fan = {"id": "a", "tool": "t", "for_each": [1, 2]}
    reader = {"id": "b", "tool": "t", "params": {"text": "${steps.a.map(x, x.name)}"}}
    gate = {"id": "g", "on": "a", "check": "output.size == 1"}
    plan = Plan.model_validate({"steps": [fan, reader], "gates": [gate]})

    assert presumed({}, plan)[0] == an_object(name=ANY, size={"type": "integer"})


def test_gates_caps_and_the_result_read_too() -> None:
    plan = Plan.model_validate(
        {
            "steps": [{"id": "a", "tool": "t"}],
            "gates": [{"id": "g", "on": "a", "required": ["one.two"]}],
            "caps": [{"field": "overall", "max": 0.5, "when": "steps.a.three", "because": "so"}],
            "result": {"four": "${steps.a.four}"},
        }
    )

    assert presumed({}, plan)[0] == an_object(one=an_object(two=ANY), three=ANY, four=ANY)


def test_what_nobody_reads_has_no_shape() -> None:
    assert A not in shapes_read(plan_that(params={"text": "${[1].map(x, x.b)}"})).steps


OPEN: JsonSchema = {"type": "object"}
NAMED = an_object(name=ANY)


@pytest.mark.parametrize(
    ("promised", "filled", "is_said"),
    [
        pytest.param(a_list(OPEN), a_list(NAMED), False, id="open objects"),
        pytest.param({"type": "array"}, a_list(NAMED), False, id="open entries"),
        pytest.param(
            a_list({**OPEN, "additionalProperties": True}),
            a_list({**NAMED, "additionalProperties": True}),
            False,
            id="objects of anything",
        ),
        pytest.param(
            {"anyOf": [a_list(OPEN), {"type": "null"}]},
            {"anyOf": [a_list(NAMED), {"type": "null"}]},
            False,
            id="open objects or nothing",
        ),
        pytest.param(
            a_list({**OPEN, "additionalProperties": {"type": "string"}}),
            a_list(
                {
                    **OPEN,
                    "additionalProperties": {"type": "string"},
                    "properties": {"name": {"type": "string"}},
                }
            ),
            True,
            id="a mapping",
        ),
        pytest.param(
            a_list(an_object(name={"type": "string"})),
            a_list(an_object(name={"type": "string"})),
            True,
            id="said already",
        ),
        pytest.param({"type": "string"}, {"type": "string"}, True, id="something else"),
    ],
)
def test_only_open_parts_of_a_promise_are_filled(
    promised: JsonSchema, filled: JsonSchema, *, is_said: bool
) -> None:
    plan = plan_that(for_each="${steps.a}", params={"text": "${item.name}"})

    assert presumed(promised, plan) == (filled, is_said)
