"""Figures in words and tables, for people."""

from __future__ import annotations

from wavewright.tools.equities.documents import (
    BenchmarkResult,
    Figures,
    NewsLine,
    StockResult,
)

NOT_AVAILABLE = "n/a"


def signed_percent(value: float | None) -> str:
    """Return a fraction as signed percent with one decimal."""
    return NOT_AVAILABLE if value is None else f"{value * 100:+,.1f} %"


def unsigned_percent(value: float | None) -> str:
    """Return a fraction as percent without a plus sign, for what is no change."""
    return NOT_AVAILABLE if value is None else f"{value * 100:,.1f} %"


def counted(number: int, word: str) -> str:
    """Return a number with its noun."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def two_decimals(value: float | None) -> str:
    """Return a number with two decimals."""
    return NOT_AVAILABLE if value is None else f"{value:,.2f}"


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
    """Return one line on the stocks: how many trend up, and which did best over the last year, or else over all."""
    ahead = sum(stock.trend_signal == "up" for stock in stocks)
    by_year = [(stock.return_1y, stock.code) for stock in stocks if stock.return_1y is not None]
    by_all = [(stock.period_return, stock.code) for stock in stocks]
    span = "one year" if by_year else "all their prices"
    most, code = max(by_year or by_all, key=lambda found: found[0])
    return f"{ahead} of {len(stocks)} stocks trend up. Best over {span}: {code} with {signed_percent(most)}."


def stocks_table(stocks: list[StockResult]) -> list[str]:
    """Return the stocks as a Markdown table."""
    lines = [
        "| Stock | Price | On | 1 year | A year | Volatility | Drawdown | Trend | Over benchmark | Beta |",
        "|---|---:|---|---:|---:|---:|---:|---|---:|---:|",
    ]
    for stock in stocks:
        comparison = stock.comparison
        cells = [
            stock.code,
            two_decimals(stock.current_price) + (f" {stock.currency}" if stock.currency else ""),
            str(stock.as_of),
            signed_percent(stock.return_1y),
            signed_percent(stock.annual_growth),
            unsigned_percent(stock.volatility),
            unsigned_percent(stock.max_drawdown.depth),
            stock.trend_signal,
            signed_percent(comparison.excess_return) if comparison else NOT_AVAILABLE,
            two_decimals(comparison.beta) if comparison else NOT_AVAILABLE,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def benchmark_text(benchmark: BenchmarkResult) -> str:
    """Return one paragraph on the benchmark."""
    kind = (
        f"an equal-weight basket of {', '.join(benchmark.constituents)}"
        if benchmark.index_kind == "equal_weight_basket"
        else "an index series"
    )
    over = [
        f"{signed_percent(value)} {span}"
        for value, span in ((benchmark.return_1y, "over one year"), (benchmark.annual_growth, "a year"))
        if value is not None
    ] or [f"{signed_percent(benchmark.period_return)} over all its levels"]
    return (
        f"Benchmark {benchmark.code}, {kind}: {', '.join(over)}, volatility {unsigned_percent(benchmark.volatility)}, "
        f"drawdown {unsigned_percent(benchmark.max_drawdown.depth)}, trend {benchmark.trend_signal}."
    )


def news_list(news: list[NewsLine]) -> list[str]:
    """Return the announcements as Markdown list items; their titles are not trusted."""
    return [f"- {line.date} {line.code}: {one_line(line.title)} ({line.source})" for line in news]


def one_line(text: str) -> str:
    """Return text on one line and without what Markdown would read as a mark."""
    return " ".join(text.split()).translate({ord(mark): f"\\{mark}" for mark in "\\`*_[]<>|#"})
