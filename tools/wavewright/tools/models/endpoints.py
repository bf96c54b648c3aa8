"""Choose a model, and find its address and its key.

An *endpoint* is a provider's address with the key that belongs to it. A key is never sent to
another address.

A *preference* is a word of a goal or a worker (`flash`, `sonnet`, `auto`) or a full model name. The
environment comes first, then the role, the goal and the default. Choosing makes no request and
imports no provider's library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal, cast, get_args
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict

import wavewright.config
from wavewright.config import Settings, did_you_mean, install_hint, is_installed, read_document_file
from wavewright.config.installation import EXTRAS
from wavewright.config.sections import RoleName, ThinkingName
from wavewright.planner.ports.model_port import ModelChoice, ModelError, Role


class ModelConfigError(ModelError):
    """The configuration of a model is wrong; the message names the fault, the hint the fix."""

    def __init__(self, message: str, hint: str | None) -> None:
        super().__init__("denied", message, hint=hint)


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models, with the variables that its own library reads too."""

    keys: tuple[str, ...]
    """Variables that may hold its key, the first that is set counts."""
    url_variable: str
    needs_key: bool = True
    default_url: str | None = None
    """The default address; None for that of the provider's library."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        ("OPENAI_API_KEY",), "OPENAI_BASE_URL", default_url="https://api.openai.com/v1"
    ),
    "openai-chat": Provider(
        ("OPENAI_API_KEY",), "OPENAI_BASE_URL", default_url="https://api.openai.com/v1"
    ),
    "anthropic": Provider(
        ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", default_url="https://api.anthropic.com"
    ),
    "google": Provider(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "GOOGLE_GEMINI_BASE_URL"),
    "ollama": Provider(("OLLAMA_API_KEY",), "OLLAMA_BASE_URL", False, "http://localhost:11434/v1"),
    "vllm": Provider(("VLLM_API_KEY",), "VLLM_BASE_URL", False, "http://localhost:8000/v1"),
    "llamacpp": Provider(
        ("LLAMACPP_API_KEY",), "LLAMACPP_BASE_URL", False, "http://localhost:8080/v1"
    ),
    "lmstudio": Provider(
        ("LMSTUDIO_API_KEY",), "LMSTUDIO_BASE_URL", False, "http://localhost:1234/v1"
    ),
}

SELF_HOSTED: Final = frozenset(name for name, known in PROVIDERS.items() if not known.needs_key)
"""Providers whose servers users run themselves."""

PROBE_NAME: Final = "wavewright_probe"
"""The name of the form that is asked for to find out whether a server holds its model to forms."""
PROBE_WORD: Final = "quokka"
"""What a server answers then that does; no model would name it unasked."""

NO_KEY = "no-key-needed"
"""Sent in place of a key where none is needed, because the libraries require one."""

_FAMILIES = {
    "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "chatgpt": "openai",
    "claude": "anthropic", "gemini": "google", "gemma": "ollama", "llama": "ollama", "qwen": "ollama",
}  # fmt: skip
_FORMER_NAMES = {
    "google-gla": "google", "google-vertex": "google", "gemini": "google", "vertexai": "google",
    "openai-responses": "openai", "claude": "anthropic", "gpt": "openai",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one model is asked."""

    provider: str
    name: str
    """The model's name at its provider."""
    url: str | None
    """Address; the library's own where absent."""
    key: str = field(repr=False)
    is_foreign: bool = False
    """Whether the address comes from the user; it may be any server that implements the provider's
    API.
    """

    @property
    def is_compatible(self) -> bool:
        """Whether it is a server of OpenAI's chat API that is not OpenAI's: what it can do, and how
        fast, must be found out.
        """
        return self.provider in SELF_HOSTED or (self.provider == "openai-chat" and self.is_foreign)

    @property
    def is_self_hosted(self) -> bool:
        """Whether it is a server that users run themselves: slow ones are waited for."""
        is_near = self.url is not None and _is_private_host(urlsplit(self.url).hostname or "")
        return self.provider in SELF_HOSTED or (self.is_compatible and is_near)

    @property
    def shown_address(self) -> str | None:
        """The address without what may be a password, where it is not the provider's own."""
        if self.url is None or not (self.is_foreign or self.is_compatible):
            return None
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _is_private_host(host: str) -> bool:
    """Tell whether a host is this machine or one of the same network."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith((".local", ".internal", ".localhost"))


def split_model(model: str) -> tuple[str, str]:
    """Return provider and name of `provider:name`.

    Raises:
        ModelConfigError: it has another form, or the provider is unknown.
    """
    provider, colon, name = model.partition(":")
    if not colon:
        raise ModelConfigError(
            f"{model!r} is no model name: the provider is missing", _correction_hint(model)
        )
    if provider in PROVIDERS and name:
        return provider, name
    if provider in PROVIDERS:
        raise ModelConfigError(f"{model!r} names no model of {provider}", f"write {provider}:NAME")
    former = _FORMER_NAMES.get(provider)
    known = ", ".join(PROVIDERS)
    hint = (
        f"did you mean {former}:{name}?"
        if former and name
        else f"known providers are {known}; for any other with an OpenAI-compatible endpoint write "
        f"openai-chat:{name or 'NAME'} and set WAVEWRIGHT_BASE_URL"
    )
    raise ModelConfigError(f"{model!r} names an unknown provider, {provider!r}", hint)


def find_endpoint(model: str, settings: Settings, environment: Mapping[str, str]) -> Endpoint:
    """Return where a model is asked, and with which key.

    Raises:
        ModelConfigError: its name is wrong, the key that it needs is in no variable, or its library
            is not installed.
    """
    provider, name = split_model(model)
    if provider in EXTRAS and not is_installed(provider):
        raise ModelConfigError(
            f"{model!r} needs the extra {provider!r}, which is not installed",
            install_hint(provider),
        )
    own_url = _configured_url(provider, settings)
    if own_url is not None:
        if not own_url.strip().startswith(("http://", "https://")):
            # Not quoted: an address may hold a password.
            raise ModelConfigError(
                "the base URL is no address: it begins with neither http:// nor https://",
                "set WAVEWRIGHT_BASE_URL, or models.base_url in wavewright.yaml, to a whole address",
            )
        return Endpoint(
            provider, name, _library_url(own_url, provider), settings.api_key or NO_KEY, True
        )
    known = PROVIDERS[provider]
    key = _provider_key(provider, settings, environment)
    if key is None and known.needs_key and not is_replaying(settings):
        raise _missing_key_error(model, provider, known)
    url = environment.get(known.url_variable, "").strip() or known.default_url
    is_foreign = url != known.default_url
    return Endpoint(
        provider,
        name,
        None if url is None else _library_url(url, provider),
        key or NO_KEY,
        is_foreign,
    )


def is_reachable(model: str, settings: Settings, environment: Mapping[str, str]) -> bool:
    """Tell whether there is a key for a model, or it needs none."""
    try:
        endpoint = find_endpoint(model, settings, environment)
    except ModelConfigError:
        return False
    return (
        endpoint.key != NO_KEY or endpoint.is_foreign or not PROVIDERS[endpoint.provider].needs_key
    )


def is_replaying(settings: Settings) -> bool:
    """Tell whether every answer comes from a file, so that no model is called and no key is needed."""
    return settings.cassette is not None and settings.cassette_mode == "replay"


def _configured_url(provider: str, settings: Settings) -> str | None:
    """Return the user's own address for a provider.

    The one in the settings file is for `openai-chat`; the one of the environment is for the
    provider of the default model, so that it never takes along another provider's models.
    """
    default = settings.model.partition(":")[0] if settings.model else ""
    is_from_environment = settings.base_url != settings.models.base_url
    if provider == default and (is_from_environment or provider == "openai-chat"):
        return settings.base_url
    return settings.models.base_url if provider == "openai-chat" else None


def _provider_key(provider: str, settings: Settings, environment: Mapping[str, str]) -> str | None:
    default = settings.model.partition(":")[0] if settings.model else ""
    # The key for an address of the user is not the provider's.
    if settings.api_key and settings.base_url is None and provider == default:
        return settings.api_key
    return next(
        (key for name in PROVIDERS[provider].keys if (key := environment.get(name, "").strip())),
        None,
    )


def _library_url(url: str, provider: str) -> str:
    """Return an address as the provider's library wants it: Anthropic's adds the version itself, and
    all add what is asked for there.
    """
    bare = url.strip().rstrip("/").removesuffix("/chat/completions")
    return bare.removesuffix("/v1") if provider == "anthropic" else bare


def _missing_key_error(model: str, provider: str, known: Provider) -> ModelConfigError:
    names = " or ".join(known.keys)
    other = "WAVEWRIGHT_API_KEY"
    if provider == "openai-chat":
        other = "WAVEWRIGHT_BASE_URL to an OpenAI-compatible endpoint (and WAVEWRIGHT_API_KEY if it wants a key)"
    return ModelConfigError(f"there is no key for {model}", f"set {names}, or {other}")


def _correction_hint(model: str) -> str:
    bare = model.lower()
    family = next(
        (provider for start, provider in _FAMILIES.items() if bare.startswith(start)), None
    )
    return (
        f"did you mean {family}:{model}?"
        if family
        else f"write PROVIDER:{model}, with one of {', '.join(PROVIDERS)}"
    )


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
        ModelConfigError: no model is configured, the preference names none, or the chosen one has
            no key.
    """
    if settings.model is None:
        raise ModelConfigError("no model is configured", "set WAVEWRIGHT_MODEL to PROVIDER:NAME")
    if settings.model_is_forced:
        choice = ModelChoice(settings.model, "WAVEWRIGHT_MODEL names it")
    else:
        wanted = settings.models.roles.get(role)
        model, why = _named_model(
            preference if wanted is None else wanted, settings, environment, settings.model
        )
        if wanted is not None:
            why = f"models.roles gives {role} {wanted!r}" + (f", {why}" if why else "")
        fallbacks = tuple(one for one in settings.models.fallbacks if one != model)
        choice = ModelChoice(model, why or f"{preference!r} is a model's name", fallbacks)
    for model in (choice.model, *choice.fallbacks):
        find_endpoint(model, settings, environment)
    return choice


