"""Meter what one question to a model costs, request by request.

A *meter* belongs to one question: before each request it reserves the maximum cost, afterwards it
settles the actual cost, and it sums up. A request that was interrupted by a timeout or a
cancellation counts as its whole reservation; one to a server of OpenAI's chat API that is not
OpenAI's counts as the question and what had arrived.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import anyio
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from wavewright.config.sections import PriceSettings
from wavewright.planner.ports.budgets import (
    BudgetExceeded,
    BudgetScope,
    BudgetStore,
    CallDeferred,
    Reservation,
    Spend,
)
from wavewright.planner.ports.model_port import ModelCall, ModelOutcome, ModelUse, OnText
from wavewright.tools.models.errors import ModelFault, RequestFailed, outcome_of
from wavewright.tools.models.messages import arguments_text, sent_text
from wavewright.tools.models.pricing import estimate_tokens, price_of

_OVERHEAD_TOKENS = 20_000
"""Tokens that a provider may count beyond prompt and ceiling (its own prompt, thinking) and still
be believed.
"""

_MAX_CLAIMED_TOKENS = 10**12
"""Tokens of one request that are charged at most: what is beyond that has no room in a budget's
sums.
"""

_RESERVED_SECONDS = 0.001
"""Seconds that are reserved: how long an answer takes is not known, but a budget of time that is
used up ends it.
"""


@dataclass(slots=True)
class RequestCharge:
    """One request's outcome, filled in as it becomes known."""

    model: str
    url: str | None
    """Its address where that is not its provider's own: another price list."""
    outcome: ModelOutcome = "failed"
    message: str = "given up before an answer came"
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0
    is_estimated: bool = True
    is_implausible: bool = False
    arrived_at: float | None = None
    """When the first of a streamed answer arrived."""
    arrived: int = 0
    """Pieces of a streamed answer that have arrived; most servers send one a token."""

    def note_arrival(self, now: float) -> None:
        """Note that one more piece of the answer has arrived."""
        if self.arrived_at is None:
            self.arrived_at = now
        self.arrived += 1


_MIN_ANSWER_TOKENS = 500
"""The fewest tokens of an answer for which a model is asked."""


def _over_budget(error: BudgetExceeded) -> RequestFailed:
    return RequestFailed(ModelFault("over_budget", str(error), hint=error.hint, is_free=True))


