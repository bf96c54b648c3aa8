"""Documents of price series and of benchmarks.

A benchmark is a given series or an equal-weight *basket*, marked as such. A basket is rebalanced at
every observation: its return from one date to the next is the mean of its constituents' returns. A
constituent counts from its second price to its last; on a date without a price its last price is
used. The level starts at 100.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wavewright.packs.equities.documents import (
    Figures,
    IndexDocument,
    Oddity,
    Point,
    SourceNote,
    StockDocument,
    figures_text,
    signed_percent,
)
from wavewright.packs.equities.figures import Series, compute_figures, detect_frequency
from wavewright.packs.equities.oddities import WEEKDAYS, find_oddities, sessions_between
from wavewright.packs.equities.prices import PriceSeries
from wavewright.tools import ToolError

EQUAL_WEIGHT = "EQUAL_WEIGHT"
"""Code of the basket of all codes that the price source has."""

BASE_LEVEL = 100.0


def equal_weight_basket(constituents: Mapping[str, Series]) -> tuple[Point, ...]:
    """Return the levels of an equal-weight basket, rebalanced at every observation.

    Raises:
        ToolError: the constituents are not observed equally often, or no two dates carry a return.
    """
    _require_one_frequency(constituents)
    dates = sorted({date for series in constituents.values() for date, _ in series})
    lines = [_Constituent(series) for series in constituents.values()]
    level = BASE_LEVEL
    points: list[Point] = []
    for earlier, later in pairwise(dates):
        returns = [change for line in lines if (change := line.change(earlier, later)) is not None]
        if not returns:
            continue
        if not points:
            points.append((earlier, level))
        level *= 1 + math.fsum(returns) / len(returns)
        points.append((later, level))
    if not points:
        raise ToolError(
            "a basket needs a constituent with two prices",
            hint="take an earlier start or a later 'as_of'",
        )
    return tuple(points)


class _Constituent:
    """One constituent, for look-ups by date."""

    def __init__(self, series: Series) -> None:
        self._dates = [date for date, _ in series]
        self._prices = [price for _, price in series]

    def change(self, earlier: dt.date, later: dt.date) -> float | None:
        """Return the return between two dates; nothing outside the constituent's life."""
        if earlier < self._dates[0] or later > self._dates[-1]:
            return None
        return self._price_at(later) / self._price_at(earlier) - 1

    def _price_at(self, date: dt.date) -> float:
        return self._prices[bisect_right(self._dates, date) - 1]


def require_one_currency(members: Mapping[str, PriceSeries]) -> None:
    """Refuse a basket whose files name different currencies: there is no rate between them.

    Raises:
        ToolError: two currencies are named.
    """
    named = {code: series.currency for code, series in members.items() if series.currency}
    if len(set(named.values())) > 1:
        shown = ", ".join(f"{code} {currency}" for code, currency in sorted(named.items()))
        raise ToolError(
            f"a basket needs constituents of one currency; here: {shown}",
            hint="name constituents of one currency in 'indices'",
        )


def _require_one_frequency(constituents: Mapping[str, Series]) -> None:
    detected = {
        code: detect_frequency([date for date, _ in series])
        for code, series in constituents.items()
    }
    found = {code: frequency for code, frequency in detected.items() if frequency != "irregular"}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{code} {frequency}" for code, frequency in sorted(found.items()))
        raise ToolError(
            f"a basket needs constituents that are observed equally often; here: {shown}",
            hint="name constituents of one frequency in 'indices'",
        )


PRICE_DIGITS = 6


@dataclass(frozen=True, slots=True)
class SeriesView:
    """How a series is seen: on which day, by which calendar, and which jumps are known as real."""

    today: dt.date
    calendar: str | None = None
    known_jumps: frozenset[dt.date] = frozenset()


def stock_document(
    series: PriceSeries, *, exchange: str, currency: str | None, view: SeriesView
) -> StockDocument:
    """Return the document of one stock."""
    return StockDocument(
        id=f"{exchange}:{series.code}:stock_collector",
        title=f"{series.code}: prices to {series.points[-1][0]}",
        exchange=exchange,
        **_fields_of("stock-data", series, currency, view),
    )


def index_document(
    series: PriceSeries, *, exchange: str, currency: str | None, view: SeriesView
) -> IndexDocument:
    """Return the document of a benchmark that is a given series."""
    return IndexDocument(
        id=f"{exchange}:{series.code}:index_data",
        title=f"{series.code}: index to {series.points[-1][0]}",
        index_kind="series",
        constituents=[],
        **_fields_of("index-data", series, currency, view),
    )


