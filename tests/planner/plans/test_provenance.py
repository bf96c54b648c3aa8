"""Provenance: literals are found wherever they end up in a value, and what a patch may not supply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from wavewright.planner.checks.written_results import check_written_result
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import Plan, PlanPatch
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.let_and_stop import with_let
from wavewright.planner.plans.patches import check_patch
from wavewright.planner.plans.provenance import PlanProvenance
from wavewright.planner.types import Json, JsonObject, StepId


def tool(name: str, *tags: str, **given: Any) -> ToolSignature:
    return ToolSignature(name=name, tags=frozenset(tags), **given)


TOOLS = {
    one.name: one
    for one in (
        tool("list_ids", "data"),
        tool("read_item", "data", input_schema={"properties": {"page": {"default": 1}}}),
        tool("sum_up", "analysis"),
        tool("scale", "analysis"),
        tool("rate", expected_tokens=500),
        tool("look_up"),
        tool("save", effects=["write"]),
    )
}
STEPS: list[JsonObject] = [
    {"id": "ids", "tool": "list_ids", "params": {"n": "${inputs.n}"}},
    {
        "id": "items",
        "tool": "read_item",
        "params": {"id": "${item}"},
        "for_each": "${steps.ids}",
    },
    {"id": "total", "tool": "sum_up", "params": {"items": "${steps.items}"}},
]
AGAIN: list[JsonObject] = [
    {**STEPS[1], "id": "items_again"},
    {"id": "total_again", "tool": "sum_up", "params": {"items": "${steps.items_again}"}},
]
"""Steps that make the same calls under other names."""
GATE: JsonObject = {"id": "enough", "on_tool": "sum_up", "check": "output.total > 100.0"}


def goal(**given: Any) -> Goal:
    return Goal.model_validate(
        {
            "name": "shop",
            "job": "shop",
            "text": "the total",
            "inputs": {"n": 3},
            "tools": [{"name": name} for name in TOOLS],
            **given,
        }
    )


def plan(*more: JsonObject, result: Json = "${steps.total}", **given: Any) -> Plan:
    return Plan.model_validate({"steps": [*STEPS, *more], "result": result, **given})


def written(
    result: Json,
    *more: JsonObject,
    allowed: tuple[str, ...] = (),
    text: str = "the total",
    **given: Any,
) -> list[str]:
    wanted = goal(allow_literals=allowed, text=text)
    bound = bind_plan(plan(*more, result=result, **given), wanted)
    return [found.code for found in check_written_result(bound, wanted, TOOLS)]


@pytest.mark.parametrize(
    "value",
    [
        1234.5,
        "The total is 1234.5",
        "${1000 + 234.5}",
        "${1234.5}",
        "${'1234.5'}",
        "${true ? 1234.5 : steps.total.total}",
        "${steps.total.total > 0.0 ? 1234.5 : 0.0}",
        "${has(steps.total.total) ? steps.total.total : 1234.5}",
        "${steps.total.total * 0.0 + 1234.5}",
        "${steps.total.total * 137.17}",
        "${cel.bind(x, 1234.5, x)}",
        "${steps.items.map(i, 411.5).sum()}",
        "${sum([1000.0, 234.5])}",
        "${max(steps.total.total, 1234.5)}",
        "${double('1234.5')}",
        "${string(steps.total.total).replace('9', '1234')}",
        "${'%s'.format([1234.5])}",
        "${{'total': 1234.5}['total']}",
        "${[steps.total.total, 1234.5][1]}",
        "${steps.items.all(i, i.price > 0.0) ? 'great' : 'bad'}",
        "The total of ${steps.total.n} items is 1234.5",
        "${inputs.invented}",
        "${inputs['invented']}",
        "${1 == 1}",
        "${steps.total.n > 90 || true}",
        "${steps.total.n > 0 && false}",
        "${steps.total.n == steps.total.n}",
        "${steps.total.total * 100.0 * 100.0}",
        "${steps.total.total + 1.0 + 1.0}",
        "${cel.bind(x, steps.total.total + 1.0, x + 1.0)}",
        "${format(now(), 'Nobody is ill')}",
        "${'Nobody is ill'.format([steps.total.n])}",
        "${steps.total.text.replace(steps.total.text, 'Nobody is ill')}",
        "${steps.total.text.replace('ill', 'well')}",
        "${zip(steps.ids, ['Nobody is ill', 'b'])[0][1]}",
        "${['Nobody is ill', steps.total.text][0]}",
        "${steps.total.total - steps.total_again.total}",
        True,
        [],
    ],
)
def test_a_literal_in_a_result_of_the_planner_is_refused_however_it_is_written(value: Json) -> None:
    assert written({"total": value}, *AGAIN, inputs={"invented": 1234.5}) == ["E507"]


@pytest.mark.parametrize(
    "value",
    [
        "${steps.total}",
        "${steps.total.total}",
        "${steps.total.total / 100.0}",
        "${1.0 - steps.total.share}",
        "${inputs.n}",
        "${steps.items.filter(i, i.price > 0.0)}",
        "${steps.items.map(i, i.price).sum()}",
        "${steps.items.size() > 2}",
        "${steps.items.map(i, i.name).join(', ')}",
        "Items: ${steps.total.n}, in all ${steps.total.total}",
        "${'%.2f in all'.format([steps.total.total])}",
        "${has(steps.total.note) ? steps.total.note : ''}",
        "${string(now())}",
        None,
    ],
)
def test_what_reads_data_or_inputs_is_no_literal(value: Json) -> None:
    assert written({"total": value}) == []


DAY_GOAL = (
    "Shifts from 09:00 to 17:00 on 2026-12-01, in Oslo or Bergen; two weeks before; over 30 days"
)
"""What a job says of days and times."""
READ = "steps.items.map(i, "


@pytest.mark.parametrize(
    ("value", "codes"),
    [
        # What only completes what is read.
        (READ + "int((now() - timestamp(i.due + 'T00:00:00Z')).getHours() / 24))", []),
        (READ + "string(timestamp(i.month + '-01T00:00:00+01:00')))", []),
        (READ + "string(timestamp('2026-12-01T' + i.start + ':00Z')))", []),
        (READ + "string(duration(string(i.n) + 'h')))", []),
        (READ + "int('0' + i.code))", []),
        (READ + "string(timestamp('2031-05-05T' + i.start + ':00Z')))", ["E507"]),
        (READ + "string(duration(string(i.n) + 'h30m')))", ["E507"]),
        (READ + "int('4' + i.code))", ["E507"]),
        ("string(timestamp('2026-12-01' + 'T09:00:00Z'))", ["E507"]),
        ("int('0' + '7')", ["E507"]),
        # Durations, days and times that the job names.
        (READ + "format(timestamp(i.due) - duration('14d'), '%Y-%m-%d'))", []),
        (READ + "format(timestamp(i.due) - duration('336h'), '%d %B'))", []),
        (READ + "format(timestamp(i.due) - duration('13d'), '%d %B'))", ["E507"]),
        (READ + "string(timestamp('2026-12-01') - timestamp(i.due)))", []),
        (READ + "string(timestamp('2026-12-02') - timestamp(i.due)))", ["E507"]),
        ("string(timestamp('2026-12-01') - timestamp('2026-12-01'))", ["E507"]),
        ("string(duration('336h'))", ["E507"]),
        ("['09:00'] + steps.items.map(i, i.end)", []),
        ("zip(['09:00'] + steps.items.map(i, i.end), steps.items.map(i, i.start) + ['17:00'])", []),
        ("['09:15'] + steps.items.map(i, i.end)", ["E507"]),
        ("['9:00', '09:00:00'] + steps.items.map(i, i.end)", []),
        ("['09:00']", ["E507"]),
        ("(['09:00'] + steps.items.map(i, i.end))[0]", ["E507"]),
        ("cel.bind(x, ['09:00'] + steps.items.map(i, i.end), x[0])", ["E507"]),
        # Words in which the job says a figure, and answers of which one comes twice.
        ("'Over 30 days, before 1 December 2026: ' + string(steps.total.n)", []),
        ("'Before 2026-12-02: ' + string(steps.total.n)", ["E507"]),
        ("'In the 14 days before, or 30-day: ' + string(steps.total.n)", []),
        ("'In the 13 days before: ' + string(steps.total.n)", ["E507"]),
        ("'From 9:00, to 5 pm: ' + string(steps.total.n)", []),
        ("'From 9:15: ' + string(steps.total.n)", ["E507"]),
        ("'The total is 30 of ' + string(steps.total.n)", ["E507"]),
        (f"'{'All of them, ' * 6}1234.5: ' + string(steps.total.n)", ["E507"]),
        ("steps.total.n > 9 ? 'Oslo' : steps.total.n > 3 ? 'Bergen' : 'Oslo'", []),
        ("steps.total.n > 9 ? 'Oslo' : 'Oslo'", ["E507"]),
        (READ + "'Oslo').join(', ')", ["E507"]),
        (READ + "1).sum()", []),
        (READ + "'Oslo').size()", []),
        ("lists.range(steps.total.n).map(i, '#').join()", []),
        ("steps.items.filter(i, i.price > 0.0).map(i, 1).sum()", []),
        (READ + "i.price > 0.0, 1).sum()", []),
        (READ + "1000).sum()", ["E507"]),
        (READ + "1)", ["E507"]),
        ("steps.items.size() == 0 ? 'No shifts found' : steps.items.map(i, i.name).join()", []),
        (
            "steps.items.size() == 0 ? 'There are no shifts.' : steps.items.map(i, i.name).join()",
            [],
        ),
        (
            "steps.items.size() == 0 ? 'There are shifts' : steps.items.map(i, i.name).join()",
            ["E507"],
        ),
        ("steps.items.size() <= 0 ? 'No shifts' : steps.items.map(i, i.name).join()", []),
        ("[] != steps.items ? steps.items.map(i, i.name).join() : 'No shifts'", []),
        ("steps.items.size() < 0 ? 'No shifts' : steps.items.map(i, i.name).join()", ["E507"]),
        ("steps.items == [] ? steps.items.map(i, i.name).join() : 'No shifts'", ["E507"]),
        ("steps.total.n <= 0 ? 0.0 : steps.total.sum / steps.total.n", []),
        ("steps.total.n <= 0 ? steps.total.sum / steps.total.n : 0.0", ["E507"]),
        ("steps.total.n > 9 ? 'No shifts' : steps.items.map(i, i.name).join()", ["E507"]),
        ("steps.items.size() == 0 ? 'No fault' : steps.items.map(i, i.name).join()", ["E507"]),
    ],
)
def test_what_completes_a_value_or_stands_in_the_job_is_no_literal_beside_data(
    value: str, codes: list[str]
) -> None:
    assert written({"total": f"${{{value}}}"}, text=DAY_GOAL) == codes


@pytest.mark.parametrize(("most", "codes"), [(30, []), (5, ["E507"]), (17, ["E507"])])
def test_an_hour_or_a_weekday_that_the_job_names_bounds_no_other_value(
    most: int, codes: list[str]
) -> None:
    value = f"${{min(steps.total.n, {most})}}"

    assert written({"total": value}, text="At most 30 on weekdays, till 5pm") == codes


def test_a_duration_that_the_job_names_counts_once() -> None:
    wanted = goal(text=DAY_GOAL + " a week")
    twice = "timestamp(steps.total.t) + duration('14d') + duration('7d')"
    bound = bind_plan(plan(result={"total": f"${{{twice}}}"}), wanted)
    origins = PlanProvenance(bound, TOOLS, wanted).of_result()["total"]

    assert origins.factors == {twice}
    assert not origins.literals


@pytest.mark.parametrize(
    "params",
    [
        {"items": [{"price": 1000.0}]},
        {"items": "${[{'price': 1000.0}]}"},
        {"items": "${steps.items.map(i, {'price': 1000.0})}"},
        {"items": "${steps.items + [{'price': 1000.0}]}"},
        {"items": [{"price": 1000.0}], "note": "${steps.ids}"},
        {"value": 1234.5},
    ],
)
def test_a_literal_is_followed_through_the_step_that_computes_with_it(params: JsonObject) -> None:
    made_up: JsonObject = {"id": "fed", "tool": "sum_up", "params": params}

    assert written("${steps.fed}", made_up) == ["E507"]


def test_equal_steps_that_are_added_up_are_another_value_and_not_refused() -> None:
    twice = "steps.total.total + steps.total_again.total"
    bound = bind_plan(plan(*AGAIN, result={"total": f"${{{twice}}}"}), goal())
    origins = PlanProvenance(bound, TOOLS, goal()).of_result()["total"]

    assert origins.factors == {twice}
    assert not origins.literals


def test_calls_that_are_no_promise_of_the_same_data_may_be_added_up() -> None:
    """Two answers of a model, or of a tool of which nothing is known, and data after a write."""
    rated: list[JsonObject] = [
        {"id": f"rated_{number}", "tool": "rate", "params": {"items": "${steps.items}"}}
        for number in (1, 2)
    ]
    later: list[JsonObject] = [
        {"id": "saved", "tool": "save", "params": {"of": "${steps.ids}"}},
        {**STEPS[0], "id": "ids_later", "depends_on": ["saved"]},
    ]

    assert written("${steps.rated_1.grade + steps.rated_2.grade}", *rated) == []
    assert written("${steps.ids_later.size() - steps.ids.size()}", *later) == []


@pytest.mark.parametrize(
    "step",
    [
        {"tool": "scale", "params": {"value": "${steps.total.total}", "by": 2, "as": "percent"}},
        {"tool": "scale", "params": {"items": "${steps.items}", "fields": ["price", "name"]}},
        {"tool": "read_item", "params": {"id": 17, "source": "live"}},
        {"tool": "look_up", "params": {"name": "AUD", "days": 30}},
        {"tool": "rate", "params": {"items": "${steps.items}", "style": "short"}},
    ],
)
def test_options_and_what_says_which_data_are_no_literals(step: JsonObject) -> None:
    assert written("${steps.last}", {"id": "last", **step}) == []


@pytest.mark.parametrize(
    ("params", "own"),
    [
        ({"digits": 2}, {}),
        ({"columns": [{"name": "price", "width": 12}]}, {}),
        ({"form": {"minLength": 7}, "targets": ["${inputs.n}"]}, {"note": "short"}),
    ],
)
def test_what_the_goal_sets_on_the_last_step_is_not_the_planners(
    params: JsonObject, own: JsonObject
) -> None:
    ends = goal(rules={"terminal": [{"tool": "scale", "params": params}]})
    last: JsonObject = {"id": "last", "tool": "scale", "params": {"of": "${steps.items}", **own}}
    bound = bind_plan(plan(last, result="${steps.last}"), ends)
    origins = PlanProvenance(bound, TOOLS, ends).of_result()["result"]

    assert (origins.factors, origins.literals) == (frozenset(), frozenset())
    assert not [*check_written_result(bound, ends, TOOLS)]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"for_each": []}, ["E507"]),
        ({"for_each": "${[]}"}, ["E507"]),
        ({"when": "false"}, ["E507"]),
        ({"when": "1 > 2"}, ["E507"]),
        ({"when": "steps.ids.size() > 0 && false"}, ["E507"]),
        ({"when": "true"}, []),
        ({"when": "steps.ids.size() > 0"}, []),
        ({"when": "now() > timestamp('2020-01-01T00:00:00Z')"}, []),
    ],
)
def test_a_step_that_the_planner_has_empty_or_left_out_gives_no_data(
    change: JsonObject, found: list[str]
) -> None:
    items: JsonObject = {
        "id": "last", "tool": "read_item", "params": {"id": "${item}"}, "for_each": "${steps.ids}", **change,
    }  # fmt: skip

    assert written("${steps.last}", items) == found


def test_the_goal_may_allow_the_literal_of_a_field() -> None:
    result: Json = {"title": "Prices of 2026", "total": "${steps.total.total}"}

    assert (written(result), written(result, allowed=("title",))) == (["E507"], [])


@pytest.mark.parametrize(
    ("ends", "result", "pointer"),
    [
        ("${[7]}", "${steps.total}", "/stop/result"),
        ({"total": 0}, {"total": "${steps.total.total}"}, "/stop/result/total"),
        ({"rows": [{"n": 7}]}, {"rows": "${steps.items}"}, "/stop/result/rows/0/n"),
        ({"total": "${inputs.n}"}, {"total": 1234.5}, "/result/total"),
    ],
)
def test_what_is_written_stands_in_the_result_of_the_plan_or_of_its_stop(
    ends: Json, result: Json, pointer: str
) -> None:
    wanted = goal()
    ending: JsonObject = {"when": "steps.ids.size() == 0", "result": ends}
    bound = bind_plan(plan(result=result, stop=ending), wanted)
    [fault] = check_written_result(bound, wanted, TOOLS)

    assert fault.pointer == pointer


IS_EMPTY = "steps.ids.size() == 0"
NOTHING: list[Json] = [
    [],
    {},
    None,
    False,
    "",
    "${[]}",
    "${''}",
    "${false}",
    {"ids": []},
    "${1 > 2}",
    "${[1].filter(i, i > 2)}",
]
STOPS: list[tuple[str, Json, list[str]]] = [
    *((IS_EMPTY, nothing, []) for nothing in NOTHING),
    (IS_EMPTY, {"ids": [], "sent": False, "note": None}, []),
    (IS_EMPTY, {"ids": [], "total": 0}, ["E507"]),
    (IS_EMPTY, {"ids": [[], 7]}, ["E507"]),
    (IS_EMPTY, True, ["E507"]),
    (IS_EMPTY, "${1 < 2}", ["E507"]),
    (IS_EMPTY, "${2 - 2}", ["E507"]),
    (IS_EMPTY, "${now() > timestamp('2000-01-01T00:00:00Z') ? 'Oslo' : ''}", ["E507"]),
    (IS_EMPTY, "${[now()].filter(t, t.getFullYear() > 2000).map(t, 7)}", ["E507"]),
    ("true", {"ids": []}, ["E507"]),
    ("1 > 2", [], ["E507"]),
]


@pytest.mark.parametrize(("when", "ends", "codes"), STOPS)
def test_a_plan_that_data_stops_may_say_that_there_is_nothing(
    when: str, ends: Json, codes: list[str]
) -> None:
    assert written("${steps.total}", stop={"when": when, "result": ends}) == codes


@pytest.mark.parametrize("chosen", ["i.price > 2.0", "i.kind != 'low'", "i.kind in ['a', 'b']"])
@pytest.mark.parametrize("of", ["look_up", "sub_plan"])
def test_what_came_of_chosen_items_is_data_whatever_is_known_of_its_type(
    chosen: str, of: str
) -> None:
    step: JsonObject = {
        "id": "last", "tool": of, "params": {"result": "${steps.items[index].note}"},
        "for_each": f"${{steps.items.filter(i, {chosen})}}",
    }  # fmt: skip
    named, _ = with_let(plan(step, result="${joined(steps.last).map(j, j.output.text)}"))

    fields = PlanProvenance(bind_plan(named, goal()), TOOLS, goal()).of_result()
    assert fields["result"].literals == frozenset()


READ_IN_FULL: JsonObject = {"full": "${steps.total.text}", "lines": 20}
"""A result of a sub-plan of which one field is data."""
MADE = "${steps.items.map(i, {'full': i.text, 'lines': 20})}"
BOTH: Json = ["${steps.deep}", "${steps.twin}"]
STOPPED = "${{!(steps.total.n > 3) ? {{'full': steps.total.text, 'lines': 20}} : {}}}"


@pytest.mark.parametrize(
    ("deep", "value", "codes"),
    [
        (READ_IN_FULL, "steps.deep.full", []),
        (READ_IN_FULL, "steps.deep['full']", []),
        (READ_IN_FULL, "has(steps.deep.full) ? steps.deep.full : ''", []),
        (READ_IN_FULL, "cel.bind(d, steps.deep, d.full)", []),
        (READ_IN_FULL, "steps.deep.lines", ["E507"]),
        (READ_IN_FULL, "steps.deep", ["E507"]),
        (READ_IN_FULL, "steps.deep.full + string(steps.deep.lines)", ["E507"]),
        (READ_IN_FULL, "steps.deep.transformList(k, v, v)", ["E507"]),
        ({"at": READ_IN_FULL, "n": 3}, "steps.deep.at.full", []),
        ({"at": READ_IN_FULL, "n": 3}, "steps.deep.at", ["E507"]),
        ({"full": {"lines": 20}, "at": READ_IN_FULL}, "steps.deep[inputs.n].full", ["E507"]),
        ({"full": "${steps.total.text}", "note": "all is well"}, "steps.deep.note", ["E507"]),
        ({"rows": [READ_IN_FULL], "n": 3}, "steps.deep.rows[0].full", []),
        ({"rows": [READ_IN_FULL, READ_IN_FULL]}, "steps.deep.rows.map(d, d.full)", ["E507"]),
        ({"rows": MADE, "n": 3}, "steps.deep.rows.map(d, d.full)", []),
        ({"rows": MADE, "n": 3}, "steps.deep.rows.map(d, d.lines)", ["E507"]),
        (MADE, "steps.deep.filter(d, d.full != '').map(d, d.full).join(', ')", []),
        (MADE, "steps.deep.sortBy(d, d.full).distinct()[0].full", []),
        (MADE, "steps.deep.map(d, d.lines).sum()", ["E507"]),
        (MADE, "zip([1000.0], steps.deep)[0][0]", ["E507"]),
        (READ_IN_FULL, "[steps.deep, steps.twin].map(d, d.full)", []),
        (READ_IN_FULL, "[steps.deep, steps.deep].map(d, d.full)", ["E507"]),
        (READ_IN_FULL, "[steps.deep, {'full': 1000.0}].map(d, d.full)", ["E507"]),
        (READ_IN_FULL, "(steps.total.n > 3 ? steps.deep : {'full': 9.0}).full", ["E507"]),
        (READ_IN_FULL, "{'full': steps.ids, 'lines': 20}.full", []),
        (READ_IN_FULL, "{'full': steps.ids, 'lines': 20}.lines", ["E507"]),
        (STOPPED.format("{'full': '', 'lines': 0}"), "steps.deep.full", []),
        (STOPPED.format("{'full': '', 'lines': 0}"), "steps.deep.lines", ["E507"]),
        (STOPPED.format("{'full': 'well', 'lines': 0}"), "steps.deep.full", ["E507"]),
    ],
)
def test_a_literal_field_of_a_sub_plan_is_no_part_of_its_others(
    deep: Json, value: str, codes: list[str]
) -> None:
    results: JsonObject = {"deep": deep, "twin": {"full": "${steps.ids}", "lines": 20}}
    calls: list[JsonObject] = [
        {"id": name, "tool": "sub_plan", "params": {"result": result}}
        for name, result in results.items()
    ]
    assert written({"total": f"${{{value}}}"}, *calls) == codes


@pytest.mark.parametrize(
    ("for_each", "params", "codes"),
    [
        ("${steps.deep}", {"rows": "${item.full}"}, []),
        ("${steps.deep}", {"rows": "${item}"}, ["E507"]),
        ("${steps.deep}", {"rows": "${item.lines}"}, ["E507"]),
        (BOTH, {"rows": "${item[0].full}"}, []),
        (["${steps.deep}", "${steps.deep}"], {"rows": "${item[0].full}"}, ["E507"]),
        (None, {"rows": "${steps.deep.map(d, d.full)}"}, []),
        (None, {"rows": "${steps.deep.map(d, d.full)}", "mode": "${steps.deep[0].mode}"}, []),
        (None, {"rows": "${steps.deep}"}, ["E507"]),
    ],
)
def test_a_step_computes_with_a_field_of_a_sub_plan_for_each_item(
    for_each: Json, params: JsonObject, codes: list[str]
) -> None:
    result: JsonObject = {"full": "${steps.items[index].rows}", "lines": 20, "mode": "fast"}
    calls: list[JsonObject] = [
        {"id": name, "tool": "sub_plan", "params": {"result": result}, "for_each": "${steps.ids}"}
        for name in ("deep", "twin")
    ]
    more: JsonObject = {"id": "more", "tool": "sum_up", "params": params, "for_each": for_each}
    assert written({"total": "${steps.more}"}, *calls, more) == codes


@pytest.mark.parametrize(
    ("value", "is_choice"),
    [
        ("steps.pairs.map(r, r[1])", False),
        ("steps.pairs.filter(r, r[1] > 0)[0][1]", False),
        ("steps.pairs.map(r, r[2])", True),
        ("steps.pairs[1][1]", True),
        ("steps.pairs[1]", True),
        ("steps.items.map(r, r[1])", True),
    ],
)
def test_a_place_of_a_tuple_is_no_choice(value: str, *, is_choice: bool) -> None:
    pair: JsonObject = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}
    fetch = tool("list_pairs", "data", output_schema={"type": "array", "items": pair})
    more: JsonObject = {"id": "pairs", "tool": "list_pairs", "params": {}}
    asked = goal(tools=[{"name": name} for name in (*TOOLS, "list_pairs")])
    bound = bind_plan(plan(more, result=f"${{{value}}}"), asked)
    origins = PlanProvenance(bound, {**TOOLS, "list_pairs": fetch}, asked).of_result()["result"]

    assert (bool(origins.choices), origins.literals) == (is_choice, frozenset())


@pytest.mark.parametrize(
    ("part", "is_choice"),
    [
        ("i.day.split('-')[0]", False),
        ("i.paid_at.split('T')[0].split('-')[2]", False),
        ("i.name.split('-')[0]", True),
        ("i.day.split(',')[1]", True),
    ],
)
def test_a_part_of_a_date_is_no_choice(part: str, *, is_choice: bool) -> None:
    bound = bind_plan(plan(result=f"${{{READ}{part})}}"), goal())
    origins = PlanProvenance(bound, TOOLS, goal()).of_result()["result"]

    assert (bool(origins.choices), origins.literals) == (is_choice, frozenset())


GOODS: Json = [{"code": code, "kind": "fruit"} for code in ("Ä-1", "B-2", "C-3")]
ONE_BY_ONE: list[Json] = [f"${{inputs.at.goods[{place}].code}}" for place in range(3)]


@pytest.mark.parametrize(
    ("items", "text", "is_choice"),
    [
        ("${inputs.at.goods}", "all", False),
        (["${inputs.at.goods[0]}"], "all", True),
        ("${[inputs.at.goods[2]]}", "all", True),
        ("${[inputs.at.goods[2]]}", "the third", False),
        ("${[(inputs.at.goods)[2]]}", "all", True),
        ("${[cel.bind(g, inputs.at.goods, g[2])]}", "all", True),
        ("${inputs.at.goods.filter(g, g.code == 'Ä-1')}", "all", True),
        ("${inputs.at.goods.filter(g, g.code != 'ä-1')}", "without Ä-1", False),
        ("${inputs.at.goods.filter(g, g.code in ['Ä-1', 'C-3'])}", "all", True),
        ("${inputs.at.goods.filter(g, g.kind == 'fruit')}", "all", False),
        ("${[inputs.figures[inputs.figures.size() - 1]]}", "all", True),
        ("${[inputs.figures[inputs.figures.size() - 1]]}", "the last of", False),
        ("${cel.bind(g, inputs.figures, [g[1]])}", "all", True),
        (["Ä-1"], "all", True),
        (["Ä-1", "B-2", "C-3"], "all", False),
        (ONE_BY_ONE, "all", False),
        (ONE_BY_ONE[1:], "all", True),
        ("${inputs.one}", "all", False),
        (["${inputs.one[0]}"], "all", False),
        ([7], "all", True),
        ([7, 8, 9], "all", False),
        ([1234567], "all", True),
        ([1234567, 1234568], "all", False),
    ],
)
def test_entries_of_a_list_of_the_job_are_chosen_where_others_are_left_out(
    items: Json, text: str, *, is_choice: bool
) -> None:
    inputs: JsonObject = {
        "at": {"goods": GOODS},
        "one": [{"code": "D-4"}],
        "figures": [7, 8, 9],
        "numbers": [1234567, 1234568],
    }
    wanted = goal(inputs=inputs, text=f"the total of {text} the goods")
    answered = goal(inputs=inputs, text="the total of the goods", answers=[text])
    steps = [
        {"id": "items", "tool": "read_item", "params": {"id": "${item}"}, "for_each": items},
        STEPS[2],
    ]
    bound = bind_plan(Plan.model_validate({"steps": steps, "result": "${steps.total}"}), wanted)
    origins = PlanProvenance(bound, TOOLS, wanted).of_result()["result"]

    assert (bool(origins.choices), origins.literals) == (is_choice, frozenset())
    by_answer = PlanProvenance(bound, TOOLS, answered).of_result()["result"]
    assert bool(by_answer.choices) == is_choice


@pytest.mark.parametrize(
    ("items", "when", "text", "is_choice"),
    [
        ("${steps.ids}", None, "all", False),
        ("${steps.ids}", "item != 2", "all", True),
        ("${steps.ids}", "index < 2", "all", True),
        ("${steps.ids}", "index < 2", "the first 2", False),
        ("${steps.ids}", "inputs.n > 2 && item > 0", "all", True),
        ("${steps.ids}", "inputs.n > 0", "all", False),
        ("${steps.ids}", "item != inputs.n", "all", False),
        ("${steps.ids.slice(0, steps.ids.size() - 1)}", None, "all", True),
        ("${steps.ids.slice(0, steps.ids.size() - 1)}", None, "all but the last 1 of", False),
    ],
)
def test_a_condition_on_each_item_chooses_as_a_filter_does(
    items: str, when: str | None, text: str, *, is_choice: bool
) -> None:
    wanted = goal(text=f"the total of {text} the items")
    steps = [
        STEPS[0],
        {
            "id": "items",
            "tool": "read_item",
            "params": {"id": "${item}"},
            "for_each": items,
            **({} if when is None else {"when": when}),
        },
        STEPS[2],
    ]
    bound = bind_plan(Plan.model_validate({"steps": steps, "result": "${steps.total}"}), wanted)

    origins = PlanProvenance(bound, TOOLS, wanted).of_result()["result"]
    assert (bool(origins.choices), origins.literals) == (is_choice, frozenset())


@pytest.mark.parametrize(
    ("reads", "is_choice"),
    [
        pytest.param("${steps.first.id + string(steps.total)}", False, id="the sample and all"),
        pytest.param("${steps.first.id}", True, id="the sample alone"),
    ],
)
def test_an_entry_is_a_sample_where_the_result_reads_the_whole_list(
    reads: str, *, is_choice: bool
) -> None:
    wanted = goal(inputs={"goods": GOODS}, text="the total of all the goods")
    steps = [
        {"id": "first", "tool": "read_item", "params": {"id": "${inputs.goods[0].code}"}},
        {
            "id": "items",
            "tool": "read_item",
            "params": {"id": "${item.code}"},
            "for_each": "${inputs.goods}",
        },
        STEPS[2],
    ]
    bound = bind_plan(Plan.model_validate({"steps": steps, "result": reads}), wanted)

    origins = PlanProvenance(bound, TOOLS, wanted).of_result()["result"]
    assert bool(origins.choices) == is_choice


def test_a_hint_names_a_field_in_a_list_as_a_goal_names_it() -> None:
    result: Json = {"rows": [{"n": "${steps.total.n}", "note": "few"}]}
    wanted = goal()
    [fault] = check_written_result(bind_plan(plan(result=result), wanted), wanted, TOOLS)

    assert fault.hint is not None
    assert "`allow_literals: [rows.note]`" in fault.hint
    assert written(result, allowed=("rows.note",)) == []


def test_each_field_of_a_result_has_its_own_origins() -> None:
    result: Json = {"total": "${steps.total.total}", "n": "${inputs.n}", "rows": [{"x": 1}]}
    found = PlanProvenance(bind_plan(plan(result=result), goal()), TOOLS, goal()).of_result()

    assert {
        field: [*origins.data, *origins.inputs, *origins.literals]
        for field, origins in found.items()
    } == {"total": ["items"], "n": ["n"], "rows[0].x": ["1"]}


def test_a_result_that_one_expression_gives_has_the_fields_that_it_puts_together() -> None:
    result = "${{'rows': [{'note': 'few'}], 'deep': {'n': steps.total.n, 'x': 7.5}}}"
    wanted = goal(allow_literals=["rows"])
    [fault] = check_written_result(bind_plan(plan(result=result), wanted), wanted, TOOLS)

    assert fault.message == "'deep.x' of the result holds what the planner wrote: 7.5"
    assert fault.pointer == "/result"
    assert written(result, allowed=("rows", "deep.x")) == []


def patched(*ops: JsonObject, goal_gates: Sequence[JsonObject] = ()) -> list[str]:
    """Return the codes of what is wrong with a model's patch of the finished plan."""
    wanted = goal(gates=[*goal_gates])
    bound = bind_plan(plan(), wanted)
    patch = PlanPatch.model_validate({"base": plan_hash(bound), "reason": "mend", "ops": [*ops]})
    checked = check_patch(
        bound,
        patch,
        finished=[StepId("ids"), StepId("items"), StepId("total")],
        goal=wanted,
        tools=TOOLS,
        written_by_model=True,
    )
    return sorted({found.code for found in checked.diagnostics})


