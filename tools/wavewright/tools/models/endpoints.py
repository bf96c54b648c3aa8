"""Where a model is served and with which key.

An *endpoint* is a provider's address with the key that belongs there, and with no other: a key of OpenAI's is never
sent to somebody else's address, and the key of one provider never to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavewright.config.extras import EXTRAS, install_hint, is_installed
from wavewright.config.settings import Settings
from wavewright.planner.model_port import ModelError


class ModelConfigError(ModelError):
    """A model cannot be asked as things are set up; the message names what is wrong, the hint the mend."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("denied", message, hint=hint)


@dataclass(frozen=True, slots=True)
class Provider:
    """Somebody who serves models, and the variables that its own library reads too."""

    keys: tuple[str, ...]
    """Variables that may hold its key, the first that is set counts."""
    url_variable: str
    needs_key: bool = True
    default_url: str | None = None
    """Where it is served if nothing else is said; its library's own address where absent."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(("OPENAI_API_KEY",), "OPENAI_BASE_URL", default_url="https://api.openai.com/v1"),
    "openai-chat": Provider(("OPENAI_API_KEY",), "OPENAI_BASE_URL", default_url="https://api.openai.com/v1"),
    "anthropic": Provider(
        ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", default_url="https://api.anthropic.com"
    ),
    "google": Provider(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "GOOGLE_GEMINI_BASE_URL"),
    "ollama": Provider(("OLLAMA_API_KEY",), "OLLAMA_BASE_URL", False, "http://localhost:11434/v1"),
    "vllm": Provider(("VLLM_API_KEY",), "VLLM_BASE_URL", False, "http://localhost:8000/v1"),
}

NO_KEY = "no-key-needed"
"""What is sent for a key where none is needed: the libraries insist on one."""

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
    """Whether the address is the user's own, and so may be anybody who speaks the provider's language."""


def split_model(model: str) -> tuple[str, str]:
    """Return provider and name of `provider:name`.

    Raises:
        ModelConfigError: it is not written so, or nobody knows the provider.
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
        ModelConfigError: its name is wrong, the key that it needs is in no variable, or its library is not installed.
    """
    provider, name = split_model(model)
    if provider in EXTRAS and not is_installed(provider):
        raise ModelConfigError(
            f"{model!r} needs the extra {provider!r}, which is not installed", install_hint(provider)
        )
    own_url = _configured_url(provider, settings)
    if own_url is not None:
        if not own_url.startswith(("http://", "https://")):
            # Not quoted: an address may hold a password.
            raise ModelConfigError(
                "the base URL is no address: it begins with neither http:// nor https://",
                "set WAVEWRIGHT_BASE_URL, or models.base_url in wavewright.yaml, to a whole address",
            )
        return Endpoint(provider, name, _library_url(own_url, provider), settings.api_key or NO_KEY, True)
    known = PROVIDERS[provider]
    key = _provider_key(provider, settings, environment)
    if key is None and known.needs_key and not is_replaying(settings):
        raise _missing_key_error(model, provider, known)
    url = environment.get(known.url_variable, "").strip() or known.default_url
    is_foreign = url != known.default_url
    return Endpoint(
        provider, name, None if url is None else _library_url(url, provider), key or NO_KEY, is_foreign
    )


def is_reachable(model: str, settings: Settings, environment: Mapping[str, str]) -> bool:
    """Tell whether there is a key for a model, or it needs none."""
    try:
        endpoint = find_endpoint(model, settings, environment)
    except ModelConfigError:
        return False
    return endpoint.key != NO_KEY or endpoint.is_foreign or not PROVIDERS[endpoint.provider].needs_key


def is_replaying(settings: Settings) -> bool:
    """Tell whether every answer comes from a file, so that nobody is asked and no key is needed."""
    return settings.cassette is not None and settings.cassette_mode == "replay"


def _configured_url(provider: str, settings: Settings) -> str | None:
    """Return the user's own address for a provider.

    The one in the settings file is for `openai-chat`; the one of the environment is for the provider of the default
    model, so that it never takes along another provider's models.
    """
    default = settings.model.partition(":")[0] if settings.model else ""
    is_from_environment = settings.base_url != settings.models.base_url
    if provider == default and (is_from_environment or provider == "openai-chat"):
        return settings.base_url
    return settings.models.base_url if provider == "openai-chat" else None


def _provider_key(provider: str, settings: Settings, environment: Mapping[str, str]) -> str | None:
    default = settings.model.partition(":")[0] if settings.model else ""
    # With an address of the user's own the key belongs there, and not to the provider.
    if settings.api_key and settings.base_url is None and provider == default:
        return settings.api_key
    return next(
        (key for name in PROVIDERS[provider].keys if (key := environment.get(name, "").strip())), None
    )


def _library_url(url: str, provider: str) -> str:
    """Return an address as the provider's library wants it: Anthropic's adds the version itself."""
    bare = url.rstrip("/")
    return bare.removesuffix("/v1") if provider == "anthropic" else bare


def _missing_key_error(model: str, provider: str, known: Provider) -> ModelConfigError:
    names = " or ".join(known.keys)
    if provider == "openai-chat":
        return ModelConfigError(
            f"there is no key for {model}",
            f"set {names}, or WAVEWRIGHT_BASE_URL to an OpenAI-compatible endpoint "
            "(and WAVEWRIGHT_API_KEY if it wants a key)",
        )
    return ModelConfigError(f"there is no key for {model}", f"set {names}, or WAVEWRIGHT_API_KEY")


def _correction_hint(model: str) -> str:
    bare = model.lower()
    family = next((provider for start, provider in _FAMILIES.items() if bare.startswith(start)), None)
    return (
        f"did you mean {family}:{model}?"
        if family
        else f"write PROVIDER:{model}, with one of {', '.join(PROVIDERS)}"
    )
