"""Expressions: what the check answers, what evaluation gives, and that the two agree."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings, strategies as st
from syrupy.assertion import SnapshotAssertion

from tests.crash.run_size import volume
from tests.support.cel_oracle import oracle_answer
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.evaluator import compile_expression
from wavewright.planner.cel.functions import GLOBAL_FUNCTIONS, METHODS
from wavewright.planner.cel.functions.catalogue import FUNCTIONS
from wavewright.planner.cel.macros import MACROS
from wavewright.planner.cel.parser import MAX_EXPRESSION_BYTES
from wavewright.planner.plans.expressions import TypedEnvironment, evaluate
from wavewright.planner.types import Json, JsonObject, JsonSchema

NOON = dt.datetime(2010, 3, 1, 12, tzinfo=dt.UTC)

ROW: JsonSchema = {
    "type": "object",
    "properties": {
        "close": {"type": "number"},
        "volume": {"type": "integer"},
        "date": {"type": "string", "format": "date"},
        "trend": {"enum": ["up", "down"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["close", "volume", "date", "trend", "note"],
}
STEPS: dict[str, JsonSchema] = {
    "prices": {"type": "array", "items": {"$ref": "#/$defs/Row"}, "$defs": {"Row": ROW}},
    "summary": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "score": {"type": ["number", "null"]},
            "latest": {"anyOf": [ROW, {"type": "null"}]},
            "weird key": {"type": "integer"},
            "tree": {"$ref": "#/$defs/Tree"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        },
        "required": ["text", "count", "score", "latest", "weird key", "tree", "labels", "matrix"],
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                },
            }
        },
    },
    "anything": {},
    "either": {
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}},
        ]
    },
}
INPUTS: JsonSchema = {
    "type": "object",
    "properties": {
        "stocks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"code": {"type": "string"}},
                "required": ["code"],
            },
        },
        "limit": {"type": "integer"},
    },
}
ITEM: JsonSchema = {
    "type": "object",
    "properties": {"code": {"type": "string"}, "place": {"type": "integer"}},
}

ROWS: list[Json] = [
    {"close": 3, "volume": 10, "date": "2010-03-01", "trend": "up", "note": None},
    {"close": 2.5, "volume": 20, "date": "2010-02-01", "trend": "down", "note": "thin"},
]
SUMMARY: JsonObject = {
    "text": "Rising",
    "count": 2,
    "score": 0.5,
    "latest": ROWS[0],
    "weird key": 7,
    "tree": {"name": "root", "below": [{"name": "leaf", "below": []}]},
    "labels": {"b": "two", "a": "one"},
    "matrix": [[1, 2.5], [3.0]],
}
VALUES: dict[str, Json] = {
    "inputs": {"stocks": [{"code": "GNP"}, {"code": "SKS"}], "limit": 3},
    "steps": {
        "prices": ROWS,
        "summary": SUMMARY,
        "anything": {"x": [1, {"y": 2}]},
        "either": {"a": 1},
    },
    "item": {"code": "GNP", "place": 1},
    "index": 0,
}


@pytest.fixture(scope="module")
def typed() -> TypedEnvironment:
    return TypedEnvironment(
        inputs=INPUTS, steps=STEPS, extra={"item": ITEM, "index": {"type": "integer"}}
    )


def fault_of(check: TypedEnvironment, expression: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        check.result_schema(expression)
    return caught.value


def outcome(expression: str, variables: dict[str, Json]) -> tuple[Json, ExpressionError | None]:
    try:
        return evaluate(expression, variables, NOON), None
    except ExpressionError as fault:
        return None, fault


def runtime_fault_of(expression: str, variables: dict[str, Json] | None = None) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, VALUES if variables is None else variables, NOON)
    return caught.value


@pytest.mark.parametrize(
    ("expression", "schema"),
    [
        pytest.param("steps.prices[0].close", {"type": "number"}, id="path"),
        pytest.param("steps.prices[item.place].volume", {"type": "integer"}, id="computed-place"),
        pytest.param('steps["summary"]["weird key"]', {"type": "integer"}, id="quoted-keys"),
        pytest.param("steps.summary.count + 1", {"type": "integer"}, id="integers"),
        pytest.param("steps.prices[0].close * 2", {"type": "number"}, id="mixed-arithmetic"),
        pytest.param("steps.summary.count / 2", {"type": "number"}, id="quotient-is-a-number"),
        pytest.param("steps.prices[0].close > 3", {"type": "boolean"}, id="mixed-comparison"),
        pytest.param("steps.prices[0].close == 3", {"type": "boolean"}, id="mixed-equality"),
        pytest.param(
            "3 in steps.prices.map(p, p.close)", {"type": "boolean"}, id="mixed-membership"
        ),
        pytest.param("steps.summary.latest != null", {"type": "boolean"}, id="null-test"),
        pytest.param("steps.summary.latest.close", {"type": "number"}, id="field-below-nullable"),
        pytest.param("steps.summary.score + 1", {"type": "number"}, id="nullable-number"),
        pytest.param(
            "steps.prices.map(p, p.close)", {"type": "array", "items": {"type": "number"}}, id="map"
        ),
        pytest.param("steps.prices.map(p, p.close).sum()", {"type": "number"}, id="sum"),
        pytest.param(
            "steps.prices.map(p, p.volume).max()", {"type": "integer"}, id="max-of-integers"
        ),
        pytest.param(
            "steps.prices.sortBy(p, p.close)[0].date",
            {"type": "string", "format": "date"},
            id="sort",
        ),
        pytest.param(
            "steps.prices.reverse()[0].volume", {"type": "integer"}, id="library-keeps-objects"
        ),
        pytest.param(
            "steps.summary.tree.below[0].below[0].name", {"type": "string"}, id="recursive-schema"
        ),
        pytest.param(
            "steps.summary.labels.anything", {"type": "string"}, id="additional-properties"
        ),
        pytest.param("steps.summary.matrix[0][1]", {"type": "number"}, id="list-of-lists"),
        pytest.param(
            "[1, 2].distinct().map(n, n + 1)",
            {"type": "array", "items": {"type": "integer"}},
            id="integers-stay",
        ),
        pytest.param(
            "((index > 0 ? [1] : []) + (index > 0 ? [2.5] : [3.5])).size()",
            {"type": "integer"},
            id="list-of-either",
        ),
        pytest.param(
            "(index > 0 ? [index] : item.code) + item.code", {"type": "string"}, id="either-may-fit"
        ),
        pytest.param(
            "[now()].reverse()[0] == now()", {"type": "boolean"}, id="timestamps-in-a-list"
        ),
        pytest.param("steps.anything.x[1].y", {}, id="open"),
        pytest.param("steps.anything + 1", {}, id="open-arithmetic"),
        pytest.param(
            "steps.either.a",
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            id="field-of-either",
        ),
        pytest.param("now()", {"type": "string", "format": "date-time"}, id="instant"),
        pytest.param(
            'now() - timestamp("2010-02-01") < duration("7d")', {"type": "boolean"}, id="ages"
        ),
        pytest.param(
            "has(steps.summary) ? steps.summary.count : null",
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            id="fallback",
        ),
        pytest.param(
            '{"code": item.code, "n": index}',
            {
                "type": "object",
                "properties": {"code": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["code", "n"],
                "additionalProperties": False,
            },
            id="object",
        ),
    ],
)
def test_the_check_answers_with_the_schema_of_the_result(
    typed: TypedEnvironment, expression: str, schema: JsonSchema
) -> None:
    found = typed.result_schema(expression)

    assert {key: value for key, value in found.items() if key != "$defs"} == schema


def test_a_schema_with_references_stays_readable_on_its_own(typed: TypedEnvironment) -> None:
    found = typed.result_schema("steps.prices[0]")

    assert jsonschema_rs.is_valid(found, ROWS[0])
    assert not jsonschema_rs.is_valid(found, {"close": "high"})


@pytest.mark.parametrize(
    "expression",
    [
        "steps.prics",
        "steps",
        "steps[item.code]",
        "prices[0].close",
        "inputs.stoks",
        "itm.code",
        "output.rows",
        "item.cod",
        "steps.prices.clse",
        "steps.prices[0].clse",
        "steps.prices.map(p, p.clse)",
        "steps.prices.filter(row, row.close > 1)[0].clse",
        "steps.summary.text.length",
        "steps.prices.length",
        "steps.summary.length",
        "steps.prices.length()",
        "len(steps.prices)",
        "steps.summary.latest.clse",
        "steps.either.c",
        "has(steps.prices[0].clse)",
        "steps.prices[-1]",
        "steps.prices[item.code]",
        "steps.prices[0].close > item.code",
        "steps.summary.text + 1",
        "now() > steps.prices[0].date",
        "now() - 3600 > now()",
        "now() + '1d' > now()",
        "steps.prices[0].date + duration('1d') > now()",
        "now() - now() > '1h'",
        "steps.prices[0].date.getMonth()",
        'steps.prices[0].close == "3"',
        "steps.prices[0].close % 2",
        '"a" in steps.summary.text',
        "steps.prices.filter(p, p.close)",
        "steps.summary.count && true",
        "steps.summary.count ? 1 : 2",
        "!steps.summary",
        "-steps.summary.text",
        "steps.summary.text.map(c, c)",
        "sum(steps.prices)",
        "steps.prices.sort()",
        "string(steps.prices)",
        "steps.summary.text.splt(',')",
        "size(1)",
        "sise(steps.prices)",
        "split(item.code, ',')",
        "steps.prices.sortBy(p, p)",
        "steps.prices == steps.summary.count",
        "steps.prices + 1",
        "steps.summary.latest + 1",
        "(index > 0 ? true : false) + 1",
    ],
)
def test_a_fault_names_the_authors_words(
    typed: TypedEnvironment, expression: str, snapshot: SnapshotAssertion
) -> None:
    fault = fault_of(typed, expression)

    pointed = f"{expression}\n{' ' * (fault.offset or 0)}^"
    assert f"{pointed}\n{fault.kind}: {fault.message}\nhint: {fault.hint}" == snapshot


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "  // nothing",
        "1 +",
        "1 2",
        "(1",
        "[1, 2",
        "'open",
        r"'\q'",
        r"'\ud800'",
        "a = 1",
        "a and b",
        "a ?? b",
        "a?.b",
        "a[?0]",
        "a[1:3]",
        "2 ** 3",
        "2 ^ 3",
        "7 // 2",
        "7 // 2 // 3",
        "item.a // 2\n",
        "(item.a) // item.b\n + 1",
        "a <> b",
        "a !== b",
        "a is null",
        "not a",
        "lambda x: x",
        "steps.a.joined()",
        "a & b",
        "a | b",
        "item.code | length",
        "item.code|upper",
        "$x",
        "a ? b",
        "x.in",
        "x.map(1, 2)",
        "x.all(y)",
        "has(item)",
        "has(item.a, item.b)",
        "for",
        "a.b{c: 1}",
        "99999999999999999999",
        "!-1",
        ".item",
        "1 + @",
    ],
)
def test_text_that_is_no_expression_is_said_plainly(
    expression: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(expression)

    fault = caught.value
    assert f"{fault.kind} at {fault.offset}: {fault.message}\nhint: {fault.hint}" == snapshot


def test_item_is_known_in_steps_with_for_each_only() -> None:
    plain = TypedEnvironment(inputs=INPUTS, steps=STEPS)

    assert fault_of(plain, "item.code").kind == "item_outside_for_each"
    assert plain.with_extra({"item": ITEM}).result_schema("item.code") == {"type": "string"}
    assert (
        runtime_fault_of("item.code", {"steps": {}, "inputs": {}}).kind == "item_outside_for_each"
    )


def test_a_name_given_by_a_macro_hides_a_root(typed: TypedEnvironment) -> None:
    assert typed.result_schema("steps.prices.map(item, item.close)")["items"] == {"type": "number"}
    assert evaluate("steps.prices.map(item, item.close)", VALUES, NOON) == [3, 2.5]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("steps.prices[0].close", 3, id="path"),
        pytest.param("steps.prices[item.place].close", 2.5, id="computed-place"),
        pytest.param("7 / 2", 3.5, id="quotient-of-integers"),
        pytest.param(
            "steps.prices[0].close / 2", 1.5, id="quotient-does-not-see-how-a-number-was-written"
        ),
        pytest.param("7 % 2", 1, id="remainder"),
        pytest.param("steps.prices[0].close * 2.5 + 1 - 0.5", 8.0, id="mixed-arithmetic"),
        pytest.param(
            "steps.prices[0].close == 3.0 && 3.0 == 3 && 3 != 3.5", True, id="mixed-equality"
        ),
        pytest.param("3.0 in [1, 2, 3] && 3 in [3.0]", True, id="mixed-membership"),
        pytest.param("[[1]] == [[1.0]]", True, id="deep-mixed-equality"),
        pytest.param("1 < 1.5 && 2 >= 2.0", True, id="mixed-order"),
        pytest.param("steps.prices.map(p, p.close).sort()", [2.5, 3], id="mixed-sort"),
        pytest.param("steps.prices.sortBy(p, p.close).map(p, p.volume)", [20, 10], id="sort-by"),
        pytest.param(
            "[now(), timestamp('2010-01-01')].sort()[0]",
            "2010-01-01T00:00:00Z",
            id="timestamps-sort",
        ),
        pytest.param(
            "[[now()]].map(x, x.map(y, y))[0][0]", "2010-03-01T12:00:00Z", id="timestamps-in-lists"
        ),
        pytest.param("{'b': 1, 'a': 2}.map(k, k + '!')", ["a!", "b!"], id="keys-of-a-map"),
        pytest.param("(true ? {'b': 1, 'a': 2} : {}).map(k, k)", ["a", "b"], id="keys-of-a-choice"),
        pytest.param("dyn({'b': 1, 'a': 2}).map(k, k)", ["a", "b"], id="keys-of-anything"),
        pytest.param("[3, 2.5].map(x, x + 1).sort().map(x, [x, x])[0]", [3.5, 3.5], id="chain"),
        pytest.param("math.round(steps.prices[0].close)", 3.0, id="rounding-an-integer"),
        pytest.param("steps.prices.map(p, p.close).sum()", 5.5, id="sum"),
        pytest.param("[1, 2].sum()", 3, id="sum-of-integers-is-one"),
        pytest.param("avg([1, 2])", 1.5, id="mean"),
        pytest.param("max(['a', 'c', 'b'])", "c", id="greatest-string"),
        pytest.param("max(1, 2.5) + math.least(3, 2)", 4.5, id="greatest-of-several"),
        pytest.param("has(steps.nope)", False, id="absent-step"),
        pytest.param("has(steps.nope.field.deeper)", False, id="below-an-absent-step"),
        pytest.param("has(steps.prices[0].note)", True, id="null-is-there"),
        pytest.param("has(steps.prices[0].note.more)", False, id="nothing-below-null"),
        pytest.param("has(steps.nope) ? steps.nope.x : null", None, id="fallback"),
        pytest.param("!has(steps.nope) || steps.nope.x > 1", True, id="guard"),
        pytest.param("steps.nope.x > 1 || true", True, id="the-other-side-decides"),
        pytest.param(
            "steps.prices.filter(p, has(p.note) && p.note != null)[0].note", "thin", id="has-inside"
        ),
        pytest.param(
            "[{'a': {'b': 1}}, {}].map(x, has(x.a.b))", [True, False], id="has-two-levels-inside"
        ),
        pytest.param("[{'a b': 1}, {}].map(x, has(x['a b']))", [True, False], id="has-quoted"),
        pytest.param("{'größe (m)': 2}.`größe (m)`", 2, id="back-quotes"),
        pytest.param("steps.summary.labels.map(k, k)", ["a", "b"], id="keys-in-order"),
        pytest.param(
            "[{'b': 1, 'a': 2}].map(o, o.map(k, k))", [["a", "b"]], id="inner-keys-in-order"
        ),
        pytest.param("now()", "2010-03-01T12:00:00Z", id="instant"),
        pytest.param('timestamp("2010-03-01")', "2010-03-01T00:00:00Z", id="plain-date"),
        pytest.param('timestamp("2010-03-01T09:30:00")', "2010-03-01T09:30:00Z", id="naive-time"),
        pytest.param(
            'timestamp("2010-03-01T09:30:00.25+02:00")', "2010-03-01T07:30:00.250Z", id="zone"
        ),
        pytest.param('duration("7d")', "604800s", id="days"),
        pytest.param('duration("1h30m")', "5400s", id="hours-and-minutes"),
        pytest.param('duration("-1500ms")', "-1.5s", id="negative-duration"),
        pytest.param('now() - timestamp("2010-02-28") < duration("2d")', True, id="age"),
        pytest.param('timestamp("2010-03-01").getFullYear()', 2010, id="year"),
        pytest.param("{'b': 1, 'a': [1.0]}", {"a": [1.0], "b": 1}, id="object"),
        pytest.param("{1: 'one'}", {"1": "one"}, id="keys-become-text"),
        pytest.param("lists.range(3).map(i, i * i)", [0, 1, 4], id="range"),
        pytest.param('"a,b".split(",").map(x, x.upperAscii()).join("-")', "A-B", id="strings"),
        pytest.param(
            '"aaa".replace("a", "b", 2) + "ab".replace("", "-")', "bba-a-b-", id="replace"
        ),
        pytest.param("[1, 1, 2].distinct() + [[3], [4]].flatten()", [1, 2, 3, 4], id="lists"),
    ],
)
def test_evaluation_gives_plain_json(expression: str, value: Json) -> None:
    found = evaluate(expression, VALUES, NOON)

    assert found == value
    assert type(found) is type(value)


def test_numbers_keep_their_kind_on_the_way_through() -> None:
    values: dict[str, Json] = {"inputs": {"whole": 3, "number": 3.0}}

    assert repr(evaluate("[inputs.whole, inputs.number]", values, NOON)) == "[3, 3.0]"
    assert repr(evaluate("inputs.number", values, NOON)) == "3.0"


HUGE: dict[str, Json] = {"inputs": {"huge": 2**70, "next": 2**70 + 1}}


def test_an_integer_beyond_64_bits_is_carried_and_compared_exactly() -> None:
    assert evaluate("inputs.huge", HUGE, NOON) == 2**70
    assert evaluate("inputs.huge > 1", HUGE, NOON) is True
    assert evaluate("inputs.huge == inputs.next", HUGE, NOON) is False
    assert evaluate("[inputs.huge, inputs.next].distinct().size()", HUGE, NOON) == 2


@pytest.mark.parametrize(
    "expression", ["inputs.huge + 1", "inputs.next - inputs.huge", "-inputs.huge"]
)
def test_what_would_change_an_integer_beyond_64_bits_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError, match="more than 64 bits"):
        evaluate(expression, HUGE, NOON)


@pytest.mark.parametrize("expression", ["{1: 'a', '1': 'b'}", "{true: 1, 'true': 2}"])
def test_two_keys_that_are_one_text_are_refused(expression: str) -> None:
    with pytest.raises(ExpressionError, match="two keys"):
        evaluate(expression, VALUES, NOON)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("7u", "write 7"),
        ("inputs.limit > 0x1FU", "write 0x1F"),
        ("b'ab'", "write a string"),
        ('bR"ab".size()', "write a string"),
        ("uint(3)", r"write int\(x\)"),
        ("bytes('ab')", "leave them to a tool"),
        ("type(1) == 'int'", "no values of JSON"),
        ("typeof(1) == 'int'", "no values of JSON"),
        ("[1].group_by(x, x)", r"write list\.map"),
        ("'ab'.encode()", "leave them to a tool"),
        ("math.bitAnd(1, 3)", "no bits"),
        ("[1].map(x, math.bitShiftLeft(x, 2))", "no bits"),
    ],
)
def test_what_json_has_no_value_for_is_refused_with_what_to_write(
    typed: TypedEnvironment, expression: str, hint: str
) -> None:
    for read in (typed.result_schema, compile_expression):
        with pytest.raises(ExpressionError) as caught:
            read(expression)

        assert re.search(hint, str(caught.value.hint))


@pytest.mark.parametrize("expression", ["int", "string == 'a'", "[bool, 1]"])
def test_a_type_is_no_value(typed: TypedEnvironment, expression: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        typed.result_schema(expression)

    assert "no values of JSON" in str(caught.value.hint)


def test_names_of_types_are_names_like_any_other() -> None:
    assert evaluate("[1, 2].map(int, int + 1)", VALUES, NOON) == [2, 3]
    assert runtime_fault_of("int").kind == "unknown_name_or_field"


@pytest.mark.parametrize(
    "expression",
    [
        "steps.nope",
        "steps.prices[9].close",
        "steps.prices[0].clse",
        "steps.prices.map(p, p.clse)",
        "cel.bind(named, {1: true}, steps.prices.map(p, named[p.trend]))",
        "steps.summary.text[0]",
        "steps.prices[0].note.size()",
        "inputs.nope",
        "1 / 0",
        "1 % 0",
        "9223372036854775807 + 1",
        "1e308 * 10.0",
        "[1][5]",
        "avg([])",
        "timestamp('yesterday')",
        "timestamp('2010-02-30')",
        "duration('soon')",
        "int('x')",
        "steps.anything.x + 1",
        "steps.anything.x > 'a'",
        "steps.anything.x[0] && true",
        "steps.anything.x[0].map(y, y)",
        "steps.anything.x.join(',')",
        "'a'.matches('[')",
        "[1, 'a'].sort()",
        "lists.range(100000)",
        "steps.anything.x[true]",
    ],
)
def test_a_fault_at_run_time_is_said_plainly(expression: str, snapshot: SnapshotAssertion) -> None:
    fault = runtime_fault_of(expression)

    assert f"{fault.kind} at {fault.offset}: {fault.message}\nhint: {fault.hint}" == snapshot


def test_a_long_list_is_gone_over() -> None:
    rows: list[Json] = [{"close": float(place), "code": f"c{place}"} for place in range(20_000)]
    variables: dict[str, Json] = {"steps": {"prices": rows}, "inputs": {"codes": ["c7", "c8"]}}

    found = evaluate(
        "steps.prices.filter(p, p.code in inputs.codes).map(p, p.close).sum() + size(steps.prices)",
        variables,
        NOON,
    )

    assert found == 20_015


def test_what_only_passes_through_is_not_copied() -> None:
    rows: list[Json] = [{"b": 1, "a": 2}]

    found = compile_expression("steps.prices")({"steps": {"prices": rows}}, NOON)

    assert found is rows


def test_a_runaway_loop_ends_in_a_fault() -> None:
    fault = runtime_fault_of("lists.range(1000).map(a, lists.range(1000).map(b, a * b))")

    assert fault.kind == "expression_too_large"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("['abc']" + f".map(a, [{', '.join(['a'] * 100)}].join())" * 5, id="join"),
        pytest.param("['abc']" + f".map(a, [{', '.join(['a'] * 100)}])" * 5, id="lists"),
        pytest.param("lists.range(10000).map(x, lists.range(10000))", id="ranges"),
        pytest.param("['a']" + ".map(x, {'a': [x, x, x], 'b': [x, x, x]})" * 20, id="objects"),
        pytest.param("lists.range(10000)" + ".map(x, x)" * 20, id="turns"),
        pytest.param("'abcdefghij'" + ".replace('', 'abcdefghij')" * 20, id="replace"),
        pytest.param("'abcdefghij'" + ".split('').join('abcdefghij')" * 12, id="split-and-join"),
    ],
)
def test_what_multiplies_itself_ends_in_a_fault(expression: str) -> None:
    fault = runtime_fault_of(expression)

    assert fault.kind in ("evaluation_failed", "expression_too_large")


def test_text_that_is_no_unicode_ends_in_a_fault() -> None:
    fault = runtime_fault_of("inputs.half + 'a'", {"inputs": {"half": "\ud800"}})

    assert fault.kind == "evaluation_failed"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 3000 + "1" + ")" * 1000, id="parentheses"),
        pytest.param("[" * 2000 + "]" * 2000, id="lists"),
        pytest.param("1" + " + 1" * 900, id="sum"),
        pytest.param("!" * 4000 + "true", id="negations"),
        pytest.param("-" * 4000 + "1", id="signs"),
        pytest.param("item" + ".a" * 1500 + ".map(x, x)", id="fields"),
        pytest.param("true ? 1 : " * 300 + "1", id="choices"),
        pytest.param("size(" * 600 + "1" + ")" * 600, id="calls"),
        pytest.param("{1:" * 1000 + "1" + "}" * 1000, id="maps"),
        pytest.param("'" + "x" * MAX_EXPRESSION_BYTES + "'", id="text"),
        pytest.param("'" + "é" * (MAX_EXPRESSION_BYTES // 2) + "'", id="bytes"),
    ],
)
def test_what_is_too_large_is_refused_and_nothing_overflows(expression: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(expression)

    assert caught.value.kind == "expression_too_large"


def test_a_long_chain_of_conditions_is_no_deep_one() -> None:
    assert evaluate(" && ".join(["true"] * 400), {}, NOON) is True


def test_the_catalogue_lists_exactly_the_functions_that_exist() -> None:
    listed = set(
        re.findall(r"(?:\b(?:cel|lists|math|sets|strings)\.)?\b\w+(?=\()", " ".join(FUNCTIONS))
    )
    declared = {*GLOBAL_FUNCTIONS, *METHODS}

    assert declared | MACROS | {"now", "has", "cel.bind"} == listed | {"existsOne"}


def test_regular_expressions_are_imported_by_the_first_expression_that_needs_them() -> None:
    program = """
