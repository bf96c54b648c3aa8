"""Direct references give what the expression layer gives, values and faults alike."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from hypothesis import given, strategies as st

from wavewright.executor.run.program import compile_params
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import Renderer, compile_render
from wavewright.planner.types import Json, JsonObject

NOW = dt.datetime(2010, 3, 1, tzinfo=dt.UTC)

VARIABLES: JsonObject = {
    "inputs": {"list": [1, 2.5, None], "text": "${steps.a}", "in": 1},
    "steps": {"a": {"rows": [{"n": 1}, {"n": [3]}], "none": None, "flag": False}, "b": []},
}

parts = st.sampled_from(
    [
        ".a",
        ".b",
        ".rows",
        ".n",
        ".list",
        ".text",
        ".none",
        ".flag",
        ".in",
        ".true",
        "[0]",
        "[1]",
        "[7]",
        "[00]",
        " ",
    ]
)
roots = st.sampled_from(["steps", "inputs", "item", "index", " steps", "true"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Return a reference, alone or with something before it."""
    before = draw(st.sampled_from(["", "", "x ", "$"]))
    path = "".join(draw(st.lists(parts, max_size=5)))
    return f"{before}${{{draw(roots)}{path}}}"


@st.composite
def objects(draw: st.DrawFn) -> JsonObject:
    """Return parameters with references in them, next to and inside of other values."""
    made: JsonObject = {}
    for name in draw(st.lists(st.text(max_size=3), max_size=3, unique=True)):
        text = draw(texts())
        values: list[Json] = [text, text, [text, 1], {"in": text}, 7]
        made[name] = values[draw(st.integers(0, 4))]
    return made


def result(compile_value: Callable[[JsonObject], Renderer], value: JsonObject) -> object:
    try:
        return compile_value(value)(VARIABLES, NOW)
    except ExpressionError as fault:
        return fault.kind, fault.message, fault.hint


@given(objects())
def test_rendering_is_the_expression_layers_own(params: JsonObject) -> None:
    assert result(compile_params, params) == result(compile_render, params)