def total_2(**step: Any) -> JsonObject:
    return {
        "op": "add",
        "step": {"id": "total_2", "tool": "sum_up", "supersedes": "total", **step},
    }


@pytest.mark.parametrize(
    "items",
    [
        [{"price": 1000.0}],
        [],
        "${[{'price': 1000.0}]}",
        "${steps.items.map(i, {'id': i.id, 'price': i.price * 1000.0})}",
        "${steps.items.map(i, {'id': i.id, 'price': 1000.0})}",
        "${steps.items + [{'id': 4, 'price': 1000.0}]}",
        "${steps.items.size() > 5 ? steps.items : [{'price': 1000.0}]}",
        "${has(steps.items) ? steps.items : []}",
        "${steps.items + steps.items}",
        "${[steps.items, steps.items].flatten()}",
        "${zip(steps.items, steps.items).flatten()}",
        "${steps.items + steps.items.filter(i, i.price > 2.0)}",
        "${steps.items.reverse() + steps.items.slice(0, 1)}",
        "${[steps.items, steps.items.sortBy(i, i.price).filter(i, i.id > 0)].flatten()}",
        "${cel.bind(x, [{'price': 1000.0}], x)}",
        "${steps.items.map(i, {'price': i.price * i.price})}",
        "${steps.items.map(i, {'price': double(i.id) + i.price})}",
        "${steps.items.map(i, i.price > 2.0 ? i : steps.items[2])}",
        1000,
        "many",
        "${steps.items.map(i, {'price': math.abs(i.price)})}",
        "${steps.items.map(i, {'price': math.sqrt(i.price)})}",
        "${steps.items.map(i, {'price': math.ceil(i.price)})}",
    ],
)
def test_a_patch_may_not_supply_data(items: Json) -> None:
    assert patched(total_2(params={"items": items})) == ["E412"]