import datetime, sys
from wavewright.planner.plans.expressions import TypedEnvironment, evaluate
evaluate("math.round(1.5)", {}, datetime.datetime.now(datetime.UTC))
TypedEnvironment(inputs={}, steps={"a": {}}).result_schema("string(steps.a.b).matches(steps.a.c)")
assert not any(name.startswith(("re2", "_re2", "cel_expr_python")) for name in sys.modules)
evaluate("'a'.matches('b')", {}, datetime.datetime.now(datetime.UTC))
assert "re2" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# What follows are laws. Expressions are composed of pieces over the values above.

_ATOMS = [
    "steps.prices", "steps.prices[0]", "steps.prices[1].close", "steps.prices[0].volume",
    "steps.prices[0].date", "steps.prices[1].trend", "steps.summary", "steps.summary.text",
    "steps.summary.count", "steps.summary.labels", "steps.summary.matrix", "steps.summary['weird key']",
    "steps.anything", "inputs.stocks", "inputs.limit", "item", "item.place", "item.code", "index",
    "1", "0", "-2", "2.5", "'a'", '"2010-01-01"', "true", "false", "null", "[]", "[1, 2.5]", "['a']",
    "{'close': 1, 'k': 'v'}", "now()", "timestamp('2010-01-01')", "duration('1h')", "x", "x", "x",
]  # fmt: skip
_OPERATORS = ["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "in", "&&", "||"]
_SUFFIXES = [
    ".close", ".volume", ".date", ".code", ".name", "[0]", "['close']", ".size()", ".sum()", ".avg()", ".min()",
    ".max()", ".sort()", ".reverse()", ".distinct()", ".flatten()", ".slice(0, 1)", ".upperAscii()",
    ".split('a')", ".join(',')", ".startsWith('a')", ".contains('a')", ".trim()", ".getFullYear()",
    ".substring(0)",
]  # fmt: skip
_FUNCTIONS = [
    "size", "string", "int", "double", "dyn", "timestamp", "duration", "sum", "max", "math.abs",
    "math.round", "math.floor", "math.sqrt", "math.sign", "math.isNaN", "math.greatest", "!", "-",
]  # fmt: skip


def _filled(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda chosen: template.format(*chosen))


_MACROS = st.sampled_from(["map", "filter", "all", "exists", "exists_one", "sortBy"])


def _composed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _filled("({} {} {})", inner, st.sampled_from(_OPERATORS), inner),
        _filled("{}{}", inner, st.sampled_from(_SUFFIXES)),
        _filled("{}({})", st.sampled_from(_FUNCTIONS), inner),
        _filled("max({0}, {0})", inner),
        _filled("({0} ? {1} : {1})", inner, inner),
        _filled("[{0}, {0}]", inner),
        _filled("{{'close': {}, 'name': {}}}", inner, inner),
        _filled("{}.{}(x, {})", inner, _MACROS, inner),
        _filled("has({}.{})", inner, st.sampled_from(["close", "name.first", "code"])),
    )


