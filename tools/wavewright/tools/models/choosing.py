"""Which model is asked: the environment's, the role's, the goal's or the default one, in that order.

A *preference* is a word of a goal or a worker (`flash`, `sonnet`, `auto`) or a whole model name. Choosing asks nobody
and imports no provider's library.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

import wavewright.config
from wavewright.config.model_settings import RoleName, ThinkingName
from wavewright.config.settings import Settings
from wavewright.planner.model_port import ModelChoice, Role
from wavewright.tools.models.endpoints import ModelConfigError, find_endpoint, is_reachable, split_model

DEFAULT_PREFERENCE = "default"
"""In the shipped map: the default model."""

Thinking = Literal["minimal", "low", "medium", "high", "xhigh", "max", "off"]


class _ShippedModels(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    preferences: dict[str, str]
    thinking: dict[ThinkingName, Thinking]


@cache
def shipped_models() -> _ShippedModels:
    """Return the shipped maps of preferences and thinking levels."""
    from wavewright.config.documents import read_document_file

    folder = Path(next(iter(wavewright.config.__path__)))
    return _ShippedModels.model_validate(read_document_file(folder / "models.yaml").value)


def model_configured(settings: Settings) -> bool:
    """Tell whether there is a model to ask at all."""
    return settings.model is not None


def choose_model(
    settings: Settings, preference: str, role: Role, environment: Mapping[str, str]
) -> ModelChoice:
    """Return the model that a role would ask, which models stand in for it, and why that one.

    Raises:
        ModelConfigError: no model is configured, the preference names none, or the chosen one has no key.
    """
    if settings.model is None:
        raise ModelConfigError("no model is configured", "set WAVEWRIGHT_MODEL to PROVIDER:NAME")
    if settings.model_is_forced:
        return _checked_choice(
            ModelChoice(settings.model, "WAVEWRIGHT_MODEL names it"), settings, environment
        )
    wanted = settings.models.roles.get(role)
    if wanted is not None:
        model, why = _named_model(wanted, settings, environment, settings.model)
        why = f"models.roles gives {role} {wanted!r}" + (f", {why}" if why else "")
    else:
        model, why = _named_model(preference, settings, environment, settings.model)
        why = why or f"{preference!r} is a model's name"
    fallbacks = tuple(one for one in settings.models.fallbacks if one != model)
    return _checked_choice(ModelChoice(model, why, fallbacks), settings, environment)


def preference_words(settings: Settings) -> tuple[str, ...]:
    """Return the words that a goal or a worker may prefer a model by, in order."""
    return tuple(sorted({*shipped_models().preferences, *settings.models.preferences}))


def thinking_level(settings: Settings, level: ThinkingName) -> Thinking:
    """Return what a provider is told for a goal's thinking level.

    Raises:
        ModelConfigError: the settings map it to something unknown.
    """
    told = settings.models.thinking.get(level)
    if told is None:
        return shipped_models().thinking.get(level, "medium")
    known: tuple[Thinking, ...] = ("minimal", "low", "medium", "high", "xhigh", "max", "off")
    for one in known:
        if told == one:
            return one
    raise ModelConfigError(f"models.thinking.{level} is {told!r}", f"it should be one of {', '.join(known)}")


def configured_models(settings: Settings) -> tuple[str, ...]:
    """Return the models that are sure to be needed: the default one, and those of roles and fallbacks."""
    if settings.model is None:
        return ()
    if settings.model_is_forced:
        return (settings.model,)
    words = {**shipped_models().preferences, **settings.models.preferences}
    of_roles = (word for word in settings.models.roles.values() if word not in words)
    return tuple(dict.fromkeys((settings.model, *of_roles, *settings.models.fallbacks)))


def _named_model(
    word: str, settings: Settings, environment: Mapping[str, str], default: str
) -> tuple[str, str]:
    """Return the model of a preference, and why; no reason where it is a model's name itself."""
    own = settings.models.preferences.get(word)
    if own is not None:
        return (default if own == DEFAULT_PREFERENCE else own), f"models.preferences says so of {word!r}"
    if ":" in word:
        return word, ""
    shipped = shipped_models().preferences.get(word)
    if shipped is None:
        raise ModelConfigError(
            f"{word!r} is no model preference",
            f"use one of {', '.join(preference_words(settings))}, or a model's name as PROVIDER:NAME",
        )
    if shipped == DEFAULT_PREFERENCE:
        return default, "it is the default model"
    if is_reachable(shipped, settings, environment):
        return shipped, f"{word!r} stands for it"
    return default, f"it is the default model: {word!r} stands for {shipped}, and there is no key for that"


def _checked_choice(choice: ModelChoice, settings: Settings, environment: Mapping[str, str]) -> ModelChoice:
    for model in (choice.model, *choice.fallbacks):
        find_endpoint(model, settings, environment)
    return choice


def check_names(settings: Settings) -> None:
    """Raise ModelConfigError for the first wrong name in the settings, used or not, and say where it stands."""
    places = {f"models.preferences.{word}": model for word, model in settings.models.preferences.items()}
    roles: dict[RoleName, str] = settings.models.roles
    words = {**shipped_models().preferences, **settings.models.preferences}
    places |= {f"models.roles.{role}": model for role, model in roles.items() if model not in words}
    places |= {f"models.fallbacks[{at}]": model for at, model in enumerate(settings.models.fallbacks)}
    for place, model in places.items():
        if model == DEFAULT_PREFERENCE:
            continue
        try:
            split_model(model)
        except ModelConfigError as error:
            raise ModelConfigError(f"{place}: {error}", error.hint or "") from None
