"""Tools as a planner reads them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planner.planning_case import TOOLS, goal_of, params
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.tool_descriptions import tool_entries, tool_line, type_text


def test_a_tool_is_one_line() -> None:
    assert tool_line(TOOLS["read_sensor"], "Read what a station measures.") == (
        "read_sensor(station: string, hours?: integer) -> "
        "{station: string, wind: number, as_of: string (date-time), gusts: [number], "
        "note?: string}: "
        "Read what a station measures. [reads only]"
    )


def test_the_line_says_what_a_call_changes_and_who_must_allow_it() -> None:
    line = tool_line(TOOLS["send_alarm"], "")

    assert line == (
        "send_alarm(text: string) -> any: Wake somebody up. "
        "[writes; sends data out; a person must approve each call]"
    )


def test_output_that_somebody_outside_wrote_is_marked() -> None:
    tool = ToolSignature(name="fetch", untrusted_output=True)

    assert (
        tool_line(tool, "Fetch a page")
        == "fetch() -> any: Fetch a page. [reads only; untrusted output]"
    )


def test_entries_are_those_of_the_goal_with_its_descriptions_and_notes() -> None:
    goal = goal_of(
        {
            "available_tools": [
                {"name": "write_report"},
                {"name": "read_sensor", "description": "Only Swiss stations."},
                {"name": "not_installed"},
            ]
        }
    )

    report, sensor = tool_entries(goal, TOOLS)

    assert report.name == "write_report"
    assert report.set_by_engine == ("tags",)
    assert "tags" not in report.line
    assert report.notes == ("title: 1 character or more; 40 characters or fewer",)
    assert ": Only Swiss stations. [" in sensor.line
    assert sensor.notes == (
        "station: Code of the station, such as ZRH; 2 characters or more",
        "hours: at least 1",
    )


def test_a_default_is_noted() -> None:
    schema = params(
        days={"type": "integer", "default": 3}, kind={"type": "string", "default": None}
    )
    (entry,) = tool_entries(
        goal_of({"available_tools": [{"name": "forecast"}], "rules": {}, "gates": []}),
        {"forecast": ToolSignature(name="forecast", input_schema=schema)},
    )

    assert entry.notes == ("days: default 3",)


NODE: dict[str, Any] = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({}, "any"),
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": ["string", "null"], "format": "date"}, "string (date) | null"),
        (
            {"anyOf": [{"type": "string", "format": "time"}, {"type": "null"}]},
            "string (time) | null",
        ),
        ({"type": "array", "items": {"type": "string", "format": "uri"}}, "[string (uri)]"),
        ({"type": "number", "format": "date"}, "number"),
        ({"type": "array"}, "[any]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, "[[number]]"),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "[string, number]",
        ),
        ({"enum": ["a", "b", 1, None]}, '"a" | "b" | 1 | null'),
        ({"const": True}, "true"),
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{[key]: number}"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"oneOf": [{"type": "number"}, {}]}, "any"),
        ({"type": "object", "properties": {"a-b": {"type": "string"}}}, '{"a-b"?: string}'),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            "{a: string}",
        ),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, "{next?: any, n?: integer}"),
        ({"$ref": "https://elsewhere/x"}, "any"),
        ({"type": "object", "properties": {"never": False}}, "{never?: nothing}"),
    ],
)
def test_types_are_short_and_say_what_may_be_absent(schema: dict[str, Any], shown: str) -> None:
    assert type_text(schema) == shown


def test_a_long_type_loses_levels_and_never_fields_of_the_first() -> None:
    inner = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(30)}}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"left": inner, "right": inner, "n": {"type": "integer"}},
    }

    assert type_text(schema, 200) == "{left?: object, right?: object, n?: integer}"
    assert len(type_text(schema, 3000)) > 1000
