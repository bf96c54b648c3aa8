"""Direct references give what the expression layer gives, values and faults alike."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from wavewright.executor.direct import compile_params
from wavewright.planner.expressions import ExpressionFault
from wavewright.planner.references import Renderer, compile_render
from wavewright.planner.types import JsonObject

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
references = st.builds(
    lambda root, path: f"${{{root}{''.join(path)}}}",
    st.sampled_from(["steps", "inputs", "item", "index", " steps", "true"]),
    st.lists(parts, max_size=5),
)
texts = references | st.builds(
    lambda left, text: f"{left}{text}", st.sampled_from(["", "x ", "$"]), references
)


def result(compile_value: Callable[[JsonObject], Renderer], value: JsonObject) -> object:
    try:
        return compile_value(value)(VARIABLES, NOW)
    except ExpressionFault as fault:
        return fault.kind, fault.message, fault.hint


@given(st.dictionaries(st.text(max_size=3), texts | st.integers() | st.lists(texts, max_size=2), max_size=3))
def test_rendering_is_the_expression_layers_own(params: JsonObject) -> None:
    assert result(compile_params, params) == result(compile_render, params)