def _mixed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _composed(inner),
        _filled("max({}, {})", inner, inner),
        _filled("({} ? {} : {})", inner, inner, inner),
        _filled("[{}, {}]", inner, inner),
    )


EXPRESSIONS = st.recursive(st.sampled_from(_ATOMS), _composed, max_leaves=6)
"""Values of one type wherever one is chosen of several: what the check says of these is certain."""
MIXED_EXPRESSIONS = st.recursive(st.sampled_from(_ATOMS), _mixed, max_leaves=6)


@given(EXPRESSIONS)
@settings(max_examples=volume(100, 400), deadline=None)
def test_what_the_check_accepts_evaluates_to_what_it_promised(expression: str) -> None:
    check = TypedEnvironment(
        inputs=INPUTS, steps=STEPS, extra={"item": ITEM, "index": {"type": "integer"}}
    )
    try:
        promised = check.result_schema(expression)
    except ExpressionError:
        assume(False)
        raise
    value, fault = outcome(expression, VALUES)

    if fault is None:
        assert jsonschema_rs.is_valid(promised, value)
    else:
        # Values may still be missing, null, empty or out of range; an open value may be of any
        # type.
        untyped = any(word in expression for word in ("anything", "dyn(", "null", "[]", "flatten"))
        assert fault.kind in ("evaluation_failed", "unknown_name_or_field") or untyped, (
            fault.message
        )


