"""One metered question to a model: the chain that is asked, its record of cost, and its answer.

The *chain* of a question is the chosen model and its substitutes, each asked with retries. Every
question ends with one record of its cost, and with an answer or a `ModelError` that holds no
secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import anyio
from pydantic_ai.exceptions import FallbackExceptionGroup
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.settings import ModelSettings

from wavewright.config import Settings
from wavewright.config.redaction import Redactor
from wavewright.planner import NULL_REPLAY_CACHE, ModelAnswer, ReplayCache, RunId
from wavewright.planner.ports.budgets import BudgetStore
from wavewright.planner.ports.model_port import (
    ALWAYS_CLOSED,
    CircuitBreaker,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelUse,
    OnText,
    OnUse,
    Role,
    Turn,
)
from wavewright.tools.models.cassette.errors import CassetteMiss
from wavewright.tools.models.cassette.model import CassetteModel
from wavewright.tools.models.cassette.requests import well_formed
from wavewright.tools.models.endpoints import (
    Endpoint,
    choose_model,
    find_endpoint,
    is_replaying,
    thinking_level,
)
from wavewright.tools.models.errors import (
    ModelFault,
    RequestFailed,
    may_fall_back,
    merged_fault,
    outcome_of,
)
from wavewright.tools.models.forms import ServedModel
from wavewright.tools.models.known_servers import ServerKnowledge
from wavewright.tools.models.messages import split_response
from wavewright.tools.models.metering import UsageTracker
from wavewright.tools.models.retrying import RetryingModel
from wavewright.tools.network import ProviderLimiter, RateLimiter

_MAX_CHARS_PER_TOKEN = 16
"""Characters per token of the ceiling: a longer answer ignored its ceiling, and is cut."""
_HALF_CHARACTER = "it holds half a character, in whose place U+FFFD stands"
"""What is said of an answer that is changed: an error would break the run, and the model's text is
no better when it is asked again.
"""


@dataclass(slots=True)
class MeteredModels:
    """The providers that the settings name, for one question after the other."""

    settings: Settings
    environment: Mapping[str, str]
    budgets: BudgetStore
    redactor: Redactor
    build: Callable[[Endpoint], Model]
    memory: ReplayCache = NULL_REPLAY_CACHE
    """Answers that the run had before it was interrupted."""
    circuit: CircuitBreaker = ALWAYS_CLOSED
    """Holds back questions while a provider is unavailable."""
    _halted: dict[RunId, str] = field(default_factory=dict[RunId, str])
    """Run → why no model is asked in it any more."""
    _served_models: dict[str, ServedModel] = field(default_factory=dict[str, ServedModel])
    _limiters: dict[str, ProviderLimiter] = field(default_factory=dict[str, ProviderLimiter])

    def choose(self, preference: str, role: Role) -> ModelChoice:
        """Return which model a call would go to.

        Raises:
            ModelConfigError: the preference names none, or it has no key.
        """
        return choose_model(self.settings, preference, role, self.environment)

    def redacted_call(self, call: ModelCall) -> ModelCall:
        """Return a question without known secrets: the output of a tool may hold one, and no
        provider may get it.

        Text that only looks like a secret stays: the question may be about it.
        """
        known = self.redactor.redact_known
        return replace(
            call,
            instructions=known(call.instructions),
            prompt=known(call.prompt),
            turns=tuple(Turn(known(turn.answer), known(turn.reply)) for turn in call.turns),
        )

    def usage_tracker(
        self, call: ModelCall, model: str, asked: str, on_text: OnText | None = None
    ) -> UsageTracker:
        """Return a new meter for one question."""
        return UsageTracker(
            call=call,
            sent_text=asked,
            model=model,
            budgets=self.budgets,
            prices=self.settings.models.prices,
            max_tokens=self.max_output_tokens(call),
            on_text=on_text,
        )

    def fallback_chain(
        self, choice: ModelChoice, meter: UsageTracker, *, is_formed: bool = True
    ) -> Model:
        """Return the models that one question goes to, in turn."""
        models = [
            self._retrying_model(name, meter, is_formed)
            for name in (choice.model, *choice.fallbacks)
        ]
        if len(models) == 1:
            return models[0]
        return FallbackModel(models[0], *models[1:], fallback_on=may_fall_back)

    def served_model(self, name: str) -> ServedModel:
        """Return a model that can be asked, made at its first use."""
        known = self._served_models.get(name)
        if known is None:
            endpoint = find_endpoint(name, self.settings, self.environment)
            model, server = self.build(endpoint), None
            if endpoint.is_compatible and not is_replaying(self.settings):
                bare = model.wrapped if isinstance(model, CassetteModel) else model
                server = ServerKnowledge(endpoint, bare)
            known = ServedModel(name, endpoint, model, self._limiter(endpoint.provider), server)
            self._served_models[name] = known
        return known

    def max_output_tokens(self, call: ModelCall) -> int:
        """Return how many tokens an answer may have."""
        return call.max_tokens or self.settings.models.max_output_tokens

    def model_settings(self, call: ModelCall) -> ModelSettings:
        """Return the settings that are sent with the question."""
        level = thinking_level(self.settings, call.thinking)
        return ModelSettings(
            max_tokens=self.max_output_tokens(call), thinking=False if level == "off" else level
        )

    async def metered_response(
        self,
        meter: UsageTracker,
        answer: Callable[[], Awaitable[ModelResponse]],
        seconds: float,
        on_use: OnUse | None,
    ) -> ModelResponse:
        """Return the response to one question within its time, and report its cost once.

        The time starts here, after models were built, libraries loaded and the circuit passed.

        Raises:
            ModelError: there is none.
        """
        project = on_use or _ignore_use
        await self.circuit.enter(meter.call, meter.model)
        try:
            self._refuse_halted(meter.call)
            with anyio.fail_after(seconds) as clock:
                meter.start(seconds, clock)
                response = await answer()
        except TimeoutError:
            fault = ModelFault(
                "timeout", f"{meter.model} gave no answer in {seconds:g} s, waits included"
            )
        except RequestFailed as error:
            fault = error.fault
        except FallbackExceptionGroup as group:
            fault = merged_fault(
                [one.fault for one in group.exceptions if isinstance(one, RequestFailed)]
            )
        except CassetteMiss:
            raise  # no request was made, so there is no use to report
        except BaseException:
            project(meter.total_use("failed", "given up before an answer came"))
            raise
        else:
            project(_use_of(response, meter))
            return response
        finally:
            self._halt_where_implausible(meter)
        message = self.redactor.redact(fault.message)
        use = meter.total_use(outcome_of(fault.kind), message)
        project(use)
        if fault.is_of_provider:
            await self.circuit.failed(meter.call, meter.model, message, fault.retry_after)
        raise ModelError(
            fault.kind,
            message,
            hint=fault.hint,
            use=use,
            retry_after=fault.retry_after,
            is_of_provider=fault.is_of_provider,
        )

    def _refuse_halted(self, call: ModelCall) -> None:
        """Refuse a question of a run in which a provider has claimed what cannot be.

        Raises:
            RequestFailed: it has.
        """
        reason = None if call.run is None else self._halted.get(call.run)
        if reason is not None:
            raise RequestFailed(
                ModelFault(
                    "over_budget",
                    f"no model is asked in this run any more: {reason}",
                    hint="check the provider's bill, then start a new run",
                    is_free=True,
                )
            )

    def _halt_where_implausible(self, meter: UsageTracker) -> None:
        """Ask no model in a run any more once a provider claims far more tokens than were asked and
        answered: what further calls would cost cannot be known.
        """
        claimed = [charge for charge in meter.charges if charge.is_implausible]
        if claimed and meter.call.run is not None:
            tokens = claimed[0].input_tokens + claimed[0].output_tokens
            reason = f"the provider of {claimed[0].model!r} claims {tokens:,} tokens for one call"
            self._halted.setdefault(meter.call.run, reason)

    def model_answer(
        self, response: ModelResponse, call: ModelCall, meter: UsageTracker
    ) -> ModelAnswer:
        """Return what a response says, without secrets."""
        text, calls = split_response(response, call.schema_name)
        use = _use_of(response, meter)
        return ModelAnswer(
            # Cut first, a secret could lose the end by which it is known.
            text=self.redactor.redact(well_formed(text))[: _MAX_CHARS_PER_TOKEN * meter.max_tokens],
            use=use,
            is_truncated=use.outcome == "truncated",
            has_met_ceiling=response.finish_reason == "length",
            calls=tuple(
                replace(one, arguments=self.redactor.redact(one.arguments)) for one in calls
            ),
        )

    def _retrying_model(self, name: str, meter: UsageTracker, is_formed: bool) -> RetryingModel:  # noqa: FBT001
        return RetryingModel(
            self.served_model(name),
            meter,
            self.settings.models,
            is_formed=is_formed,
            is_replaying=is_replaying(self.settings),
        )

    def _limiter(self, provider: str) -> ProviderLimiter:
        if provider not in self._limiters:
            limits = self.settings.models.providers.get(provider)
            rate = limits.requests_per_minute if limits else None
            self._limiters[provider] = ProviderLimiter(
                concurrency=limits.concurrency if limits else None,
                pace=RateLimiter(rate) if rate else None,
            )
        return self._limiters[provider]


def _ignore_use(use: ModelUse) -> None:
    """For callers that do not need the cost of a call."""


def is_truncated(response: ModelResponse, meter: UsageTracker) -> bool:
    """Tell whether an answer was cut off: at its ceiling, by a stream that ended early, or by us."""
    text, _ = split_response(response, meter.call.schema_name)
    return (
        meter.is_cut
        or response.finish_reason == "length"
        or len(text) > _MAX_CHARS_PER_TOKEN * meter.max_tokens
    )


def _use_of(response: ModelResponse, meter: UsageTracker) -> ModelUse:
    """Return what a question with this response cost."""
    text, _ = split_response(response, meter.call.schema_name)
    message = "" if text == well_formed(text) else _HALF_CHARACTER
    return meter.total_use("truncated" if is_truncated(response, meter) else "answered", message)
