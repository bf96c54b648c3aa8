r"""Keep the answers of models for a run, and clean what is sent to them.

Equal questions of one step have equal keys. Timeouts, models and budgets are no part of a key, so a resumed run uses
its kept answers although its settings have changed.

A *lone surrogate* (`\ud83d` without its other half) is valid in JSON and cannot be encoded as UTF-8; it is sent as a
question mark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from wavewright.config.redaction import Redactor
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.ports.model_port import LoopTool, ModelAnswer, ModelCall
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.models.cassette.recorded_answers import CassetteAnswer, record_answer, restore_answer
from wavewright.tools.models.cassette.requests import render_request, request_hash


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
    schemas: list[Json] = [] if call.schema is None else [call.schema]
    for tool in tools:
        pieces += [tool.name, tool.description]
        schemas.append(tool.input_schema)
    pieces += [json.dumps(one, ensure_ascii=False) for one in schemas]
    return "\n".join(pieces)


_ANSWER = TypeAdapter(ModelAnswer)


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
    return f"ask {_call_identity(call)} {_digest(asked)}"


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
    return cast("JsonObject", json.loads(json.dumps(asdict(answer))))


def answer_from_json(kept: JsonObject) -> ModelAnswer:
    """Return a kept answer."""
    return _ANSWER.validate_json(json.dumps(kept))


def response_to_json(
    response: ModelResponse, parameters: ModelRequestParameters, redactor: Redactor
) -> JsonObject:
    """Return a response of a loop as it is kept, without secrets."""
    return record_answer(response, parameters, redactor).model_dump(mode="json", exclude_defaults=True)


def response_from_json(kept: JsonObject, parameters: ModelRequestParameters, name: str) -> ModelResponse:
    """Return a kept response; `name` makes the ids of its calls."""
    return restore_answer(CassetteAnswer.model_validate(kept), parameters, name)


def _call_identity(call: ModelCall) -> str:
    place = "" if call.step is None else f"{call.step}[{'' if call.index is None else call.index}]"
    return f"{call.role} {call.name} {place}"


def _digest(value: Json) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
