"""Answers of models as a cassette holds them."""

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
from wavewright.config.value_types import Texts
from wavewright.planner import Json, JsonObject
from wavewright.tools.models.cassette.requests import (
    as_json,
    well_formed,
    without_volatile_fields,
)

_Text: TypeAlias = str | Texts
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


class StrictModel(BaseModel):
    """Part of a cassette: unknown fields are refused, and no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class CassetteUsage(StrictModel, from_attributes=True):
    """What the provider counted, believable or not."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class CassettePart(StrictModel):
    """A piece of an answer: words, thoughts, the answer in the form that was asked for, or a call
    of a tool.
    """

    text: _Text | None = None
    thinking: _Text | None = None
    answer: JsonObject | None = None
    """What was answered in the form that was asked for."""
    answer_as_written: _Text | None = None
    """The same, where it is no JSON object, or not one that could be written again as it was."""
    call: str | None = None
    """Name of a tool that was called; beside an answer, the name of the tool that took it."""
    arguments: JsonObject | None = None
    arguments_as_written: _Text | None = None
    written: _Style | None = None
    """How the JSON of `answer` or `arguments` was written; absent where the provider gave no text.
    """
    other: JsonObject | None = None
    """Fields that only one provider has."""

    @property
    def is_answer(self) -> bool:
        """Whether it is in the form that was asked for."""
        return self.answer is not None or self.answer_as_written is not None

    @model_validator(mode="after")
    def _is_one_thing(self) -> CassettePart:
        given = [self.text, self.thinking, self.answer, self.answer_as_written, self.other]
        if not self.is_answer:
            given.append(self.call)
        if sum(one is not None for one in given) != 1:
            raise ValueError("a part is one of text, thinking, answer, call and other")
        return self


class CassetteAnswer(StrictModel):
    """An answer, independent of its provider."""

    model: str | None = None
    provider: str | None = None
    finish: FinishReason | None = None
    """Why it ended; absent where the provider did not say, as in a stream that was cut."""
    usage: CassetteUsage = CassetteUsage()
    parts: Annotated[tuple[CassettePart, ...], Field(strict=False)] = ()


def record_answer(
    response: ModelResponse, parameters: ModelRequestParameters, redactor: Redactor
) -> CassetteAnswer:
    """Return an answer for the cassette, without secrets."""
    return CassetteAnswer(
        model=response.model_name,
        provider=response.provider_name,
        finish=response.finish_reason,
        usage=CassetteUsage.model_validate(response.usage),
        parts=tuple(_record_part(part, parameters, redactor) for part in response.parts),
    )


def restore_answer(
    answer: CassetteAnswer, parameters: ModelRequestParameters, name: str
) -> ModelResponse:
    """Return an answer as the model would give it; `name` makes the ids of its calls."""
    return ModelResponse(
        parts=list(_restore_parts(answer, parameters, name)),
        usage=RequestUsage(**answer.usage.model_dump()),
        model_name=answer.model,
        provider_name=answer.provider,
        finish_reason=answer.finish,
    )


def _record_part(
    part: ModelResponsePart, parameters: ModelRequestParameters, redactor: Redactor
) -> CassettePart:
    match part:
        case TextPart(content=text) if (
            parameters.output_object is not None and json_object(text) is not None
        ):
            return _record_answer(text, None, redactor)
        case TextPart(content=text):
            return CassettePart(text=_lines(redactor.redact(text)))
        case ThinkingPart(content=text):
            return CassettePart(thinking=_lines(redactor.redact(text)))
        case ToolCallPart(args=args) if part.tool_name in {
            tool.name for tool in parameters.output_tools
        }:
            return _record_answer(
                args if isinstance(args, str) else as_json(args or {}), part.tool_name, redactor
            )
        case ToolCallPart(tool_name=name, args=None):
            return CassettePart(call=name)
        case ToolCallPart(tool_name=name, args=args):
            value, style, raw = _split_json(
                args if isinstance(args, str) else as_json(args), redactor
            )
            return CassettePart(call=name, arguments=value, written=style, arguments_as_written=raw)
        case _:
            return CassettePart(
                other=cast("JsonObject", redactor.redact_json(without_volatile_fields(part)))
            )


def _record_answer(answer: str | Json, tool: str | None, redactor: Redactor) -> CassettePart:
    value, style, text = _split_json(answer, redactor)
    return CassettePart(answer=value, written=style, answer_as_written=text, call=tool)


def _split_json(
    given: str | Json, redactor: Redactor
) -> tuple[JsonObject | None, _Style | None, _Text | None]:
    """Return JSON and how it was written, or else a text, without secrets."""
    if not isinstance(given, str):
        return cast("JsonObject", redactor.redact_json(given)), None, None
    value = json_object(given)
    if value is not None:
        for style in _STYLES:
            if _json_text(value, style) == given:
                return cast("JsonObject", redactor.redact_json(value)), style, None
    return None, None, _lines(redactor.redact(given))


def _restore_parts(
    answer: CassetteAnswer, parameters: ModelRequestParameters, name: str
) -> Iterator[ModelResponsePart]:
    tools = [tool.name for tool in parameters.output_tools]
    for number, part in enumerate(answer.parts, start=1):
        call_id = f"call_{name}_{number}"
        if part.is_answer and tools:
            tool = part.call if part.call in tools else tools[0]
            yield ToolCallPart(
                tool, _join_json(part.answer, part.written, part.answer_as_written), call_id
            )
        elif part.is_answer:
            text = _join_json(part.answer, part.written or "spaced", part.answer_as_written)
            yield TextPart(cast("str", text))
        elif part.call is not None:
            yield ToolCallPart(
                part.call,
                _join_json(part.arguments, part.written, part.arguments_as_written),
                call_id,
            )
        elif part.text is not None:
            yield TextPart(_text(part.text))
        elif part.thinking is not None:
            yield ThinkingPart(_text(part.thinking))
        else:
            yield _restore_other(cast("JsonObject", part.other))


def _restore_other(part: JsonObject) -> ModelResponsePart:
    (message,) = ModelMessagesTypeAdapter.validate_python([{"kind": "response", "parts": [part]}])
    return cast("ModelResponse", message).parts[0]


def _join_json(
    value: JsonObject | None, style: _Style | None, as_written: _Text | None
) -> str | JsonObject | None:
    if as_written is not None:
        return _text(as_written)
    return value if value is None or style is None else _json_text(value, style)


def json_object(text: str) -> JsonObject | None:
    """Return the object that a text is in JSON; None where it is anything else."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _json_text(value: JsonObject, style: _Style) -> str:
    indent, separators = _STYLES[style]
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def _lines(text: str) -> _Text:
    text = well_formed(text)
    return tuple(text.split("\n")) if "\n" in text else text


def _text(lines: _Text) -> str:
    return lines if isinstance(lines, str) else "\n".join(lines)