@pytest.mark.parametrize(
    "items",
    [
        "${{'all': steps.items, 'late': steps.items.filter(i, i.late)}}",
        "${{'all': steps.items, 'sorted': steps.items.sortBy(i, i.price)}}",
        "${{'all': steps.items, 'names': steps.items.map(i, {'name': i.name})}}",
    ],
)
def test_a_patch_may_pass_a_list_beside_a_part_of_it(items: Json) -> None:
    assert patched(total_2(params={"items": items})) == []


@pytest.mark.parametrize(
    ("option", "found"),
    [
        (1225.5, ["E412"]),
        ({"add": [1225.5]}, ["E412"]),
        ("${double(inputs.n) * 400.0}", ["E412"]),
        ("${double(string(inputs.n).size())}", ["E412"]),
        (2, []),
        (0.25, []),
        ("${inputs.n}", []),
        ("${steps.ids.size()}", []),
        ("of ${inputs.n}", []),
    ],
)
def test_a_patch_may_set_an_option_and_no_telling_figure(option: Json, found: list[str]) -> None:
    assert patched(total_2(params={"items": "${steps.items}", "start": option})) == found


def test_a_patch_may_not_supply_data_through_a_step_of_its_own() -> None:
    fed: JsonObject = {
        "op": "add",
        "step": {"id": "fed", "tool": "scale", "params": {"rows": [{"price": 1000.0}]}},
    }

    assert patched(fed, total_2(params={"items": "${steps.fed}"})) == ["E412"]


