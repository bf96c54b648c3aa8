"""A date that is written out is checked by its format."""

from __future__ import annotations

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature


def codes_of(form: str, value: str) -> list[str]:
    tools = {
        "book": ToolSignature(
            name="book",
            input_schema={
                "type": "object",
                "properties": {"day": {"type": "string", "format": form}},
            },
        )
    }
    step = {"id": "a", "tool": "book", "params": {"day": value}}
    return [found.code for found in check(Plan.model_validate({"steps": [step]}), None, tools)]


@pytest.mark.parametrize(
    ("form", "value", "codes"),
    [
        ("date", "2024-02-29", []),
        ("date", "2024-02-30", ["E205"]),
        ("date", "29.02.2024", ["E205"]),
        ("date", "${now()}", ["E304"]),
        ("date", "${format(now(), '%Y-%m-%d')}", []),
        ("date-time", "2024-02-29T10:00:00", []),
        ("date-time", "${now()}", []),
        ("date-time", "tomorrow", ["E205"]),
        ("time", "10:30", []),
        ("time", "25:00", ["E205"]),
    ],
)
def test_a_date_that_is_written_out_is_checked(form: str, value: str, codes: list[str]) -> None:
    assert codes_of(form, value) == codes
