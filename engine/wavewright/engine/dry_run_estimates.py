"""What one call of a tool is expected to take: from its history, else from what the tool says of itself.

An *estimate* has two figures for each measure: what is expected (the mean) and the *p90*, which nine of ten calls
stay below. Where a tool has too little history its own figure is the expected one and twice that the p90; such a
figure is a *prior*, and is never shown as anything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from wavewright.engine.dry_run_rerun import BegunRunForecast
from wavewright.engine.dry_run_reuse import StepReuse
from wavewright.engine.past_calls import NO_HISTORY, History, PastCalls
from wavewright.planner.allowance import Allowance
from wavewright.planner.check_readiness import Obstacle
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import StepId

EstimateSource: TypeAlias = Literal["history", "prior"]

MIN_CALLS: Final = 3
"""Calls from which a history is believed."""
_DEFAULT_SPREAD: Final = 2.0
"""A prior's p90 over its expected figure."""


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """An expected figure and the one that nine of ten stay below."""

    expected: float = 0.0
    p90: float = 0.0

    def __add__(self, other: EstimateRange) -> EstimateRange:
        return EstimateRange(self.expected + other.expected, self.p90 + other.p90)

    def times(self, factor: float) -> EstimateRange:
        """Return so many of it; of many calls each is taken to reach its p90, which errs on the safe side."""
        return EstimateRange(self.expected * factor, self.p90 * factor)


ZERO_RANGE: Final = EstimateRange()


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Whom a tool would ask, and at which price."""

    model: str
    usd_per_1000_tokens: float | None
    """None where nobody knows it."""


@dataclass(frozen=True, slots=True)
class ForecastInputs:
    """What a forecast knows beside the plan and the tools."""

    history: History = field(default_factory=lambda: NO_HISTORY)
    prices: Mapping[str, ModelPrice] = field(default_factory=dict[str, ModelPrice])
    """By tool that asks a model; none where no model is configured, and then none is asked."""
    allowance: Allowance | None = None
    """What is left of the budgets; None where no model is configured, and then nothing is spent."""
    reuse: Mapping[StepId, StepReuse] = field(default_factory=dict[StepId, StepReuse])
    """By step, what the journal answers."""
    rerun: BegunRunForecast | None = None
    """The run that the plan is part of, where it has begun."""
    has_models: bool = False
    """Whether a model is configured, so that a run would ask the planner where the plan is the template's."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the models, such as a key that is missing."""
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict[str, "Obstacle"])
    """What keeps tools from working in the project, by their names."""


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """What one call takes."""

    seconds: EstimateRange
    seconds_from: EstimateSource
    calls_seen: int
    """How many past calls the seconds are drawn from."""
    tokens: EstimateRange = ZERO_RANGE
    tokens_from: EstimateSource = "prior"
    spends_seen: int = 0
    """How many past calls of this model the tokens are drawn from."""
    usd: EstimateRange | None = ZERO_RANGE
    """None where the price is not known."""
    model: str | None = None
    """Who would be asked; None for a tool that asks no model."""


def estimate_call(tool: ToolSignature, outlook: ForecastInputs) -> CallEstimate:
    """Return what one call of the tool is expected to take."""
    past = outlook.history.get(tool.name, PastCalls())
    has_history = len(past.seconds) >= MIN_CALLS
    seconds = _observed_range(past.seconds) if has_history else _default_range(tool.expected_seconds)
    price = outlook.prices.get(tool.name)
    seen = len(past.seconds) if has_history else 0
    basis: EstimateSource = "history" if has_history else "prior"
    if price is None:
        return CallEstimate(seconds, basis, seen)
    spends = past.of_model(price.model)
    if len(spends) < MIN_CALLS:
        tokens = _default_range(float(tool.expected_tokens))
        usd = None if price.usd_per_1000_tokens is None else tokens.times(price.usd_per_1000_tokens / 1000)
        return CallEstimate(seconds, basis, seen, tokens, "prior", 0, usd, price.model)
    known = [spend.usd for spend in spends if spend.usd is not None]
    return CallEstimate(
        seconds,
        basis,
        seen,
        _observed_range([float(spend.tokens) for spend in spends]),
        "history",
        len(spends),
        _observed_range(known) if len(known) == len(spends) else None,
        price.model,
    )


def _default_range(figure: float) -> EstimateRange:
    return EstimateRange(figure, figure * _DEFAULT_SPREAD)


def _observed_range(figures: Sequence[float]) -> EstimateRange:
    """Return mean and p90 (by nearest rank: a figure that did occur)."""
    ordered = sorted(figures)
    mean = math.fsum(ordered) / len(ordered)
    # Of few calls the mean can be above nine of ten; what is expected is never above the p90.
    return EstimateRange(mean, max(mean, ordered[math.ceil(0.9 * len(ordered)) - 1]))
