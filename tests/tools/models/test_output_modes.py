from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile

from wavewright.planner.ports.model_port import NamedCall
from wavewright.planner.types import JsonSchema
from wavewright.tools.models.responses import OutputMode, choose_output_mode, is_closed, split_response

OPEN: JsonSchema = {"type": "object", "properties": {"params": {"type": "object"}}}
CLOSED: JsonSchema = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "additionalProperties": False,
}


def model(*, native: bool = True, tools: bool = True) -> Model:
    def nothing(messages: object, info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[])

    return FunctionModel(
        nothing, profile=ModelProfile(supports_json_schema_output=native, supports_tools=tools)
    )


@pytest.mark.parametrize(
    ("provider", "is_foreign", "schema", "native", "tools", "way"),
    [
        ("openai", False, CLOSED, True, True, "native"),
        ("openai", False, OPEN, True, True, "tool"),
        ("google", False, CLOSED, True, True, "native"),
        ("google", False, OPEN, True, True, "tool"),
        ("vllm", True, OPEN, True, True, "native"),
        ("openai-chat", False, CLOSED, True, True, "native"),
        ("openai-chat", False, OPEN, True, True, "tool"),
        ("openai-chat", True, CLOSED, True, True, "tool"),
        ("openai-chat", True, CLOSED, True, False, "prompted"),
        ("anthropic", False, CLOSED, True, True, "native"),
        ("anthropic", False, OPEN, True, True, "tool"),
        ("anthropic", False, CLOSED, False, True, "tool"),
        ("ollama", False, OPEN, False, False, "prompted"),
        ("openai", False, {"type": "array", "items": CLOSED}, True, True, "prompted"),
        ("openai-chat", True, {"anyOf": [CLOSED, {"type": "string"}]}, True, True, "prompted"),
    ],
)
def test_the_way_to_ask_is_the_one_that_the_model_keeps_to(
    provider: str, *, is_foreign: bool, schema: JsonSchema, native: bool, tools: bool, way: OutputMode
) -> None:
    assert (
        choose_output_mode(provider, model(native=native, tools=tools), schema, is_foreign=is_foreign) == way
    )


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"properties": {"b": {"type": "string"}}},
        {"type": "array", "items": {}},
        {"type": "array", "items": {"type": "object"}},
        {"anyOf": [{"type": "string"}, {"type": "object"}]},
        {},
        True,
    ],
)
def test_a_schema_with_room_for_anything_is_not_closed(inner: JsonSchema) -> None:
    schema: JsonSchema = {"type": "object", "properties": {"a": inner}, "additionalProperties": False}

    assert not is_closed(schema)
    assert not is_closed({"$defs": {"one": schema}, **CLOSED})


def test_a_schema_that_names_every_field_is_closed() -> None:
    nested: JsonSchema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}}, "c": {"anyOf": [CLOSED]}},
        "$defs": {"b": CLOSED},
        "additionalProperties": False,
    }

    assert is_closed(nested)


def test_the_answers_own_tool_goes_before_words_and_other_tools() -> None:
    response = ModelResponse(
        parts=[
            ThinkingPart("let me see"),
            TextPart("here it is"),
            ToolCallPart("look", '{"at": 1}'),
            ToolCallPart("emit", '{"broken": '),
            ToolCallPart("emit", "{}"),
        ]
    )

    assert split_response(response, "emit") == ('{"broken": ', (NamedCall("look", '{"at": 1}'),))


def test_arguments_that_are_no_text_become_text() -> None:
    response = ModelResponse(parts=[ToolCallPart("emit", {"a": "é"}), ToolCallPart("other", None)])

    assert split_response(response, "emit") == ('{"a": "é"}', (NamedCall("other", "{}"),))


def test_words_are_said_without_what_was_thought() -> None:
    response = ModelResponse(parts=[ThinkingPart("hm"), TextPart("one "), TextPart("two")])

    assert split_response(response, "emit") == ("one two", ())