_MISSHAPEN: list[dict[str, Json]] = [
    VALUES,
    {},
    {"steps": {}, "inputs": None, "item": [], "index": "x"},
]


@given(MIXED_EXPRESSIONS, st.sampled_from(_MISSHAPEN))
@settings(max_examples=volume(125, 500), deadline=None)
def test_no_expression_ends_in_anything_but_a_value_or_a_plain_fault(
    expression: str, variables: dict[str, Json]
) -> None:
    _, fault = outcome(expression, variables)

    said = "" if fault is None else fault.message.replace("exists_one", "").replace("for_each", "")
    assert "_" not in said


_KEYS = st.sampled_from(["a", "b", "c d"])
_JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.sampled_from([0.5, 2.0]),
        st.text("ab", max_size=2),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=10,
)
_PATH_PARTS = st.one_of(
    st.sampled_from([".a", ".b", "['a']", '["c d"]']),
    st.integers(0, 2).map(lambda place: f"[{place}]"),
)


@given(_JSON_VALUES, st.lists(_PATH_PARTS, max_size=4))
@settings(max_examples=volume(125, 500), deadline=None)
def test_a_plain_path_gives_what_cel_gives(value: Json, parts: list[str]) -> None:
    path = "inputs" + "".join(parts)
    variables: dict[str, Json] = {"inputs": value}
    exists, expected = oracle_answer(path, variables)

    if exists:
        assert evaluate(path, variables, NOON) == expected
    else:
        assert runtime_fault_of(path, variables).message


