"""Whatever an expression makes of whatever it is given, it ends within little time and memory."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.crash.run_size import volume
from tests.support.limited_evaluation import NOON, limited_evaluator
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import TypedEnvironment, evaluate, render
from wavewright.planner.types import Json, JsonSchema

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits of processes are Linux's"),
    # Some thirty expressions take nearly a second of processor time each.
    pytest.mark.timeout(300),
]

_ENDS = {
    "a value",
    "evaluation_failed",
    "expression_too_large",
    "no_overload",
    "unknown_input",
    "unknown_name_or_field",
}

REFUSED = [
    "inputs.l.map(x, inputs.s).join('')",
    "inputs.l.map(x, inputs.s)",
    "inputs.l.map(x, '%s'.format([inputs.s]))",
    "inputs.l.map(x, inputs.s.split('x'))",
    "inputs.l.filter(x, inputs.s.split('x').size() > 1)",
    "inputs.l.map(a, inputs.l.map(b, inputs.l))",
    "[inputs.s]" + ".map(a, a + a)" * 10,
    "[inputs.l]" + ".map(a, a + a)" * 10,
    "inputs.few.map(a, inputs.t + inputs.t)",
    "inputs.few.map(a, inputs.l.reverse())",
    "inputs.l.filter(x, inputs.s == inputs.t.replace('y', 'x'))",
    "inputs.l.filter(x, x in steps.numbers)",
    "inputs.l.filter(x, [x] in inputs.nested)",
    "inputs.l.map(x, inputs.s).map(x, x + 'a').sort()",
    "inputs.l.filter(x, inputs.words.sort() == [])",
    "inputs.l.filter(x, inputs.s.matches('y'))",
    "inputs.s.matches(inputs.pattern)",
    "inputs.l.map(x, 'a'.matches('" + "\\\\pL" * 100 + "'))",
    "inputs.t.lastIndexOf(inputs.t.substring(1) + 'z')",
    "inputs.s.replace('x', inputs.s)",
    "inputs.l.map(x, sets.contains(inputs.words, inputs.words))",
    "steps.fields.map(k, {'key': k, 'all': steps.fields})",
    "inputs.l.exists(x, inputs.spaces.trim() == 'a')",
    "inputs.few.map(x, inputs.nested == inputs.nested)",
    "inputs.l.exists(x, steps.fields.k200001 || x.a)",
    "inputs.l.map(x, [[[[[[[[x]]]]]]]])",
    f"inputs.words.map(x, [{', '.join(['string(inputs.giants[0])'] * 100)}])",
    f"inputs.l.exists(x, '{'%.1000e' * 200}'.format([{', '.join(['1.7e-308'] * 200)}]) == '')",
    "inputs.s.substring(0, 80000).replace('x', '%1000d').format(inputs.l)",
    "inputs.l.exists(x, 'a'.matches('(?i)k' + string(x)))",
    "inputs.l.exists(x, duration('1h1m1s1ms1us1ns1h1m1s1ms1us1ns1h1m1s') == duration('1s'))",
    f"inputs.words.map(x, [{', '.join(['inputs.wide.charAt(0)'] * 100)}])",
    f"inputs.l.map(x, [{', '.join(['int(x)'] * 300)}].size())",
]
REFUSED_ALIKE = [
    "inputs.l.filter(x, steps.rows == steps.others)",
    "inputs.l.exists(x, " + "x.a || " * 20 + "false)",
    f"inputs.l.exists(x, '{'%f' * 200}'.format([{', '.join(['1.7e308'] * 200)}]) == '')",
]
"""Refused by what refuses another one: equality, a field that is not there, and digits of a format.
"""
ANSWERED = [
    "'%s%s%s'.format(inputs.l.map(x, inputs.s))",
    "sets.contains(inputs.l, inputs.l)",
    "sets.equivalent(inputs.l, inputs.l.reverse())",
    "sets.contains(inputs.giants, inputs.giants)",
    "inputs.nested.distinct().size()",
    "inputs.l.filter(x, x in inputs.l).size()",
    "inputs.words.filter(w, w in inputs.words).size()",
    "steps.rows == steps.others",
    "steps.rows.sortBy(r, -r.close)[0].code",
    "steps.rows.filter(r, r.close > 10 && 'a' in r.tags).size()",
    "steps.rows.map(r, math.round(r.close)).sum()",
    "steps.rows.map(r, r.code + ' ' + string(r.close)).join(', ').size()",
    "sum(steps.numbers) + steps.numbers.size()",
    "steps.numbers.slice(10, 20)",
    "steps.text.contains('dolor')",
    "steps.rows.exists(r, r.absent > 3 || r.close > 1000)",
    "inputs.spaces.trim()",
    "inputs.l.exists(x, steps.giant * 1.0 == double(steps.giant) - 1 && -double(steps.giant) in inputs.few)",
    "steps.rows.filter(r, r.code.matches('^c[0-9]+5$')).size()",
]

Outcomes: TypeAlias = "Callable[[list[str]], dict[str, str]]"


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Outcomes]:
    """What becomes of expressions over large values; making those takes a second, so the tests
    share them.
    """
    with limited_evaluator() as evaluated:
        yield evaluated


def test_what_would_take_too_much_is_refused(outcomes: Outcomes) -> None:
    expressions = [*REFUSED, *REFUSED_ALIKE][:: volume(2, 1)]

    assert outcomes(expressions) == dict.fromkeys(expressions, "expression_too_large")


def test_what_can_be_done_in_little_is_done(outcomes: Outcomes) -> None:
    assert outcomes(ANSWERED) == dict.fromkeys(ANSWERED, "a value")


_LEAVES = [
    "inputs.l", "inputs.s", "inputs.t", "inputs.u", "inputs.few", "inputs.nested", "inputs.words", "inputs.giants",
    "steps.rows", "steps.others", "steps.numbers", "steps.text", "steps.fields", "x", "x", "x", "'a'", "'x'", "''",
    "2", "0.5", "now()", "[]", "{}", "true",
]  # fmt: skip
_METHODS = [
    "join({})", "join()", "split({})", "split('')", "replace('x', {})", "replace('', {})", "contains({})",
    "indexOf({})", "lastIndexOf({})", "matches({})", "startsWith({})", "substring(1)", "charAt(7)", "trim()",
    "reverse()", "upperAscii()", "lowerAscii()", "distinct()", "flatten()", "flatten(9)", "slice(0, 9000)", "sort()",
    "size()", "sum()", "max()", "format([{}])", "format({})", "sortBy(x, {})", "map(x, {})", "map(x, {})",
    "map(x, {})", "map(x, {})", "filter(x, {})", "filter(x, true)", "all(x, {})", "exists(x, {} == {})",
    "exists_one(x, {})", "close", "code",
]  # fmt: skip
_OTHERS = [
    "({} + {})", "({} + {})", "({} == {})", "({} in {})", "({} < {})", "[{}, {}]", "[{0}, {0}, {0}]",
    "{{'a': {0}, 'b': [{0}]}}", "sets.contains({}, {})", "sets.equivalent({}, {})", "sets.intersects({}, {})",
    "string({})", "strings.quote({})", "int({})", "timestamp({})", "lists.range(10000)", "({} * {})",
    "(true ? {} : {})", "math.round({})",
]  # fmt: skip


def _composed(dice: random.Random, depth: int) -> str:
    if depth == 0:
        return dice.choice(_LEAVES)
    form = "{}." + dice.choice(_METHODS) if dice.random() < 0.7 else dice.choice(_OTHERS)
    return form.format(*(_composed(dice, dice.randrange(depth)) for _ in range(3)))


@pytest.mark.parametrize("seed", range(volume(1, 3)))
def test_any_composition_ends_with_a_value_or_a_fault(seed: int, outcomes: Outcomes) -> None:
    dice = random.Random(seed)  # noqa: S311 - nothing secret
    expressions = [f"inputs.few.map(x, {_composed(dice, 4)})" for _ in range(20)]
    expressions += [_composed(dice, 4).replace("x.", "inputs.l.") for _ in range(20)]

    found = outcomes(expressions)

    assert {text: end for text, end in found.items() if end not in _ENDS} == {}


def test_a_field_that_a_large_object_lacks_is_told_at_once(outcomes: Outcomes) -> None:
    asked = [
        "steps.fields.k200001",
        "inputs.few.exists(x, steps.fields.k200001)",
        "inputs[inputs.s]",
    ]

    assert set(outcomes(asked).values()) == {"unknown_name_or_field", "unknown_input"}


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_no_number_holds_is_infinite(sign: int) -> None:
    values: dict[str, Json] = {"inputs": {"n": sign * 10**400}}

    assert evaluate("[inputs.n < 0.0, inputs.n / 2 == inputs.n / 3]", values, NOON) == [
        sign < 0,
        True,
    ]
    with pytest.raises(ExpressionError, match="whole numbers"):
        evaluate("inputs.n % 7", values, NOON)


@pytest.mark.parametrize("body", ["{'x': a, 'y': a}", "[a, a]", "[{'x': a}, {'y': a}]"])
def test_a_type_that_doubles_with_each_loop_is_left_open(body: str) -> None:
    numbers: JsonSchema = {"type": "array", "items": {"type": "integer"}}
    environment = TypedEnvironment(
        inputs={"type": "object", "properties": {"l": numbers}}, steps={}
    )

    found = environment.result_schema("inputs.l" + f".map(a, {body})" * 22)

    assert len(json.dumps(found)) < 2**20


def test_text_with_references_in_it_has_a_length_it_can_have() -> None:
    values: dict[str, Json] = {"inputs": {"s": "x" * 700_000}}

    with pytest.raises(ExpressionError) as caught:
        render("${inputs.s} " * 100, lambda expression: evaluate(expression, values, NOON))

    assert caught.value.kind == "expression_too_large"
