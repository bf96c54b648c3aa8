"""Request an answer in a given form, read it back, and stream it.

There are three *ways*: the provider's structured output (`native`), a required tool whose arguments are the answer
(`tool`), and the schema in the prompt (`prompted`). The result is text in each case.

While an answer streams in, complete lines are shown after their secrets are removed; a *tail* that may be the
beginning of a secret is held back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, cast

from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from wavewright.planner.ports.model_port import NamedCall, OnText
from wavewright.planner.types import Json, JsonSchema
from wavewright.tools.models.errors import PROVIDER_ERRORS

OutputMode: TypeAlias = Literal["native", "tool", "prompted"]

_GUIDED_PROVIDERS = frozenset({"ollama", "vllm"})
"""Providers that enforce any schema while the model writes."""
_STRICT_PROVIDERS = frozenset({"openai", "google", "anthropic"})
"""Providers that enforce a schema that names every field; they refuse an open object, or return it empty."""
_MAX_TAIL_CHARS = 2_000
"""Maximum number of characters that are held back without an end of line."""
_BLOCK_START = "-----BEGIN"
_BLOCK_END = re.compile(r"-----END [^-]{1,80}-----")
_MAX_BLOCK_CHARS = 16_000
"""Maximum length of a private key."""
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)*_]{0,3}\s+")


def choose_output_mode(provider: str, model: Model, schema: JsonSchema, *, is_foreign: bool) -> OutputMode:
    """Return the most reliable way for a model, by its provider's profile."""
    if not is_object(schema):
        # Neither a tool's arguments nor a strict provider's output can be anything but an object.
        return "prompted"
    profile = model.profile
    # Other servers with OpenAI's chat API may accept a schema and ignore it.
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
    if is_object(schema) and schema.get("additionalProperties") is not False:
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
    """Return the text of an answer, without its thinking."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def arguments_text(part: ToolCallPart) -> str:
    """Return a call's arguments as they came: not every provider sends text."""
    if isinstance(part.args, str):
        return part.args
    return json.dumps(part.args or {}, ensure_ascii=False)


class StreamRedactor:
    """Lets text through line by line, without its secrets.

    By sentence, a line without secrets is let through up to the end of its last sentence.
    """

    def __init__(self, redact: Callable[[str], str], on_text: OnText, *, by_sentence: bool = False) -> None:
        self._redact = redact
        self._on_text = on_text
        self._by_sentence = by_sentence
        self._held = ""

    def add(self, text: str) -> None:
        """Add the next piece of text."""
        self._held += text
        end = self._safe_end()
        if end:
            ready, self._held = self._held[:end], self._held[end:]
            self._on_text(self._redact(ready))

    def close(self) -> None:
        """Emit the rest."""
        if self._held:
            rest, self._held = self._held, ""
            self._on_text(self._redact(rest))

    def _safe_end(self) -> int:
        end = self._held.rfind("\n") + 1
        if not end and len(self._held) >= _MAX_TAIL_CHARS:
            # No secret on one line holds a space, so one that is cut here begins after it.
            end = self._held.rfind(" ") + 1
        if self._by_sentence:
            last = max((found.end() for found in _SENTENCE_END.finditer(self._held, end)), default=end)
            if last > end and self._redact(self._held) == self._held:
                end = last
        # A text of several lines is emitted whole, its last line included.
        start = self._held.rfind(_BLOCK_START, 0, end)
        if start < 0 or _BLOCK_END.search(self._held, start, end):
            return end
        return start if len(self._held) - start < _MAX_BLOCK_CHARS else end


async def read_stream(
    stream: StreamedResponse, answer_tool: str | None, on_text: OnText, begun: Callable[[], None]
) -> tuple[ModelResponse, bool]:
    """Return a streamed answer, and whether it is whole: it says itself how it ended.

    What breaks after something came leaves what came, for that has been shown; before that it is a fault.
    """
    has_text = False
    answering: set[int] = set()
    events = aiter(stream)
    while True:
        try:
            event = await anext(events)
        except StopAsyncIteration:
            break
        except PROVIDER_ERRORS as error:
            if not has_text or isinstance(error, ContentFilterError):
                raise
            return stream.get(), False
        begun()
        text = _event_text(event, answer_tool, answering)
        if text:
            has_text = True
            on_text(text)
    response = stream.get()
    return response, response.finish_reason is not None


def _event_text(event: ModelResponseStreamEvent, answer_tool: str | None, answering: set[int]) -> str:
    """Return what an event adds to the answer; a tool's arguments count where they are the answer."""
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return text
        case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=arguments)) if (
            name == answer_tool
        ):
            answering.add(index)
            return arguments if isinstance(arguments, str) else ""
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(text))) if index in answering:
            return text
        case _:
            return ""