def basket_document(
    code: str,
    levels: Series,
    members: Mapping[str, PriceSeries],
    *,
    exchange: str,
    view: SeriesView,
    warnings: tuple[str, ...] = (),
) -> IndexDocument:
    """Return the document of a benchmark that is an equal-weight basket, saying that it is one."""
    names = ", ".join(members)
    sources = {
        (note.name, note.location): note
        for note in (_source_note(item) for item in members.values())
    }
    notes = dict.fromkeys(warning for series in members.values() for warning in series.warnings)
    basket_note = (
        f"{code} is an equal-weight basket of {names}, rebalanced at every observation; it is no published index, "
        "and its constituents were chosen with today's knowledge"
    )
    return IndexDocument(
        id=f"{exchange}:{code}:index_data",
        title=f"{code}: equal-weight basket of {len(members)} stocks to {levels[-1][0]}",
        index_kind="equal_weight_basket",
        constituents=list(members),
        price_basis="level",
        current_price=round(levels[-1][1], PRICE_DIGITS),
        sources=list(sources.values()),
        warnings=[basket_note, *warnings, *notes],
        **_common_fields("index-data", code, levels, _shared_currency(members), view),
    )


def _shared_currency(members: Mapping[str, PriceSeries]) -> str | None:
    """Return the currency that the files of all members name; none where they name none."""
    currencies = {series.currency for series in members.values()}
    return next(iter(currencies)) if len(currencies) == 1 else None


def _fields_of(
    kind: str, series: PriceSeries, currency: str | None, view: SeriesView
) -> dict[str, Any]:
    """Return the fields that every document of a given series has."""
    return {
        **_common_fields(
            kind,
            series.code,
            series.points,
            series.currency or currency,
            view,
            series.oddities,
            [price.volume for price in series.prices],
        ),
        "price_basis": series.basis,
        "current_price": round(series.prices[-1].close, PRICE_DIGITS),
        "sources": [_source_note(series)],
        "warnings": list(series.warnings),
    }


def _common_fields(
    kind: str,
    code: str,
    points: Series,
    currency: str | None,
    view: SeriesView,
    of_rows: Sequence[Oddity] = (),
    volumes: Sequence[float | None] = (),
) -> dict[str, Any]:
    """Return the fields that every document of a series or a basket has, computed from its points."""
    frequency = detect_frequency([date for date, _ in points])
    found = find_oddities(points, frequency, volumes, view.calendar)
    jumps = (oddity for oddity in found if oddity.date not in view.known_jumps)
    oddities = sorted([*of_rows, *jumps], key=lambda one: (one.date, one.kind))
    figures = None
    if len(points) > 1:
        # To six decimals: more are noise of the arithmetic, not knowledge.
        figures = Figures.model_validate(round_numbers(compute_figures(points).model_dump()))
    return {
        "kind": kind,
        "tags": [kind, code.lower()],
        "code": code,
        "currency": currency,
        "as_of": points[-1][0],
        "frequency": frequency,
        "sessions_behind": sessions_between(points[-1][0], view.today, view.calendar),
        "calendar": view.calendar or WEEKDAYS,
        "oddities": oddities,
        # Short, so that a gate that finds them shows the days.
        "doubts": [f"{oddity.date} {oddity.kind}" for oddity in oddities if oddity.kind != "gap"],
        "gaps": [f"{oddity.date}" for oddity in oddities if oddity.kind == "gap"],
        "prices": [(date, round(price, PRICE_DIGITS)) for date, price in points],
        "trend_signal": "unknown" if figures is None else figures.trend.signal,
        "figures": figures,
        "content": _series_content(code, points, currency, figures),
    }


def round_numbers(value: object) -> object:
    """Return a structure with every float at six decimals."""
    match value:
        case float():
            return round(value, PRICE_DIGITS)
        case dict():
            return {key: round_numbers(member) for key, member in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # keys and members are walked as they come
        case _:
            return value


def _source_note(series: PriceSeries) -> SourceNote:
    return SourceNote(name=series.source, location=series.location, as_of=series.prices[-1].date)


def _series_content(
    code: str, points: Series, currency: str | None, figures: Figures | None
) -> str:
    last_date, last = points[-1]
    unit = f" {currency}" if currency else ""
    lines = [f"# {code}", "", f"Last value {last:,.2f}{unit} on {last_date}."]
    if figures is None:
        return "\n".join(
            [*lines, "There is one value only, so nothing can be computed from it.", ""]
        )
    lines.append(
        f"{len(points)} {figures.frequency} values since {points[0][0]}; "
        f"{signed_percent(figures.period_return)} in all."
    )
    return "\n".join([*lines, "", *figures_text(figures), ""])