@pytest.mark.parametrize(
    ("asked", "found"), [(50, ["E412"]), ("${steps.ids[0]}", []), ("${inputs.n}", [])]
)
def test_a_patch_may_not_join_what_it_names_itself(asked: Json, found: list[str]) -> None:
    more: JsonObject = {
        "op": "add",
        "step": {"id": "more", "tool": "read_item", "params": {"id": asked}},
    }

    assert patched(more, total_2(params={"items": "${steps.items + [steps.more]}"})) == found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"id": "${item}"}, ["E412"]),
        ({"id": "${item}", "force": True}, ["E412"]),
        ({"id": "${item}", "source": "live"}, ["E412"]),
        ({"id": "${item}", "cache": False}, ["E412"]),
        ({"id": "${item}", "noCache": True, "timeout_s": 30}, ["E412"]),
        ({"id": "${item}", "format": "long", "verbose": True}, ["E412"]),
        ({"id": "${item}", "page": 1}, ["E412"]),
        ({"id": "${item}", "page": 2}, []),
        ({"id": "${item}", "page": 2, "force": True}, []),
        ({"id": "${item}", "year": 2024}, []),
        ({"id": "${item}", "region": "south"}, []),
        ({"id": "${item}", "status": "closed"}, []),
        ({"id": "${item}", "from": "2024-01-01"}, []),
        ({"id": "${item}", "cursor": "b2Zmc2V0"}, []),
        ({"id": "${item}", "source_country": "DE"}, []),
        ({"id": "${item + 3}"}, []),
    ],
)
def test_a_patch_may_not_join_calls_that_ask_for_the_same(
    asked: JsonObject, found: list[str]
) -> None:
    again: JsonObject = {"id": "more", "tool": "read_item", "for_each": "${steps.ids}"}
    more: JsonObject = {"op": "add", "step": {**again, "params": asked}}

    assert patched(more, total_2(params={"items": "${steps.items + steps.more}"})) == found


