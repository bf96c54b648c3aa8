"""What the tools of this pack hand to each other: documents with tags, the figures in them, and
these in words.

A *document* has an id, a kind, a title, tags, readable `content`, and the structured fields of its
kind; plans pass documents along by reference. Every document says what it was made from (`sources`)
and what was odd about that (`warnings`).
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


class _TaggedDocument(FrozenRecord):
    """What every document of this pack has."""

    id: str
    title: str
    tags: list[str]
    content: str
    sources: list[SourceNote]
    warnings: list[str]


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


class SharedFigures(FrozenRecord):
    """Figures of a series that a summary shows, too."""

    since: dt.date
    period_return: float
    return_1y: float | None
    annual_growth: float | None
    """Compound annual growth rate over the whole series."""
    volatility: float | None
    """Annualised standard deviation of log returns."""
    max_drawdown: Drawdown


class Figures(SharedFigures):
    """What one price series says; fractions, not percent; null where the series is too short."""

    until: dt.date
    observations: int
    frequency: Frequency
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


class Oddity(FrozenRecord):
    """What makes a series of prices doubtful, and from which day on."""

    kind: Literal["split", "scale", "spike", "gap", "value", "duplicate"]
    """A jump by the ratio of a split, by a factor of 100, a single price far from both neighbours,
    days without prices, a price that is not above zero, or two prices of one day.
    """
    date: dt.date
    text: str


class _SeriesDocument(_TaggedDocument):
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
    sessions_behind: int
    """Trading sessions that have ended since the last price."""
    calendar: str
    """What sessions are counted by."""
    oddities: list[Oddity]
    doubts: list[str]
    """Days on which a price jumps as by a split or by another unit: no figure holds then."""
    gaps: list[str]
    """Days before which prices are missing."""


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


class AnnouncementsDocument(_TaggedDocument):
    """A company's announcements, latest first."""

    kind: Literal["announcements"]
    code: str
    as_of: dt.date | None
    """Date of the latest announcement."""
    items: list[Announcement]


class SearchHit(FrozenRecord):
    """One result of a web search, as it was returned; its text is not trusted."""

    title: str
    url: str
    text: str


class SearchDocument(_TaggedDocument):
    """Results of one web search."""

    kind: Literal["web-search"]
    query: str
    items: list[SearchHit]


class _SeriesName(FrozenRecord):
    code: str
    currency: str | None
    as_of: dt.date


class _SeriesResult(SharedFigures, _SeriesName):  # the name stands first: last bases come first
    """One series in a summary."""

    trend_signal: TrendSignal


class StockResult(_SeriesResult):
    """One stock in a summary."""

    name: str | None
    """The company's name, where the job gives it."""
    current_price: float
    trend: Trend
    comparison: BenchmarkComparison | None
    """Against the first benchmark."""
    comparisons: list[BenchmarkComparison]
    """Against each benchmark in the same currency."""
    oddities: list[Oddity]
    confidence: dict[str, float]
    """By field: how far the number of prices and their completeness carry it, from 0 to 1."""
    observations: int
    frequency: Frequency
    evidence: list[str]
    """Ids of the documents that the figures were computed from."""
    sources: list[SourceNote]


class BenchmarkResult(_SeriesResult):
    """The benchmark in a summary."""

    index_kind: Literal["series", "equal_weight_basket"]
    constituents: list[str]


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


class SummaryDocument(_TaggedDocument):
    """What code, and no model, computed from the documents."""

    kind: Literal["summary"]
    method: Literal["computed"]
    """Code computed every figure; no model was asked."""
    as_of: dt.date | None
    stocks: list[StockResult]
    benchmark: BenchmarkResult | None
    """The first benchmark."""
    benchmarks: list[BenchmarkResult]
    missing: list[str]
    """Codes of stocks that were asked for and have no prices here."""
    announcements: list[NewsLine]
    confidence: dict[str, float]
    """By field: the least of the stocks' figures."""
    opinions: list[str] = []
    """What a model thinks besides; empty where code wrote all of it."""
    chart: PriceChart | None
    """Null where no document holds prices."""


NOT_AVAILABLE = "n/a"


def signed_percent(value: float | None) -> str:
    """Return a fraction as signed percent with one decimal."""
    return NOT_AVAILABLE if value is None else f"{value * 100:+z,.1f} %"


def unsigned_percent(value: float | None) -> str:
    """Return a fraction as percent without a plus sign, for what is no change."""
    return NOT_AVAILABLE if value is None else f"{value * 100:z,.1f} %"


def two_decimals(value: float | None) -> str:
    """Return a number with two decimals."""
    return NOT_AVAILABLE if value is None else f"{value:z,.2f}"


