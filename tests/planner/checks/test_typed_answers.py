"""Steps whose outputs have the types that they ask for: `ask`, and schemas that a step writes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import ASK_MODEL, Gate, Plan
from wavewright.planner.language.signatures import AGENT, ToolSignature
from wavewright.planner.plans.answer_types import AnswerTypeError, answer_schema
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import GateId, JsonSchema

OPEN: JsonSchema = {"type": "object"}


def tool(name: str, params: Mapping[str, JsonSchema], **fields: Any) -> ToolSignature:
    schema: JsonSchema = {
        "type": "object",
        "properties": dict(params),
        "required": [*params],
        "additionalProperties": False,
    }
    return ToolSignature(name=name, input_schema=schema, **fields)


ASKED = {"of": {}, "for": OPEN}
TOOLS = {
    one.name: one
    for one in (
        tool("mail", {}, output_schema={"type": "string"}, untrusted_output=True),
        tool(ASK_MODEL, ASKED, effects={"read", "egress"}, expected_tokens=9, output_schema=OPEN),
        ToolSignature(
            name=AGENT,
            effects=frozenset({"read", "egress"}),
            expected_tokens=9,
            untrusted_output=True,
            typed_by={"output_schema": "answer"},
            output_schema={"type": "object", "properties": {"answer": {}}},
        ),
        ToolSignature(
            name="extract",
            typed_by={"shape": "records[*].record"},
            output_schema={
                "type": "object",
                "required": ["records"],
                "properties": {
                    "records": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["record"],
                            "properties": {"record": OPEN},
                        },
                    }
                },
            },
        ),
        tool(
            "book",
            {
                "day": {"type": "string", "format": "date"},
                "room": {"enum": ["a", "b"]},
            },
            effects={"write"},
            output_schema={"type": "string"},
        ),
        tool("wait", {"hours": {"type": "integer"}}),
        tool("note", {"text": {"type": "string"}}, effects={"write"}),
    )
}


def faults(*steps: dict[str, Any], result: Any = None) -> list[Diagnostic]:
    plan = Plan.model_validate({"steps": [{"id": "m", "tool": "mail"}, *steps], "result": result})
    return [one for one in check(plan, None, TOOLS) if one.severity == "error"]


def asked(fields: Any) -> dict[str, Any]:
    return {"id": "q", "ask": {"of": "${steps.m}", "for": fields}}


def test_a_misspelt_field_of_an_answer_is_an_error() -> None:
    (fault,) = faults(asked({"day": "date"}), result="${steps.q.dya}")

    assert fault.code == "E303"
    assert fault.hint == "did you mean 'day'?"


def test_a_date_and_a_choice_that_are_asked_for_fit_parameters_that_want_them() -> None:
    booked = {
        "id": "b",
        "tool": "book",
        "params": {"day": "${steps.q.day}", "room": "${steps.q.room}"},
    }

    assert faults(asked({"day": "date", "room": ["a", "b"]}), booked) == []


@pytest.mark.parametrize("fields", ["${inputs.fields}", {"day": "${inputs.kind}"}])
def test_types_of_an_answer_are_written_out(fields: Any) -> None:
    given = {"fields": {"day": "date"}, "kind": "date"}
    plan = Plan.model_validate(
        {"inputs": given, "steps": [{"id": "q", "ask": {"of": "x", "for": fields}}]}
    )

    found = [fault for fault in check(plan, None, TOOLS) if fault.severity == "error"]

    assert [(fault.code, fault.pointer) for fault in found] == [("E205", "/steps/0/params/for")]


def test_a_choice_without_one_that_is_wanted_does_not_fit() -> None:
    booked = {
        "id": "b",
        "tool": "book",
        "params": {"day": "2026-01-01", "room": "${steps.q.room}"},
    }

    (fault,) = faults(asked({"room": ["x", "y"]}), booked)

    assert fault.code == "E304"


def test_a_text_that_is_asked_for_is_no_integer() -> None:
    waiting = {"id": "w", "tool": "wait", "params": {"hours": "${steps.q.hours}"}}

    (fault,) = faults(asked({"hours": "text"}), waiting)

    assert fault.code == "E304"


def test_a_text_out_of_an_untrusted_one_is_still_untrusted() -> None:
    noted = {"id": "n", "tool": "note", "params": {"text": "${steps.q.who}"}}

    (fault,) = faults(asked({"who": "text"}), noted)

    assert fault.code == "E601"


def test_a_schema_that_an_agent_is_given_types_its_answer() -> None:
    schema = {"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}}
    agent = {"id": "a", "tool": AGENT, "params": {"task": "find", "output_schema": schema}}

    (fault,) = faults(agent, result="${steps.a.answer.dtae}")

    assert fault.code == "E303"


def test_a_schema_of_records_types_each_record() -> None:
    shape = {"type": "object", "properties": {"who": {"type": "string"}}}
    extract = {"id": "e", "tool": "extract", "params": {"shape": shape}}

    (fault,) = faults(extract, result="${steps.e.records[0].record.hwo}")

    assert fault.code == "E303"


def test_a_schema_that_is_none_is_refused_where_it_stands() -> None:
    extract = {"id": "e", "tool": "extract", "params": {"shape": {"type": "txet"}}}

    (fault,) = faults(extract)

    assert (fault.code, fault.pointer) == ("E205", "/steps/1/params/shape")


@pytest.mark.parametrize("tools", [[], ["wait"]])
def test_an_agent_brings_no_text_of_tools_that_it_is_not_given(tools: list[str]) -> None:
    agent = {"id": "a", "tool": AGENT, "params": {"task": "think", "tools": tools}}
    noted = {"id": "n", "tool": "note", "params": {"text": "${string(steps.a.answer)}"}}

    assert faults(agent, noted) == []


def test_an_agent_brings_the_text_of_tools_that_it_is_given() -> None:
    agent = {"id": "a", "tool": AGENT, "params": {"task": "think", "tools": ["mail"]}}
    noted = {"id": "n", "tool": "note", "params": {"text": "${string(steps.a.answer)}"}}

    assert [fault.code for fault in faults(agent, noted)] == ["E601"]


@pytest.mark.parametrize("gated", ["note", None])
def test_data_chooses_no_tool_on_whose_calls_the_goal_has_a_gate(gated: str | None) -> None:
    gates = () if gated is None else (Gate(id=GateId("short"), on_tool=gated, check="true"),)
    allowed = tuple(AvailableTool(name=name) for name in ("mail", "note"))
    goal = Goal(name="g", job="j", text="g", inputs={}, tools=allowed, gates=gates)
    step = {"id": "d", "dispatch": [], "tools": ["note"], "needs_approval": True}

    found = check(Plan.model_validate({"steps": [step]}), goal, TOOLS)

    assert [fault.code for fault in found if fault.severity == "error"] == ["E202"] * bool(gated)


@pytest.mark.parametrize(
    ("written", "schema"),
    [
        pytest.param("integer", {"type": "integer"}, id="word"),
        pytest.param("int", {"type": "integer"}, id="synonym"),
        pytest.param("1..12", {"type": "integer", "minimum": 1, "maximum": 12}, id="range"),
        pytest.param("number?", {"anyOf": [{"type": "number"}, {"type": "null"}]}, id="maybe"),
        pytest.param(["a", 2], {"enum": ["a", 2]}, id="choices"),
        pytest.param({"list": "text"}, {"type": "array", "items": {"type": "string"}}, id="list"),
        pytest.param({"type": "string"}, {"type": "string"}, id="schema"),
        pytest.param(
            {"type": "text"},
            {
                "type": "object",
                "properties": {"type": {"type": "string"}},
                "required": ["type"],
                "additionalProperties": False,
            },
            id="fields, one of them called type",
        ),
    ],
)
def test_a_type_of_an_answer_is_a_schema(written: Any, schema: JsonSchema) -> None:
    made = answer_schema({"x": written}, {})

    assert made["properties"] == {"x": schema}


WHOLE = {"word": {"type": "string"}}
NOTHING: dict[str, str] = {}


@pytest.mark.parametrize(
    ("written", "fits", "misfits"),
    [
        pytest.param({"$ref": "#/$defs/word", "$defs": WHOLE}, "x", 1, id="a definition"),
        pytest.param(
            {
                "list": {
                    "type": "array",
                    "items": {"$ref": "#/definitions/word"},
                    "definitions": WHOLE,
                }
            },
            [["x"]],
            [[1]],
            id="in a list",
        ),
        pytest.param(
            {"type": "object", "properties": {"next": {"$ref": "#"}}},
            {"next": {"next": NOTHING}},
            {"next": {"next": 1}},
            id="itself",
        ),
        pytest.param(
            {"calls": ["chain"]},
            [{"tool": "chain", "params": {"to": {"to": NOTHING}}}],
            [{"tool": "chain", "params": {"to": {"to": 1}}}],
            id="calls of a tool whose parameters refer",
        ),
    ],
)
def test_references_of_a_type_lead_into_itself(written: Any, fits: Any, misfits: Any) -> None:
    link: JsonSchema = {"type": "object", "properties": {"to": {"$ref": "#/$defs/link"}}}
    chain = ToolSignature(name="chain", input_schema={**link, "$defs": {"link": link}})
    answers = validator_of(answer_schema({"é /": written}, {"chain": chain}))

    assert answers.accepts({"é /": fits})
    assert not answers.accepts({"é /": misfits})


@pytest.mark.parametrize(
    "written",
    ["datum", "12..1", [], ["date"], [["a"]], None, 3, {"calls": ["none"]}, {"calls": []}],
)
def test_what_is_no_type_of_an_answer_is_refused_with_its_place(written: Any) -> None:
    with pytest.raises(AnswerTypeError) as refused:
        answer_schema({"a": {"b": written}}, {})

    assert refused.value.pointer.startswith("/a/b")
    assert refused.value.hint