@given(_JSON_VALUES, st.lists(_PATH_PARTS, max_size=4))
@settings(max_examples=volume(75, 300), deadline=None)
def test_has_differs_from_cel_only_where_the_way_is_missing(value: Json, parts: list[str]) -> None:
    text = "has(inputs" + "".join(parts) + ".a)"
    variables: dict[str, Json] = {"inputs": value}
    answered, expected = oracle_answer(text, variables)

    if answered:
        assert evaluate(text, variables, NOON) == expected


_NESTINGS: list[tuple[str, str]] = [
    ("(", ")"), ("[", "]"), ("1 + ", ""), ("", " + 1"), ("-", ""), ("!", ""), ("true ? 1 : ", ""),
    ("size(", ")"), ("{'a': ", "}"), ("[1].map(x, ", ")"), ("", ".map(x, x)"), ("[1].sortBy(x, ", ")"),
    ("", ".sortBy(x, x)"), ("", "[0]"), ("dyn(1) / ", ""), ("", " / 2"), ("true && ", ""), ("(true || (", "))"),
    ("math.round(", ")"), ("{'a': 1}.map(x, has(x.b.c) ? 1 : ", ")"), ("item.map(x, ", ")"),
    ("(true ? [1] : [2]).map(x, ", ")"), ("1 in [", "]"), ("timestamp(", ")"),
]  # fmt: skip


