"""The models of endpoints, over a client that the caller brings.

Providers' libraries read the environment; each *endpoint* is therefore passed to them in full, and
their own retries are disabled. Models of OpenAI's APIs keep the provider's own total of tokens,
which pydantic-ai drops where it is larger than the sum of input and output.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2
from openai import AsyncOpenAI, Omit
from openai.types import CompletionUsage, responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import FinishReason
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIStreamedResponse
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.providers.vllm import VLLMProvider
from pydantic_ai.settings import ModelSettings

from wavewright.tools.models.endpoints import Endpoint
from wavewright.tools.models.guarded_client import guarded_body

if TYPE_CHECKING:
    from openai import AsyncStream
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.models.openai import OpenAIChatModelSettings
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.providers import Provider

TOTAL_TOKENS: Final = "total_tokens"
"""Among the provider's details of an answer: the total that it claims."""
_END_OF_EVENTS: Final = b"[DONE]"


def _with_total(
    details: dict[str, Any] | None, usage: CompletionUsage | responses.ResponseUsage | None
) -> dict[str, Any] | None:
    return details if usage is None else {**(details or {}), TOTAL_TOKENS: usage.total_tokens}


_KNOWN_REASONS: Final[Mapping[str, FinishReason]] = {
    "tool_calls": "tool_call",
    "function_call": "tool_call",
}
_WORDS_OF_REASONS: Final[Mapping[FinishReason, Sequence[str]]] = {
    "length": ("length", "max", "limit", "exceeded", "truncat"),
    "error": ("abort", "cancel", "error", "insufficient", "interrupt", "malformed", "timeout"),
    "content_filter": (
        *("filter", "safety", "sensitive", "recitation", "prohibited", "refus"),
        *("block", "guardrail"),
    ),
}
"""In the names of reasons for an end at a ceiling of tokens, such as `MAX_TOKENS`, in the middle, such
as `insufficient_system_resource`, and by a filter, such as `SAFETY`.
"""


def _finish_reason(reason: str) -> FinishReason:
    """Return what the reason of an end means: servers have names of their own for one that came by
    itself, such as `eos_token`.
    """
    name = reason.casefold()
    if name in _KNOWN_REASONS:
        return _KNOWN_REASONS[name]
    for meant, words in _WORDS_OF_REASONS.items():
        if any(word in name for word in words):
            return meant
    return "stop"


class _TotallingStream(OpenAIStreamedResponse):
    def _map_chunk_provider_details(self, chunk: ChatCompletionChunk) -> dict[str, Any] | None:
        return _with_total(super()._map_chunk_provider_details(chunk), chunk.usage)

    async def _validate_response(self) -> AsyncGenerator[ChatCompletionChunk]:
        async for chunk in self._response:
            # Of several answers the first counts; the library would mix them.
            chunk.choices = [choice for choice in chunk.choices or () if not choice.index]
            yield chunk

    def _map_finish_reason(self, key: str) -> FinishReason:
        return _finish_reason(key)

    def _missing_finish_reason(self) -> FinishReason:
        """Return why a stream ended that does not say it: one that names its end was whole.

        Raises:
            ModelAPIError: it was cut.
        """
        if guarded_body(self._response.source.response).endswith(_END_OF_EVENTS):
            return "stop"
        raise ModelAPIError(self.model_name, "the stream was cut before its end")