@pytest.mark.parametrize(
    "items",
    [
        "${steps.items.filter(i, i.id == 2) + steps.items.filter(i, i.id != 2)}",
        "${steps.items.slice(1, 3) + steps.items.slice(0, 1)}",
    ],
)
def test_a_patch_may_put_the_parts_of_a_list_in_another_order(items: str) -> None:
    assert "E412" not in patched(total_2(params={"items": items}))


@pytest.mark.parametrize(
    ("items", "codes"),
    [
        ("${steps.ids + steps.ids + steps.ids}", ["E412"]),
        ("${[steps.ids, steps.ids].flatten()}", ["E412"]),
        ("${steps.ids.map(i, [i, i]).flatten()}", ["E412"]),
        ("${steps.ids + steps.ids.slice(0, 2)}", ["E412"]),
        (["${steps.ids[0]}", "${steps.ids[0]}"], ["E412"]),
        (["${steps.ids[0]}", "${steps['ids'][0]}", '${steps["ids"][1]}'], ["E412"]),
        ("${cel.bind(x, steps.ids, x + x)}", ["E412"]),
        ("${zip(steps.ids, steps.ids).flatten()}", ["E412"]),
        ("${zip(steps.ids, steps.ids).map(p, [p[0], p[1]]).flatten()}", ["E412"]),
        ("${[steps.ids[0], steps['ids'][0]]}", ["E412"]),
        ("${zip(steps.ids, steps.more).flatten()}", []),
        ("${inputs.n > 2 ? steps.ids : steps.ids + steps.ids}", ["E412"]),
        ("${steps.ids.slice(0, 2)}", []),
        ("${steps.ids + steps.more}", []),
        ("${cel.bind(x, steps.ids, x + steps.more)}", []),
        ("${inputs.n > 2 ? steps.ids : steps.more}", []),
        ("${(steps.ids + steps.ids).distinct()}", []),
        (["${steps.ids[0]}", "${steps.ids[1]}"], []),
    ],
)
def test_a_patch_may_not_ask_for_items_twice(items: Json, codes: list[str]) -> None:
    params: JsonObject = {"n": "${inputs.n}", "page": 2}
    more: JsonObject = {"op": "add", "step": {"id": "more", "tool": "list_ids", "params": params}}
    again = items_2(params={"id": "${item}"}, for_each=items)

    assert patched(more, again, SUMMED) == codes


