"""Models of OpenAI's APIs that keep the provider's own total of tokens.

pydantic-ai keeps input and output tokens and drops a total that is larger than their sum.
"""

from __future__ import annotations

from typing import Any, Final

from openai.types import CompletionUsage, responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIStreamedResponse

TOTAL_TOKENS: Final = "total_tokens"
"""Among the provider's details of an answer: the total that it claims."""


def _with_total(
    details: dict[str, Any] | None, usage: CompletionUsage | responses.ResponseUsage | None
) -> dict[str, Any] | None:
    return details if usage is None else {**(details or {}), TOTAL_TOKENS: usage.total_tokens}


class _TotallingStream(OpenAIStreamedResponse):
    def _map_chunk_provider_details(self, chunk: ChatCompletionChunk) -> dict[str, Any] | None:
        return _with_total(super()._map_chunk_provider_details(chunk), chunk.usage)


class TotallingChatModel(OpenAIChatModel):
    """A model of the chat language that keeps the claimed total."""

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _TotallingStream

    def _process_provider_details(self, response: ChatCompletion) -> dict[str, Any] | None:
        return _with_total(super()._process_provider_details(response), response.usage)


class TotallingOllamaModel(TotallingChatModel, OllamaModel):
    """A model of Ollama that keeps the claimed total."""


class TotallingResponsesModel(OpenAIResponsesModel):
    """A model of the responses language that keeps the claimed total."""

    def _process_provider_details(self, response: responses.Response) -> dict[str, Any] | None:
        return _with_total(super()._process_provider_details(response), response.usage)
