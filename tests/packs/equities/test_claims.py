"""Conclusions against the table: planted lies are caught, and what the table says is let through."""

from __future__ import annotations

import pytest

from wavewright.packs.equities.claims import Conclusion, read_conclusion, stated_table
from wavewright.planner.types import JsonObject

TABLE = stated_table(
    {
        "stocks": [
            {
                "code": "ANV",
                "name": "Anvil Works",
                "currency": "USD",
                "since": "2020-01-02",
                "as_of": "2026-11-27",
                "current_price": 48.37,
                "period_return": 1.914,
                "return_1y": 0.1472,
                "annual_growth": 0.1678,
                "volatility": 0.2413,
                "max_drawdown": {"depth": -0.4126, "peak": "2022-01-04", "trough": "2022-10-12"},
                "trend_signal": "up",
                "comparison": {
                    "benchmark": "MKT",
                    "since": "2020-01-02",
                    "until": "2026-11-27",
                    "excess_return": 0.873,
                    "beta": 1.24,
                    "correlation": 0.71,
                },
            },
            {
                "code": "BEL",
                "name": "Bell Foundry",
                "currency": "USD",
                "since": "2020-01-02",
                "as_of": "2026-11-27",
                "current_price": 9.05,
                "period_return": -0.322,
                "return_1y": -0.0563,
                "annual_growth": -0.0548,
                "volatility": 0.377,
                "max_drawdown": {"depth": -0.613, "peak": "2020-02-19", "trough": "2025-04-08"},
                "trend_signal": "down",
                "comparison": {
                    "benchmark": "MKT",
                    "since": "2020-01-02",
                    "until": "2026-11-27",
                    "excess_return": -1.363,
                    "beta": 0.58,
                    "correlation": -0.12,
                },
            },
        ],
        "benchmark": {
            "code": "MKT",
            "as_of": "2026-11-27",
            "return_1y": 0.081,
            "trend_signal": "up",
        },
    }
)

YEAR, ALL, NOW = "one year", "all prices", "latest"


def read(stock: str, figure: str, period: str, direction: str, text: str) -> Conclusion | str:
    given: JsonObject = {
        "stock": stock,
        "figure": figure,
        "period": period,
        "direction": direction,
        "text": text,
    }
    return read_conclusion(given, TABLE)