@dataclass(slots=True)
class UsageTracker:
    """The cost of one question."""

    call: ModelCall
    sent_text: str
    """Everything that is sent, for the estimate."""
    model: str
    """The first model that is asked."""
    budgets: BudgetStore
    prices: Mapping[str, PriceSettings]
    max_tokens: int
    on_text: OnText | None = None
    charges: list[RequestCharge] = field(default_factory=list[RequestCharge])
    is_cut: bool = False
    """Whether the answer's stream ended early."""
    deadline: float = math.inf
    started: float = math.inf
    """When the question was put; never before its models are made."""

    clock: anyio.CancelScope | None = None
    seconds: float = math.inf

    def start(self, seconds: float, clock: anyio.CancelScope) -> None:
        """Start with the clock that ends the question after this many seconds."""
        self.started = anyio.current_time()
        self.seconds, self.clock = seconds, clock
        self.deadline = self.started + seconds

    def restart_clock(self) -> None:
        """Give the question all of its time again: its answer is arriving."""
        assert self.clock is not None, "the question was put"
        self.deadline = self.clock.deadline = anyio.current_time() + self.seconds

    def seconds_left(self) -> float:
        """Return how long the question may still take."""
        return self.deadline - anyio.current_time()

    @asynccontextmanager
    async def request(
        self, model: str, url: str | None, *, is_charged_by_arrival: bool = False
    ) -> AsyncGenerator[RequestCharge]:
        """Reserve for one request to a model, and settle at the end, also after an error.

        `is_charged_by_arrival` says that what had not arrived of an interrupted answer is not
        charged.

        Raises:
            RequestFailed: the request would go over a budget, and was not made.
        """
        usage = RequestCharge(model, url, input_tokens=estimate_tokens(self.sent_text))
        reservation = await self._reserve(usage)
        self.charges.append(usage)
        started = anyio.current_time()
        try:
            yield usage
        finally:
            usage.seconds = anyio.current_time() - started
            if is_charged_by_arrival and usage.outcome != "answered" and usage.is_estimated:
                usage.output_tokens = min(usage.output_tokens, usage.arrived)
                self._price(usage)
            spent = Spend(
                1, usage.input_tokens + usage.output_tokens, usage.usd or 0.0, usage.seconds
            )
            use = self._use_of([usage], usage.model, usage.outcome, usage.message, usage.seconds)
            with anyio.CancelScope(shield=True):
                await self.budgets.settle(reservation, spent, use)

    def record_response(self, tally: RequestCharge, response: ModelResponse) -> None:
        """Charge what a provider says that an answer cost, where that can be believed."""
        usage, text = response.usage, _response_text(response)
        # A token has at least one character; the rest is what the provider adds to texts and tools.
        is_read_known = _is_count(usage.input_tokens, _OVERHEAD_TOKENS + 4 * len(self.sent_text))
        most_written = _OVERHEAD_TOKENS + 4 * max(self.max_tokens, len(text))
        is_written_known = _is_count(usage.output_tokens, most_written)
        tally.input_tokens = (
            usage.input_tokens if is_read_known else estimate_tokens(self.sent_text)
        )
        tally.output_tokens = usage.output_tokens if is_written_known else estimate_tokens(text)
        self._charge_claimed(tally, response, most_written)
        cached = usage.cache_read_tokens
        tally.cached_tokens = cached if _is_count(cached, tally.input_tokens) else 0
        tally.is_estimated = not (is_read_known and (is_written_known or not text))
        tally.outcome, tally.message = "answered", ""
        self._price(tally)

    def _charge_claimed(
        self, tally: RequestCharge, response: ModelResponse, most_written: int
    ) -> None:
        """Charge the larger figure where a provider claims more than is possible, and note that."""
        usage, plausible = response.usage, tally.input_tokens + tally.output_tokens
        read, written = (
            min(max(0, count), _MAX_CLAIMED_TOKENS)
            for count in (usage.input_tokens, usage.output_tokens)
        )
        total = (response.provider_details or {}).get("total_tokens")
        claimed = max(read + written, min(total, _MAX_CLAIMED_TOKENS) if _is_count(total) else 0)
        if claimed <= plausible:
            return
        tally.is_implausible = (
            claimed > 2 * _OVERHEAD_TOKENS + 4 * len(self.sent_text) + most_written
        )
        tally.input_tokens = max(read, tally.input_tokens)
        tally.output_tokens = max(claimed - tally.input_tokens, tally.output_tokens)

    def record_failure(self, usage: RequestCharge, fault: ModelFault) -> None:
        """Note why a request gave no answer, and charge nothing where that is sure."""
        was_answered = usage.outcome == "answered"
        usage.outcome, usage.message = outcome_of(fault.kind), fault.message
        if fault.is_free:
            usage.input_tokens = usage.output_tokens = 0
            usage.usd, usage.is_estimated = 0.0, False
        elif fault.kind == "bad_answer" and not was_answered:
            # A complete response without a count: the prompt was read, and almost nothing was
            # written.
            usage.input_tokens, usage.output_tokens = estimate_tokens(self.sent_text), 0
            self._price(usage)

    def total_use(self, outcome: ModelOutcome, message: str = "") -> ModelUse:
        """Return the use of the whole question."""
        last = self.charges[-1] if self.charges else None
        model = last.model if last is not None and last.outcome == "answered" else self.model
        seconds = max(0.0, anyio.current_time() - self.started)
        return self._use_of(self.charges, model, outcome, message, seconds)

    def _use_of(
        self,
        charges: Sequence[RequestCharge],
        model: str,
        outcome: ModelOutcome,
        message: str,
        seconds: float,
    ) -> ModelUse:
        return ModelUse(
            role=self.call.role,
            name=self.call.name,
            model=model,
            outcome=outcome,
            input_tokens=sum(one.input_tokens for one in charges),
            output_tokens=sum(one.output_tokens for one in charges),
            usd=sum_prices([one.usd for one in charges]),
            seconds=seconds,
            attempts=len(charges),
            is_estimated=any(one.is_estimated for one in charges),
            is_implausible=any(one.is_implausible for one in charges),
            rung=self.call.rung,
            step=self.call.step,
            index=self.call.index,
            input_chars=self._input_chars(),
            message=message,
        )

    def _input_chars(self) -> int:
        """Return the size of the question without the types of its goal: one provider is sent them
        and another is not, and a replay of either measures what the recording did.
        """
        if self.call.goal_schema is None:
            return len(self.sent_text)
        return len(sent_text(replace(self.call, goal_schema=None)))

    def _amount(self, usage: RequestCharge) -> Spend:
        """Return the most that a request can cost, and charge it with that."""
        usage.output_tokens = self.max_tokens
        self._price(usage)
        # A budget store with a budget of money refuses an unknown price; elsewhere it counts as
        # nothing.
        usd = math.inf if usage.usd is None else usage.usd
        return Spend(1, usage.input_tokens + self.max_tokens, usd, _RESERVED_SECONDS)

    async def _reserve(self, usage: RequestCharge) -> Reservation:
        """Reserve the most that a request can cost, with a lower ceiling of the answer where a
        budget has no room for the whole.

        Raises:
            RequestFailed: a budget has no room for an answer that is worth having; it names what
                such an answer would take.
        """
        ceiling = self.max_tokens
        least = min(_MIN_ANSWER_TOKENS, ceiling)
        while True:
            try:
                return await self._reserve_amount(usage.model, self._amount(usage))
            except BudgetExceeded as error:
                # Each turn lowers the ceiling to what one more of the budgets has room for.
                room = max(self._affordable_tokens(usage, error), least)
                if room >= self.max_tokens:
                    # What is asked next, as in another form, may have room for more.
                    self.max_tokens = ceiling
                    raise _over_budget(error) from error
                self.max_tokens = room

    def _affordable_tokens(self, usage: RequestCharge, error: BudgetExceeded) -> int:
        """Return the tokens of an answer that a budget has room for; the whole ceiling where a
        shorter answer would not help.
        """
        if error.measure == "tokens":
            return int(error.left) - usage.input_tokens
        if error.measure == "usd" and usage.usd is not None:
            whole, usage.output_tokens = usage.usd, 0
            self._price(usage)
            per_answer = whole - (usage.usd or 0.0)
            share = (error.left - (usage.usd or 0.0)) / per_answer if per_answer > 0 else 1.0
            return int(self.max_tokens * share)
        return self.max_tokens

    async def _reserve_amount(self, model: str, amount: Spend) -> Reservation:
        """Reserve an amount for a request to a model.

        Raises:
            BudgetExceeded: it is more than is left.
        """
        account = BudgetScope(
            self.call.run,
            self.call.job,
            self.call.step,
            self.call.role,
            self.call.budget,
            model=model,
        )
        reservations: list[Reservation] = []
        # A cancelled transaction would leave a reservation that is never settled.
        with anyio.CancelScope(shield=True):
            with suppress(CallDeferred):
                reservations.append(await self.budgets.reserve(account, amount))
        if not reservations:
            # Outside of the shield: a stopped run cancels this, and a call that was never made has
            # no use.
            await anyio.sleep_forever()
        return reservations[0]

    def _price(self, usage: RequestCharge) -> None:
        usage.usd = price_of(
            usage.model,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            self.prices,
            base_url=usage.url,
        )


def _is_count(tokens: object, most: float = math.inf) -> TypeGuard[int]:
    """Tell whether a provider's count can be believed: nothing at all was never what an answer
    cost.
    """
    return isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens <= most


def _response_text(response: ModelResponse) -> str:
    pieces: list[str] = []
    for part in response.parts:
        match part:
            case TextPart(content=text) | ThinkingPart(content=text):
                pieces.append(text)
            case ToolCallPart():
                pieces.append(arguments_text(part))
            case _:
                pass
    return "".join(pieces)


def sum_prices(prices: list[float | None]) -> float | None:
    """Return what requests cost together; None where the price of one is not known."""
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None
