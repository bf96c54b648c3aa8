"""OpenAI's models, with the total of tokens that a provider claims.

The library keeps what was read and what was written, and drops a total that is larger than both together.
"""

from __future__ import annotations

from typing import Any, Final

from openai.types import responses
from openai.types.chat import ChatCompletion
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

TOTAL: Final = "total_tokens"
"""Among the provider's details of an answer: the total that it claims."""


class TotallingChatModel(OpenAIChatModel):
    """A model of the chat language that keeps the claimed total; of a streamed answer there is none."""

    def _process_provider_details(self, response: ChatCompletion) -> dict[str, Any] | None:
        details = super()._process_provider_details(response)
        return details if response.usage is None else {**(details or {}), TOTAL: response.usage.total_tokens}


class TotallingResponsesModel(OpenAIResponsesModel):
    """A model of the responses language that keeps the claimed total."""

    def _process_provider_details(self, response: responses.Response) -> dict[str, Any] | None:
        details = super()._process_provider_details(response)
        return details if response.usage is None else {**(details or {}), TOTAL: response.usage.total_tokens}