@given(st.lists(st.sampled_from(_NESTINGS), max_size=30))
@settings(max_examples=volume(125, 500), deadline=None)
def test_whatever_is_nested_is_read_and_typed_and_ends(nestings: list[tuple[str, str]]) -> None:
    text = "1"
    for before, after in nestings:
        text = f"{before}({text}){after}" if before in ("-", "!") else f"{before}{text}{after}"
    _, fault = outcome(text, {})

    assert fault is None or "a value is nested" not in fault.message


@given(st.text(st.sampled_from("ab1.0[](){}'\"\\rxuU89,:?+-!=<>&| \n/%inmap"), max_size=12))
@settings(max_examples=volume(100, 400), deadline=None)
def test_whatever_is_read_here_is_read_by_the_library(text: str) -> None:
    _, fault = outcome(text, {})
    assume(fault is None or fault.kind not in ("bad_expression", "expression_too_large"))

    oracle_answer(text, {})


_PLAIN = [
    "1", "2.5", "-3", "0", "9223372036854775807", "true", "null", "''", "'abc'", "'a,b,,c'", "' é b '", "[]",
    "[1, 2.0, 2]", "['b', 'a', 'b']", "[[1], [1.0], [2, [3]]]", "{'a': 1}", "{'a': [1, {'b': null}]}", "inputs.s",
    "inputs.l", "inputs.o",
]  # fmt: skip
_LIKE_CEL = [
    "({} + {})", "({} - {})", "({} * {})", "({} < {})", "({} >= {})", "({} == {})", "({} != {})", "({} in {})",
    "({} && {})", "({} || {})", "[{}, {}]", "{{'a': {}, 'b': {}}}", "{}[{}]", "{}.a", "size({})",
    "{}.split(',')", "{}.split('', 2)", "{}.split({})", "{}.contains({})", "{}.startsWith({})", "{}.endsWith({})",
    "{}.indexOf({})", "{}.lastIndexOf({})", "{}.indexOf('b', 1)", "{}.lastIndexOf('b', 1)", "{}.charAt({})",
    "{}.substring(1)", "{}.substring(0, {})", "{}.replace('b', {})", "{}.replace('', '-', 2)", "{}.trim()",
    "{}.upperAscii()", "{}.lowerAscii()", "{}.reverse()", "{}.distinct()", "{}.flatten()", "{}.flatten({})",
    "{}.slice(0, {})", "sets.contains({}, {})", "sets.equivalent({}, {})", "sets.intersects({}, {})", "string({})",
    "int({})", "double({})", "(-{})", "(!{})", "({} == {} ? {} : {})",
]  # fmt: skip


