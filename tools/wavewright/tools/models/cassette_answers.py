"""What a model answered, as it stands in a cassette, and back again.

A *recorded answer* is text, calls of tools and what they cost, in nobody's wire format: an answer that one provider
gave as the arguments of a tool can be given again where text is expected, and the other way round. Whatever was JSON
is kept as JSON, for people to read, and comes back letter for letter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, NoReturn, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_ai.messages import (
    FinishReason,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from wavewright.config.redaction import Redactor
from wavewright.planner.types import JsonObject
from wavewright.tools.models.cassette_requests import as_json, well_formed, without_occasion

_Text: TypeAlias = str | Annotated[tuple[str, ...], Field(strict=False)]
"""A text of several lines is a list of lines."""
_Style: TypeAlias = Literal["compact", "spaced", "indented by 1", "indented by 2", "indented by 4"]

_STYLES: Mapping[_Style, tuple[int | None, tuple[str, str]]] = {
    "compact": (None, (",", ":")),
    "spaced": (None, (", ", ": ")),
    "indented by 1": (1, (",", ": ")),
    "indented by 2": (2, (",", ": ")),
    "indented by 4": (4, (",", ": ")),
}
"""How programs write JSON: indentation, and what is between members and after names."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class RecordedUsage(_Model):
    """What the provider counted, believable or not."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class RecordedPart(_Model):
    """A piece of an answer: exactly one of `text`, `thinking`, `answer`, `call` and `other`."""

    text: _Text | None = None
    thinking: _Text | None = None
    answer: JsonObject | None = None
    """What was answered in the form that was asked for."""
    call: str | None = None
    """Name of a tool that was called; with `answer`, the name of the tool that takes the answer."""
    arguments: JsonObject | None = None
    arguments_as_written: _Text | None = None
    """Arguments that are no JSON object, or not one that could be written again as it was."""
    written: _Style | None = None
    """How the JSON of `answer` or `arguments` was written; absent where the provider gave no text."""
    other: JsonObject | None = None
    """What only one provider has."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> RecordedPart:
        given = [self.text, self.thinking, self.answer, self.other]
        if self.answer is None:
            given.append(self.call)
        if sum(one is not None for one in given) != 1:
            raise ValueError("a part is one of text, thinking, answer, call and other")
        return self


class RecordedAnswer(_Model):
    """An answer, whoever gave it."""

    model: str | None = None
    provider: str | None = None
    finish: FinishReason | None = None
    """Why it ended; absent where it did not say, as a stream that was cut."""
    usage: RecordedUsage = RecordedUsage()
    parts: Annotated[tuple[RecordedPart, ...], Field(strict=False)] = ()


def record_answer(
    response: ModelResponse, parameters: ModelRequestParameters, redactor: Redactor
) -> RecordedAnswer:
    """Return an answer for the cassette, without secrets."""
    usage = response.usage
    return RecordedAnswer(
        model=response.model_name,
        provider=response.provider_name,
        finish=response.finish_reason,
        usage=RecordedUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        ),
        parts=tuple(_record_part(part, parameters, redactor) for part in response.parts),
    )


def restore_answer(answer: RecordedAnswer, parameters: ModelRequestParameters, name: str) -> ModelResponse:
    """Return an answer as the model would give it; `name` makes the ids of its calls."""
    return ModelResponse(
        parts=list(_restore_parts(answer, parameters, name)),
        usage=RequestUsage(
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            cache_read_tokens=answer.usage.cache_read_tokens,
            cache_write_tokens=answer.usage.cache_write_tokens,
        ),
        model_name=answer.model,
        provider_name=answer.provider,
        finish_reason=answer.finish,
    )


def _record_part(
    part: ModelResponsePart, parameters: ModelRequestParameters, redactor: Redactor
) -> RecordedPart:
    match part:
        case TextPart(content=text):
            found = _styled(text, redactor) if parameters.output_object is not None else None
            if found is not None:
                return RecordedPart(answer=found[0], written=found[1])
            return RecordedPart(text=_lines(redactor.redact(text)))
        case ThinkingPart(content=text):
            return RecordedPart(thinking=_lines(redactor.redact(text)))
        case ToolCallPart():
            return _record_call(part, {tool.name for tool in parameters.output_tools}, redactor)
        case _:
            return RecordedPart(other=cast("JsonObject", redactor.redact_json(without_occasion(part))))


def _record_call(part: ToolCallPart, answers: set[str], redactor: Redactor) -> RecordedPart:
    written: _Style | None = None
    if part.args is None:
        return RecordedPart(call=part.tool_name)
    if isinstance(part.args, str):
        found = _styled(part.args, redactor)
        if found is None:
            as_written = _lines(redactor.redact(part.args))
            return RecordedPart(call=part.tool_name, arguments_as_written=as_written)
        arguments, written = found
    else:
        arguments = cast("JsonObject", redactor.redact_json(as_json(part.args)))
    if part.tool_name in answers:
        return RecordedPart(answer=arguments, call=part.tool_name, written=written)
    return RecordedPart(call=part.tool_name, arguments=arguments, written=written)


def _restore_parts(
    answer: RecordedAnswer, parameters: ModelRequestParameters, name: str
) -> Iterator[ModelResponsePart]:
    tools = [tool.name for tool in parameters.output_tools]
    for number, part in enumerate(answer.parts, start=1):
        call_id = f"call_{name}_{number}"
        if part.answer is not None and not tools:
            yield TextPart(_written(part.answer, part.written or "spaced"))
        elif part.answer is not None:
            tool = part.call if part.call in tools else tools[0]
            yield ToolCallPart(tool, _as_given(part.answer, part.written), call_id)
        elif part.call is not None:
            yield ToolCallPart(part.call, _arguments(part), call_id)
        elif part.text is not None:
            yield TextPart(_text(part.text))
        elif part.thinking is not None:
            yield ThinkingPart(_text(part.thinking))
        else:
            yield _restore_other(cast("JsonObject", part.other))


def _restore_other(part: JsonObject) -> ModelResponsePart:
    (message,) = ModelMessagesTypeAdapter.validate_python([{"kind": "response", "parts": [part]}])
    return cast("ModelResponse", message).parts[0]


def _arguments(part: RecordedPart) -> str | JsonObject | None:
    if part.arguments_as_written is not None:
        return _text(part.arguments_as_written)
    return None if part.arguments is None else _as_given(part.arguments, part.written)


def _as_given(value: JsonObject, style: _Style | None) -> str | JsonObject:
    return value if style is None else _written(value, style)


def _styled(text: str, redactor: Redactor) -> tuple[JsonObject, _Style] | None:
    """Return the JSON object that a text is, and its style; nothing where writing it again gives another text."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    found = cast("JsonObject", value)
    for style in _STYLES:
        if _written(found, style) == text:
            return cast("JsonObject", redactor.redact_json(found)), style
    return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _written(value: JsonObject, style: _Style) -> str:
    indent, separators = _STYLES[style]
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def _lines(text: str) -> _Text:
    text = well_formed(text)
    return tuple(text.split("\n")) if "\n" in text else text


def _text(lines: _Text) -> str:
    return lines if isinstance(lines, str) else "\n".join(lines)