class TotallingChatModel(OpenAIChatModel):
    """A model of the chat language that keeps the claimed total.

    A server that refuses the ceiling of an answer under its older name is asked again under the
    newer one, and from then on under that alone. One that refuses to stream is asked for whole
    answers; an answer that comes whole all the same is read.
    """

    _is_whole = False
    """Whether it gives whole answers only."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        has_newer_ceiling = self._has_newer_ceiling
        try:
            return await super().request(messages, model_settings, model_request_parameters)
        except ModelHTTPError as error:
            if has_newer_ceiling or not _wants_newer_ceiling(error):
                raise
        self._take_newer_ceiling()
        return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        def asked() -> AbstractAsyncContextManager[StreamedResponse]:
            return super(TotallingChatModel, self).request_stream(
                messages, model_settings, model_request_parameters, run_context
            )

        def replayed(response: ModelResponse) -> StreamedResponse:
            return CompletedStreamedResponse(
                response, model_request_parameters=model_request_parameters, replay_events=True
            )

        async def whole() -> StreamedResponse:
            return replayed(await self.request(messages, model_settings, model_request_parameters))

        if self._is_whole:
            yield await whole()
            return
        has_newer_ceiling = self._has_newer_ceiling
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(asked())
            except _WholeAnswer as answer:
                stream = replayed(self._process_response(answer.completion))
            except ModelHTTPError as error:
                if not has_newer_ceiling and _wants_newer_ceiling(error):
                    self._take_newer_ceiling()
                    stream = await stack.enter_async_context(asked())
                elif _may_not_stream(error):
                    stream = await whole()
                    self._is_whole = True
                else:
                    raise
            yield stream

    async def _process_streamed_response(
        self,
        response: AsyncStream[ChatCompletionChunk],
        model_request_parameters: ModelRequestParameters,
        model_settings: OpenAIChatModelSettings | None = None,
    ) -> OpenAIStreamedResponse:
        try:
            return await super()._process_streamed_response(
                response, model_request_parameters, model_settings
            )
        except UnexpectedModelBehavior:
            body = _object_in(response.response)
            if body is None:
                raise
        if "choices" in body:
            raise _WholeAnswer(ChatCompletion.construct(**body))
        raise ModelAPIError(self.model_name, "a JSON object that is no answer", body=body)

    @property
    def _has_newer_ceiling(self) -> bool:
        return self.profile.get("openai_chat_supports_max_completion_tokens", True)

    def _take_newer_ceiling(self) -> None:
        self.profile = {**self.profile, "openai_chat_supports_max_completion_tokens": True}

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _TotallingStream

    def _validate_completion(self, response: ChatCompletion) -> Any:
        for choice in (response.choices or ())[:1]:
            reason: object = choice.finish_reason
            # An empty reason says as little as none.
            if not reason:
                choice.finish_reason = self._missing_finish_reason(choice)
        return super()._validate_completion(response)

    def _process_provider_details(self, response: ChatCompletion) -> dict[str, Any] | None:
        return _with_total(super()._process_provider_details(response), response.usage)

    def _map_finish_reason(self, key: str) -> FinishReason:
        return _finish_reason(key)


class _WholeAnswer(Exception):
    """A server sent a whole answer in place of a stream."""

    def __init__(self, completion: ChatCompletion) -> None:
        self.completion = completion


def _wants_newer_ceiling(error: ModelHTTPError) -> bool:
    # vLLM names both where the ceiling leaves the question no room.
    is_too_high = isinstance(error, ModelContextWindowExceededError)
    return not is_too_high and "max_completion_tokens" in str(error.body)


def _may_not_stream(error: ModelHTTPError) -> bool:
    """Whether a server may have refused a question because it was to be answered as a stream."""
    return error.status_code in _NOT_SUPPORTED and "stream" in str(error.body).lower()


_NOT_SUPPORTED: Final = frozenset({400, 404, 405, 406, 415, 422, 500, 501})


class TotallingOllamaModel(TotallingChatModel, OllamaModel):
    """A model of Ollama that keeps the claimed total."""


class TotallingResponsesModel(OpenAIResponsesModel):
    """A model of the responses language that keeps the claimed total."""

    def _process_provider_details(self, response: responses.Response) -> dict[str, Any] | None:
        return _with_total(super()._process_provider_details(response), response.usage)


def _object_in(response: httpx2.Response) -> dict[str, Any] | None:
    """Return the JSON object that a response's body is; None where it is something else."""
    try:
        body: object = json.loads(guarded_body(response))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", body) if isinstance(body, dict) else None


def build_model(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    """Return the model of an endpoint; the caller closes the client."""
    match endpoint.provider:
        case "openai":
            client = _openai_client(endpoint, http)
            return TotallingResponsesModel(
                endpoint.name, provider=OpenAIProvider(openai_client=client)
            )
        case "openai-chat" | "ollama" | "vllm" | "llamacpp" | "lmstudio":
            return _openai_chat(endpoint, http)
        case "anthropic":
            return _anthropic(endpoint, http)
        case "google":
            return _google(endpoint, http)
        case unknown:
            raise AssertionError(unknown)


def _openai_client(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    # The library adds these from the environment; they are for OpenAI alone.
    private = cast("dict[str, str]", {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()})
    return AsyncOpenAI(
        base_url=endpoint.url,
        api_key=endpoint.key,
        http_client=http,
        max_retries=0,
        default_headers=private if endpoint.is_foreign else None,
    )


def _openai_chat(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    client, profile = _openai_client(endpoint, http), _chat_profile(endpoint)
    if endpoint.provider == "ollama":
        return TotallingOllamaModel(
            endpoint.name, provider=OllamaProvider(openai_client=client), profile=profile
        )
    if endpoint.provider == "vllm":
        provider: Provider[AsyncOpenAI] = VLLMProvider(openai_client=client)
    elif endpoint.is_compatible:
        provider = OpenAICompatibleProvider("openai-compatible", openai_client=client)
    else:
        provider = OpenAIProvider(openai_client=client)
    return TotallingChatModel(endpoint.name, provider=provider, profile=profile)


_OPENAI_NAMES = ("gpt-5", "gpt-6", "o1", "o3", "o4", "chatgpt")


def _chat_profile(endpoint: Endpoint) -> ModelProfile:
    """Return what is said of every model of the chat language.

    The ceiling of an answer is sent under its older name, which nearly everybody reads, but to
    OpenAI's models, which refuse it. A foreign server that is asked in words has refused every form,
    so it gets no `response_format` then.
    """
    is_openai = not endpoint.is_foreign or endpoint.name.rpartition("/")[2].startswith(
        _OPENAI_NAMES
    )
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=is_openai and endpoint.provider == "openai-chat",
    )
    if endpoint.is_compatible:
        profile["supports_json_object_output"] = False
    return profile


def _anthropic(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=endpoint.key, base_url=endpoint.url, http_client=http, max_retries=0
    )
    return AnthropicModel(endpoint.name, provider=AnthropicProvider(anthropic_client=client))


def _google(endpoint: Endpoint, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=endpoint.key, base_url=endpoint.url, http_client=http)
    return GoogleModel(endpoint.name, provider=provider)
