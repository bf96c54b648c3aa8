"""Our CEL is the specification's: its own test cases, and answers compared with those of Google's
implementation.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from tests.crash.run_size import volume
from tests.support.cel_oracle import oracle_answer
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import TypedEnvironment, evaluate
from wavewright.planner.types import Json

NOON = dt.datetime(2010, 3, 1, 12, tzinfo=dt.UTC)
_CASES = Path(__file__).parents[4] / "shared" / "cel-spec" / "cases.jsonl"
_SHARE_REQUIRED = 0.99
_NO_JSON = re.compile(r"math\.bit[A-Z]|%[boxX]")
"""What only bits and bytes are for, of which JSON has neither."""


def _fails(case: dict[str, Any]) -> bool:
    try:
        value = evaluate(case["expr"], case["bindings"], NOON)
    except ExpressionError:
        return "error" not in case
    return "error" in case or value != case["value"]


@pytest.mark.skipif(not _CASES.exists(), reason="the cases of the specification are not here")
def test_the_cases_of_the_specification_give_what_it_says() -> None:
    cases = [json.loads(line) for line in _CASES.read_text("utf-8").splitlines()]

    cases = [case for case in cases if _NO_JSON.search(case["expr"]) is None]

    failed = [f"{case['file']}/{case['name']}: {case['expr']}" for case in cases if _fails(case)]

    assert len(failed) <= len(cases) * (1 - _SHARE_REQUIRED), failed


@pytest.mark.skipif(not _CASES.exists(), reason="the cases of the specification are not here")
def test_the_cases_of_the_specification_on_bits_and_bytes_are_refused_by_name() -> None:
    cases = [json.loads(line) for line in _CASES.read_text("utf-8").splitlines()]
    foreign = [case["expr"] for case in cases if _NO_JSON.search(case["expr"]) is not None]

    for expression in foreign:
        with pytest.raises(ExpressionError, match=r"math\.bit|no clause '%[oxX]'"):
            evaluate(expression, {}, NOON)
    assert foreign


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[5, 7].all(i, x, x > i)", True),
        ("[5, 7].exists(i, x, i == 1 && x == 5)", False),
        ("{'a': 1, 'b': 2}.existsOne(k, v, k == 'b' && v == 2)", True),
        ("[2, 4].transformList(i, x, i * x)", [0, 4]),
        ("[2, 4].transformList(i, x, x > 2, i + x)", [5]),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, k + string(v))", {"b": "b2"}),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {string(v): k})", {"1": "a", "2": "b"}),
        ("cel.bind(x, 2 + 3, [x, x].sum())", 10),
        ("cel.bind(item, 'inner', item)", "inner"),
        ("{'content-type': 1}.`content-type`", 1),
        ("has({'a.b': 1}.`a.b`) && !has(dyn({'a': 1}).`a.b`)", True),
        ("timestamp(1000000000)", "2001-09-09T01:46:40Z"),
        ("timestamp('2010-01-01T00:30:00Z').getDate('America/New_York')", 31),
        ("timestamp('2010-01-01T00:30:00Z').getHours('-02:00')", 22),
        ("duration('3661.5s').getMinutes()", 61),
        ("math.greatest(5.0) + math.least(-5)", 0.0),
        ("'%s %.1f'.format([{'b': [1, 2.5], 'a': null}, 1])", "{a: null, b: [1, 2.5]} 1.0"),
    ],
)
def test_parts_of_the_language_give_what_the_specification_says(
    expression: str, value: Json
) -> None:
    assert evaluate(expression, {}, NOON) == value
    TypedEnvironment(inputs={}, steps={}).result_schema(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "[1].transformList(x, x)",
        "[1].all(x, x, true)",
        "cel.bind(1, 2, 3)",
        "cel.bind(x, 2)",
        "{'a': 1, 'b': 2}.transformMapEntry(k, v, {'same': v})",
        "{'a': 1}.transformMapEntry(k, v, v)",
        "timestamp('2010-01-01').getHours('Nowhere/Here')",
        "timestamp('2010-01-01').getHours('../../etc/passwd')",
        "timestamp('0001-01-01').getFullYear('-08:00')",
        "'%d'.format(['1'])",
        "'%.1001f'.format([1.0])",
        "'%'.format([1])",
        "'%s %s'.format([1])",
        "'a'.matches('(')",
        "'a'.matches('(?=a)')",
        "duration('1h-3m')",
    ],
)
def test_what_the_specification_refuses_is_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(expression, {}, NOON)


_INTEGERS = st.one_of(st.integers(-20, 20), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])).map(
    str
)
_DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: repr(value + 0.0)),
    st.sampled_from(
        ["0.5", "-2.5", "1e15", "123456.75", "double('inf')", "double('nan')", "double('-inf')"]
    ),
)
_TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6).map(
        lambda text: json.dumps(text, ensure_ascii=False)
    ),
    st.sampled_from(
        ["'12'", "' -7 '", "'1e3'", "'.5'", "'true'", "'FALSE'", "'tRue'", "'nan'", "'+3'", "'1_0'"]
    ),
)
# A day from either end: in a time zone, the first and last timestamps fall into years that Python
# has not.
_TIMES = st.integers(-62135500000, 253402200000).map(lambda seconds: f"timestamp({seconds})")
_DURATIONS = st.sampled_from(
    ["'90s'", "'-1.5h'", "'1h30m'", "'-3661.5s'", "'250ms'", "'1us'", "'0'"]
).map(lambda text: f"duration({text})")
_ZONES = st.sampled_from(
    ["'UTC'", "'America/New_York'", "'Asia/Kathmandu'", "'+02:00'", "'-09:30'", "'x'", "''"]
)
_PATTERNS = st.text(st.sampled_from("ab.*+?()[]|^$\\dwé{2}"), max_size=6).map(json.dumps)
_FORMATS = st.lists(
    st.sampled_from(["%s", "%d", "%f", "%.2f", "%e", "%.0e", "%%", "a", "%"]),
    max_size=3,
).map(lambda clauses: json.dumps("".join(clauses)))
_SCALARS = st.one_of(
    _INTEGERS, _DOUBLES, _TEXTS, st.sampled_from(["true", "null", "[1, 'a', 2.5]"])
)
_CALLS: list[tuple[str, tuple[st.SearchStrategy[str], ...]]] = [
    *((f"{name}({{}})", (_SCALARS,)) for name in ("string", "int", "double", "bool")),
    *(
        (f"math.{name}({{}})", (st.one_of(_DOUBLES, _INTEGERS),))
        for name in ("ceil", "floor", "round", "trunc", "abs", "sign", "sqrt", "isNaN", "isInf", "isFinite")
    ),
    ("strings.quote({})", (_TEXTS,)),
    ("{}.matches({})", (_TEXTS, _PATTERNS)),
    ("'aabb\u00e9'.matches({})", (_PATTERNS,)),
    ("{}.format([{}, {}, {}])", (_FORMATS, _SCALARS, _SCALARS, _SCALARS)),
    ("string({})", (st.one_of(_TIMES),)),
    ("int({})", (_TIMES,)),
    ("{} + {}", (_TIMES, _DURATIONS)),
    *(
        (f"{{}}.{name}({zone})", (_TIMES, *([_ZONES] if zone else [])))
        for name in (
            "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours",
            "getMinutes", "getSeconds", "getMilliseconds",
        )
        for zone in ("", "{}")
    ),
    *((f"{{}}.{name}()", (_DURATIONS,)) for name in ("getHours", "getMinutes", "getSeconds", "getMilliseconds")),
]  # fmt: skip
_CALL = st.sampled_from(_CALLS).flatmap(
    lambda call: st.tuples(*call[1]).map(lambda arguments: call[0].format(*arguments))
)


def _outcome(text: str) -> tuple[Json, ExpressionError | None]:
    try:
        return evaluate(text, {}, NOON), None
    except ExpressionError as error:
        return None, error


@given(_CALL)
@settings(max_examples=volume(150, 600), deadline=None)
def test_functions_give_what_the_oracle_gives(expression: str) -> None:
    # Timestamps are no JSON: the library is asked for what is.
    asked = f"[{expression}].map(x, type(x) == type(timestamp(0)) ? string(x) : x)[0]"
    try:
        answered, expected = oracle_answer(asked, {})
    except (RuntimeError, ValueError, TypeError):  # its binding cannot return broken UTF-8
        assume(False)
        raise
    value, error = _outcome(expression)

    if error is not None:
        is_json = not isinstance(expected, float) or math.isfinite(expected)
        assert not (answered and is_json), error.message
    elif answered:
        assert value == expected
    else:
        # JSON does not tell 3 from 3.0, so what takes a double takes an integer too.
        assert "math." in expression, value