def test_a_patch_may_not_put_a_list_in_place_of_the_items_that_were_read() -> None:
    again: JsonObject = {
        "op": "add",
        "step": {
            "id": "items_2",
            "tool": "read_item",
            "params": {"id": "${item}"},
            "for_each": [],
            "supersedes": "items",
        },
    }

    assert patched(again, total_2(params={"items": "${steps.items}"})) == ["E412"]


def test_a_gate_on_data_may_not_come_to_look_at_what_a_model_answers() -> None:
    rated: JsonObject = {
        "op": "add",
        "step": {"id": "rated", "tool": "rate", "params": {"items": "${steps.items}"}},
    }

    found = patched(rated, total_2(params={"items": "${steps.rated}"}), goal_gates=[GATE])

    assert found == ["E412"]


@pytest.mark.parametrize(
    "step",
    [
        {"tool": "scale", "params": {"items": "${steps.items}"}},
        {"params": {"items": "${steps.items}"}, "optional": True},
        {"params": {"items": "${steps.items}"}, "when": "inputs.n > 100"},
        {"params": {"items": "${item}"}, "for_each": "${steps.items}", "min_ok": 0},
    ],
)
def test_a_step_that_stands_for_another_is_asked_as_much(step: JsonObject) -> None:
    wanted = goal(gates=[GATE])
    bound = bind_plan(plan(), wanted)
    op = total_2(**step)
    patch = PlanPatch.model_validate({"base": plan_hash(bound), "reason": "mend", "ops": [op]})
    checked = check_patch(
        bound, patch, finished=[StepId("total")], goal=wanted, tools=TOOLS, written_by_model=True
    )

    assert [found.code for found in checked.diagnostics] == ["E413"]


