"""Retries of a request to a model.

The settings say how many attempts a request has, and the timeout of each (of a streamed one, until
it begins to answer). Between them is the wait that the provider asks for, or else an exponential
backoff. A denial or a refusal is never retried. A rate limit is waited for as long as there is time.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import anyio
import stamina
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings, merge_model_settings

from wavewright.config.sections import ModelsSection
from wavewright.tools.models.cassette.errors import CassetteError, CassetteMiss
from wavewright.tools.models.cassette.requests import FormParameters
from wavewright.tools.models.endpoints import PROVIDERS
from wavewright.tools.models.errors import PROVIDER_ERRORS, ModelFault, RequestFailed, fault_of
from wavewright.tools.models.forms import Form, ServedModel
from wavewright.tools.models.messages import (
    read_stream,
    sent_text,
    split_response,
    thinking_text,
    with_less_of_tools,
)
from wavewright.tools.models.metering import RequestCharge, UsageTracker

# Retries are only for programs that configure logging; without this, stamina writes them into a
# command's output as soon as structlog is installed.
stamina.instrumentation.set_on_retry_hooks([stamina.instrumentation.LoggingOnRetryHook])
logging.getLogger("stamina").addHandler(logging.NullHandler())

_logger = logging.getLogger(__name__)
FIRST_WAIT_SECONDS = 0.5
MAX_WAIT_SECONDS = 20.0
RATE_LIMITED_ATTEMPTS = 8
"""Answers of a rate limit that are waited for beside the attempts."""
LEAST_ANSWER_TOKENS = 1_000
"""Below this no question is put again with a shorter answer."""


class RetryingModel(WrapperModel):
    """A model behind the provider's rate limiter, metered, with retries.

    Where `is_formed`, an answer has the form that the question asks for.
    """

    def __init__(
        self,
        served: ServedModel,
        meter: UsageTracker,
        section: ModelsSection,
        *,
        is_formed: bool,
        is_replaying: bool,
    ) -> None:
        super().__init__(served.model)
        self._served = served
        self._name = served.name
        self._usage = meter
        self._section = section
        self._schema = meter.call.schema if is_formed else None
        self._is_replaying = is_replaying

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return an answer, in the first form that the model's endpoint takes.

        Raises:
            RequestFailed: there is none.
        """
        refusals: list[tuple[Form, RequestFailed | CassetteMiss]] = []
        for form in await self._untried_forms(model_request_parameters):
            if self._schema is not None:
                self._usage.sent_text = sent_text(form.sent_call(self._usage.call))
            # Another model of the chain may be asked for the form in another way.
            instructions = model_request_parameters.instruction_parts
            parameters = replace(form.parameters, instruction_parts=instructions)
            try:
                response = await self._request_in_form(messages, model_settings, parameters)
            except CassetteMiss as miss:
                refusals.append((form, miss))
            except RequestFailed as error:
                if error.fault.kind == "over_budget" and form.goal_schema is not None:
                    # A budget that has no room for the goal's types may have some without them.
                    continue
                self._require_refused_form(error)
                refusals.append((form, error))
            else:
                self._note_forms(form, refusals)
                return response
        raise refusals[0][1]

    async def _untried_forms(self, parameters: ModelRequestParameters) -> list[Form]:
        """Return the forms of the question that its endpoint has not refused yet."""
        served, call = self._served, self._usage.call
        if self._schema is not None:
            forms = await served.forms_of(call, self._schema, is_replaying=self._is_replaying)
        else:
            forms = served.forms_of_loop(parameters)
        return [form for form in forms[:-1] if not served.refused.has(form)] + forms[-1:]

    def _note_forms(
        self, taken: Form, refusals: Sequence[tuple[Form, RequestFailed | CassetteMiss]]
    ) -> None:
        """Note which forms the endpoint refused of a question that it answered in another one."""
        refused = self._served.refused
        refused.note_taken(taken)
        for form, error in refusals:
            if isinstance(error, RequestFailed):
                _logger.info("%s refuses a form: %s", self._name, error.fault.message)
                refused.add(form, error.fault)

    def _require_refused_form(self, error: RequestFailed) -> None:
        """Return where a request was refused as it is, by a server that answers: its form may be
        what it cannot take.

        Raises:
            RequestFailed: it failed otherwise.
        """
        fault = error.fault
        if not fault.may_be_of_form or (fault.is_of_provider and self._served.server is None):
            raise error

    async def _request_in_form(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        parameters: FormParameters,
    ) -> ModelResponse:
        settings = self._with_tool_choice(model_settings, parameters)
        try:
            return await self._request_with_retries(messages, settings, parameters)
        except RequestFailed as error:
            if error.fault.kind != "over_context":
                raise
            # A server whose context has to hold the answer, too, has room for a shorter one.
            ceiling = (settings or {}).get("max_tokens", 0) // 4
            if error.fault.counts_answer and ceiling >= LEAST_ANSWER_TOKENS:
                shorter = merge_model_settings(settings, ModelSettings(max_tokens=ceiling))
                return await self._request_in_form(messages, shorter, parameters)
            # A loop of tools grows: what they have returned is what less can be sent of.
            if not (less := with_less_of_tools(messages)):
                raise
            return await self._request_with_retries(less, settings, parameters)

    async def _request_with_retries(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        async for attempt in self._attempts():
            with attempt:
                return await self._request_once(messages, settings, parameters)
        raise AssertionError("every attempt returns or raises")

    def _with_tool_choice(
        self, settings: ModelSettings | None, parameters: FormParameters
    ) -> ModelSettings | None:
        """Return settings under which the model can be made to call the answer's tool.

        Some cannot be while they think. Then the form goes before the thinking, unless much of it
        is asked for.
        """
        is_tool = self._schema is not None and parameters.output_mode == "tool"
        if not is_tool or self._usage.call.thinking == "high":
            return settings
        profile = self.wrapped.profile
        is_either_or = profile.get(
            "forced_tool_choice_disables_thinking", False
        ) or not profile.get("supports_forced_tool_choice_with_thinking", True)
        if not is_either_or or not profile.get("supports_forced_tool_choice", True):
            return settings
        return merge_model_settings(settings, ModelSettings(thinking=False))

    def _attempts(self) -> AsyncIterator[stamina.Attempt]:
        # The call's own clock ends the waits too.
        rule = _RetryRule(self._usage, self._section)
        return stamina.retry_context(
            on=rule.delay,
            attempts=rule.attempts + rule.rate_limited_attempts,
            timeout=None,
            wait_initial=FIRST_WAIT_SECONDS,
            wait_max=MAX_WAIT_SECONDS,
            wait_jitter=FIRST_WAIT_SECONDS,
        ).__aiter__()

    async def _request_once(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        endpoint = self._served.endpoint
        url = endpoint.url if endpoint.is_foreign else None
        async with (
            self._served.limiter.slot(),
            self._usage.request(
                self._name, url, is_charged_by_arrival=self._served.server is not None
            ) as usage,
        ):
            if settings is not None and settings.get("max_tokens", 0) > self._usage.max_tokens:
                # A budget has room for a shorter answer only.
                settings = merge_model_settings(
                    settings, ModelSettings(max_tokens=self._usage.max_tokens)
                )
            try:
                response = await self._send(messages, settings, parameters, usage)
                self._usage.record_response(usage, response)
                self._require_usable(response)
            except RequestFailed as error:
                self._usage.record_failure(usage, error.fault)
                raise
            except CassetteError as error:
                # The fault is in the cassette, not in a model: no fallback hides it.
                self._usage.record_failure(usage, ModelFault("denied", error.message, is_free=True))
                raise
            except TimeoutError as error:
                seconds = self._section.attempt_seconds
                fault = ModelFault(
                    "timeout",
                    f"{self._name} did not answer in {seconds:g} s",
                    hint="raise models.attempt_seconds in wavewright.yaml, or choose a faster model",
                    is_retryable=True,
                )
                raise self._request_failed(usage, fault) from error
            except PROVIDER_ERRORS as error:
                fault = fault_of(error, self._name, self._usage.sent_text)
                if usage.arrived_at is not None:
                    # Who has begun to answer takes the form.
                    fault = replace(fault, may_be_of_form=False)
                raise self._request_failed(usage, self._with_address(fault)) from error
            return response

    def _with_address(self, fault: ModelFault) -> ModelFault:
        """Return a fault that may be one of the address with the address that was tried."""
        endpoint = self._served.endpoint
        if endpoint.shown_address is None:
            return fault
        if fault.kind == "bad_answer" and fault.hint is None:
            hint = f"check that {endpoint.shown_address} is OpenAI's API: most such addresses end in /v1"
            message = fault.message.replace("its address", endpoint.shown_address)
            return replace(fault, message=message, hint=hint) if endpoint.is_compatible else fault
        if fault.kind != "unreachable":
            return fault
        variable = PROVIDERS[endpoint.provider].url_variable
        return replace(
            fault,
            message=f"{fault.message} at {endpoint.shown_address}",
            hint=f"start the server, or set its address in {variable} or WAVEWRIGHT_BASE_URL",
        )

    def _request_failed(self, usage: RequestCharge, fault: ModelFault) -> RequestFailed:
        self._usage.record_failure(usage, fault)
        return RequestFailed(fault)

    async def _send(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        charge: RequestCharge,
    ) -> ModelResponse:
        server, on_text = self._served.server, self._usage.on_text
        with anyio.fail_after(self._attempt_seconds()) as clock:
            # A stream shows that a slow server is at work.
            if on_text is None and server is None:
                return await self.wrapped.request(messages, settings, parameters)

            def begun() -> None:
                # From here on only the call's own clock counts: a long answer is not a late one.
                clock.deadline = math.inf
                charge.note_arrival(anyio.current_time())
                # A server that goes on without end is held to the clock.
                if server is not None and charge.arrived <= 2 * self._usage.max_tokens:
                    self._usage.restart_clock()

            answer_tool = None if self._schema is None else self._usage.call.schema_name
            if on_text is not None:
                on_text("")
            asked_at = anyio.current_time()
            async with self.wrapped.request_stream(messages, settings, parameters) as stream:
                response, is_whole = await read_stream(stream, answer_tool, on_text, begun)
                self._usage.is_cut = not is_whole
            is_streamed = not isinstance(stream, CompletedStreamedResponse)
            if server is not None and is_whole and is_streamed and charge.arrived_at is not None:
                server.measure(
                    response.usage.input_tokens,
                    charge.arrived_at - asked_at,
                    response.usage.output_tokens,
                    anyio.current_time() - charge.arrived_at,
                )
            return response

    def _attempt_seconds(self) -> float:
        """Return how long one request may take before it begins to answer.

        A server of one's own reads a long prompt for minutes; it would begin anew if it were asked
        again, so the call's own clock alone counts there and where a server's pace is known, unless
        the settings say otherwise.
        """
        is_set = "attempt_seconds" in self._section.model_fields_set
        server = self._served.server
        has_pace = server is not None and server.known.read_per_second is not None
        if (has_pace or self._served.endpoint.is_self_hosted) and not is_set:
            return math.inf
        return self._section.attempt_seconds

    def _require_usable(self, response: ModelResponse) -> None:
        if response.finish_reason == "content_filter":
            raise RequestFailed(ModelFault("refused", f"{self._name} refused to answer"))
        text, _ = split_response(response, self._usage.call.schema_name)
        has_call = any(isinstance(part, ToolCallPart) for part in response.parts)
        fault, hint = "", None
        if response.finish_reason == "error":
            fault = f"{self._name} ended its answer in an error"
        elif not has_call and not text.strip() and response.finish_reason != "length":
            fault = f"{self._name} answered nothing"
            if thinking_text(response).strip():
                fault += " beside its thinking"
                hint = _HINT_ON_THINKING
        if fault:
            raise RequestFailed(ModelFault("bad_answer", fault, hint=hint, is_retryable=True))


_HINT_ON_THINKING = (
    "ask again; where it happens each time, its server takes answers for thinking: start it without "
    "its parser of reasoning"
)


class _RetryRule:
    """Says whether one request is made again.

    A rate limit is waited for beside the attempts of the settings, as long as the question has
    time: the request is sound, and was not worked on. Who sets `models.attempts` limits that, too.
    """

    def __init__(self, usage: UsageTracker, section: ModelsSection) -> None:
        is_set = "attempts" in section.model_fields_set
        self.attempts = section.attempts
        self.rate_limited_attempts = 0 if is_set else RATE_LIMITED_ATTEMPTS
        self._usage = usage
        self._failed = 0
        self._rate_limited = 0

    def delay(self, error: Exception) -> bool | float:
        """Say whether to ask again, or after how many seconds."""
        if not isinstance(error, RequestFailed) or not error.fault.is_retryable:
            return False
        is_free = error.fault.is_rate_limit and self._rate_limited < self.rate_limited_attempts
        if is_free:
            self._rate_limited += 1
        else:
            self._failed += 1
        if self._failed >= self.attempts:
            return False
        wait = error.fault.retry_after
        if wait is None:
            return True
        # A wait that is longer than the time that is left fails the call now.
        return max(wait, 0.0) if wait < self._usage.seconds_left() else False
