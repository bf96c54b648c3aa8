"""Items and calls that are written out: each is a call that is known before the run."""

from __future__ import annotations

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject


def tool(name: str, **parameters: Json) -> ToolSignature:
    properties: JsonObject = {**parameters}
    schema: JsonObject = {"type": "object", "properties": properties}
    schema |= {"required": [*parameters], "additionalProperties": False}
    return ToolSignature(name=name, input_schema=schema, output_schema={"type": "integer"})


DAY: JsonObject = {"type": "string", "format": "date"}
DAYS: JsonObject = {"type": "array", "items": {"type": "object", "properties": {"day": DAY}}}
TOOLS = {
    "count": tool("count", n={"type": "integer"}),
    "book": tool("book", day=DAY, room={"enum": ["a", "b"]}),
    "plan_days": tool("plan_days", years={"type": "object", "additionalProperties": DAYS}),
    "send": tool("send", to={"type": "string"}),
}


def faults_of(**step: Json) -> list[tuple[str, str]]:
    """Return code and place of what is said of a step."""
    first: Json = {"id": "c", "tool": "count", "params": {"n": 1}}
    plan: JsonObject = {
        "steps": [first, {"id": "s", **step}],
        "result": ["${steps.s}", "${steps.c}"],
    }
    found = check(Plan.model_validate(plan), None, TOOLS)
    return [(fault.code, fault.pointer.removeprefix("/steps/1")) for fault in found]


BOOKED: JsonObject = {"day": "${item.day}", "room": "${item.room}"}


@pytest.mark.parametrize(
    ("step", "faults"),
    [
        ({"tool": "count", "for_each": [1, 2], "params": {"n": "${item}"}}, []),
        (
            {"tool": "count", "for_each": [1, "2", 3.5], "params": {"n": "${item}"}},
            [("E205", "/for_each/1"), ("E205", "/for_each/2")],
        ),
        (
            {"tool": "book", "for_each": [{"day": "2026-02-28", "room": "b"}], "params": BOOKED},
            [],
        ),
        (
            {"tool": "book", "for_each": [{"day": "2026-02-30", "room": "z"}], "params": BOOKED},
            [("E205", "/for_each/0"), ("E205", "/for_each/0")],
        ),
        (
            {
                "tool": "count",
                "for_each": [{"n": 1.5, "on": True}, {"n": "x", "on": False}],
                "when": "item.on",
                "params": {"n": "${item.n}"},
            },
            [("E205", "/for_each/0")],
        ),
        # Where all are wrong, each is told, and not once more what stands for all of them.
        (
            {"tool": "count", "for_each": ["1", "2"], "params": {"n": "${item}"}},
            [("E205", "/for_each/0"), ("E205", "/for_each/1")],
        ),
        # An item that is a `${…}` has the type of what it gives, and so has a part of one.
        (
            {
                "tool": "send",
                "for_each": ["a", "${steps.c}", "${string(steps.c)}"],
                "params": {"to": "${item}"},
            },
            [("E304", "/for_each/1")],
        ),
        (
            {
                "tool": "send",
                "for_each": [{"to": "${steps.c}"}, "${{'to': steps.c}}", {"to": "${steps.c} a"}],
                "params": {"to": "${item.to}"},
            },
            [("E304", "/for_each/0"), ("E304", "/for_each/1")],
        ),
        (
            {"tool": "send", "for_each": ["${steps.c}", 2], "params": {"to": "${item.name}"}},
            [("E303", "/params/to")],
        ),
        (
            {"tool": "count", "for_each": ["${steps.c}", "b"], "params": {"n": "${item + 1}"}},
            [],
        ),
        (
            {
                "tool": "count",
                "for_each": [1, "two", "three"],
                "when": "${index != 1 && steps.c > 1}",
                "params": {"n": "${item}"},
            },
            [],
        ),
    ],
)
def test_an_item_that_is_written_out_is_checked_as_an_argument(
    step: dict[str, Json], faults: list[tuple[str, str]]
) -> None:
    assert faults_of(**step) == faults


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        ({"tool": "count", "params": {"n": 3}}, []),
        ({"tool": "count", "params": {"n": "${steps.c}"}}, []),
        ("${{'tool': 'count', 'params': {'n': steps.c}}}", []),
        ("${{'tool': 'call'}}", [("E304", "")]),
        ({"tool": "count", "params": "${{'n': 'a'}}"}, [("E304", "/params")]),
        ({"tool": "send", "params": {"to": "${steps.c}"}}, [("E304", "/params/to")]),
        ({"tool": "count", "params": {"m": 3}}, [("E204", "/params"), ("E203", "/params/m")]),
        ({"tool": "count"}, [("E204", "/params")]),
        ({"tool": "cuont", "params": {"n": 3}}, [("E202", "/tool")]),
        ({"tool": "book", "params": {"day": "now", "room": "a"}}, [("E205", "/params/day")]),
        ("count", [("E205", "")]),
        ({"tool": "count", "params": [3]}, [("E205", "")]),
    ],
)
def test_a_call_that_is_written_out_is_checked_as_a_step(
    call: Json, faults: list[tuple[str, str]]
) -> None:
    other: Json = {"tool": "send", "params": {"to": "bob"}}
    found = faults_of(dispatch=[other, call], tools=["count", "send", "book"])

    assert found == [(code, f"/for_each/1{place}") for code, place in faults]


