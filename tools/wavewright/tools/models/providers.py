"""A provider's model as an object that can be asked, with its key, its address and nobody else's.

The libraries of the providers look into the environment by themselves; every *endpoint* is therefore given to them in
full, and their own retries are off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavewright.tools.models.endpoints import Endpoint

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model
    from pydantic_ai.profiles import ModelProfile


def build_model(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    """Return the model of an endpoint; whoever gave the client closes it."""
    match endpoint.provider:
        case "openai":
            return _openai_responses(endpoint, http)
        case "openai-chat":
            return _openai_chat(endpoint, http)
        case "anthropic":
            return _anthropic(endpoint, http)
        case "google":
            return _google(endpoint, http)
        case "ollama":
            return _ollama(endpoint, http)
        case "vllm":
            return _vllm(endpoint, http)
        case unknown:
            raise AssertionError(unknown)


def _openai_client(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    from openai import AsyncOpenAI, Omit

    # The library adds these from the environment, and they are nobody else's business.
    private = cast("dict[str, str]", {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()})
    return AsyncOpenAI(
        base_url=endpoint.url,
        api_key=endpoint.key,
        http_client=http,
        max_retries=0,
        default_headers=private if endpoint.is_foreign else None,
    )


def _openai_responses(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.providers.openai import OpenAIProvider

    from wavewright.tools.models.claimed_totals import TotallingResponsesModel

    client = _openai_client(endpoint, http)
    return TotallingResponsesModel(endpoint.name, provider=OpenAIProvider(openai_client=client))


def _openai_chat(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    from wavewright.tools.models.claimed_totals import TotallingChatModel

    client = _openai_client(endpoint, http)
    if not endpoint.is_foreign:
        return TotallingChatModel(
            endpoint.name, provider=OpenAIProvider(openai_client=client), profile=_chat_profile(endpoint)
        )
    return TotallingChatModel(
        endpoint.name,
        provider=OpenAICompatibleProvider("openai-compatible", openai_client=client),
        profile=_chat_profile(endpoint),
    )


_OPENAI_NAMES = ("gpt-5", "gpt-6", "o1", "o3", "o4", "chatgpt")


def _chat_profile(endpoint: Endpoint) -> ModelProfile:
    """Return what is said of every model of the chat language.

    A stream that does not say why it ends was cut: the library would take it for whole. The ceiling of an answer is
    sent under its older name, which nearly everybody reads, but to OpenAI's models, which refuse it.
    """
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    is_openai = not endpoint.is_foreign or endpoint.name.rpartition("/")[2].startswith(_OPENAI_NAMES)
    return OpenAIModelProfile(
        openai_chat_streaming_requires_finish_reason=True,
        openai_chat_supports_max_completion_tokens=is_openai and endpoint.provider not in {"ollama", "vllm"},
    )


def _anthropic(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(api_key=endpoint.key, base_url=endpoint.url, http_client=http, max_retries=0)
    return AnthropicModel(endpoint.name, provider=AnthropicProvider(anthropic_client=client))


def _google(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=endpoint.key, base_url=endpoint.url, http_client=http)
    return GoogleModel(endpoint.name, provider=provider)


def _ollama(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.providers.ollama import OllamaProvider

    from wavewright.tools.models.claimed_totals import TotallingOllamaModel

    provider = OllamaProvider(openai_client=_openai_client(endpoint, http))
    return TotallingOllamaModel(endpoint.name, provider=provider, profile=_chat_profile(endpoint))


def _vllm(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.providers.vllm import VLLMProvider

    from wavewright.tools.models.claimed_totals import TotallingChatModel

    return TotallingChatModel(
        endpoint.name,
        provider=VLLMProvider(openai_client=_openai_client(endpoint, http)),
        profile=_chat_profile(endpoint),
    )
