"""What a check says of expressions that fail because of what is written out in them."""

from __future__ import annotations

import datetime as dt

import pytest

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import TypedEnvironment, evaluate
from wavewright.planner.types import Json, JsonSchema

INPUTS: JsonSchema = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "price": {"type": "number"},
        "texts": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "any": {},
    },
}
VALUES: dict[str, Json] = {
    "text": "2020-01-01", "number": 3, "price": 1.5, "texts": ["a", "b"], "numbers": [1, 2], "any": 1,
}  # fmt: skip
NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
TYPES = TypedEnvironment(inputs=INPUTS, steps={})

FAILING = {
    # Parts that read nothing.
    "int('x')": "whole decimal numbers, not 'x'",
    "int(1e30)": "out of the range",
    "double('1,5')": "decimal numbers, not '1,5'",
    "bool('yes')": '"true" and "false"',
    "timestamp('nope')": "is not a date",
    "timestamp('2021-02-30')": "not a date that exists",
    "timestamp(999999999999999)": "between the years 1 and 9999",
    "timestamp('9999-12-31') + duration('2d')": "overflow",
    "duration('5 days')": "is not a duration",
    "[1, 2][5]": "no element [5] in a list of 2",
    "[[1, 2], [3]][1][1]": "no element [1] in a list of 1",
    "'a,b'.split(',')[2]": "no element [2] in a list of 2",
    "{'a': [1]}.a[3]": "no element [3] in a list of 1",
    "[].max()": "max() of an empty list",
    "[].maxBy(x, x)": "no element [0] in a list of 0",
    "avg([])": "avg() of an empty list",
    "'abc'.charAt(7)": "no place 7",
    "lists.range(-1)": "not -1",
    "[1, 0].map(x, 1 / x)": "division by zero",
    "9223372036854775807 + 1": "integer overflow",
    "['a', 'a'].transformMapEntry(i, v, {v: i})": "the same key twice",
    "math.sqrt(-1)": "no finite number",
    "dyn(1) + 'a'": "'+' does not take",
    "inputs.number > 1 ? int('x') : 2": "whole decimal numbers",
    "inputs.texts.map(t, t + string(1 / 0))": "division by zero",
    # Calls of which a part is written out.
    "inputs.number / 0": "division by zero",
    "inputs.price / (1 - 1)": "division by zero",
    "inputs.number % 0": "modulus by zero",
    "inputs.text.matches('(')": "invalid regular expression",
    "matches(inputs.text, '[')": "invalid regular expression",
    "now().getHours('Nowhere')": "not a time zone",
    "format(inputs.text, '%Y', 'Mars')": "not a time zone",
    "format(now(), '%Q')": "has no '%Q'",
    "format('nope', inputs.text)": "is not a date",
    "inputs.texts.slice(3, 1)": "no slice(3, 1)",
    "[inputs.number, 2].slice(0, 5)": "no slice(0, 5) of a list of 2",
    "inputs.text.substring(3, 1)": "before it starts",
    "inputs.text.charAt(-1)": "no place -1",
    "inputs.text.indexOf('a', -1)": "no place -1",
    "inputs.text.lastIndexOf('a', -2)": "no place -2",
    "inputs.texts.flatten(-1)": "not -1",
    "[inputs.number, 2][5]": "no element [5] in a list of 2",
    "[1, 2].map(x, x + inputs.number)[2]": "no element [2] in a list of 2",
    "([inputs.number] + [1]).reverse()[2]": "no element [2] in a list of 2",
    "inputs.texts[1.5]": "a whole number",
    "zip([inputs.number], [1, 2])": "lists of one length",
    # Formats.
    "'%02d'.format(['a'])": "'%02d' of format() does not take a string",
    "'%s %.2f'.format([1, inputs.text])": "'%.2f' of format() does not take a string",
    "'%d'.format(inputs.texts)": "'%d' of format() does not take a string",
    "'%d'.format([true])": "does not take a boolean",
    "'%e'.format([null])": "does not take null",
    "'%s %s'.format(['a'])": "given 1 values, and its text asks for 2",
    "'%s'.format([inputs.text, 'b'])": "given 2 values, and its text asks for 1",
    "'100%'.format([])": "no clause '%'",
    "'%x'.format([inputs.number])": "no clause '%x'",
    # Values side by side.
    "['a', inputs.number].join()": "join() does not take an integer ('inputs.number')",
    "['a', inputs.text, 1].sum()": "sum() does not take a",
    "[inputs.number, 'a'].max()": "one kind",
    "max(inputs.number, 'a')": "one kind",
    "[inputs.text, 1].sort()": "one kind",
    "[inputs.number, null].avg()": "avg() does not take null",
}
"""Expressions, and what is said of them."""


@pytest.mark.parametrize(("expression", "said"), FAILING.items(), ids=FAILING)
def test_what_fails_whatever_is_read_is_refused_before_a_run(expression: str, said: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        TYPES.result_schema(expression)

    assert said in refused.value.message
    assert refused.value.kind == "no_overload"
    assert refused.value.offset is not None


SOUND = [
    "['a', inputs.text].join(inputs.text)", "inputs.texts.join(',')", "['a', inputs.any].size()",
    "[1, inputs.price].max()", "max(1, inputs.price)", "[inputs.number, 2].sum()",
    "[now(), timestamp(inputs.text)].sort()[0] < now()", "'%s %d'.format([inputs.text, inputs.number])",
    "'%.2f%%'.format([inputs.price])", "'%d'.format([inputs.any])", "'%d %d'.format(inputs.numbers)",
    "inputs.text.matches('^2')", "inputs.number / 2", "inputs.texts.slice(0, 1)",
    "inputs.texts.slice(0, inputs.number - 1)", "inputs.text.substring(0, 4)", "inputs.texts[0]",
    "zip([inputs.number], [1])[0][1]", "format(inputs.text, '%d. %B', 'Europe/Berlin')",
    "timestamp(inputs.text).getHours('+02:00')", "duration('90s').getSeconds()", "[].size()",
    "([] + inputs.texts)[1]", "cel.bind(x, 5, inputs.number / x)", "[1, 0].exists(x, 1 / x > 0)",
    "false && 1 / 0 > 1", "[1, 2].filter(x, x > 5).size()", "inputs.texts.flatten(0)",
    "[1, inputs.number].map(x, x > 2, x)[0]",
]  # fmt: skip


@pytest.mark.parametrize("expression", SOUND)
def test_what_has_a_value_is_accepted(expression: str) -> None:
    TYPES.result_schema(expression)

    evaluate(expression, {"inputs": VALUES}, NOW)


def test_a_part_that_takes_long_is_left_to_the_run() -> None:
    long = "lists.range(10000).map(x, x)[20000]"

    TYPES.result_schema(long)

    with pytest.raises(ExpressionError):
        evaluate(long, {}, NOW)
