r"""Questions and answers of models: what is sent, in which form an answer is asked for, and how it
is read and kept.

There are three *ways* to ask for a form: the provider's structured output (`native`), a required
tool whose arguments are the answer (`tool`), and the schema in the prompt (`prompted`). The result
is text in each case.

While an answer streams in, complete lines are shown after their secrets are removed; a *tail* that
may be the beginning of a secret is held back.

Equal questions of one step have equal keys. Timeouts, models and budgets are no part of a key, so a
resumed run uses its kept answers although its settings have changed.

A *lone surrogate* (`\ud83d` without its other half) is valid in JSON and cannot be encoded as
UTF-8; it is sent as a question mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from wavewright.config.redaction import Redactor
from wavewright.planner import Json, JsonObject, JsonSchema, ModelAnswer
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.ports.model_port import LoopTool, ModelCall, NamedCall, OnText
from wavewright.planner.reading.thinking import ThinkingFilter, end_of_thinking
from wavewright.tools.models.cassette.answers import (
    CassetteAnswer,
    json_object,
    record_answer,
    restore_answer,
)
from wavewright.tools.models.cassette.requests import (
    FormParameters,
    render_request,
    request_hash,
)
from wavewright.tools.models.endpoints import SELF_HOSTED, Endpoint
from wavewright.tools.models.errors import PROVIDER_ERRORS

OutputMode: TypeAlias = Literal["native", "tool", "prompted"]
OUTPUT_MODES: Final[tuple[OutputMode, ...]] = ("native", "tool", "prompted")
"""The most reliable first."""

_GUIDED_PROVIDERS = SELF_HOSTED
"""Providers that enforce any schema while the model writes."""
_STRICT_PROVIDERS = frozenset({"openai", "google", "anthropic"})
"""Providers that enforce a schema that names every field; they refuse an open object, or return it
empty.
"""
_MAX_TAIL_CHARS = 2_000
"""Maximum number of characters that are held back without an end of line."""
_BLOCK_START = "-----BEGIN"
_BLOCK_END = re.compile(r"-----END [^-]{1,80}-----")
_MAX_BLOCK_CHARS = 16_000
"""Maximum length of a private key."""
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)*_]{0,3}\s+")

_ANSWER = TypeAdapter(ModelAnswer)


def encodable_text(text: str) -> str:
    """Return a text that can be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


def encodable_json(value: Json) -> Json:
    """Return a value whose texts can be sent."""
    return map_texts(value, encodable_text, encodable_text)


def messages_of(call: ModelCall) -> list[ModelMessage]:
    """Return a conversation as the library sends it."""
    instructions = encodable_text(call.instructions) or None
    messages: list[ModelMessage] = [_user_request(call.prompt, instructions)]
    for turn in call.turns:
        messages.append(ModelResponse(parts=[TextPart(encodable_text(turn.answer))]))
        messages.append(_user_request(turn.reply, instructions))
    return messages


def _user_request(text: str, instructions: str | None) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(encodable_text(text))], instructions=instructions)


def sent_text(call: ModelCall, tools: Sequence[LoopTool] = ()) -> str:
    """Return everything that a call sends as one text, for estimates."""
    pieces = [call.instructions, call.prompt]
    for turn in call.turns:
        pieces += [turn.answer, turn.reply]
    schema = call.goal_schema or call.schema
    schemas: list[Json] = [] if schema is None else [schema]
    for tool in tools:
        pieces += [tool.name, tool.description]
        schemas.append(tool.input_schema)
    pieces += [json.dumps(one, ensure_ascii=False) for one in schemas]
    return "\n".join(pieces)


def question_key(call: ModelCall) -> str:
    """Return the key of a question."""
    turns: list[Json] = [[turn.answer, turn.reply] for turn in call.turns]
    asked: JsonObject = {
        "instructions": call.instructions,
        "prompt": call.prompt,
        "turns": turns,
        "schema": call.schema,
        "schema_name": call.schema_name,
    }
    return f"ask {_call_identity(call)} {request_hash(asked)}"