SUMMED = total_2(params={"items": "${steps.items}"})


def items_2(tool: str = "read_item", **step: Any) -> JsonObject:
    again = {"id": "items_2", "tool": tool, "supersedes": "items", "for_each": "${steps.ids}"}
    return {"op": "add", "step": {**again, **step}}


@pytest.mark.parametrize(
    "params",
    [
        {"id": 1},
        {"id": "${index}"},
        {"id": "${item + 1}"},
        {"id": "${item == 2 ? 3 : item}"},
        {"id": 1, "note": "${item}"},
    ],
)
def test_a_step_that_stands_for_another_asks_for_the_same_items(params: JsonObject) -> None:
    assert patched(SUMMED, items_2(params=params)) == ["E413"]


def test_items_may_be_fetched_by_another_tool_and_by_another_of_their_fields() -> None:
    assert patched(SUMMED, items_2("look_up", params={"query": "price of ${item}"})) == []
    assert patched(SUMMED, items_2(params={"id": "${item.code}", "source": "live"})) == []


def test_a_step_that_stands_for_another_rests_on_the_same_inputs() -> None:
    more: JsonObject = {
        "op": "add",
        "step": {"id": "more", "tool": "list_ids", "params": {"n": 99}},
    }

    assert patched(SUMMED, more, items_2(for_each="${steps.more}", params={"id": "${item}"})) == [
        "E413"
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("${inputs.code}", []),
        ("${inputs.code} in full", []),
        ("OTHER", ["E413"]),
        ("${inputs.code == 'GNP' ? 'OTHER' : inputs.code}", ["E413"]),
        ("${inputs.code.lowerAscii()}", ["E413"]),
    ],
)
def test_a_text_of_the_job_is_passed_on_as_it_is(code: str, found: list[str]) -> None:
    wanted = goal(inputs={"code": "GNP"})
    step: JsonObject = {"id": "quote", "tool": "read_item", "params": {"id": "${inputs.code}"}}
    written = Plan.model_validate({"version": 1, "steps": [step]})
    bound = bind_plan(written, wanted)
    again = {**step, "id": "quote_2", "supersedes": "quote", "params": {"id": code, "day": "last"}}
    ops = [{"op": "add", "step": again}]
    patch = PlanPatch.model_validate({"base": plan_hash(bound), "reason": "mend", "ops": ops})
    checked = check_patch(
        bound, patch, finished=[StepId("quote")], goal=wanted, tools=TOOLS, written_by_model=True
    )

    assert sorted({fault.code for fault in checked.diagnostics}) == found


