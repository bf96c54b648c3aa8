"""What the checker accepts, what it refuses, and that one mistake is one message.

The exact texts are beside the broken plans; here stand the rules that a single broken plan does not
show.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.planner.checks.checker import check, errors_in
from wavewright.planner.language.plan import Limits, Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import JsonObject, JsonSchema, StepId

PRICE: JsonSchema = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "close": {"type": "number"},
        "days": {"type": "integer"},
        "rows": {
            "type": "array",
            "items": {"type": "object", "properties": {"close": {"type": "number"}}},
        },
    },
    "required": ["code", "close", "days", "rows"],
    "additionalProperties": False,
}


def tool(
    name: str, output: JsonSchema, required: tuple[str, ...] = (), **params: JsonSchema
) -> ToolSignature:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": params,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSignature(name=name, input_schema=schema, output_schema=output)


TEXT: JsonSchema = {"type": "string"}
TOOLS = {
    "price": tool(
        "price", PRICE, ("code",), code={"type": "string", "maxLength": 4}, days={"type": "integer"}
    ),
    "prices": tool("prices", {"type": "array", "items": PRICE}),
    "present": tool("present", {"type": "object", "properties": {"document": {"type": "object"}}}),
    "note": ToolSignature(
        name="note",
        input_schema={
            "type": "object",
            "properties": {
                "text": TEXT,
                "number": {"type": "number"},
                "count": {"type": "integer"},
                "texts": {"type": "array", "items": TEXT, "minItems": 1},
                "either": {
                    "anyOf": [
                        {"type": "number"},
                        {"type": "object", "properties": {"text": TEXT}, "required": ["text"]},
                    ]
                },
                "tree": {"$ref": "#/$defs/tree"},
                "anything": {},
            },
            "additionalProperties": False,
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"leaf": TEXT, "below": {"$ref": "#/$defs/tree"}},
                    "additionalProperties": False,
                }
            },
        },
    ),
}


def plan_of(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate_json(json.dumps({"steps": list(steps), **fields}))


def codes(plan: Plan, **more: Any) -> list[tuple[str, str]]:
    return [(one.code, one.pointer) for one in check(plan, None, TOOLS, **more)]


def note(**params: Any) -> dict[str, Any]:
    return {"id": "note", "tool": "note", "params": params}


A_PRICE: dict[str, Any] = {"id": "a", "tool": "price", "params": {"code": "GNP"}}


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"text": "${steps.a.code}"}, id="text from text"),
        pytest.param({"number": "${steps.a.close}"}, id="number from number"),
        pytest.param({"number": "${steps.a.days}"}, id="number from integer"),
        pytest.param({"text": "closed at ${steps.a.close}"}, id="mixed text is text"),
        pytest.param({"text": "$${steps.nobody}"}, id="an escaped reference is text"),
        pytest.param({"texts": ["GNP", "${steps.a.code}"]}, id="literal and reference in one list"),
        pytest.param(
            {"texts": "${steps.a.rows.map(row, string(row.close))}"},
            id="a list that an expression makes",
        ),
        pytest.param({"either": {"text": "${steps.a.code}"}}, id="second alternative"),
        pytest.param({"either": "${steps.a.close}"}, id="first alternative"),
        pytest.param(
            {"tree": {"below": {"below": {"leaf": "${steps.a.code}"}}}}, id="recursive schema"
        ),
        pytest.param(
            {"anything": ["${steps.a}", {"x": "${steps.a.rows.exists(row, row.close > 3)}"}]},
            id="open parameter",
        ),
        pytest.param(
            {"text": "{0.__class__} {{ name }} {% if %}"}, id="other braces are plain data"
        ),
    ],
)
def test_parameters_that_fit_are_accepted(params: dict[str, Any]) -> None:
    assert codes(plan_of(A_PRICE, note(**params))) == []


@pytest.mark.parametrize(
    ("params", "code", "pointer"),
    [
        pytest.param({"count": True}, "E205", "count", id="a truth value is no integer"),
        pytest.param({"number": True}, "E205", "number", id="nor a number"),
        pytest.param({"count": "5"}, "E205", "count", id="text is no integer"),
        pytest.param({"count": "${steps.a.close}"}, "E304", "count", id="a number is no integer"),
        pytest.param(
            {"count": "n ${steps.a.days}"}, "E304", "count", id="mixed text is no integer"
        ),
        pytest.param({"texts": "${steps.a.code}"}, "E304", "texts", id="text is no list"),
        pytest.param(
            {"texts": ["x", "${steps.a.close}"]}, "E304", "texts/1", id="one item of a list"
        ),
        pytest.param(
            {"texts": ["${steps.a.code}", 5]}, "E205", "texts/1", id="a literal beside a reference"
        ),
        pytest.param(
            {"tree": {"leaf": "${steps.a.close}"}}, "E304", "tree/leaf", id="behind a $ref"
        ),
        pytest.param(
            {"tree": {"leaves": "${steps.a.code}"}},
            "E205",
            "tree",
            id="unknown member beside a reference",
        ),
        pytest.param(
            {"either": {"text": "${steps.a.close}"}},
            "E304",
            "either/text",
            id="the nearest alternative",
        ),
        pytest.param({"either": {"txt": "${steps.a.code}"}}, "E205", "either", id="no alternative"),
        pytest.param({"text": "${steps.a.rows}"}, "E304", "text", id="a list is no text"),
        pytest.param({"text/x": 1}, "E203", "text~1x", id="a key that a pointer escapes"),
    ],
)
def test_parameters_that_do_not_fit_are_one_fault_at_their_place(
    params: dict[str, Any], code: str, pointer: str
) -> None:
    assert codes(plan_of(A_PRICE, note(**params))) == [(code, f"/steps/1/params/{pointer}")]


def test_an_unknown_step_is_one_fault_and_no_type_fault() -> None:
    assert codes(plan_of(note(number="${steps.nobody.close}"))) == [
        ("E301", "/steps/0/params/number")
    ]


def test_an_unknown_tool_leaves_its_readers_alone() -> None:
    plan = plan_of(
        {"id": "a", "tool": "prize", "params": {"whatever": 1}}, note(number="${steps.a.x.y[0]}")
    )

    assert codes(plan) == [("E201", "/steps/0/tool")]


def test_a_faulty_list_leaves_the_items_alone() -> None:
    each = {
        "id": "each",
        "tool": "price",
        "for_each": "${inputs.nothing}",
        "params": {"code": "${item.code.x}"},
    }

    assert codes(plan_of(each)) == [("E302", "/steps/0/for_each")]


def test_a_step_in_a_cycle_is_not_too_many_waves_as_well() -> None:
    first = {**A_PRICE, "depends_on": ["b"]}
    second = {"id": "b", "tool": "price", "params": {"code": "${steps.a.code}"}}

    assert codes(plan_of(first, second), limits=Limits(max_waves=1)) == [("E401", "/steps/0")]


def test_a_cycle_that_a_gate_closes_names_the_gate() -> None:
    after = {"id": "b", "tool": "prices", "depends_on": ["a"]}
    gate = {"id": "agrees", "on": "a", "check": "steps.b.size() > 0"}

    (found,) = check(plan_of(A_PRICE, after, gates=[gate]), None, TOOLS)

    assert found.message == "these steps wait for each other: a -> b -> a"
    assert (
        found.hint
        == "each waits for the next; 'a' waits for 'b' through gate 'agrees', which reads it, for example"
    )


def test_two_knots_are_two_faults() -> None:
    steps = [
        {"id": name, "tool": "prices", "depends_on": [other]}
        for name, other in (("a", "b"), ("b", "a"), ("x", "y"), ("y", "x"), ("after", "x"))
    ]

    assert codes(plan_of(*steps)) == [("E401", "/steps/0"), ("E401", "/steps/2")]


def test_faults_come_in_the_order_of_the_plan_errors_of_one_place_most_useful_first() -> None:
    plan = plan_of(
        {"id": "a", "tool": "nothing", "depends_on": ["ghost"]},
        {"id": "a", "tool": "price", "params": {"days": "x", "cod": 1}, "when": "1"},
        gates=[{"id": "g", "on": "ghost", "check": "true"}],
        result="${steps.ghost}",
    )

    assert codes(plan) == [
        ("E201", "/steps/0/tool"),
        ("E403", "/steps/0/depends_on/0"),
        ("E119", "/steps/1/id"),
        ("E204", "/steps/1/params"),
        ("E205", "/steps/1/params/days"),
        ("E203", "/steps/1/params/cod"),
        ("E308", "/steps/1/when"),
        ("E407", "/gates/0/on"),
        ("E301", "/result"),
    ]


def test_items_have_the_type_of_the_list_that_they_come_from() -> None:
    each = {
        "id": "each",
        "tool": "note",
        "for_each": "${steps.many}",
        "params": {"number": "${item.close + index}"},
    }
    wrong = {**each, "id": "wrong", "params": {"text": "${item.clos}"}}

    plan = plan_of({"id": "many", "tool": "prices"}, each, wrong)

    assert codes(plan) == [("E303", "/steps/2/params/text")]


def test_a_step_that_runs_for_each_item_gives_a_list() -> None:
    each = {
        "id": "each",
        "tool": "price",
        "for_each": ["GNP", "SKS"],
        "params": {"code": "${item}"},
    }
    right = note(texts="${steps.each.map(p, p.code)}")
    wrong = {**note(text="${steps.each.code}"), "id": "wrong"}

    assert codes(plan_of(each, right, wrong)) == [("E303", "/steps/2/params/text")]


ABSENT = {**A_PRICE, "optional": True}


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        pytest.param(note(anything="${steps.a}"), ["E306"], id="bare"),
        pytest.param(
            note(anything="${has(steps.a) ? steps.a : null}"), [], id="asked in the expression"
        ),
        pytest.param(
            {**note(anything="${steps.a}"), "when": "has(steps.a)"}, [], id="asked in when"
        ),
        pytest.param(
            {**note(anything="${steps.a}"), "when": "has(steps.a) && 1 < 2"},
            [],
            id="asked and more",
        ),
        pytest.param(
            {**note(anything="${steps.a}"), "when": "has(steps.a) || 1 < 2"},
            ["E306"],
            id="asked or not",
        ),
        pytest.param(
            {**note(anything="${steps.a}"), "when": "!has(steps.a)"},
            ["E306"],
            id="asked for the contrary",
        ),
        pytest.param({**note(), "when": "steps.a.close > 1.0"}, ["E306"], id="read in when"),
        pytest.param({**note(), "for_each": "${steps.a.rows}"}, ["E306"], id="read in for_each"),
        pytest.param({**note(), "depends_on": ["a"]}, [], id="only waited for"),
    ],
)
def test_a_step_that_may_be_absent_is_asked_for_before_it_is_read(
    reader: dict[str, Any], expected: list[str]
) -> None:
    found = codes(plan_of(ABSENT, reader))

    assert [code for code, _ in found] == expected


def test_a_conditional_step_may_be_absent_as_well() -> None:
    conditional = {**A_PRICE, "when": "inputs.wanted"}

    assert codes(plan_of(conditional, note(anything="${steps.a}"), inputs={"wanted": True})) == [
        ("E306", "/steps/1/params/anything")
    ]


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": "objekt"}, None),
        (
            {"$ref": "https://example.org/row.json"},
            "references inside a schema must stay inside it; nothing is fetched",
        ),
    ],
)
def test_only_a_schema_with_references_is_told_where_they_lead(
    schema: dict[str, Any], hint: str | None
) -> None:
    [fault] = check(plan_of(A_PRICE, gates=[{"id": "g", "on": "a", "schema": schema}]), None, TOOLS)

    assert (fault.code, fault.pointer, fault.hint) == ("E123", "/gates/0/schema", hint)


def test_a_list_is_read_before_the_condition_on_its_items_is_asked() -> None:
    prices = {"id": "many", "tool": "prices", "when": "1 < 2"}
    each = {
        "id": "each",
        "tool": "price",
        "for_each": "${steps.many}",
        "when": "1 < 2 && item.close > 1.0",
        "params": {"code": "${item.code}"},
    }
    asking = {**each, "for_each": "${has(steps.many) ? steps.many : []}"}

    [fault] = check(plan_of(prices, each), None, TOOLS)

    assert (fault.code, fault.pointer) == ("E306", "/steps/1/for_each")
    # A condition of the step would change nothing.
    assert fault.hint == "ask first: has(steps.many) ? … : …"
    assert codes(plan_of(prices, asking)) == []


def test_a_result_and_a_gate_on_the_step_itself_may_read_what_may_be_absent() -> None:
    plan = plan_of(
        ABSENT,
        gates=[{"id": "g", "on": "a", "check": "steps.a.close > 0.0"}],
        caps=[{"field": "price", "when": "!has(steps.a)", "max": 0.1, "because": "nothing"}],
        result={"price": "${steps.a}"},
    )

    assert codes(plan) == []


def test_caps_and_gates_on_other_steps_have_to_ask() -> None:
    plan = plan_of(
        ABSENT,
        {"id": "b", "tool": "prices"},
        gates=[{"id": "g", "on": "b", "check": "steps.a.close > 0.0"}],
        caps=[{"field": "x", "when": "steps.a.close > 0.0", "max": 0.1, "because": "nothing"}],
    )

    assert codes(plan) == [("E306", "/gates/0/check"), ("E306", "/caps/0/when")]


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        pytest.param({"check": "output.close > 0"}, [], id="output of a call"),
        pytest.param({"check": "${output.close > 0}"}, [], id="wrapped"),
        pytest.param({"check": "output.code == item"}, [], id="the item with the output"),
        pytest.param({"check": "item == 'GNP'"}, [], id="the item alone"),
        pytest.param(
            {"check": "output.clos > 0"}, [("E303", "/gates/0/check")], id="unknown field"
        ),
        pytest.param({"check": "output.close"}, [("E308", "/gates/0/check")], id="no condition"),
        pytest.param({"required": ["close", "rows"]}, [], id="required fields"),
        pytest.param(
            {"required": ["close", "clos"]},
            [("E303", "/gates/0/required/1")],
            id="unknown required field",
        ),
        pytest.param(
            {"schema": {"type": "nothing"}}, [("E123", "/gates/0/schema")], id="no schema"
        ),
        pytest.param(
            {"fresh_within": "1h"}, [("E123", "/gates/0/fresh_within")], id="freshness of no field"
        ),
    ],
)
def test_gates_are_checked_against_the_output_of_one_call(
    gate: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    each = {"id": "each", "tool": "price", "for_each": ["GNP"], "params": {"code": "${item}"}}

    assert codes(plan_of(each, gates=[{"id": "g", "on": "each", **gate}])) == found


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"params": {"code": "${item}"}}, id="parameters of one call"),
        pytest.param({"when": "index > 0"}, id="the condition of one call"),
        pytest.param({"for_each": "${[item]}"}, id="the list itself"),
    ],
)
def test_items_are_known_to_calls_of_a_step_with_for_each_only(step: dict[str, Any]) -> None:
    found = codes(plan_of({"id": "a", "tool": "price", "params": {"code": "x"}, **step}))

    assert [code for code, _ in found] == ["E305"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"for_each": ["GNP"], "when": "item.startsWith('G') && index > 0"}, []),
        ({"for_each": ["GNP"], "when": "item"}, ["E308"]),
        ({"for_each": ["GNP"], "when": "item.code == 'x'"}, ["E303"]),
        ({"for_each": "${[steps.maybe]}", "when": "has(steps.maybe)"}, []),
        ({"for_each": "${[steps.maybe]}", "when": "has(steps.maybe) && item != null"}, ["E306"]),
    ],
)
def test_a_condition_on_items_is_typed_and_asked_after_the_list(
    step: dict[str, Any], expected: list[str]
) -> None:
    maybe = {"id": "maybe", "tool": "price", "params": {"code": "x"}, "optional": True}
    reader = {"id": "b", "tool": "price", "params": {"code": "${string(steps.a.size())}"}}
    more = [reader] if "item" in step["when"] else []
    found = codes(
        plan_of(maybe, {"id": "a", "tool": "price", "params": {"code": "x"}, **step}, *more)
    )

    assert [code for code, _ in found] == expected


def test_a_gate_on_a_single_call_has_no_item() -> None:
    gates = [{"id": "g", "on": "a", "check": "item == output.code"}]

    assert codes(plan_of(A_PRICE, gates=gates)) == [("E305", "/gates/0/check")]


def test_output_is_known_to_gates_only() -> None:
    assert codes(plan_of(note(anything="${output}"))) == [("E303", "/steps/0/params/anything")]


def test_for_each_takes_one_whole_expression_or_a_list() -> None:
    for text in ("steps.a.rows", "x${steps.a.rows}", "${steps.a.rows} "):
        each = {"id": "each", "tool": "prices", "for_each": text}

        assert codes(plan_of(A_PRICE, each)) == [("E309", "/steps/1/for_each")]


def test_a_dispatch_of_names_is_told_how_a_list_of_calls_is_asked_for() -> None:
    made = {"id": "act", "dispatch": "${steps.a.code}", "tools": ["prices", "price"]}

    [fault] = check(plan_of(A_PRICE, made), None, TOOLS)

    assert (fault.code, fault.pointer) == ("E309", "/steps/1/for_each")
    assert "{todo: {calls: [price, prices]}}" in str(fault.hint)


def test_a_path_without_its_braces_is_answered_with_them() -> None:
    each = {"id": "each", "tool": "prices", "for_each": "steps.a.rows"}
    (found,) = check(plan_of(A_PRICE, each), None, TOOLS)

    assert found.hint == "write ${steps.a.rows}: without ${…} it is only text"


def test_a_gate_is_not_told_to_take_a_condition_which_it_cannot_have() -> None:
    gates = [{"id": "g", "on": "b", "check": "steps.a.close > 1.0"}]
    plan = plan_of({**A_PRICE, "optional": True}, {"id": "b", "tool": "prices"}, gates=gates)
    (found,) = check(plan, None, TOOLS)

    assert (found.code, found.hint) == ("E306", "ask first: has(steps.a) ? … : …")


def test_calls_of_another_policy_are_not_called_a_batch() -> None:
    steps = [{**A_PRICE, "id": code, "params": {"code": code}} for code in ("x", "y", "z")]

    assert codes(plan_of(*steps)) == [("W804", "/steps/0")]
    assert codes(plan_of(*steps[:2], {**steps[2], "optional": True})) == []


def test_known_items_are_counted_also_where_an_expression_makes_them() -> None:
    each = {
        "id": "each",
        "tool": "price",
        "for_each": "${inputs.codes.map(c, c)}",
        "params": {"code": "${item}"},
    }
    plan = plan_of(each, inputs={"codes": ["A", "B", "C"]})

    assert codes(plan, limits=Limits(max_items=2)) == [("E406", "/steps/0/for_each")]
    assert codes(plan, limits=Limits(max_items=3)) == []


def test_dependencies_that_no_expression_names_are_refused() -> None:
    assert codes(
        plan_of(A_PRICE, note(anything="${steps[inputs.name]}"), inputs={"name": "a"})
    ) == [("E307", "/steps/1/params/anything")]


def test_a_schema_that_refers_to_another_place_is_not_fetched() -> None:
    remote = {
        "away": ToolSignature(name="away", input_schema={"$ref": "http://127.0.0.1:9/schema.json"})
    }

    found = check(plan_of({"id": "a", "tool": "away"}), None, remote)

    assert [(one.code, one.message) for one in found] == [
        ("E201", "tool 'away' cannot be called: its input schema is no JSON Schema")
    ]


def test_a_part_that_refers_to_an_anchor_is_not_taken_for_the_whole_schema() -> None:
    schema: JsonSchema = {
        "type": "object",
        "properties": {"row": {"$ref": "#row"}},
        "required": ["row"],
        "$defs": {"row": {"$anchor": "row", "type": "object"}},
    }
    tools = TOOLS | {"put": ToolSignature(name="put", input_schema=schema)}

    found = check(
        plan_of(
            A_PRICE, {"id": "b", "tool": "put", "params": {"row": {"code": "${steps.a.code}"}}}
        ),
        None,
        tools,
    )

    assert [one.message for one in found if one.severity == "error"] == []


def test_a_literal_for_a_part_that_refers_to_another_part_is_checked_at_the_call() -> None:
    row: JsonSchema = {"type": "object", "properties": {"n": {"type": "string"}}}
    schema: JsonSchema = {
        "type": "object",
        "properties": {"first": row, "second": {"$ref": "#/properties/first"}, "code": {}},
    }
    tools = TOOLS | {"put": ToolSignature(name="put", input_schema=schema)}
    params: JsonObject = {"second": {"n": "x"}, "code": "${steps.a.code}"}

    found = check(plan_of(A_PRICE, {"id": "b", "tool": "put", "params": params}), None, tools)

    assert [one.message for one in found if one.severity == "error"] == []


def test_limits_that_are_given_count_before_the_defaults() -> None:
    plan = plan_of(
        *({"id": f"s{number}", "tool": "prices", "when": f"{number} < 99"} for number in range(51))
    )

    assert codes(plan) == [("E404", "/steps/50")]
    assert [code for code, _ in codes(plan, limits=Limits(max_steps=51))] == []


def test_lint_waits_until_there_are_no_errors() -> None:
    unread = {"id": "b", "tool": "prices"}

    assert [code for code, _ in codes(plan_of(A_PRICE, unread, result="${steps.a}"))] == ["W801"]
    assert [code for code, _ in codes(plan_of(A_PRICE, unread, result="${steps.ghost}"))] == [
        "E301"
    ]


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(plan_of(A_PRICE), id="outputs of last steps are the result"),
        pytest.param(
            plan_of(
                A_PRICE,
                {"id": "b", "tool": "prices"},
                gates=[{"id": "g", "on": "b", "check": "output.size() > 0"}],
                result="${steps.a}",
            ),
            id="a step that the author has a gate on",
        ),
        pytest.param(
            plan_of(A_PRICE, {**A_PRICE, "id": "b", "params": {"code": "GNP", "days": 1}}),
            id="two different calls",
        ),
        pytest.param(
            plan_of(A_PRICE, {"id": "b", "tool": "prices", "depends_on": ["a"]}),
            id="an order that nothing else shows",
        ),
        pytest.param(
            plan_of(A_PRICE, {"id": "b", "tool": "present"}, result="${steps.a}"),
            id="a document, which the package shows",
        ),
        pytest.param(
            plan_of({**A_PRICE, "when": "inputs.no"}, inputs={"no": False}),
            id="false for this job only",
        ),
    ],
)
def test_lint_is_silent_about(plan: Plan) -> None:
    assert codes(plan) == []


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(
            plan_of(
                A_PRICE,
                {"id": "b", "tool": "prices", "depends_on": ["a"]},
                {"id": "c", "tool": "note", "depends_on": ["a", "b"]},
            ),
            [("W803", "/steps/2/depends_on/0")],
            id="a way around",
        ),
        pytest.param(
            plan_of(
                A_PRICE,
                {"id": "b", "tool": "prices", "depends_on": ["a"], "optional": True},
                {"id": "c", "tool": "note", "depends_on": ["a", "b"]},
            ),
            [],
            id="a way around through an optional step, whose failure stops nothing",
        ),
        pytest.param(
            plan_of(
                {**A_PRICE, "when": "false"}, {"id": "b", "tool": "prices", "when": "has(steps.a)"}
            ),
            [("W805", "/steps/0/when"), ("W805", "/steps/1/when")],
            id="what asks for a step that never runs",
        ),
        pytest.param(
            plan_of({**A_PRICE, "for_each": []}),
            [("W805", "/steps/0/for_each")],
            id="a list without items",
        ),
        pytest.param(
            plan_of(A_PRICE, note(text="of {{ steps.a.rows[0] }}, {{ name }}")),
            [("W807", "/steps/1/params/text")],
            id="a reference in braces of another language",
        ),
        pytest.param(
            plan_of(A_PRICE, note(text="of {steps.a.rows[0]}")),
            [("W807", "/steps/1/params/text")],
            id="a reference in the braces of a format",
        ),
        pytest.param(
            plan_of(A_PRICE, note(text="$5 of $steps.a.rows")),
            [("W807", "/steps/1/params/text")],
            id="a reference behind a dollar",
        ),
        pytest.param(
            plan_of(A_PRICE, note(text="{item} for $5, {steps: 2}, $steps and ${steps.a.rows}")),
            [],
            id="braces and dollars that are no reference",
        ),
    ],
)
def test_lint_sees(plan: Plan, expected: list[tuple[str, str]]) -> None:
    assert codes(plan) == expected


def test_a_chain_of_thirty_thousand_steps_is_checked() -> None:
    count = 30_000
    chain = [Step(id=StepId("s0"), tool="prices")]
    chain += [
        Step(id=StepId(f"s{number}"), tool="prices", depends_on=(StepId(f"s{number - 1}"),))
        for number in range(1, count)
    ]

    found = check(Plan(steps=tuple(chain)), None, TOOLS)

    assert [one.code for one in found] == ["E405", "E404"]


EXPRESSIONS = st.sampled_from(
    [
        "steps.s0", "steps.s1.close", "steps.ghost", "inputs.codes", "inputs.x", "item", "item.code", "index",
        "has(steps.s0)", "!has(steps.s2) || true", "steps.s0.rows.map(r, r.close)", "1 +", "now()", "output", "((((",
        "steps", "'a' + 1", "[1, 2]", "steps.s1.close > 3", "steps.s0.exists(x, x.close > 1.0)", "\u0000", "'é'",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    EXPRESSIONS.map(lambda one: f"${{{one}}}"),
    EXPRESSIONS.map(lambda one: f"a ${{{one}}} b"),
    EXPRESSIONS,
    st.sampled_from(["${", "$${x}", "${}", "}", ""]),
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "x", "a/b"]), inner)
    ),
    max_leaves=5,
)
IDS = st.sampled_from([f"s{number}" for number in range(5)] + ["S1", "steps", "ghost"])
STEPS = st.fixed_dictionaries(
    {"id": IDS, "tool": st.sampled_from([*TOOLS, "nothing"])},
    optional={
        "params": st.dictionaries(
            st.sampled_from(["text", "number", "texts", "either", "tree", "code", "x"]), VALUES
        ),
        "for_each": st.one_of(TEXTS.filter(bool), st.lists(VALUES, max_size=2)),
        "when": TEXTS.filter(bool),
        "depends_on": st.lists(IDS, max_size=3),
        "optional": st.booleans(),
        "supersedes": IDS,
        "max_items": st.integers(1, 3),
    },
)
GATES = st.fixed_dictionaries(
    {"id": st.sampled_from(["g", "h"]), "on": IDS, "check": TEXTS.filter(bool)}
)


@settings(max_examples=volume(50, 200))
@given(
    st.fixed_dictionaries(
        {"steps": st.lists(STEPS, max_size=5)},
        optional={
            "gates": st.lists(GATES, max_size=2),
            "result": VALUES,
            "inputs": st.just({"codes": ["A", {"code": "B"}, 3]}),
        },
    )
)
def test_the_checker_never_raises_and_is_deterministic(content: dict[str, Any]) -> None:
    plan = Plan.model_validate_json(json.dumps(content))

    found = check(plan, None, TOOLS)

    assert check(plan, None, TOOLS) == found
    assert len({(one.code, one.pointer, one.message) for one in found}) == len(found)


@st.composite
def sound_plans(draw: st.DrawFn) -> Plan:
    """Plans of typed references to earlier steps, in any order of the text."""
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 8))):
        earlier = [step["id"] for step in steps if step["tool"] == "price"]
        code = f"C{number}"
        if earlier:
            code = draw(st.sampled_from([code, *(f"${{steps.{name}.code}}" for name in earlier)]))
        new: dict[str, Any] = {"id": f"s{number}", "tool": "price", "params": {"code": code}}
        kind = draw(st.sampled_from(["price", "note"]))
        if earlier and kind == "note":
            name = draw(st.sampled_from(earlier))
            params: dict[str, Any] = {
                "number": f"${{steps.{name}.close * 2.0}}",
                "texts": [f"{number}", f"${{steps.{name}.code}}"],
                "text": f"${{steps.{name}.days}} days",
            }
            new = {"id": f"s{number}", "tool": "note", "params": params}
        if earlier:
            waited_for: list[str] = draw(st.lists(st.sampled_from(earlier), max_size=2))
            new["depends_on"] = waited_for
        steps.append(new)
    return plan_of(*draw(st.permutations(steps)))


@given(sound_plans())
def test_a_plan_that_was_made_sound_has_no_errors(plan: Plan) -> None:
    found = check(plan, None, TOOLS)

    assert [one for one in found if one.severity == "error"] == []


def test_an_input_that_is_written_as_a_type_is_told_from_a_value() -> None:
    plan = Plan.model_validate(
        {
            "inputs": {
                "code": {"type": "string", "default": "GNP"},
                "days": {"type": "integer"},
                "box": {"type": "string", "color": "red"},
                "kinds": {"type": ["string"]},
            },
            "let": {"cheap": "${steps.all.filter(p, p.close < inputs.days)}"},
            "steps": [
                {"id": "all", "tool": "prices"},
                {"id": "one", "tool": "price", "params": {"code": "${inputs.code}"}},
                {"id": "two", "tool": "price", "params": {"code": "${inputs.box}"}},
                {"id": "few", "tool": "present", "when": "${cheap.size() > 0}"},
            ],
            "result": "${cheap}",
        }
    )
    hints = {fault.pointer: fault.hint or "" for fault in check(plan, None, TOOLS)}

    assert hints.keys() == {"/let/cheap", "/steps/1/params/code", "/steps/2/params/code"}
    assert "has values and no types: write a value, `days: …`" in hints["/let/cheap"]
    assert "has values and no types: write a value, `code: …`" in hints["/steps/1/params/code"]
    assert "no types" not in hints["/steps/2/params/code"]
    assert {fault.hint for fault in errors_in(plan, None, TOOLS)} == {*hints.values()}


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("${steps.a.output.close}", "steps.a is the output of the step"),
        ("${{ steps.a.close }}", "one pair of braces is enough: ${…}"),
        ("{{ steps.a.days }}", "did you mean ${steps.a.days}?"),
        ("$steps.a.days", "did you mean ${steps.a.days}?"),
        ("$(steps.a.days)", "did you mean ${steps.a.days}?"),
        ("steps.a.days", "did you mean ${steps.a.days}?"),
        ("seven", "'days' takes an integer"),
    ],
)
def test_a_reference_as_other_systems_write_it_is_said_as_plans_do(written: str, hint: str) -> None:
    reading = {"id": "b", "tool": "price", "params": {"code": "x", "days": written}}

    [fault] = check(plan_of(A_PRICE, reading), None, TOOLS)

    assert fault.hint is not None
    assert hint in fault.hint