def request_key(
    call: ModelCall,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> str:
    """Return the key of one question in an agent's loop."""
    return f"loop {_call_identity(call)} {request_hash(render_request(messages, settings, parameters))}"


def answer_to_json(answer: ModelAnswer) -> JsonObject:
    """Return an answer as it is kept; it holds no secret already."""
    return cast("JsonObject", _ANSWER.dump_python(answer, mode="json"))


def answer_from_json(kept: JsonObject) -> ModelAnswer:
    """Return a kept answer."""
    return _ANSWER.validate_python(kept)


def response_to_json(
    response: ModelResponse, parameters: ModelRequestParameters, redactor: Redactor
) -> JsonObject:
    """Return a response of a loop as it is kept, without secrets."""
    return record_answer(response, parameters, redactor).model_dump(
        mode="json", exclude_defaults=True
    )


def response_from_json(
    kept: JsonObject, parameters: ModelRequestParameters, name: str
) -> ModelResponse:
    """Return a kept response; `name` makes the ids of its calls."""
    return restore_answer(CassetteAnswer.model_validate(kept), parameters, name)


def _call_identity(call: ModelCall) -> str:
    place = "" if call.step is None else f"{call.step}[{'' if call.index is None else call.index}]"
    return f"{call.role} {call.name} {place}"


def choose_output_mode(endpoint: Endpoint, model: Model, schema: JsonSchema) -> OutputMode:
    """Return the most reliable way for a model, by its provider's profile."""
    if not is_object(schema):
        # Neither a tool's arguments nor a strict provider's output can be anything but an object.
        return "prompted"
    profile, provider = model.profile, endpoint.provider
    # Other servers with OpenAI's chat API may accept a schema and ignore it.
    is_strict = provider in _STRICT_PROVIDERS or (
        provider == "openai-chat" and not endpoint.is_foreign
    )
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
    """Return a schema whose open objects say that they are open: the libraries close those that say
    nothing.
    """
    if isinstance(schema, list):
        return [with_open_objects(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _with_open_keyword(key, value) for key, value in schema.items()}
    is_open = (
        schema.get("type") == "object"
        and not {"properties", "additionalProperties"} & schema.keys()
    )
    return {**inner, "additionalProperties": True} if is_open else inner


def _with_open_keyword(key: str, value: Json) -> Json:
    if key in {"properties", "$defs"} and isinstance(value, dict):
        return {name: with_open_objects(one) for name, one in value.items()}
    return value if key in {"default", "const", "enum", "examples"} else with_open_objects(value)


def _members(schema: Mapping[str, Json], key: str) -> list[Json]:
    members = schema.get(key)
    return list(members.values()) if isinstance(members, dict) else []


def structured_parameters(
    schema: JsonSchema, name: str, way: OutputMode, *, asked_schema: JsonSchema | None = None
) -> FormParameters:
    """Return how an answer of a form is asked for in one of the ways.

    Args:
        schema: What is sent.
        name: Of the form.
        way: How it is asked for.
        asked_schema: The form that the question is of, where it is another.
    """
    form = cast("dict[str, object]", with_open_objects(schema))
    asked = None if asked_schema is None else cast("JsonSchema", with_open_objects(asked_schema))
    if way == "tool":
        tool = ToolDefinition(
            name=name,
            description="Give the answer by calling this tool, once.",
            parameters_json_schema=form,
            kind="output",
        )
        return FormParameters(
            output_mode="tool", output_tools=[tool], allow_text_output=False, asked_schema=asked
        )
    wanted = OutputObjectDefinition(json_schema=form, name=name)
    return FormParameters(output_mode=way, output_object=wanted, asked_schema=asked)


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
    text = visible_text(response)
    return text if called or text.strip() else _form_among_thinking(response), others


def visible_text(response: ModelResponse) -> str:
    """Return the text of an answer, without its thinking."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    return text[end_of_thinking(text) :]


def thinking_text(response: ModelResponse) -> str:
    """Return what a model thought before it answered."""
    return "".join(part.content for part in response.parts if isinstance(part, ThinkingPart))


def _form_among_thinking(response: ModelResponse) -> str:
    """Return the thinking of an answer that is nothing else, where it is an object; else nothing.

    A server that tells thinking from answers by their marks takes an answer that is held to a form
    for thinking: the form leaves no room for the mark.
    """
    thought = thinking_text(response).strip()
    return "" if json_object(thought) is None else thought


def arguments_text(part: ToolCallPart) -> str:
    """Return a call's arguments as they came: not every provider sends text."""
    if isinstance(part.args, str):
        return part.args
    return json.dumps(part.args or {}, ensure_ascii=False)


class StreamRedactor:
    """Lets text through line by line, without its secrets and the thinking before it.

    By sentence, a line without secrets is let through up to the end of its last sentence.
    """

    def __init__(
        self, redact: Callable[[str], str], on_text: OnText, *, by_sentence: bool = False
    ) -> None:
        self._redact = redact
        self._on_text = on_text
        self._by_sentence = by_sentence
        self._held = ""
        self._thinking = ThinkingFilter()

    def add(self, text: str) -> None:
        """Add the next piece of text."""
        self._held += self._thinking.add(text)
        end = self._safe_end()
        if end:
            ready, self._held = self._held[:end], self._held[end:]
            self._on_text(self._redact(ready))

    def close(self) -> None:
        """Emit the rest."""
        self._held += self._thinking.close()
        if self._held:
            rest, self._held = self._held, ""
            self._on_text(self._redact(rest))

    def _safe_end(self) -> int:
        end = self._held.rfind("\n") + 1
        if not end and len(self._held) >= _MAX_TAIL_CHARS:
            # No secret on one line holds a space, so one that is cut here begins after it.
            end = self._held.rfind(" ") + 1
        if self._by_sentence:
            last = max(
                (found.end() for found in _SENTENCE_END.finditer(self._held, end)), default=end
            )
            if last > end and self._redact(self._held) == self._held:
                end = last
        # A text of several lines is emitted whole, its last line included.
        start = self._held.rfind(_BLOCK_START, 0, end)
        if start < 0 or _BLOCK_END.search(self._held, start, end):
            return end
        return start if len(self._held) - start < _MAX_BLOCK_CHARS else end


async def read_stream(
    stream: StreamedResponse,
    answer_tool: str | None,
    on_text: OnText | None,
    begun: Callable[[], None],
) -> tuple[ModelResponse, bool]:
    """Return a streamed answer, and whether it is whole: it says itself how it ended.

    What breaks after something was shown leaves what came; before that it is a fault.
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
            if isinstance(error, ContentFilterError):
                raise
            response = stream.get()
            # After it said how it ended, only what is said of its cost can have broken.
            if response.finish_reason is not None or has_text:
                return response, response.finish_reason is not None
            raise
        begun()
        text = _event_text(event, answer_tool, answering)
        if text and on_text is not None:
            has_text = True
            on_text(text)
    response = stream.get()
    return response, response.finish_reason is not None


def _event_text(
    event: ModelResponseStreamEvent, answer_tool: str | None, answering: set[int]
) -> str:
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
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(text))) if (
            index in answering
        ):
            return text
        case _:
            return ""


_KEPT_TOOL_CHARS = 1_000
"""Of what one tool has returned, where it has to be less."""


def with_less_of_tools(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return messages with half of what tools have returned, the longest cut first; none where
    there is nothing to cut.
    """
    lengths = {
        (at, place): len(part.model_response_str())
        for at, message in enumerate(messages)
        if isinstance(message, ModelRequest)
        for place, part in enumerate(message.parts)
        if isinstance(part, ToolReturnPart)
    }
    surplus = sum(lengths.values()) // 2
    shortened: list[ModelMessage] = list(messages)
    for (at, place), length in sorted(lengths.items(), key=lambda item: -item[1]):
        if surplus <= 0 or length <= _KEPT_TOOL_CHARS:
            break
        kept = max(_KEPT_TOOL_CHARS, length - surplus)
        surplus -= length - kept
        message = shortened[at]
        assert isinstance(message, ModelRequest)
        parts = list(message.parts)
        part = parts[place]
        assert isinstance(part, ToolReturnPart)
        left_out = f"\n[{length - kept:,} characters are left out: they are more than fits]"
        text = part.model_response_str()[:kept] + left_out
        parts[place] = ToolReturnPart(part.tool_name, text, part.tool_call_id)
        shortened[at] = replace(message, parts=parts)
    is_less = any(new is not old for new, old in zip(shortened, messages, strict=True))
    return shortened if is_less else []
