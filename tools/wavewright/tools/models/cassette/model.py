"""Record the answers of models, and replay them.

With a *cassette* a run needs no key, no network and no money the second time: each recorded
question gets its recorded answer. A question that was not recorded is an error that shows the
difference to the nearest one, so a changed prompt is always noticed. No secret is written.

A *recorded answer* is text, tool calls and their cost, independent of the provider: an answer that
came as a tool's arguments can be replayed where text is expected, and the reverse. JSON is stored
as JSON and comes back byte for byte.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    TextPart,
    ThinkingPart,
)
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestParameters,
    StreamedResponse,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from wavewright.tools.models.cassette.answers import record_answer, restore_answer
from wavewright.tools.models.cassette.requests import (
    RenderedRequest,
    render_request,
    rendered_for_file,
    request_hash,
)

if TYPE_CHECKING:
    from wavewright.tools.models.cassette.file import Cassette


class CassetteModel(WrapperModel):
    """A model whose answers are recorded in a cassette, or come from one."""

    def __init__(self, wrapped: Model, cassette: Cassette) -> None:
        super().__init__(wrapped)
        self._cassette = cassette

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters | None = None,  # noqa: ARG002  of the library
    ) -> list[ModelMessage]:
        """Return the messages unchanged: conversions for one provider are no part of the question."""
        return messages

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the recorded answer, or the model's where it is recorded now.

        Raises:
            CassetteMiss: there is no recorded answer, and no model is called.
            CassetteError: the cassette cannot be written.
        """
        request = self._render(messages, model_settings, model_request_parameters)
        recorded = self._recorded_response(request, model_request_parameters)
        if recorded is not None:
            return recorded
        try:
            response = await self.wrapped.request(
                self.wrapped.prepare_messages(messages, model_request_parameters),
                model_settings,
                model_request_parameters,
            )
        except BaseException:
            self._cassette.forget_request(request)
            raise
        self._add(request, response, model_request_parameters)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the recorded answer line by line, or the model's as it comes; only a whole one is
        recorded.

        Raises:
            CassetteMiss: there is no recorded answer, and no model is called.
            CassetteError: the cassette cannot be written.
        """
        request = self._render(messages, model_settings, model_request_parameters)
        recorded = self._recorded_response(request, model_request_parameters)
        if recorded is not None:
            yield _ReplayedStream(recorded, model_request_parameters=model_request_parameters)
            return
        try:
            async with self.wrapped.request_stream(
                self.wrapped.prepare_messages(messages, model_request_parameters),
                model_settings,
                model_request_parameters,
                run_context,
            ) as stream:
                yield stream
                is_over = await anext(aiter(stream), None) is None
        except BaseException:
            self._cassette.forget_request(request)
            raise
        if is_over:
            self._add(request, stream.get(), model_request_parameters)
        else:
            self._cassette.forget_request(request)

    def _render(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> RenderedRequest:
        return rendered_for_file(
            render_request(messages, settings, parameters), self._cassette.redactor
        )

    def _recorded_response(
        self, request: RenderedRequest, parameters: ModelRequestParameters
    ) -> ModelResponse | None:
        answer = self._cassette.next_answer(request)
        return (
            None
            if answer is None
            else restore_answer(answer, parameters, request_hash(request)[:12])
        )

    def _add(
        self, request: RenderedRequest, response: ModelResponse, parameters: ModelRequestParameters
    ) -> None:
        self._cassette.add(request, record_answer(response, parameters, self._cassette.redactor))


class _ReplayedStream(CompletedStreamedResponse):
    """A recorded answer as a stream: texts line by line, all else whole."""

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        parts = self._parts_manager
        for number, part in enumerate(self.response.parts):
            match part:
                case TextPart(content=text):
                    for line in text.splitlines(keepends=True):
                        for event in parts.handle_text_delta(vendor_part_id=number, content=line):
                            yield event
                case ThinkingPart(content=text):
                    for event in parts.handle_thinking_delta(vendor_part_id=number, content=text):
                        yield event
                case _:
                    yield parts.handle_part(vendor_part_id=number, part=part)