def figures_text(figures: Figures) -> list[str]:
    """Return the figures of one series as Markdown list items."""
    fall = figures.max_drawdown
    recovered = f"recovered {fall.recovered}" if fall.recovered else "not recovered"
    drawdown = (
        f"{unsigned_percent(fall.depth)} from {fall.peak} to {fall.trough}, {recovered}"
        if fall.depth < 0
        else "none"
    )
    return [
        f"- Return over one year: {signed_percent(figures.return_1y)}",
        f"- Annual growth: {signed_percent(figures.annual_growth)}",
        f"- Volatility, annualised: {unsigned_percent(figures.volatility)}",
        f"- Deepest drawdown: {drawdown}",
        f"- Trend: {figures.trend.signal}{_distance(figures.trend.distance, figures.trend.window)}",
    ]


def _distance(distance: float | None, window: int | None) -> str:
    if distance is None:
        return " (too few prices for a moving average)"
    return f" ({signed_percent(distance)} from the average of the last {window} prices)"


def stocks_text(stocks: list[StockResult]) -> str:
    """Return one line on the stocks: how many trend up, and which did best over the last year, or
    else over all; of one alone, its trend and what it returned.
    """
    ahead = sum(stock.trend_signal == "up" for stock in stocks)
    trending = f"{ahead} of {len(stocks)} stocks trend up."
    if len({stock.currency for stock in stocks}) > 1:
        return f"{trending} Their prices are in different currencies, and so not ranked."
    by_year = [(stock.return_1y, stock.code) for stock in stocks if stock.return_1y is not None]
    by_all = [(stock.period_return, stock.code) for stock in stocks]
    span = "one year" if by_year else "all their prices"
    most = signed_percent(max(by_year or by_all)[0])
    best = " and ".join(code for value, code in by_year or by_all if signed_percent(value) == most)
    if len(stocks) == 1:
        return f"{best}: trend {stocks[0].trend_signal}, {most} over {span}."
    return f"{trending} Best over {span}: {best} with {most}."


def stocks_table(stocks: list[StockResult]) -> list[str]:
    """Return the stocks as a Markdown table; what is not of one year is of all prices since a day."""
    has_names = any(stock.name for stock in stocks)
    head = ["Stock", *(["Company"] if has_names else []), "Price", "On", "1 year", "Since"]
    head += ["A year", "Volatility", "Drawdown", "Trend"]
    rows = [
        [
            stock.code,
            *([one_line(stock.name or "")] if has_names else []),
            two_decimals(stock.current_price) + (f" {stock.currency}" if stock.currency else ""),
            str(stock.as_of),
            signed_percent(stock.return_1y),
            str(stock.since),
            signed_percent(stock.annual_growth),
            unsigned_percent(stock.volatility),
            unsigned_percent(stock.max_drawdown.depth),
            stock.trend_signal,
        ]
        for stock in stocks
    ]
    return _table(head, rows)


def comparisons_table(stocks: list[StockResult]) -> list[str]:
    """Return each stock against each benchmark as a Markdown table; nothing where none is compared."""
    rows = [
        [
            stock.code,
            comparison.benchmark,
            f"{comparison.since} to {comparison.until}",
            signed_percent(comparison.excess_return),
            two_decimals(comparison.beta),
            two_decimals(comparison.correlation),
        ]
        for stock in stocks
        for comparison in stock.comparisons
    ]
    head = ["Stock", "Benchmark", "Period", "Over benchmark", "Beta", "Correlation"]
    return _table(head, rows) if rows else []


_TEXT_COLUMNS = frozenset({"Stock", "Company", "Trend", "Benchmark", "Period"})


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    marks = ["---" if column in _TEXT_COLUMNS else "---:" for column in head]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return [lines[0], f"|{'|'.join(marks)}|", *lines[1:]]


def benchmark_text(benchmark: BenchmarkResult) -> str:
    """Return one paragraph on the benchmark."""
    kind = (
        f"an equal-weight basket of {', '.join(benchmark.constituents)}"
        if benchmark.index_kind == "equal_weight_basket"
        else "an index series"
    )
    over = [
        f"{signed_percent(value)} {span}"
        for value, span in (
            (benchmark.return_1y, "over one year"),
            (benchmark.annual_growth, "a year"),
        )
        if value is not None
    ] or [f"{signed_percent(benchmark.period_return)} over all its levels"]
    return (
        f"Benchmark {benchmark.code}, {kind}, since {benchmark.since}: {', '.join(over)}, "
        f"volatility {unsigned_percent(benchmark.volatility)}, "
        f"drawdown {unsigned_percent(benchmark.max_drawdown.depth)}, trend {benchmark.trend_signal}."
    )


def news_list(news: list[NewsLine]) -> list[str]:
    """Return the announcements as Markdown list items; their titles are not trusted."""
    return [f"- {line.date} {line.code}: {one_line(line.title)} ({line.source})" for line in news]


def one_line(text: str) -> str:
    """Return text on one line and without what Markdown would read as a mark."""
    return " ".join(text.split()).translate({ord(mark): f"\\{mark}" for mark in "\\`*_[]<>|#"})
