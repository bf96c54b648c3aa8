"""Render a question to a model as plain JSON.

A *rendered request* holds the meaning of a question: instructions, messages, tools, the form of the
answer and the settings that shape it. Times, ids, keys, addresses and provider-specific values are
left out, so the same question renders alike on every day, machine and provider.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from wavewright.config.redaction import Redactor
from wavewright.planner import Json, JsonObject, JsonSchema
from wavewright.planner.language.json_values import map_texts

_SHAPING_SETTINGS = (
    *(
        "frequency_penalty",
        "logit_bias",
        "max_tokens",
        "parallel_tool_calls",
        "presence_penalty",
        "seed",
    ),
    *("stop_sequences", "temperature", "tool_choice", "top_k", "top_p"),
)
"""Settings that change what is answered. Clocks, retries and headers change only whether and when;
how much a model thinks is told each provider in another way, and some cannot be told where others
can.
"""
_VOLATILE_FIELDS = frozenset(
    {
        "conversation_id",
        "id",
        "identifier",
        "metadata",
        "run_id",
        "signature",
        "timestamp",
        "tool_call_id",
    }
    | {"canonical_system", "provider_details", "provider_name", "retry", "vendor_metadata"}
)
"""Members of parts that are not rendered by name: they differ each time or from provider to
provider.
"""

_DEFAULT_OUTPUT_NAME = "final_result"
"""The library's name of a tool for a form without a name."""
_ANYTHING: TypeAdapter[object] = TypeAdapter(object)

RenderedRequest: TypeAlias = JsonObject


@dataclass
class FormParameters(ModelRequestParameters):
    """How an answer of a form is asked for."""

    asked_schema: JsonSchema | None = None
    """The form that identifies the question, where a provider is sent the same in more detail."""


