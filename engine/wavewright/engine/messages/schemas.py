"""The JSON Schema of messages, for those who write the other end.

One schema holds the envelope and, by its message type, every payload. It is made from the models that read and write
messages, so it says what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wavewright.config.published_schemas import published_schema
from wavewright.engine.messages.models import REPORTS, REQUESTS, VERSION, Envelope

if TYPE_CHECKING:
    from wavewright.engine.messages.models import WireModel
    from wavewright.planner.types import Json, JsonObject


def message_schema() -> JsonObject:
    """Return the published JSON Schema of messages."""
    payloads: list[tuple[str, Sequence[type[WireModel]]]] = [
        *REQUESTS.items(),
        *((kind, (model,)) for kind, model in REPORTS.items()),
    ]
    definitions: JsonObject = {}
    for model in (model for _, models in payloads for model in models):
        _define(model, definitions)
    schema = published_schema(Envelope, "message", "A message of wavewright's daemon", version=VERSION)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    kinds: list[Json] = [kind for kind, _ in payloads]
    properties["message_type"] = {"enum": kinds, "description": "What the payload is."}
    branches: list[Json] = [_branch(kind, models) for kind, models in payloads]
    return {**schema, "allOf": branches, "$defs": definitions}


def _define(model: type[WireModel], definitions: JsonObject) -> None:
    published = published_schema(model, "message", model.__name__)
    inner = published.pop("$defs", {})
    assert isinstance(inner, dict)
    definitions |= inner
    definitions[model.__name__] = {
        name: value for name, value in published.items() if name not in {"$schema", "$id"}
    }


def _branch(kind: str, models: Sequence[type[WireModel]]) -> JsonObject:
    references: list[Json] = [{"$ref": f"#/$defs/{model.__name__}"} for model in models]
    condition: JsonObject = {"properties": {"message_type": {"const": kind}}, "required": ["message_type"]}
    consequence: JsonObject = {"properties": {"payload": {"anyOf": references}}}
    return {"if": condition, "then": consequence}
