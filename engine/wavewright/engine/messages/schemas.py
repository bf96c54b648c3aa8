"""The JSON Schema of messages, for those who write the other end.

One schema holds the envelope and, by its message type, every payload. It is made from the models that read and write
messages, so it says what they say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from wavewright.config.published_schemas import published_schema
from wavewright.engine.messages.models import (
    GOAL_FORM,
    REPORTS,
    REQUESTS,
    VERSION,
    CorrelatedValidationResult,
    Envelope,
    JobStatusUpdate,
)
from wavewright.engine.messages.rules import request_forms
from wavewright.tools.message_contract import JobStatus, MessageContract, Payload

if TYPE_CHECKING:
    from wavewright.planner.types import Json, JsonObject


def payloads_of(contract: MessageContract) -> tuple[type[Payload], ...]:
    """Return the payloads of a daemon with this contract: those that it reads, then those that it sends."""
    forms = (form.payload for form in request_forms(contract).values())
    neutral = (model for model in REQUESTS if model is not GOAL_FORM.payload)
    return (*neutral, *forms, *REPORTS, *(form.payload for form in contract.packages))


def message_schema(contract: MessageContract) -> JsonObject:
    """Return the published JSON Schema of messages."""
    by_type = defaultdict[str, list[type[Payload]]](list)
    definitions: JsonObject = {}
    for model in payloads_of(contract):
        by_type[model.message_type].append(model)
        _define(model, definitions)
    _add_names(definitions[JobStatusUpdate.__name__], contract)
    _rename_target(definitions[CorrelatedValidationResult.__name__], contract)
    schema = published_schema(Envelope, "message", "A message of wavewright's daemon", version=VERSION)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    kinds: list[Json] = [*by_type]
    properties["message_type"] = {"enum": kinds, "description": "What the payload is."}
    branches: list[Json] = [_branch(kind, models) for kind, models in by_type.items()]
    return {**schema, "allOf": branches, "$defs": definitions}


def _add_names(status: Json, contract: MessageContract) -> None:
    """Add the contract's names of statuses and fields to the schema of `job_status`."""
    assert isinstance(status, dict)
    properties = status["properties"]
    assert isinstance(properties, dict)
    properties |= {own: properties[neutral] for neutral, own in contract.fields.items()}
    properties["status"] = {"enum": [*get_args(JobStatus), *contract.statuses.values()]}


def _rename_target(verdict: Json, contract: MessageContract) -> None:
    """Give the target of a verdict without ids the contract's name."""
    assert isinstance(verdict, dict)
    properties, required = verdict["properties"], verdict["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    own = contract.fields.get("target", "target")
    properties[own] = properties.pop("target")
    verdict["required"] = [own if name == "target" else name for name in required]


def _define(model: type[Payload], definitions: JsonObject) -> None:
    published = published_schema(model, "message", model.__name__)
    inner = published.pop("$defs", {})
    assert isinstance(inner, dict)
    definitions |= inner
    definitions[model.__name__] = {
        name: value for name, value in published.items() if name not in {"$schema", "$id"}
    }


def _branch(kind: str, models: Sequence[type[Payload]]) -> JsonObject:
    references: list[Json] = [{"$ref": f"#/$defs/{model.__name__}"} for model in models]
    condition: JsonObject = {"properties": {"message_type": {"const": kind}}, "required": ["message_type"]}
    consequence: JsonObject = {"properties": {"payload": {"anyOf": references}}}
    return {"if": condition, "then": consequence}