LIES = [
    # Figures of another stock, of another figure, of nothing.
    ("ANV", "return_1y", YEAR, "up", "ANV gained 5.6 % in one year."),
    ("BEL", "return_1y", YEAR, "down", "BEL lost 14.7 % over the year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 24.1 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 41.3 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 15.7 % in one year."),
    ("ANV", "current_price", NOW, "none", "ANV closed at 84.37 USD."),
    ("ANV", "current_price", NOW, "none", "ANV last closed at 9.05 USD."),
    ("ANV", "volatility", ALL, "none", "The volatility of ANV is 37.7 %."),
    ("ANV", "beta", ALL, "none", "The beta of ANV against MKT is 0.58."),
    ("BEL", "correlation", ALL, "none", "The correlation of BEL with MKT is 0.12."),
    ("BEL", "max_drawdown", ALL, "down", "The deepest drawdown of BEL was 41.3 %."),
    ("ANV", "annual_growth", ALL, "up", "ANV grew by 191.4 % a year."),
    # A direction that is not the figure's.
    ("ANV", "return_1y", YEAR, "down", "ANV lost 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV fell by 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV returned -14.7 % in one year."),
    ("BEL", "return_1y", YEAR, "down", "BEL gained 5.6 % in one year."),
    ("BEL", "return_1y", YEAR, "up", "BEL gained 5.6 % in one year."),
    ("BEL", "return_1y", YEAR, "down", "BEL returned 5.6 % in one year."),
    ("BEL", "trend", NOW, "up", "BEL trends up."),
    ("BEL", "trend", NOW, "down", "The trend of BEL is rising."),
    ("ANV", "excess_return", ALL, "up", "ANV lagged behind MKT by 87.3 %."),
    ("ANV", "excess_return", ALL, "up", "ANV returned 87.3 % less than MKT."),
    ("BEL", "excess_return", ALL, "down", "BEL outperformed MKT by 136.3 %."),
    # A period that is not the figure's.
    ("ANV", "period_return", YEAR, "up", "ANV gained 191.4 % in one year."),
    ("ANV", "period_return", ALL, "up", "ANV gained 191.4 % in 12 months."),
    ("ANV", "period_return", ALL, "up", "ANV gained 191.4 % since 2024-01-02."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in a month."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in each of five years."),
    ("ANV", "max_drawdown", ALL, "down", "ANV fell by 41.3 % from 2023-01-04."),
    # Claims that no table holds.
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % and pays a dividend of 11 %."),
    ("ANV", "trend", NOW, "up", "ANV trends up: the chief executive resigned."),
    ("ANV", "trend", NOW, "up", "ANV trends up and will reach 60 USD."),
    ("ANV", "return_1y", YEAR, "up", "Revenue of ANV rose tenfold and its profit doubled."),
    ("ANV", "trend", NOW, "up", "ANV trends strongly up: buy."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 %, the best of all stocks."),
    ("ANV", "return_1y", YEAR, "up", "ANV never lost money and cannot fall."),
    ("BEL", "trend", NOW, "down", "BEL trends down, so it is about to be delisted."),
    # Another subject, or none.
    ("ANV", "return_1y", YEAR, "up", "Bell Foundry gained 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 %, and BEL rose with it."),
    ("ZZZ", "return_1y", YEAR, "up", "ZZZ gained 14.7 % in one year."),
    ("MKT", "volatility", ALL, "none", "MKT has a volatility of 24.1 %."),
    ("ANV", "dividend", YEAR, "up", "ANV pays 14.7 % a year."),
    # Words of the table, put together to something else.
    ("ANV", "return_1y", YEAR, "up", "ANV has gained 14 % over the last year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained fourteen percent in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV doubled in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % over twelve months to 2020-01-02."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 USD in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 points in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV returned 14.7 % in one year, more than MKT."),
    ("ANV", "return_1y", YEAR, "up", "The benchmark gained 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 1,472 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 0.147 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 15 % within 10 months."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in 2024."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % last month."),
    ("ANV", "return_1y", YEAR, "up", "The company's value rose by 14.7 % in one year."),
    ("BEL", "return_1y", YEAR, "down", "BEL lost more than 5.6 % over the year."),
    ("BEL", "return_1y", YEAR, "down", "BEL lost 56.3 % over the year."),
    ("BEL", "return_1y", YEAR, "down", "BEL lost 5.6 % a year."),
    ("ANV", "period_return", ALL, "up", "ANV gained 191.4 % since 2022."),
    ("ANV", "period_return", ALL, "up", "ANV gained 191.4 % until 2022-10-12."),
    ("ANV", "period_return", ALL, "up", "ANV gained 16.8 % over the whole period."),
    ("ANV", "annual_growth", ALL, "up", "ANV grew by 16.8 % over the whole period."),
    ("ANV", "annual_growth", ALL, "up", "ANV gained 16.8 % in the last year."),
    ("ANV", "volatility", ALL, "none", "The volatility of ANV is 24.1 % a month."),
    ("ANV", "volatility", ALL, "none", "The volatility of ANV is down at 24.1 %."),
    ("ANV", "volatility", ALL, "none", "ANV has the price of 24.1 %."),
    ("ANV", "max_drawdown", ALL, "down", "ANV fell by 41.3 % from its peak in 2020."),
    ("ANV", "max_drawdown", ALL, "down", "ANV fell by 41.3 % in one year."),
    ("ANV", "max_drawdown", ALL, "down", "ANV is 41.3 % below its peak."),
    ("ANV", "max_drawdown", ALL, "down", "ANV now stands 41.3 % below the peak."),
    ("ANV", "current_price", NOW, "none", "ANV closed at 48.37 EUR."),
    ("ANV", "current_price", NOW, "none", "ANV closed at 48.37 USD on 2020-01-02."),
    ("ANV", "current_price", NOW, "none", "ANV last traded at 48.37 GBP."),
    ("ANV", "current_price", NOW, "none", "ANV last traded at €48.37."),
    ("ANV", "trend", NOW, "up", "The trend of ANV is up 14.7 %."),
    ("ANV", "trend", NOW, "up", "The trend of ANV is up since 2020-01-02."),
    ("ANV", "trend", NOW, "up", "ANV trends up, above 60 USD."),
    ("ANV", "trend", NOW, "up", "ANV trends sideways."),
    ("ANV", "excess_return", ALL, "up", "ANV outperformed MKT by 87.3 % a year."),
    ("ANV", "excess_return", ALL, "up", "ANV gained 87.3 % over the whole period."),
    ("ANV", "excess_return", ALL, "up", "ANV outperformed MKT by 191.4 %."),
    ("ANV", "excess_return", ALL, "up", "MKT outperformed ANV by 87.3 %."),
    ("ANV", "beta", ALL, "none", "ANV has a beta of 1.24 %."),
    ("ANV", "beta", ALL, "none", "The beta of ANV is 0.71."),
    ("ANV", "beta", ALL, "none", "The beta of ANV is -1.24."),
    ("BEL", "correlation", ALL, "none", "BEL is correlated with the benchmark, 0.12."),
    ("MKT", "return_1y", YEAR, "up", "MKT gained 14.7 % in one year."),
    ("BEL", "max_drawdown", ALL, "down", "BEL fell by 61.3 % from peak to trough in 2020."),
    ("ANV", "return_1y", YEAR, "up", "ANV’s gain of 14.7% is down from 16.8%."),
    ("BEL", "trend", NOW, "down", "BEL is no longer down."),
    ("ANV", "trend", NOW, "up", "ANV was up and is down."),
    ("ANV", "return_1y", YEAR, "up", "ANV ne gagne que 14,7 % sur un an."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14,7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in one year and lost nothing."),
    # Words of the figure that say something else with it.
    ("ANV", "max_drawdown", ALL, "down", "ANV is at its peak."),
    ("ANV", "max_drawdown", ALL, "down", "The price of ANV is at its trough."),
    ("BEL", "max_drawdown", ALL, "down", "BEL has lost 61.3 % since its peak."),
    ("ANV", "excess_return", ALL, "up", "ANV and MKT gained 87.3 %."),
    ("ANV", "excess_return", ALL, "up", "ANV gained 87.3 % with the market."),
    ("ANV", "volatility", ALL, "none", "The annual rate of ANV is 24.1 %."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in 2026."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % this year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % last year."),
    ("ANV", "return_1y", YEAR, "up", "ANV's price was 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV outperformed by 14.7 % in one year."),
    ("BEL", "return_1y", YEAR, "down", "BEL underperformed by 5.6 % over one year."),
    ("ANV", "trend", NOW, "up", "ANV outperforms."),
    ("ANV", "beta", ALL, "none", "The beta of the market is 1.24."),
    ("ANV", "beta", ALL, "none", "The market has a beta of 1.24 against ANV."),
    ("BEL", "correlation", ALL, "none", "BEL is correlated with the market."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 percentage points in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV beat MKT by 14.7 % in one year."),
    ("ANV", "excess_return", ALL, "up", "MKT beat ANV by 87.3 percentage points."),
    ("ANV", "return_1y", YEAR, "up", "ANV did not gain 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV appreciated by 14.7 % per annum."),
    ("BEL", "excess_return", ALL, "down", "MKT trailed BEL by 136.3 percentage points."),
    # The words of a true sentence in another order, or around another number.
    ("BEL", "return_1y", YEAR, "down", "BEL's negative return of 5.6 % fell over the year."),
    ("BEL", "return_1y", YEAR, "down", "BEL fell from 5.6 % over the past year."),
    ("BEL", "return_1y", YEAR, "down", "BEL fell to about 5.6 % over the past year."),
    ("ANV", "return_1y", YEAR, "up", "14.7 % of the shares rose in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % of 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % and 15 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % per share in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained >14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in one year?"),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in one year 🚀"),
    ("ANV", "period_return", ALL, "up", "ANV's return rose by 191.4 % of its price since 2020."),
    ("ANV", "annual_growth", ALL, "up", "The company's growth is 16.8 % a year."),
    ("ANV", "max_drawdown", ALL, "down", "The worst drawdown from the trough was 41.3 %."),
    ("ANV", "current_price", NOW, "none", "ANV closed at A$48.37."),
    ("ANV", "beta", ALL, "none", "The beta of ANV's index is 1.24."),
    ("ANV", "correlation", ALL, "none", "ANV correlates with all, 0.71."),
    ("ANV", "current_price", NOW, "none", "ANV closed at 48.37 USD on 26 November 2026."),
]  # fmt: skip

TRUTHS = [
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in one year."),
    ("ANV", "return_1y", YEAR, "up", "Anvil Works rose by about 15 percent over the last year."),
    ("ANV", "return_1y", YEAR, "up", "The stock returned +14.72 % within 12 months."),
    ("BEL", "return_1y", YEAR, "down", "BEL lost 5.6 % over the past year."),
    ("BEL", "return_1y", YEAR, "down", "BEL returned -5.6 % over the year."),
    ("BEL", "return_1y", YEAR, "down", "BEL returned \N{MINUS SIGN}5.63 % in one year."),
    ("ANV", "period_return", ALL, "up", "ANV has gained 191.4 % since 2020-01-02."),
    ("BEL", "period_return", ALL, "down", "BEL fell by 32 % over the whole period."),
    ("ANV", "annual_growth", ALL, "up", "ANV grew by 16.8 % a year."),
    ("BEL", "annual_growth", ALL, "down", "BEL shrank by 5.5 % annually."),
    ("ANV", "volatility", ALL, "none", "The annualised volatility of ANV is 24.1 %."),
    ("BEL", "max_drawdown", ALL, "down", "The deepest drawdown of BEL was 61.3 %."),
    ("ANV", "max_drawdown", ALL, "down", "ANV fell 41 % from its peak in 2022."),
    ("ANV", "trend", NOW, "up", "ANV trends upward."),
    ("BEL", "trend", NOW, "down", "The price of BEL is below its moving average and falling."),
    ("ANV", "current_price", NOW, "none", "ANV closed at 48.37 USD on 2026-11-27."),
    ("ANV", "excess_return", ALL, "up", "ANV outperformed MKT by 87.3 %."),
    ("BEL", "excess_return", ALL, "down", "BEL lagged behind the benchmark by 136.3 percent points."),
    ("ANV", "beta", ALL, "none", "The beta of ANV against MKT is 1.24."),
    ("BEL", "correlation", ALL, "none", "The correlation of BEL with MKT is -0.12."),
    ("ANV", "return_1y", YEAR, "up", "Over twelve months, ANV is up 14.7%."),
    ("ANV", "return_1y", YEAR, "up", "ANV: +14.7 % in one year"),
    ("ANV", "return_1y", YEAR, "up", "Anvil Works (ANV) has risen 14.7 per cent in the past year."),
    ("BEL", "return_1y", YEAR, "down", "Shares of BEL declined by 5.6% over the last 12 months."),
    ("BEL", "period_return", ALL, "down", "BEL lost 32.2 % since 2020-01-02."),
    ("ANV", "max_drawdown", ALL, "down", "The maximum drawdown of ANV was -41.3 %, between 2022-01-04 and 2022-10-12."),
    ("ANV", "current_price", NOW, "none", "The last price of ANV is 48.37 USD."),
    ("ANV", "current_price", NOW, "none", "Anvil Works last traded at 48.37 USD."),
    ("ANV", "excess_return", ALL, "up", "ANV returned 87.3 % more than MKT."),
    ("ANV", "trend", NOW, "up", "The trend of ANV is up."),
    ("BEL", "trend", NOW, "down", "BEL is in a downtrend."),
    ("ANV", "volatility", ALL, "none", "ANV's annualised volatility stands at 24.1 %."),
    ("MKT", "return_1y", YEAR, "up", "MKT rose 8.1 % in one year."),
    ("BEL", "beta", ALL, "none", "BEL has a beta of 0.58 against MKT."),
    ("ANV", "annual_growth", ALL, "up", "ANV grew 16.78 % annually."),
    ("ANV", "excess_return", ALL, "up", "ANV beat MKT by 87.3 percentage points."),
    ("ANV", "return_1y", YEAR, "up", "In the past twelve months ANV added 14.7 %."),
    ("ANV", "return_1y", YEAR, "up", "ANV has a one-year return of 14.7 %."),
    ("ANV", "period_return", ALL, "up", "From 2020-01-02 to 2026-11-27, ANV returned 191.4 %."),
    ("ANV", "return_1y", YEAR, "up", "ANV's shares have risen roughly 15 % in a year."),
    ("ANV", "annual_growth", ALL, "up", "ANV appreciated by 16.8 % per annum."),
    ("ANV", "max_drawdown", ALL, "down", "ANV fell 41.3 % from peak to trough."),
    ("BEL", "return_1y", YEAR, "down", "BEL slipped 5.6 % over the past year."),
    ("BEL", "excess_return", ALL, "down", "BEL trailed MKT by 136.3 percentage points."),
    ("ANV", "excess_return", ALL, "up", "ANV beat MKT by 87.3 points since 2020."),
    ("ANV", "current_price", NOW, "none", "ANV closed at $48.37 on Nov 27, 2026."),
    ("ANV", "current_price", NOW, "none", "ANV closed at 48.37 USD on 27 November 2026."),
    ("ANV", "period_return", ALL, "up", "ANV rose 191 % since January 2020."),
    ("ANV", "return_1y", YEAR, "up", "Over the past 52 weeks ANV returned 14.7 %."),
    ("BEL", "annual_growth", ALL, "down", "BEL's CAGR is -5.5 %."),
]  # fmt: skip

SAYING_MORE = [
    ("ANV", "trend", NOW, "up", "ANV is above its 200-day moving average."),
    ("ANV", "trend", NOW, "up", "ANV is in an uptrend after falling in 2022."),
    ("BEL", "trend", NOW, "down", "BEL trends down; there is no sign that it rises."),
    ("ANV", "max_drawdown", ALL, "down", "ANV fell 41.3 %, to 2022-10-12, and has risen since."),
    ("BEL", "period_return", ALL, "down", "BEL lost 32.2 % over nearly 7 years."),
    ("ANV", "max_drawdown", ALL, "down", "ANV fell 41.3 % in a slide of 9 months."),
    ("ANV", "max_drawdown", ALL, "down", "The deepest drawdown in nearly 7 years was 41.3 %."),
    ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % in one year, above its 10-month average."),
    ("ANV", "return_1y", YEAR, "up", "ANV hat in einem Jahr 14,7 % gewonnen."),
    ("ANV", "beta", ALL, "none", "ANV moves with the S&P 500, with a beta of 1.24."),
    ("ANV", "trend", NOW, "up", "ANV, a 3M supplier, trends up."),
    ("ANV", "return_1y", YEAR, "up", "With 14.7 % in one year ANV is at a new price level."),
]
"""True of their figures: they are not refused, and stand in words of code."""


def shown(lie: tuple[str, str, str, str, str]) -> str:
    """Return what a reader sees of a conclusion; nothing where it is refused."""
    result = read(*lie)
    return result.shown() if isinstance(result, Conclusion) else ""


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie[-1])
def test_a_planted_lie_is_never_shown(lie: tuple[str, str, str, str, str]) -> None:
    assert lie[-1] not in shown(lie)


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth[-1])
def test_what_the_table_says_is_shown_as_it_was_written(
    truth: tuple[str, str, str, str, str],
) -> None:
    assert truth[-1] in shown(truth)


@pytest.mark.parametrize(
    "lie",
    [
        # Behind a word of figures a number belongs to no name.
        ("ANV", "beta", ALL, "none", "Beta 9 against the benchmark."),
        ("ANV", "current_price", NOW, "none", "ANV closed at Price 999."),
        # The length of another figure is a false period.
        ("ANV", "period_return", ALL, "up", "ANV gained 191.4 % over 9 months."),
        ("ANV", "period_return", ALL, "up", "ANV gained 191.4 % over 10 months."),
        ("ANV", "return_1y", YEAR, "up", "ANV gained 14.7 % over 7 years."),
        ("ANV", "trend", NOW, "up", "ANV trends up since it gained 191.4 % in 200 days."),
    ],
    ids=lambda lie: lie[-1],
)
def test_a_number_of_no_figure_is_refused(lie: tuple[str, str, str, str, str]) -> None:
    assert "is no figure of it" in str(read(*lie))


def test_a_true_sentence_about_the_benchmark_contradicts_nothing() -> None:
    text = "MKT lagged behind ANV by 87.3 %."

    result = read("ANV", "excess_return", ALL, "up", text)

    assert isinstance(result, Conclusion)
    assert text not in result.shown()


def test_a_true_reference_with_a_text_that_says_more_stands_in_words_of_code() -> None:
    result = read("ANV", "return_1y", YEAR, "up", "ANV soared by 14.7 % as demand boomed.")

    assert isinstance(result, Conclusion)
    assert not result.is_verified
    assert result.shown() == "ANV: return over one year +14.7 % to 2026-11-27."


@pytest.mark.parametrize("conclusion", SAYING_MORE, ids=lambda conclusion: conclusion[-1])
def test_what_is_true_and_says_more_is_not_refused(
    conclusion: tuple[str, str, str, str, str],
) -> None:
    result = read(*conclusion)

    assert isinstance(result, Conclusion)
    assert result.shown() == result.stated.sentence()


@pytest.mark.parametrize(
    ("signal", "direction", "text", "is_shown"),
    [
        ("sideways", "flat", "ANV trends neither up nor down.", True),
        ("sideways", "flat", "ANV trends sideways.", True),
        ("sideways", "flat", "ANV trends up.", False),
        ("up", "up", "ANV trends neither up nor down.", False),
    ],
)
def test_a_trend_that_goes_nowhere(
    signal: str, direction: str, text: str, *, is_shown: bool
) -> None:
    stock: JsonObject = {"code": "ANV", "as_of": "2026-11-27", "trend_signal": signal}
    given: JsonObject = {
        "stock": "ANV",
        "figure": "trend",
        "period": NOW,
        "direction": direction,
        "text": text,
    }

    result = read_conclusion(given, stated_table({"stocks": [stock]}))

    assert (isinstance(result, Conclusion) and result.shown() == text) is is_shown


def test_a_change_that_rounds_to_nothing_has_no_minus() -> None:
    stock: JsonObject = {"code": "ANV", "as_of": "2026-11-27", "return_1y": -0.0004}

    stated = stated_table({"stocks": [stock]}).figures["ANV"]["return_1y"]

    assert stated.sentence() == "ANV: return over one year +0.0 % to 2026-11-27."


def test_a_stock_whose_code_is_a_word_is_not_seen_in_that_word() -> None:
    table = stated_table(
        {
            "stocks": [
                {"code": "ALL", "as_of": "2026-11-27", "trend_signal": "up"},
                {"code": "ANV", "as_of": "2026-11-27", "trend_signal": "up"},
            ]
        }
    )
    given: JsonObject = {
        "stock": "ANV",
        "figure": "trend",
        "period": "latest",
        "direction": "up",
        "text": "In all, ANV trends up.",
    }

    assert isinstance(read_conclusion(given, table), Conclusion)