def test_a_call_that_the_condition_leaves_out_need_not_be_one() -> None:
    calls: Json = [
        {"tool": "send", "params": {"to": "bob"}},
        {"tool": "count", "params": {"n": "three"}},
        {"tool": "count", "params": {"n": "four"}},
    ]

    assert faults_of(dispatch=calls, tools=["count", "send"], when="index != 1") == [
        ("E205", "/for_each/2/params/n")
    ]


INPUTS: list[tuple[Json, dict[str, Json], str | None]] = [
    (
        [{"tool": "send", "params": {"to": "bob"}}, {"tool": "count", "params": {"n": 3}}],
        {"dispatch": "${inputs.items}", "tools": ["count", "send"]},
        None,
    ),
    (
        [{"tool": "send", "params": {"to": "bob"}}, {"tool": "pay", "params": {}}],
        {"dispatch": "${inputs.items}", "tools": ["count", "send"]},
        (
            "the list of step 's': for item 1, it has 'tool' 'pay', which must be one of"
            " 'count', 'send'"
        ),
    ),
    (
        [{"tool": "send", "params": {"to": "bob"}}, {"tool": "count", "params": {"n": "3"}}],
        {"dispatch": "${inputs.items}", "tools": ["count", "send"]},
        "the list of step 's': for item 1, params.n is '3', but must be an integer",
    ),
    (
        [1, "2"],
        {"tool": "count", "for_each": "${inputs.items}", "params": {"n": "${item}"}},
        "argument 'n' of 'count': for item 1, it is '2', but must be an integer",
    ),
    (
        "30.2.2026",
        {"tool": "book", "params": {"day": "${inputs.items}", "room": "a"}},
        "argument 'day' of 'book': it is '30.2.2026', but must be a date",
    ),
    (
        {"2020": [{"day": "soon"}]},
        {"tool": "plan_days", "params": {"years": "${inputs.items}"}},
        "argument 'years' of 'plan_days': 2020[0].day is 'soon', but must be a date",
    ),
    (
        {"known": "30.2.2026"},
        {"tool": "book", "params": {"day": "${inputs.items.known}", "room": "a"}},
        "argument 'day' of 'book': it is '30.2.2026', but must be a date",
    ),
    ("2026-02-28", {"tool": "book", "params": {"day": "${inputs.items}", "room": "a"}}, None),
    (
        [1, "2"],
        {
            "tool": "count",
            "for_each": "${inputs.items}",
            "params": {"n": "${item}"},
            "when": "index == 0",
        },
        None,
    ),
]


YEARS: JsonObject = {"2020": [{"day": "soon"}]}


@pytest.mark.parametrize(
    "step",
    [
        {"params": {"years": YEARS}},
        {"for_each": [YEARS], "params": {"years": "${item}"}},
    ],
)
def test_digits_are_a_place_in_a_list_and_a_name_in_an_object(step: JsonObject) -> None:
    plan: JsonObject = {"steps": [{"id": "s", "tool": "plan_days", **step}]}
    (fault,) = check(Plan.model_validate(plan), None, TOOLS)

    assert fault.message == (
        "argument 'years.2020[0].day' of 'plan_days' is 'soon', but must be a date"
    )


def told_of_inputs(items: Json, *steps: JsonObject) -> list[tuple[str, str]]:
    plan: JsonObject = {
        "inputs": {"items": items},
        "steps": [{"id": "s", **step} for step in steps],
        "result": "${steps.s}",
    }
    found = check(Plan.model_validate(plan), None, TOOLS)
    return [(fault.code, fault.message) for fault in found]


@pytest.mark.parametrize(("items", "step", "fault"), INPUTS)
def test_an_input_that_does_not_fit_is_refused_with_the_item_that_it_is_of(
    items: Json, step: JsonObject, fault: str | None
) -> None:
    assert told_of_inputs(items, step) == ([] if fault is None else [("E304", fault)])


@pytest.mark.parametrize(
    ("items", "step"),
    [
        ("soon", {"optional": True}),
        ("soon", {"when": "now() > timestamp('2026-01-01T00:00:00Z')"}),
        ("soon", {"for_each": "${['a', 'b'].filter(x, x < string(now()))}"}),
        (["2026-01-02", "soon"], {"for_each": "${inputs.items}", "min_ok": 1}),
        (["2026-01-02", "soon"], {"for_each": "${inputs.items}", "when": "${'x' < string(now())}"}),
    ],
)
def test_an_input_that_does_not_fit_is_a_warning_where_the_run_may_do_without_the_call(
    items: Json, step: JsonObject
) -> None:
    day = "${item}" if isinstance(items, list) else "${inputs.items}"
    call: JsonObject = {"tool": "book", "params": {"day": day, "room": "a"}}

    assert [code for code, _ in told_of_inputs(items, {**call, **step})] == ["W812"]
