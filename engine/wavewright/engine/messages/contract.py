"""The message contract of a daemon: that of the pack which the setting `daemon.pack` names, else the neutral one."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from wavewright.config.settings import Settings
from wavewright.planner.types import JsonObject, as_object
from wavewright.tools.message_contract import MessageContract
from wavewright.tools.packs import PackError, load_pack

_Section = TypeVar("_Section", bound=BaseModel)


def message_contract(settings: Settings) -> MessageContract:
    """Return the message contract of the settings.

    Raises:
        PackError: `daemon.pack` names no pack that defines messages, or `daemon.role` none of its daemons.
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
    pack = load_pack(name, as_object(settings.packs.get(name)), settings.root)
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
    """Return settings whose sections `daemon` and `budgets` have the defaults of the contract where nothing is set.

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
    return settings


def _with_defaults(name: str, section: _Section, defaults: JsonObject, settings: Settings) -> _Section:
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
