"""Answer one question to a model, or let it call tools in a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.direct import model_request
from pydantic_ai.models import ModelRequestParameters

from wavewright.planner import ModelAnswer
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelCall,
    ModelChoice,
    ModelError,
    OnText,
    OnUse,
    model_question,
)
from wavewright.tools.models.messages import (
    StreamRedactor,
    answer_from_json,
    answer_to_json,
    messages_of,
    question_key,
    sent_text,
)
from wavewright.tools.models.metered_models import MeteredModels
from wavewright.tools.models.pricing import estimate_tokens

SELF_HOSTED_SECONDS = 600.0
"""How long a self-hosted model may be silent, where the settings say nothing of it."""
_CEILING_FACTOR = 2
"""Factor of the ceiling for the second request, after an answer that met the first ceiling."""


class ProviderModels(MeteredModels):
    """A `ModelClient` over the providers that the settings name."""

    __slots__ = ()

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        """Return the answer; `on_text` streams it.

        Raises:
            ModelError: there is none, in the end.
        """
        call = self.redacted_call(call)
        if call.run is None:
            return await self._ask_with_higher_ceiling(call, on_use, on_text)
        key = question_key(call)
        if (kept := self.memory.get(call.run, key)) is not None:
            return answer_from_json(kept)
        answer = await self._ask_with_higher_ceiling(call, on_use, on_text)
        question = model_question(call, _call_text(call), self.redactor)
        await self.memory.put(call.run, key, answer_to_json(answer), question)
        return answer

    async def _ask_with_higher_ceiling(
        self, call: ModelCall, on_use: OnUse | None, on_text: OnText | None
    ) -> ModelAnswer:
        """Return the answer; one that met its ceiling is asked for once more, under a higher one.

        The cut answer stands where the provider or a budget refuses that, and where it was shown
        already.

        Raises:
            ModelError: there is none, in the end.
        """
        answer = await self._ask_once(call, on_use, on_text)
        if not answer.has_met_ceiling or (on_text is not None and not call.streams_raw):
            return answer
        try:
            return await self._ask_once(
                replace(call, max_tokens=_CEILING_FACTOR * self.max_output_tokens(call)),
                on_use,
                on_text,
            )
        except ModelError:
            return answer

    async def _ask_once(
        self, call: ModelCall, on_use: OnUse | None, on_text: OnText | None
    ) -> ModelAnswer:
        choice = self.choose(call.preference, call.role)
        is_shown = on_text is not None and not call.streams_raw
        redactor = StreamRedactor(self.redactor.redact, on_text) if is_shown and on_text else None
        meter = self.usage_tracker(
            call, choice.model, sent_text(call), on_text if redactor is None else redactor.add
        )
        chain = self.fallback_chain(choice, meter)
        seconds = self._seconds_of(call, choice)
        response = await self.metered_response(
            meter,
            lambda: model_request(
                chain,
                messages_of(call),
                model_settings=self.model_settings(call),
                model_request_parameters=ModelRequestParameters(),
            ),
            seconds,
            on_use,
        )
        if redactor is not None:
            redactor.close()
        return self.model_answer(response, call, meter)

    def _seconds_of(self, call: ModelCall, choice: ModelChoice) -> float:
        """Return how long a question may take; of a server that is not its provider's, how long it
        may be silent.

        Such a server may need minutes to load a model and to read a long prompt, which no clock
        that was made for services knows: its own pace sets it, and until that is known, a server on
        this network has `SELF_HOSTED_SECONDS`. The settings may say less.
        """
        section = self.settings.models
        seconds = section.call_seconds(call.timeout)
        served = self.served_model(choice.model)
        if served.server is None or "request_seconds" in section.model_fields_set:
            return seconds
        by_pace = served.server.known.silent_seconds(estimate_tokens(sent_text(call)))
        if by_pace is not None:
            return max(seconds, by_pace)
        return max(seconds, SELF_HOSTED_SECONDS) if served.endpoint.is_self_hosted else seconds

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        """Let a model call tools in a loop until it answers; return its last text where a limit
        ends the loop.

        `on_text` streams what it says, also before it calls a tool; an answer that is kept is not
        streamed.

        Raises:
            ModelError: there is no answer, in the end.
        """
        # The library's agents take 0.2 s to load, and few runs have one.
        from wavewright.tools.models.agent_loop import run_agent_loop

        return await run_agent_loop(self, call, tools, limits, on_use, on_text)


def _call_text(call: ModelCall) -> str:
    """Return the texts of a call, one after another."""
    turns = (text for turn in call.turns for text in (turn.answer, turn.reply))
    return "\n\n".join(text for text in (call.instructions, call.prompt, *turns) if text)
