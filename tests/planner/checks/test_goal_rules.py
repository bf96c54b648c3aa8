"""The rules of a goal, held against plans that try to get around them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wavewright.planner.checks.checker import check, errors_of_goal
from wavewright.planner.language.goals import GoalTemplate, Job
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.planner.types import Json, JsonSchema

TEXTS: JsonSchema = {"type": "array", "items": {"type": "string"}}
PRICE: JsonSchema = {
    "type": "object",
    "properties": {"code": {"type": "string"}},
    "required": ["code"],
}


def tool(name: str, output: JsonSchema, *tags: str, **params: JsonSchema) -> ToolSignature:
    schema: dict[str, Any] = {"type": "object", "properties": params, "additionalProperties": False}
    return ToolSignature(name=name, input_schema=schema, output_schema=output, tags=frozenset(tags))


TOOLS = {
    "price": tool("price", PRICE, "data", code={"type": "string"}, codes=TEXTS, tags=TEXTS),
    "index": tool("index", PRICE, "data", code={"type": "string"}),
    "analyze": tool(
        "analyze", {}, documents={"type": "array"}, tags=TEXTS, schema={"type": "object"}
    ),
    "mail": tool("mail", {}, text={"type": "string"}),
}
TEMPLATE: dict[str, Any] = {
    "name": "outlook",
    "goal": "look",
    "targets": {"variables": "stocks", "benchmarks": "indices", "key": "code"},
    "available_tools": [{"name": "price"}, {"name": "index"}, {"name": "analyze"}],
    "output_schema": {"type": "object"},
}
JOB = Job(name="job", variables=[{"code": "GNP"}, {"code": "SKS"}], benchmarks=["XJO", "GNP"])


def found(
    rules: dict[str, Any], *steps: dict[str, Any], is_bound: bool = True, **more: Any
) -> list[tuple[str, str]]:
    template = GoalTemplate.model_validate_json(
        json.dumps({**TEMPLATE, "rules": rules, **more.pop("template", {})})
    )
    goal = resolve_goal(JOB, template)
    plan = Plan.model_validate_json(json.dumps({"steps": list(steps), **more}))
    diagnostics = check(bind_plan(plan, goal) if is_bound else plan, goal, TOOLS)
    return [(one.code, one.pointer) for one in diagnostics if one.severity == "error"]


PRIMARY = {"primary_params": {"price": "code"}}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param({"params": {"code": "SKS"}}, [], id="a primary target"),
        pytest.param({"params": {"code": "XJO"}}, ["E504"], id="a literal"),
        pytest.param({"params": {"code": " xjo "}}, ["E504"], id="a literal in another spelling"),
        pytest.param({"params": {"code": "GNP"}}, [], id="what is both is a primary target"),
        pytest.param({"params": {"code": "${inputs.indices[0]}"}}, ["E504"], id="a reference"),
        pytest.param(
            {"params": {"code": "${inputs.stocks[0].code}"}},
            [],
            id="a reference to a primary target",
        ),
        pytest.param(
            {"for_each": "${inputs.indices}", "params": {"code": "${item}"}}, ["E504"], id="an item"
        ),
        pytest.param(
            {"for_each": "${inputs.indices.map(i, {'c': i})}", "params": {"code": "${item.c}"}},
            ["E504"],
            id="an item of a list that an expression makes",
        ),
        pytest.param(
            {"for_each": ["SKS", "XJO"], "params": {"code": "${item}"}},
            ["E504"],
            id="an item of a literal",
        ),
        pytest.param(
            {
                "for_each": ["SKS", "XJO"],
                "when": "item != 'XJO'",
                "params": {"code": "${item}"},
            },
            [],
            id="an item that a condition leaves out",
        ),
        pytest.param(
            {
                "for_each": ["SKS", "XJO"],
                "when": "item != 'SKS'",
                "params": {"code": "${item}"},
            },
            ["E504"],
            id="an item that a condition keeps",
        ),
        pytest.param(
            {"for_each": "${inputs.stocks}", "params": {"code": "${item.code}"}},
            [],
            id="an item of stocks",
        ),
        pytest.param(
            {"tool": "index", "params": {"code": "XJO"}},
            [],
            id="a tool that is meant for benchmarks",
        ),
    ],
)
def test_benchmarks_are_no_primary_targets(step: dict[str, Any], expected: list[str]) -> None:
    assert [code for code, _ in found(PRIMARY, {"id": "a", "tool": "price", **step})] == expected


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"params": {"code": "${inputs.indices[0]}"}}, id="a reference"),
        pytest.param(
            {"for_each": "${inputs.indices}", "params": {"code": "${ item }"}}, id="an item"
        ),
    ],
)
def test_benchmarks_are_known_by_where_they_come_from_where_no_value_is_known(
    step: dict[str, Any],
) -> None:
    template = GoalTemplate.model_validate_json(json.dumps({**TEMPLATE, "rules": PRIMARY}))
    goal = resolve_goal(Job(name="job", inputs={"indices": []}), template)
    plan = Plan.model_validate_json(json.dumps({"steps": [{"id": "a", "tool": "price", **step}]}))

    assert [one.code for one in check(bind_plan(plan, goal), goal, TOOLS)] == ["E504"]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([{"tool": "price", "params": {"code": "SKS"}}], [], id="a primary target"),
        pytest.param(
            [
                {"tool": "price", "params": {"code": "SKS"}},
                {"tool": "price", "params": {"code": "XJO"}},
            ],
            [("E504", "/steps/0/for_each")],
            id="a benchmark",
        ),
        pytest.param([{"tool": "index", "params": {"code": "XJO"}}], [], id="of another tool"),
    ],
)
def test_benchmarks_are_no_primary_targets_of_a_dispatch(
    calls: list[Json], expected: list[tuple[str, str]]
) -> None:
    tools = ["price", "index"]

    assert found(PRIMARY, {"id": "a", "dispatch": calls, "tools": tools}) == expected
    inputs = {"calls": calls}
    step = {"id": "a", "dispatch": "${inputs.calls}", "tools": tools}
    assert found(PRIMARY, step, inputs=inputs) == expected


EXCLUSIVE = {"tags": {"param": "tags", "exclusive": [["x", "y", "z"]], "required": ["x"]}}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param(["x", "other"], [], id="one of them"),
        pytest.param(["x", "y"], ["E501"], id="two of them"),
        pytest.param(
            "${inputs.stocks.map(s, s.code == 'GNP' ? 'x' : 'y')}",
            ["E501"],
            id="two that inputs make",
        ),
        pytest.param(["y"], ["E506"], id="without the required one"),
        pytest.param("${[steps.b.code]}", [], id="what nobody can know before the run"),
    ],
)
def test_tags_that_exclude_each_other_are_not_asked_for_in_one_call(
    tags: Any, expected: list[str]
) -> None:
    codes = found(
        EXCLUSIVE,
        {"id": "a", "tool": "price", "params": {"tags": tags}},
        {"id": "b", "tool": "price", "params": {}},
    )

    assert [code for code, _ in codes] == expected


FORCED = {"analysis_tools": ["analyze"]}
CALLS: dict[str, Any] = {
    "id": "calls",
    "dispatch": [{"tool": "price", "params": {"code": "SKS"}}],
    "tools": ["price", "index"],
}
DATA = {"id": "data", "tool": "price", "params": {"code": "SKS"}}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([{"id": "a", "tool": "analyze"}], ["E503"], id="nothing"),
        pytest.param([DATA, {"id": "a", "tool": "analyze"}], ["E503"], id="beside the data"),
        pytest.param(
            [DATA, {"id": "a", "tool": "analyze", "depends_on": ["data"]}], [], id="after the data"
        ),
        pytest.param(
            [
                DATA,
                {"id": "a", "tool": "analyze", "params": {"documents": ["${steps.data}"]}},
                {"id": "b", "tool": "analyze", "params": {"documents": ["${steps.a}"]}},
            ],
            [],
            id="further down",
        ),
        pytest.param(
            [DATA, {"id": "a", "tool": "analyze", "params": {"documents": ["${steps.date}"]}}],
            ["E301"],
            id="a misspelt reference is one fault",
        ),
        pytest.param(
            [{"id": "a", "dispatch": [{"tool": "analyze"}], "tools": ["analyze", "price"]}],
            ["E503"],
            id="a dispatch that may analyze nothing",
        ),
        pytest.param(
            [DATA, {"id": "a", "dispatch": [], "tools": ["analyze"], "depends_on": ["data"]}],
            [],
            id="a dispatch after the data",
        ),
        pytest.param(
            [CALLS, {"id": "a", "tool": "analyze", "params": {"documents": "${steps.calls}"}}],
            [],
            id="after a dispatch that can only fetch data",
        ),
    ],
)
def test_an_analysis_rests_on_data(steps: list[dict[str, Any]], expected: list[str]) -> None:
    assert [code for code, _ in found(FORCED, *steps)] == expected


def test_an_analysis_does_not_rest_on_a_dispatch_that_may_fetch_nothing() -> None:
    tools = [{"name": name} for name in ("price", "analyze", "mail")]
    calls = {**CALLS, "tools": ["price", "mail"]}
    analysis = {"id": "a", "tool": "analyze", "params": {"documents": "${steps.calls}"}}

    faults = found(FORCED, calls, analysis, template={"available_tools": tools})
    assert faults == [("E503", "/steps/1")]


TERMINAL = {"terminal": [{"tool": "analyze", "params": {"schema": "${goal.output_schema}"}}]}
LAST: dict[str, Any] = {"id": "last", "tool": "analyze", "params": {"documents": ["${steps.data}"]}}


def test_a_bound_plan_that_ends_as_the_goal_wants_is_sound() -> None:
    assert found(TERMINAL, DATA, LAST) == []


def test_a_plan_that_was_not_bound_lacks_what_binding_adds() -> None:
    gates = {"gates": [{"id": "fresh", "on_tool": "price", "check": "output.code != ''"}]}
    caps = {"caps": [{"field": "overall", "max": 0.5, "because": "always"}]}

    assert found(TERMINAL, DATA, LAST, is_bound=False, template=gates | caps) == [
        ("E505", "/steps/1/params"),
        ("E502", "/gates"),
        ("E502", "/caps"),
    ]


def test_an_output_that_another_step_reads_is_not_the_end() -> None:
    after = {"id": "after", "tool": "price", "depends_on": ["last"]}

    assert found(TERMINAL, DATA, LAST, after) == [("E505", "/steps")]


def test_what_the_goal_sets_may_be_repeated_and_not_changed() -> None:
    same: dict[str, Any] = {
        **LAST,
        "params": {**LAST["params"], "schema": TEMPLATE["output_schema"]},
    }
    other: dict[str, Any] = {**LAST, "params": {**LAST["params"], "schema": {}}}

    assert found(TERMINAL, DATA, same) == []
    assert found(TERMINAL, DATA, other) == [("E206", "/steps/1/params/schema")]


GATES = {"gates": [{"id": "fresh", "on_tool": "price", "check": "output.code != ''"}]}


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        pytest.param(
            {"id": "fresh", "on": "data", "check": "true"}, ["E502"], id="under the template's id"
        ),
        pytest.param(
            {"id": "Fresh", "on": "data", "check": "true"}, ["E502"], id="in another case"
        ),
        pytest.param(
            {"id": "fresh__data", "on": "data", "check": "true"}, ["E502"], id="under the bound id"
        ),
        pytest.param(
            {"id": "fresh__data", "on": "data", "check": "output.code != ''"},
            [],
            id="the very same gate",
        ),
        pytest.param(
            {"id": "fresh__data", "on": "data", "check": "output.code != ''", "severity": "warn"},
            ["E502"],
            id="the same with less weight",
        ),
        pytest.param(
            {"id": "own", "on": "data", "check": "true"}, [], id="a gate of the plan's own"
        ),
    ],
)
def test_mandatory_gates_are_not_the_plans_to_change(
    gate: dict[str, Any], expected: list[str]
) -> None:
    assert [code for code, _ in found({}, DATA, gates=[gate], template=GATES)] == expected


def test_superseding_a_step_in_a_first_plan_does_not_get_around_its_gates() -> None:
    reader = {"id": "reader", "tool": "analyze", "params": {"documents": ["${steps.data}"]}}
    decoy = {"id": "decoy", "tool": "index", "params": {"code": "XJO"}, "supersedes": "data"}

    assert found({}, DATA, reader, decoy, template=GATES) == [("E408", "/steps/1")]


def test_a_tool_outside_the_allow_list_is_refused_though_it_exists() -> None:
    assert found({}, {"id": "a", "tool": "mail", "params": {"nonsense": 1}}) == [
        ("E202", "/steps/0/tool")
    ]


def test_a_misspelt_tool_is_not_a_missing_one_as_well() -> None:
    assert found(
        {**TERMINAL, "required_tools": ["analyze"]}, DATA, {**LAST, "tool": "analyse"}
    ) == [("E201", "/steps/1/tool")]


def test_required_tools_have_to_be_called() -> None:
    assert found({"required_tools": ["price", "index", "analyze"]}, DATA) == [
        ("E506", "/steps"),
        ("E506", "/steps"),
    ]


@pytest.mark.parametrize(
    ("calls", "tools", "expected"),
    [
        ([{"tool": "price", "params": {"code": "SKS"}}], ["price", "index"], []),
        ([{"tool": "index", "params": {"code": "SKS"}}], ["price", "index"], ["E506"]),
        ("${steps.first.calls}", ["price"], []),
        ("${steps.first.calls}", ["price", "index"], ["E506"]),
    ],
)
def test_a_dispatch_calls_a_required_tool_where_its_calls_are_known_or_there_is_no_other(
    calls: Json, tools: list[str], expected: list[str]
) -> None:
    steps: list[dict[str, Any]] = [
        {"id": "first", "tool": "analyze", "params": {"documents": []}},
        {"id": "calls", "dispatch": calls, "tools": tools},
    ]

    assert [code for code, _ in found({"required_tools": ["price"]}, *steps)] == expected


def test_inputs_have_the_type_that_the_goal_declares() -> None:
    schema = {
        "inputs_schema": {
            "type": "object",
            "properties": {
                "stocks": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"code": {"type": "string"}}},
                },
                "later": {"type": "string"},
            },
        }
    }
    steps = [
        {
            "id": "a",
            "tool": "price",
            "params": {"code": "${has(inputs.later) ? inputs.later : 'x'}"},
        },
        {"id": "b", "tool": "price", "params": {"code": "${inputs.stocks[0].cod}"}},
        {"id": "c", "tool": "price", "params": {"codes": "${inputs.indices}"}},
    ]

    assert found({}, *steps, template=schema) == [("E303", "/steps/1/params/code")]


@pytest.mark.parametrize(
    ("field", "entry", "faults"),
    [
        ("gates", {"on_tool": "price", "check": "output.cod == 'GNP'"}, [("E303", "check")]),
        ("gates", {"on_tool": "price", "check": "output.code == "}, [("E307", "check")]),
        ("gates", {"on_tool": "price", "check": "output.code"}, [("E308", "check")]),
        ("gates", {"on_tool": "price", "check": "inputs.stock == []"}, [("E302", "check")]),
        ("gates", {"on_tool": "price", "fresh_within": "1h"}, [("E123", "fresh_within")]),
        ("gates", {"on_tool": "price", "schema": {"type": "no"}}, [("E123", "schema")]),
        ("caps", {"field": "overall", "max": 0.5, "when": "inputs.stock"}, [("E302", "when")]),
        ("caps", {"field": "overall", "max": 0.5, "when": "index > 3"}, [("E305", "when")]),
        ("gates", {"on_tool": "price", "check": "output.code == inputs.stocks[0].code"}, []),
        ("gates", {"on_tool": "price", "check": "output.code == item.code"}, []),
        ("gates", {"on_tool": "price", "check": "output.code == steps.a.code"}, []),
        ("gates", {"on_tool": "mail", "required": ["text"]}, []),
        ("caps", {"field": "overall", "max": 0.5, "when": "steps.a.code == ''"}, []),
    ],
)
def test_errors_of_a_goals_own_gates_and_caps_are_found_without_a_plan(
    field: str, entry: dict[str, Any], faults: list[tuple[str, str]]
) -> None:
    sound = {
        "gates": {"id": "sound", "on_tool": "index", "check": "output.code != ''"},
        "caps": {"field": "overall", "max": 0.9, "because": "sound"},
    }
    named = {"gates": {"id": "g"}, "caps": {"because": "so"}}
    terms = {"gates": [sound["gates"]], "caps": [sound["caps"]]}
    terms[field].append({**named[field], **entry})
    goal = resolve_goal(JOB, GoalTemplate.model_validate_json(json.dumps({**TEMPLATE, **terms})))

    assert [(error.code, error.pointer) for error in errors_of_goal(goal, TOOLS)] == [
        (code, f"/{field}/1/{place}") for code, place in faults
    ]


CODED: dict[str, Any] = {
    "output_schema": {
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "count": {"type": "integer"},
            "kind": {"enum": ["open", "close"]},
            "rows": {"type": "array", "items": {"type": "integer", "maximum": 9}},
        },
        "required": ["code"],
    }
}
"""A goal that wants a code, and perhaps a count, a kind and rows."""
ONE_PRICE = {"id": "p", "tool": "price", "params": {"code": "GNP"}}
PRICES = {"id": "p", "tool": "price", "for_each": ["GNP", "SKS"], "params": {"code": "${item}"}}
ANYTHING: dict[str, Any] = {"id": "a", "tool": "analyze", "params": {"documents": []}}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param({"result": "${steps.p}"}, [], id="an output that is it"),
        pytest.param({"result": {"code": "${steps.p.code}", "count": 3}}, [], id="put together"),
        pytest.param({"result": "${steps.p.code}"}, ["/result"], id="a text"),
        pytest.param({"result": {"count": 3}}, ["/result"], id="a field is lacking"),
        pytest.param(
            {"result": {"code": ["${steps.p.code}"], "count": "three"}},
            ["/result/code", "/result/count"],
            id="each field that is of another type",
        ),
        pytest.param(
            {"result": {"code": "${steps.p.code}", "rows": ["${steps.p.code}", 2]}},
            ["/result/rows"],
            id="an element that is of another type",
        ),
        pytest.param(
            {"result": {"code": "${steps.p.code}", "kind": "last", "rows": [1, 12]}},
            ["/result/kind", "/result/rows"],
            id="a text and an element that are none of those wanted",
        ),
        pytest.param(
            {"result": {"code": "${steps.p.code}", "kind": "open", "rows": [1, 2]}},
            [],
            id="a text and elements that are wanted",
        ),
        pytest.param({"result": ["${steps.p}", 3]}, [], id="some entry may be it"),
        pytest.param({"result": ["${steps.p.code}", 3]}, ["/result"], id="no entry can be it"),
        pytest.param({"steps": [PRICES], "result": "${steps.p}"}, [], id="a list entry by entry"),
        pytest.param(
            {"steps": [PRICES], "result": "${steps.p.map(x, x.code)}"},
            ["/result"],
            id="a list none of whose entries is it",
        ),
        pytest.param({}, [], id="the output of the last step"),
        pytest.param({"steps": [ANYTHING]}, [], id="an output of which nothing is known"),
        pytest.param(
            {"stop": {"when": "steps.p.code == ''", "result": {"count": 0}}},
            ["/stop/result"],
            id="the result of stop",
        ),
    ],
)
def test_a_result_can_be_what_the_goal_asks_for(plan: dict[str, Any], expected: list[str]) -> None:
    steps = plan.get("steps", [ONE_PRICE])
    more = {name: value for name, value in plan.items() if name != "steps"}

    assert found({}, *steps, template=CODED, **more) == [("E508", place) for place in expected]


def test_each_last_step_gives_what_the_goal_asks_for() -> None:
    other = {"id": "q", "tool": "price", "params": {"code": "SKS"}}
    counted = {"output_schema": {"type": "object", "required": ["count"]}}

    assert found({}, ONE_PRICE, other, template=counted) == [
        ("E508", "/steps/0"),
        ("E508", "/steps/1"),
    ]
