"""A date that is written out is checked by its format."""

from __future__ import annotations

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject


def codes_for(schema: JsonObject, value: Json) -> list[str]:
    tools = {
        "book": ToolSignature(
            name="book", input_schema={"type": "object", "properties": {"day": schema}}
        )
    }
    step = {"id": "a", "tool": "book", "params": {"day": value}}
    return [found.code for found in check(Plan.model_validate({"steps": [step]}), None, tools)]


def codes_of(form: str, value: str) -> list[str]:
    return codes_for({"type": "string", "format": form}, value)


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


DAY: JsonObject = {"type": "string", "format": "date"}
MAYBE: JsonObject = {"anyOf": [DAY, {"type": "null"}]}
TRIP: JsonObject = {"type": "object", "properties": {"days": {"type": "array", "items": DAY}}}


def pet(kind: str, **properties: Json) -> JsonObject:
    return {"type": "object", "properties": {"kind": {"const": kind}, **properties}}


PET: JsonObject = {"oneOf": [pet("cat", born=DAY), pet("dog", born={"type": "string"})]}


@pytest.mark.parametrize(
    ("schema", "value", "codes"),
    [
        (PET, {"kind": "cat", "born": "2024-02-30"}, ["E205"]),
        (PET, {"kind": "cat", "born": "2024-02-29"}, []),
        (PET, {"kind": "dog", "born": "in spring"}, []),
        (MAYBE, "2024-02-29", []),
        (MAYBE, None, []),
        (MAYBE, "soon", ["E205"]),
        (MAYBE, "${now()}", ["E304"]),
        ({"anyOf": [DAY, {"type": "string"}]}, "soon", []),
        ({"type": "array", "items": MAYBE}, ["2024-02-29", None, "soon"], ["E205"]),
        (TRIP, {"days": ["2024-02-29", "2024-02-30"]}, ["E205"]),
        ({"anyOf": [TRIP, {"type": "null"}]}, {"days": ["soon"]}, ["E205"]),
        ({"type": "object", "additionalProperties": DAY}, {"a": "soon"}, ["E205"]),
        ({"type": "string", "format": "uuid"}, "soon", ["E205"]),
        ({"type": "string", "format": "uuid"}, "00000000-0000-0000-0000-000000000001", []),
        # A call reads no formats, and refuses what fits two alternatives, or what must not fit.
        ({"oneOf": [{"type": "string", "format": "uuid"}, DAY]}, "2024-01-01", ["E205"]),
        ({"not": {"properties": {"a": DAY}}}, {"a": "soon"}, ["E205"]),
        ({"if": DAY, "else": {"maxLength": 3}}, "tomorrow", []),
        ({"if": DAY, "then": {"maxLength": 3}, "else": {"minLength": 9}}, "today", ["E205"]),
        ({"properties": {"else": DAY}}, {"else": "soon"}, ["E205"]),
    ],
)
def test_a_date_is_checked_wherever_it_stands(
    schema: JsonObject, value: Json, codes: list[str]
) -> None:
    assert codes_for(schema, value) == codes
