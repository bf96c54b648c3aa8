"""The message contract of a daemon, and the JSON Schema of its messages, for those who write the
other end.

The contract is that of the pack which the setting `daemon.pack` names, else the neutral one. One
schema holds the envelope and, by its message type, every payload. It is made from the models that
read and write messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError

from wavewright.config import Settings
from wavewright.config.published_schemas import published_schema
from wavewright.engine.service.messages.delivery import request_forms
from wavewright.engine.service.messages.models import (
    GOAL_FORM,
    REPORTS,
    REQUESTS,
    VERSION,
    CorrelatedValidationResult,
    Envelope,
    JobStatusUpdate,
)
from wavewright.planner import Json, JsonObject, as_object
from wavewright.tools import MessageContract, PackError, Payload, load_pack
from wavewright.tools.message_contract import JobStatus

_Section = TypeVar("_Section", bound=BaseModel)


def message_contract(settings: Settings) -> MessageContract:
    """Return the message contract of the settings.

    Raises:
        PackError: `daemon.pack` names no pack that defines messages, or `daemon.role` none of its
            daemons.
    """
    name, role = settings.daemon.pack, settings.daemon.role
    if name is None and role is None:
        return MessageContract()
    if name is None:
        raise PackError(
            f"daemon.role: {role!r} is the role of no daemon, for no pack is named",
            hint="name a pack in daemon.pack, or leave the role out",
            place=str(settings.file),
        )
    try:
        pack = load_pack(name, as_object(settings.packs.get(name)), settings.root)
    except PackError as error:
        place = error.place or str(settings.file)
        raise PackError(f"daemon.pack: {error.message}", hint=error.hint, place=place) from error
    if pack.messages is None:
        raise PackError(
            f"daemon.pack: pack {name!r} defines no messages",
            hint="name a pack with a message contract, or leave the setting out",
            place=str(settings.file),
        )
    if role is None:
        return pack.messages
    if role not in pack.messages.roles:
        raise PackError(
            f"daemon.role: pack {name!r} has no daemon with the role {role!r}",
            hint=f"roles: {', '.join(sorted(pack.messages.roles)) or 'none'}",
            place=str(settings.file),
        )
    return pack.messages.roles[role]


def with_contract_defaults(settings: Settings) -> Settings:
    """Return settings whose model and sections `daemon` and `budgets` have the defaults of the
    contract where nothing is set.

    Raises:
        PackError: as `message_contract`; or a default is invalid.
    """
    contract = message_contract(settings)
    if contract.daemon:
        section = _with_defaults("daemon", settings.daemon, contract.daemon, settings)
        settings = replace(settings, daemon=section)
    if contract.budgets:
        budgets = _with_defaults("budgets", settings.budgets, contract.budgets, settings)
        settings = replace(settings, budgets=budgets)
    if contract.model is not None and settings.model is None:
        settings = replace(settings, model=contract.model)
    return settings


def _with_defaults(
    name: str, section: _Section, defaults: JsonObject, settings: Settings
) -> _Section:
    stated: JsonObject = section.model_dump(exclude_unset=True)
    try:
        return type(section).model_validate(_merged(defaults, stated))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join([name, *map(str, fault["loc"])])
        raise PackError(
            f"pack {settings.daemon.pack!r} has an invalid default of {place}: {fault['msg']}",
            hint="install a version of the pack that fits, or set the value in wavewright.yaml",
        ) from error


def _merged(defaults: JsonObject, stated: JsonObject) -> JsonObject:
    """Return the defaults with what is stated in their place; objects are merged member by member."""
    merged = {**defaults, **stated}
    for name in defaults.keys() & stated.keys():
        default, own = defaults[name], stated[name]
        if isinstance(default, dict) and isinstance(own, dict):
            merged[name] = _merged(default, own)
    return merged


def payloads_of(contract: MessageContract) -> tuple[type[Payload], ...]:
    """Return the payloads of a daemon with this contract: those that it reads, then those that it
    sends.
    """
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
    schema = published_schema(
        Envelope, "message", "A message of wavewright's daemon", version=VERSION
    )
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
    condition: JsonObject = {
        "properties": {"message_type": {"const": kind}},
        "required": ["message_type"],
    }
    consequence: JsonObject = {"properties": {"payload": {"anyOf": references}}}
    return {"if": condition, "then": consequence}
