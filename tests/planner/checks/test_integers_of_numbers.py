"""Where an integer is wanted and a number is given, the help says how to make one of it."""

from __future__ import annotations

import pytest

from wavewright.planner import Json
from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature


@pytest.mark.parametrize(
    "wanted",
    [{"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}],
    ids=["integer", "integer or null"],
)
def test_the_help_names_both_ways_to_an_integer(wanted: Json) -> None:
    tools = {
        "price": ToolSignature(name="price", output_schema={"type": "number"}),
        "buy": ToolSignature(
            name="buy", input_schema={"type": "object", "properties": {"count": wanted}}
        ),
    }
    buy = {"id": "b", "tool": "buy", "params": {"count": "${steps.p / 2}"}}
    plan = Plan.model_validate({"steps": [{"id": "p", "tool": "price"}, buy]})

    [fault] = check(plan, None, tools)

    assert fault.code == "E304"
    assert fault.hint == (
        "cut the fraction off: ${int(steps.p / 2)}, or round: ${int(math.round(steps.p / 2))}"
    )