def _like_cel(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(_LIKE_CEL).flatmap(lambda form: _filled(form, *[inner] * 4))


_CEL = st.recursive(st.sampled_from(_PLAIN), _like_cel, max_leaves=8)


@given(_CEL)
@settings(max_examples=volume(250, 1000), deadline=None)
def test_what_is_computed_here_is_what_the_library_computes(text: str) -> None:
    variables: dict[str, Json] = {
        "inputs": {"s": "äbc", "l": [3, "x", None, [1]], "o": {"a": 2.5, "k": [True]}}
    }
    answered, expected = oracle_answer(text, variables)
    value, fault = outcome(text, variables)

    # Numbers that mix are added, subtracted and multiplied here, and not by the library.
    if answered:
        assert fault is None, fault.message
        assert value == expected
    elif fault is None:
        assert any(sign in text for sign in ("+", "-", "*"))


_STRING_PIECES = st.sampled_from(
    [
        "a",
        "é",
        " ",
        "'",
        '"',
        "\\\\",
        "\\n",
        "\\'",
        "\\x41",
        "\\u00e9",
        "\\U0001F600",
        "\\101",
        "\\q",
        "\\",
        "\n",
        "//",
    ]
)


@given(
    st.sampled_from(["'", '"', "'''", '"""', "r'", 'r"', "R'''"]),
    st.lists(_STRING_PIECES, max_size=6),
)
@settings(max_examples=volume(200, 800), deadline=None)
def test_strings_are_read_as_the_library_reads_them(opening: str, pieces: list[str]) -> None:
    quotes = opening.lstrip("rR")
    text = opening + "".join(pieces) + quotes
    # A document has made a break of `\n` before an expression is read, which the library lets stand
    # within three quotes alone: within one it is asked about another character.
    is_broken = "\n" in pieces and len(quotes) == 1
    # What ends a comment is no break within a string.
    assume(not (is_broken and "//" in pieces and not {"'", '"'}.isdisjoint(pieces)))
    try:
        _, expected = oracle_answer(text.replace("\n", "¶") if is_broken else text, {})
    except RuntimeError:
        with pytest.raises(ExpressionError):
            evaluate(text, {}, NOON)
        return

    if is_broken:
        assert isinstance(expected, str)
        expected = expected.replace("¶", "\n")
    assert evaluate(f"{{'a': {text}\n}}.a", {}, NOON) == expected
    assert TypedEnvironment(inputs={}, steps={}).result_schema(text)["const"] == expected


DATED: JsonSchema = {
    "type": "object",
    "properties": {"due-date": {"type": "string"}, "größe (m)": {"type": "number"}},
    "required": ["due-date", "größe (m)"],
}


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("inputs.due-date", 'write inputs["due-date"]: only words stand behind a dot'),
        ("steps.a[0].due-date", 'write steps.a[0]["due-date"]: only words stand behind a dot'),
        ("steps.a.map(x, x.due-date)", 'write x["due-date"]: only words stand behind a dot'),
        ("inputs.due-dat", "there are: due-date, größe (m)"),
        ("inputs.due - 1", "there are: due-date, größe (m)"),
    ],
)
def test_a_field_of_which_only_the_beginning_is_read_is_told_in_brackets(
    expression: str, hint: str
) -> None:
    rows: JsonSchema = {"type": "array", "items": DATED}
    environment = TypedEnvironment(inputs=DATED, steps={"a": rows})

    with pytest.raises(ExpressionError) as caught:
        environment.result_schema(expression)

    assert str(caught.value.hint) == hint