PLACES: JsonObject = {
    "page": "https://a.example/prices",
    "mirror": "https://b.example/prices",
    "other": "https://c.example/rents",
    "file": "data/prices.csv",
    "copy": "/srv/copy/prices.csv",
    "code": "GNP",
}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("${inputs.page}", "${inputs.mirror}", []),
        ("${inputs.page}?q=${inputs.code}", "${inputs.mirror}?q=${inputs.code}", []),
        ("${inputs.file}", "${inputs.copy}", []),
        ("${inputs.page}", "https://b.example/prices", ["E413"]),
        ("${inputs.page}", "${inputs.other}", ["E413"]),
        ("${inputs.page}", "${inputs.code}", ["E413"]),
        ("${inputs.page}?q=${inputs.code}", "${inputs.mirror}", ["E413"]),
        ("${inputs.code}", "${inputs.mirror}", ["E413"]),
    ],
)
def test_data_may_be_fetched_from_another_place_that_the_job_gives_and_no_step_reads(
    old: str, new: str, found: list[str]
) -> None:
    wanted = goal(inputs=PLACES)
    step: JsonObject = {"id": "quote", "tool": "read_item", "params": {"id": old}}
    rents: JsonObject = {"id": "rents", "tool": "read_item", "params": {"id": "${inputs.other}"}}
    bound = bind_plan(Plan.model_validate({"steps": [step, rents]}), wanted)
    again = {**step, "id": "quote_2", "supersedes": "quote", "params": {"id": new}}
    ops = [{"op": "add", "step": again}]
    patch = PlanPatch.model_validate({"base": plan_hash(bound), "reason": "mend", "ops": ops})
    checked = check_patch(
        bound, patch, finished=[StepId("quote")], goal=wanted, tools=TOOLS, written_by_model=True
    )

    assert sorted({fault.code for fault in checked.diagnostics}) == found


def test_a_gate_on_data_may_not_come_to_look_at_other_data() -> None:
    other: JsonObject = {"op": "add", "step": {"id": "other", "tool": "read_item", "params": {}}}

    found = patched(other, total_2(params={"items": "${[steps.other]}"}), goal_gates=[GATE])

    assert found == ["E412", "E413"]


def test_what_a_step_hands_back_that_writes_is_no_data_for_a_gate() -> None:
    saved: JsonObject = {"op": "add", "step": {"id": "s", "tool": "save", "params": {"text": "9"}}}
    rows = "${steps.items + [{'price': steps.s.n}]}"

    assert patched(saved, total_2(params={"items": rows}), goal_gates=[GATE]) == ["E412"]


def test_a_patch_that_fetches_again_is_as_good_as_before() -> None:
    again: JsonObject = {
        "op": "add",
        "step": {
            "id": "items_2",
            "tool": "read_item",
            "params": {"id": "${item}", "source": "live"},
            "for_each": "${steps.ids}",
            "supersedes": "items",
        },
    }

    assert patched(again, total_2(params={"items": "${steps.items}", "note": "from live"})) == []


def test_what_people_write_in_a_patch_is_theirs() -> None:
    bound = bind_plan(plan(), goal())
    op = total_2(params={"items": [{"price": 1000.0}]})
    patch = PlanPatch.model_validate({"base": plan_hash(bound), "reason": "mend", "ops": [op]})
    checked = check_patch(bound, patch, finished=[StepId("total")], goal=goal(), tools=TOOLS)

    assert checked.diagnostics == ()


ASK = tool("ask_model", expected_tokens=500)
AGENT = tool("agent", expected_tokens=500, typed_by={"output_schema": "answer"})


@pytest.mark.parametrize(
    ("step", "is_written"),
    [
        ({"ask": {"of": "${steps.items}", "for": {"total": [42]}}}, True),
        ({"ask": {"of": "${steps.items}", "for": {"verdict": ["all is well"]}}}, True),
        ({"ask": {"of": "${steps.items}", "for": {"total": "42..42"}}}, True),
        ({"ask": {"of": "${steps.items}", "for": {"total": {"const": 42}}}}, True),
        ({"ask": {"of": "${steps.items}", "for": {"a": {"b": {"list": {"enum": [1]}}}}}}, True),
        ({"ask": {"of": "${steps.items}", "for": {"a": {"type": "string", "pattern": "^well$"}}}}, True),
        ({"ask": {"of": "${steps.items}", "for": {"a": {"anyOf": [{"const": 1}, {"type": "null"}]}}}}, True),
        ({"ask": {"of": "The total is 42.", "for": {"total": "integer"}}}, True),
        ({"ask": {"of": "${steps.items}", "for": {"verdict": ["well", "ill"]}}}, False),
        ({"ask": {"of": "${steps.items}", "for": {"day": "date", "n": "0..10", "who": "text?"}}}, False),
        ({"ask": {"of": "Of ${steps.items}", "for": {"is_well": "boolean"}}}, False),
        ({"tool": "agent", "params": {"task": "Add", "output_schema": {"properties": {"n": {"enum": [42.0]}}}}}, True),
        ({"tool": "agent", "params": {"task": "Add", "output_schema": {"properties": {"n": {"minimum": 2}}}}}, False),
    ],
)  # fmt: skip
def test_an_answer_of_which_a_plan_leaves_a_model_no_choice_is_a_literal(
    *, step: JsonObject, is_written: bool
) -> None:
    known = {**TOOLS, "ask_model": ASK, "agent": AGENT}
    wanted = goal(tools=[{"name": name} for name in known])
    bound = bind_plan(plan({"id": "told", **step}, result="${steps.told}"), wanted)

    found = [fault.code for fault in check_written_result(bound, wanted, known)]

    assert found == (["E507"] if is_written else [])
