"""Answers of models as a run keeps them, and the keys that they are kept under.

Equal questions of one step have equal keys; clocks, models and budgets are no part of them, so that a run goes on with
what it was told although its settings have changed since.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import cast

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from wavewright.config.redaction import Redactor
from wavewright.planner.model_port import ModelAnswer, ModelCall
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.models.cassette_answers import CassetteAnswer, record_answer, restore_answer
from wavewright.tools.models.cassette_requests import render_request, request_hash

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
