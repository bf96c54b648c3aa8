"""Orders by several keys, extremes, lists joined by place, and formats of text and of instants."""

from __future__ import annotations

import datetime as dt

import pytest

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import TypedEnvironment, evaluate
from wavewright.planner.types import Json, JsonObject, JsonSchema

NOON = dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)
VALUES: JsonObject = {
    "inputs": {
        "rows": [
            {"name": "b", "score": 2},
            {"name": "a", "score": 2},
            {"name": "c", "score": 5.5},
            {"name": "d", "score": -1},
        ],
        "day": "2024-03-09",
    }
}
ROW: JsonSchema = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "score": {"type": "number"}},
}
TYPES = TypedEnvironment(
    inputs={
        "type": "object",
        "properties": {"rows": {"type": "array", "items": ROW}, "day": {"type": "string"}},
    },
    steps={},
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param(
            "inputs.rows.sortBy(x, x.score, x.name).map(x, x.name)", "dabc", id="two keys"
        ),
        pytest.param(
            "inputs.rows.sortBy(x, -x.score, x.name).map(x, x.name)", "cabd", id="first falls"
        ),
        pytest.param("inputs.rows.sortBy(x, -x.name).map(x, x.name)", "dcba", id="text falls"),
        pytest.param("inputs.rows.sortBy(x, -x.score).map(x, x.name)", "cbad", id="equals stay"),
    ],
)
def test_elements_are_ordered_by_several_keys(expression: str, value: str) -> None:
    assert TYPES.result_schema(expression) == {"type": "array", "items": {"type": "string"}}
    assert evaluate(expression, VALUES, NOON) == [*value]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("inputs.rows.maxBy(x, x.score).name", "c"),
        ("inputs.rows.minBy(x, x.score).name", "d"),
        ("inputs.rows.filter(x, x.score == 2).maxBy(x, x.score).name", "b"),
        ("inputs.rows.maxBy(x, x.name).name", "d"),
    ],
)
def test_an_extreme_is_the_first_element_with_it(expression: str, value: str) -> None:
    assert TYPES.result_schema(expression) == {"type": "string"}
    assert evaluate(expression, VALUES, NOON) == value


def test_lists_are_joined_by_place_with_their_types() -> None:
    pairs = "zip(inputs.rows, inputs.rows.map(r, r.name))"

    assert evaluate(f"{pairs}.map(p, p[1] + p[0].name)", VALUES, NOON) == ["bb", "aa", "cc", "dd"]
    assert TYPES.result_schema(f"{pairs}[0][0].score") == {"type": "number"}
    with pytest.raises(ExpressionError, match="no field 'size'"):
        TYPES.result_schema(f"{pairs}[0][0].size")


def test_lists_of_several_lengths_are_not_joined() -> None:
    with pytest.raises(ExpressionError, match="one length"):
        evaluate("zip(inputs.rows, [1])", VALUES, NOON)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'%02d:%02d'.format([5, 17])", "05:17"),
        ("'%5d|%-5d|%05d'.format([42, 42, -42])", "   42|42   |-0042"),
        ("'%6s|%-6s|'.format(['ab', 'ab'])", "    ab|ab    |"),
        ("'%08.3f'.format([3.14159])", "0003.142"),
        ("'100%%'.format([])", "100%"),
        ("format(timestamp(inputs.day), '%Y-%m-%d')", "2024-03-09"),
        ("format(inputs.day, '%A, %e %B %Y')", "Saturday, 9 March 2024"),
        ("format(now(), '%H:%M', 'Europe/Berlin')", "14:00"),
        ("format(now(), '%I:%M %p')", "12:00 PM"),
        ("format(now(), 'week %V, 100%%')", "week 27, 100%"),
    ],
)
def test_values_are_written_as_a_format_says(expression: str, value: Json) -> None:
    assert TYPES.result_schema(expression) == {"type": "string"}
    assert evaluate(expression, VALUES, NOON) == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("'%q'.format([1])", "no clause '%q'"),
        ("'%04x'.format([255])", "no clause '%04x'"),
        ("'%'.format([1])", "no clause"),
        ("'%+d'.format([1])", "no clause"),
        ("'%99999d'.format([1])", "wider"),
        ("'%d %d'.format([1])", "asks for 2"),
        ("format(inputs.day, '%Q')", "no '%Q'"),
        ("format(inputs.day, '%')", "no '%'"),
    ],
)
def test_a_format_that_cannot_be_filled_in_is_refused_by_the_check(
    expression: str, reason: str
) -> None:
    with pytest.raises(ExpressionError, match=reason):
        TYPES.result_schema(expression)
    with pytest.raises(ExpressionError):
        evaluate(expression, VALUES, NOON)


@pytest.mark.parametrize(
    "expression", ["inputs.rows.sortBy(x, x)", "inputs.rows.maxBy(x, x)", "zip(inputs.day, [1])"]
)
def test_what_has_no_order_or_is_no_list_is_refused_by_the_check(expression: str) -> None:
    with pytest.raises(ExpressionError):
        TYPES.result_schema(expression)


def test_an_id_that_is_a_number_is_told_how_it_is_written() -> None:
    with pytest.raises(ExpressionError, match="begin with a letter") as raised:
        evaluate("steps.1.name", VALUES, NOON)

    assert raised.value.hint == "call the step s1, and write steps.s1"


def test_what_no_way_to_call_a_function_takes_is_told_all_of_them() -> None:
    with pytest.raises(ExpressionError) as raised:
        TYPES.result_schema("inputs.day.format('%Y')")

    assert "s.format([a, b])" in (raised.value.hint or "")
    assert "format(t, '%Y-%m-%d')" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("['a', 'b'].join('\n')", "a\nb"),
        ('"a\r\nb".split("\n").size()', 2),
        ("r'a\n\\d' + '}'", "a\n\\d}"),
        ("'a\tb\n' == 'a\\tb\\n'", True),
    ],
)
def test_a_line_break_that_json_made_stands_for_itself(expression: str, value: Json) -> None:
    assert evaluate(expression, VALUES, NOON) == value


def test_a_string_that_is_open_beyond_its_line_is_named() -> None:
    with pytest.raises(ExpressionError) as raised:
        evaluate("['a'].join('\n)", VALUES, NOON)

    assert raised.value.offset == len("['a'].join(")
