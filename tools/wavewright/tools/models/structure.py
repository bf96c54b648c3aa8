"""How an answer of a given form is asked for, and how it is read back as it came.

There are three *ways*: the provider's own structured output (`native`), a tool whose arguments are the answer and that
the model has to call (`tool`), and the schema in the prompt (`prompted`). Whichever it is, what comes back is text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from wavewright.planner.model_port import NamedCall
from wavewright.planner.types import Json, JsonSchema

OutputMode: TypeAlias = Literal["native", "tool", "prompted"]

_GUIDED_PROVIDERS = frozenset({"ollama", "vllm"})
"""Providers that hold a model to any schema while it writes."""
_STRICT_PROVIDERS = frozenset({"openai", "google", "anthropic"})
"""Providers that hold a model to a schema that names every field; of an open one they refuse or empty what is open."""


def choose_output_mode(provider: str, model: Model, schema: JsonSchema, *, is_foreign: bool) -> OutputMode:
    """Return the way that a model keeps to best, by what its provider's profile says."""
    if not is_object(schema):
        # Neither a tool's arguments nor a strict provider's output can be anything but an object.
        return "prompted"
    profile = model.profile
    # Whoever else speaks OpenAI's chat language may take a schema, and ignore it.
    is_strict = provider in _STRICT_PROVIDERS or (provider == "openai-chat" and not is_foreign)
    if profile.get("supports_json_schema_output", False) and (
        provider in _GUIDED_PROVIDERS or (is_strict and is_closed(schema))
    ):
        return "native"
    return "tool" if profile.get("supports_tools", True) else "prompted"


def is_object(schema: JsonSchema) -> bool:
    """Tell whether a schema is one of objects at its root."""
    return schema.get("type") == "object" or "properties" in schema


def is_closed(schema: Json) -> bool:
    """Tell whether a schema says of every object which fields it has."""
    if isinstance(schema, list):
        return all(is_closed(one) for one in schema)
    if not isinstance(schema, dict):
        return True
    is_object = schema.get("type") == "object" or "properties" in schema
    if is_object and schema.get("additionalProperties") is not False:
        return False
    named = [*_members(schema, "properties"), *_members(schema, "$defs")]
    if any(one in ({}, True) for one in named) or schema.get("items") in ({}, True):
        return False
    inner = [schema.get(key) for key in ("items", "anyOf", "oneOf", "allOf", "prefixItems")]
    return all(is_closed(one) for one in (*named, *inner))


def with_open_objects(schema: Json) -> Json:
    """Return a schema whose open objects say that they are open: the libraries close those that say nothing."""
    if isinstance(schema, list):
        return [with_open_objects(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _with_open_keyword(key, value) for key, value in schema.items()}
    is_open = schema.get("type") == "object" and not {"properties", "additionalProperties"} & schema.keys()
    return {**inner, "additionalProperties": True} if is_open else inner


def _with_open_keyword(key: str, value: Json) -> Json:
    if key in {"properties", "$defs"} and isinstance(value, dict):
        return {name: with_open_objects(one) for name, one in value.items()}
    return value if key in {"default", "const", "enum", "examples"} else with_open_objects(value)


def _members(schema: Mapping[str, Json], key: str) -> list[Json]:
    members = schema.get(key)
    return list(members.values()) if isinstance(members, dict) else []


def plain_parameters() -> ModelRequestParameters:
    """Return how a plain text is asked for."""
    return ModelRequestParameters()


def structured_parameters(schema: JsonSchema, name: str, way: OutputMode) -> ModelRequestParameters:
    """Return how an answer of a form is asked for in one of the ways."""
    form = cast("dict[str, object]", with_open_objects(schema))
    if way == "tool":
        tool = ToolDefinition(
            name=name,
            description="Give the answer by calling this tool, once.",
            parameters_json_schema=form,
            kind="output",
        )
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
    wanted = OutputObjectDefinition(json_schema=form, name=name)
    return ModelRequestParameters(output_mode=way, output_object=wanted)


def split_response(response: ModelResponse, name: str) -> tuple[str, tuple[NamedCall, ...]]:
    """Return what a model said, unparsed, and the tools that it called instead.

    The arguments of the answer's own tool go before its words; of several, the first count.
    """
    called = [part for part in response.parts if isinstance(part, ToolCallPart)]
    answers = [part for part in called if part.tool_name == name]
    others = tuple(
        NamedCall(part.tool_name, arguments_text(part)) for part in called if part.tool_name != name
    )
    if answers:
        return arguments_text(answers[0]), others
    return visible_text(response), others


def visible_text(response: ModelResponse) -> str:
    """Return the words of an answer, without what it thought."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def arguments_text(part: ToolCallPart) -> str:
    """Return a call's arguments as they came: not every provider sends text."""
    if isinstance(part.args, str):
        return part.args
    return json.dumps(part.args or {}, ensure_ascii=False)
