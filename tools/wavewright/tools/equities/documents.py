"""What the tools of this pack hand to each other: documents with tags, and the figures in them.

A *document* has an id, a kind, a title, tags, readable `content`, and the structured fields of its kind; plans
pass documents along by reference. Every document says what it was made from (`sources`) and what was odd about
that (`warnings`).
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Frequency = Literal["daily", "weekly", "monthly", "quarterly", "yearly", "irregular"]
TrendSignal = Literal["up", "down", "sideways", "unknown"]

Point = tuple[dt.date, float]
"""A date and a price, compact: `["2010-03-01", 223.02]`."""


class FrozenRecord(BaseModel):
    """Base of what this pack gives out: immutable and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class InputDocument(BaseModel):
    """Any document, as a tool takes it: the common fields, and whatever else its kind has."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    kind: str
    title: str
    tags: list[str]
    content: str


class SourceNote(FrozenRecord):
    """Where a datum came from."""

    name: str
    location: str | None
    as_of: dt.date | None


class Drawdown(FrozenRecord):
    """The deepest fall from a peak: `depth` is a fraction of the peak, zero or negative."""

    depth: float
    peak: dt.date
    trough: dt.date
    recovered: dt.date | None
    """First date at which the peak was reached again."""


class Trend(FrozenRecord):
    """Price against its moving average, with what the signal was read from."""

    signal: TrendSignal
    average: float | None
    window: int | None
    """Observations in the moving average."""
    distance: float | None
    """Price over average, less one."""
    slope: float | None
    """Average over the average of about one month before, less one."""


class Figures(FrozenRecord):
    """What one price series says; fractions, not percent; null where the series is too short."""

    since: dt.date
    until: dt.date
    observations: int
    frequency: Frequency
    period_return: float
    return_1y: float | None
    annual_growth: float | None
    """Compound annual growth rate over the whole series."""
    volatility: float | None
    """Annualised standard deviation of log returns."""
    max_drawdown: Drawdown
    trend: Trend


class BenchmarkComparison(FrozenRecord):
    """A series against a benchmark, over the dates that both have."""

    benchmark: str
    since: dt.date
    until: dt.date
    observations: int
    """Returns that both have."""
    excess_return: float
    """Return over the common dates, less the benchmark's."""
    beta: float | None
    correlation: float | None
    tracking_error: float | None
    """Annualised standard deviation of the difference of the returns."""


class _SeriesDocument(FrozenRecord):
    id: str
    title: str
    tags: list[str]
    content: str
    code: str
    currency: str | None
    as_of: dt.date
    """Date of the last price."""
    current_price: Annotated[float, Field(gt=0)]
    price_basis: Literal["close", "adjusted", "level"]
    frequency: Frequency
    prices: list[Point]
    trend_signal: TrendSignal
    figures: Figures | None
    """Null where there are fewer than two prices."""
    sources: list[SourceNote]
    warnings: list[str]


class StockDocument(_SeriesDocument):
    """Prices and figures of one stock."""

    kind: Literal["stock-data"]
    exchange: str


class IndexDocument(_SeriesDocument):
    """Prices and figures of a benchmark."""

    kind: Literal["index-data"]
    index_kind: Literal["series", "equal_weight_basket"]
    constituents: list[str]


class Announcement(FrozenRecord):
    """One announcement of a company, as it was published; its text is not trusted."""

    date: dt.date
    title: str
    text: str
    tags: list[str]
    source: str


class AnnouncementsDocument(FrozenRecord):
    """A company's announcements, latest first."""

    id: str
    kind: Literal["announcements"]
    title: str
    tags: list[str]
    content: str
    code: str
    as_of: dt.date | None
    """Date of the latest announcement."""
    items: list[Announcement]
    sources: list[SourceNote]
    warnings: list[str]


class SearchHit(FrozenRecord):
    """One result of a web search, as it was returned; its text is not trusted."""

    title: str
    url: str
    text: str


class SearchDocument(FrozenRecord):
    """Results of one web search."""

    id: str
    kind: Literal["web-search"]
    title: str
    tags: list[str]
    content: str
    query: str
    items: list[SearchHit]
    sources: list[SourceNote]
    warnings: list[str]


class StockResult(FrozenRecord):
    """One stock in a summary."""

    code: str
    currency: str | None
    as_of: dt.date
    current_price: float
    period_return: float
    return_1y: float | None
    annual_growth: float | None
    volatility: float | None
    max_drawdown: Drawdown
    trend_signal: TrendSignal
    trend: Trend
    comparison: BenchmarkComparison | None
    confidence: dict[str, float]
    """By field: how far the number of prices and their completeness carry it, from 0 to 1."""
    observations: int
    since: dt.date
    frequency: Frequency
    evidence: list[str]
    """Ids of the documents that the figures were computed from."""
    sources: list[SourceNote]


class BenchmarkResult(FrozenRecord):
    """The benchmark in a summary."""

    code: str
    index_kind: Literal["series", "equal_weight_basket"]
    constituents: list[str]
    as_of: dt.date
    period_return: float
    return_1y: float | None
    annual_growth: float | None
    volatility: float | None
    max_drawdown: Drawdown
    trend_signal: TrendSignal


class NewsLine(FrozenRecord):
    """An announcement that a summary lists."""

    code: str
    date: dt.date
    title: str
    source: str


class PriceLine(FrozenRecord):
    """One line of a chart: a name, and figures by date in ascending order."""

    name: str
    points: list[Point]


class PriceChart(FrozenRecord):
    """The prices of the stocks and the benchmark, for the report to draw; each line starts at 100."""

    title: str
    series: list[PriceLine]
    normalise: Literal[True] = True


class SummaryDocument(FrozenRecord):
    """What code, and no model, computed from the documents."""

    id: str
    kind: Literal["summary"]
    title: str
    tags: list[str]
    content: str
    """Markdown."""
    method: Literal["computed"]
    """Code computed every figure; no model was asked."""
    as_of: dt.date | None
    stocks: list[StockResult]
    benchmark: BenchmarkResult | None
    announcements: list[NewsLine]
    confidence: dict[str, float]
    """By field: the least of the stocks' figures."""
    chart: PriceChart | None
    """Null where no document holds prices."""
    sources: list[SourceNote]
    warnings: list[str]