def render_request(
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> RenderedRequest:
    """Return a question as JSON; absent parts are left out."""
    shaping = {
        name: as_json(value)
        for name, value in (settings or {}).items()
        if name in _SHAPING_SETTINGS
    }
    parts: dict[str, Json] = {
        "instructions": _instructions(messages, parameters),
        "messages": list(_messages(messages)),
        "tools": [
            _tool(tool) for tool in sorted(parameters.function_tools, key=lambda tool: tool.name)
        ],
        "provider_tools": [*sorted(tool.kind for tool in parameters.native_tools)],
        "answer": _answer_forms(parameters),
        "settings": dict(
            sorted((name, value) for name, value in shaping.items() if value is not None)
        ),
    }
    return {
        name: _strict_json(value) for name, value in parts.items() if value not in (None, [], {})
    }


def request_hash(rendered: RenderedRequest) -> str:
    """Return the key of a rendered request; equal requests have equal keys."""
    text = json.dumps(rendered, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def rendered_for_file(request: RenderedRequest, redactor: Redactor) -> RenderedRequest:
    """Return a request as it stands in a cassette: without secrets, texts of several lines as lists
    of lines.

    People compare the file line by line.
    """
    redacted = redactor.redact_json(request)
    lines = map_texts(redacted, lambda text: [*text.split("\n")] if "\n" in text else text)
    return cast("JsonObject", lines)


def as_json(value: object) -> Json:
    """Return any value that a message may hold as JSON."""
    return _strict_json(cast("Json", _ANYTHING.dump_python(value, mode="json", fallback=str)))


def _strict_json(value: Json) -> Json:
    """Return a value as JSON, without types that only Python has."""
    match value:
        case str():
            return well_formed(value)
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return [_strict_json(item) for item in value]
        case dict():
            return {well_formed(name): _strict_json(item) for name, item in value.items()}
        case _:
            return value


def well_formed(text: str) -> str:
    """Return a text with a replacement character for each half of a surrogate pair: no file can
    hold one.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _instructions(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> str | None:
    if parameters.instruction_parts is not None:
        return "\n\n".join(part.content for part in parameters.instruction_parts) or None
    said = (
        message.instructions for message in reversed(messages) if isinstance(message, ModelRequest)
    )
    return next((text for text in said if text), None)


def _messages(messages: Sequence[ModelMessage]) -> Iterator[Json]:
    numbers: dict[str, int] = {}
    for message in messages:
        match message:
            case ModelRequest():
                for part in message.parts:
                    yield from _render_request_part(part, numbers)
            case ModelResponse():
                for answered in message.parts:
                    yield from _render_response_part(answered, numbers)


def _render_request_part(part: ModelRequestPart, numbers: dict[str, int]) -> Iterator[Json]:
    match part:
        case SystemPromptPart():
            yield {"system": part.content}
        case UserPromptPart():
            yield {"user": _content(part.content)}
        case ToolReturnPart():
            outcome: dict[str, Json] = (
                {} if part.outcome == "success" else {"outcome": part.outcome}
            )
            returned = as_json(part.content)
            yield {
                "result": part.tool_name,
                "of_call": numbers.get(part.tool_call_id),
                **outcome,
                "value": returned,
            }
        case RetryFeedbackPart():
            yield {"feedback": part.model_response()}
        case _:
            yield without_volatile_fields(part)


def _render_response_part(part: ModelResponsePart, numbers: dict[str, int]) -> Iterator[Json]:
    match part:
        case TextPart():
            yield {"model": part.content}
        case ThinkingPart():
            # Specific to the provider, and no part of the question.
            return
        case ToolCallPart():
            # Ids are random; what counts is which result belongs to which call.
            number = numbers[part.tool_call_id] = len(numbers) + 1
            yield {"call": part.tool_name, "number": number, "arguments": _arguments(part)}
        case _:
            yield without_volatile_fields(part)


def _arguments(part: ToolCallPart) -> Json:
    if not isinstance(part.args, str):
        return as_json(part.args or {})
    try:
        return cast("Json", json.loads(part.args))
    except (ValueError, RecursionError):
        return part.args


def _content(content: str | Sequence[UserContent]) -> Json:
    if isinstance(content, str):
        return content
    pieces: list[Json] = [_content_item(piece) for piece in content]
    return pieces[0] if len(pieces) == 1 else pieces


def _content_item(piece: UserContent) -> Json:
    match piece:
        case str():
            return piece
        case TextContent():
            return piece.content
        case BinaryContent():
            return {"file": piece.media_type, "sha256": hashlib.sha256(piece.data).hexdigest()}
        case FileUrl():
            return {"address": piece.url}
        case _:
            return without_volatile_fields(piece)


def without_volatile_fields(part: object) -> Json:
    """Return a part of a message as JSON, without what differs each time."""
    return _without_fields(as_json(part))


def _without_fields(value: Json) -> Json:
    match value:
        case dict():
            kept = {
                name: _without_fields(item)
                for name, item in value.items()
                if name not in _VOLATILE_FIELDS
            }
            return {name: item for name, item in kept.items() if item is not None}
        case list():
            return [_without_fields(item) for item in value]
        case _:
            return value


def _tool(tool: ToolDefinition) -> Json:
    described: dict[str, Json] = {"description": tool.description} if tool.description else {}
    return {
        "name": tool.name,
        **described,
        "parameters": _sorted_members(as_json(tool.parameters_json_schema)),
    }


def _answer_forms(parameters: ModelRequestParameters) -> Json:
    """Return the forms that an answer may have, the same whether it is asked for as a tool or as a
    format, and in whichever dialect of schemas.
    """
    wanted = parameters.output_object
    forms = {tool.name: as_json(tool.parameters_json_schema) for tool in parameters.output_tools}
    if not forms and wanted is not None:
        forms = {wanted.name or _DEFAULT_OUTPUT_NAME: as_json(wanted.json_schema)}
    if isinstance(parameters, FormParameters) and parameters.asked_schema is not None:
        forms = dict.fromkeys(forms, parameters.asked_schema)
    rendered: list[Json] = [_answer_form(name, forms[name]) for name in sorted(forms)]
    return rendered[0] if len(rendered) == 1 else rendered


def _answer_form(name: str, schema: Json) -> Json:
    title = schema.get("title") if isinstance(schema, dict) else None
    named: dict[str, Json] = {} if name in (_DEFAULT_OUTPUT_NAME, title) else {"name": name}
    return {**named, "schema": _sorted_members(schema)}


def _sorted_members(value: Json) -> Json:
    return cast("Json", json.loads(json.dumps(value, sort_keys=True)))