def preference_words(settings: Settings) -> tuple[str, ...]:
    """Return the words that a goal or a worker may prefer a model by, in order."""
    return tuple(sorted({*shipped_models().preferences, *settings.models.preferences}))


def thinking_level(settings: Settings, level: ThinkingName) -> Thinking:
    """Return what a provider is told for a goal's thinking level.

    Raises:
        ModelConfigError: the settings map it to something unknown.
    """
    setting = settings.models.thinking.get(level)
    if setting is None:
        return shipped_models().thinking.get(level, "medium")
    known = get_args(Thinking)
    if setting in known:
        return cast("Thinking", setting)
    raise ModelConfigError(
        f"models.thinking.{level} is {setting!r}", f"it should be one of {', '.join(known)}"
    )


def configured_models(settings: Settings) -> tuple[str, ...]:
    """Return the models that are sure to be needed: the default one, and those of roles and
    fallbacks.
    """
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
        return (
            default if own == DEFAULT_PREFERENCE else own
        ), f"models.preferences says so of {word!r}"
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
    return (
        default,
        f"it is the default model: {word!r} stands for {shipped}, and there is no key for that",
    )


def check_names(settings: Settings) -> None:
    """Raise ModelConfigError for the first wrong name of a model or a provider in the settings, used
    or not, and say where it stands.
    """
    places = {
        f"models.preferences.{word}": model for word, model in settings.models.preferences.items()
    }
    roles: dict[RoleName, str] = settings.models.roles
    words = {**shipped_models().preferences, **settings.models.preferences}
    places |= {f"models.roles.{role}": model for role, model in roles.items() if model not in words}
    places |= {
        f"models.fallbacks[{at}]": model for at, model in enumerate(settings.models.fallbacks)
    }
    for place, model in places.items():
        if model == DEFAULT_PREFERENCE:
            continue
        try:
            split_model(model)
        except ModelConfigError as error:
            raise ModelConfigError(f"{place}: {error}", error.hint) from None
    for provider in settings.models.providers:
        if provider not in PROVIDERS:
            raise ModelConfigError(
                f"models.providers.{provider}: there is no provider {provider!r}",
                did_you_mean(provider, PROVIDERS) or f"known providers are {', '.join(PROVIDERS)}",
            )
