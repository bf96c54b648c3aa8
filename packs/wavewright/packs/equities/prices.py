"""Price series, and the port for their sources.

A *price source* returns, for a code, a sorted series of closing prices. Every series is cut at the
run's current time by `known_at`, so no tool can look ahead.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from wavewright.config import did_you_mean
from wavewright.packs.equities.documents import Oddity, Point
from wavewright.tools import ToolError

CODE: Final = re.compile(r"[A-Z0-9^][A-Z0-9.^=_-]{0,19}")


@dataclass(frozen=True, slots=True)
class Price:
    """One closing price; `adjusted` is the close less later splits and dividends, and `volume` what
    was traded, where the source has them.
    """

    date: dt.date
    close: float
    adjusted: float | None = None
    volume: float | None = None


@dataclass(frozen=True, slots=True)
class PriceSeries:
    """The prices of one code, sorted by date, each date once."""

    code: str
    prices: tuple[Price, ...]
    source: str
    location: str
    warnings: tuple[str, ...] = ()
    currency: str | None = None
    """ISO 4217 code of the prices, where the file or the settings name one."""
    oddities: tuple[Oddity, ...] = ()
    """Rows that cannot be right; none of them is among the prices."""

    @property
    def basis(self) -> Literal["close", "adjusted"]:
        """What `points` are: adjusted closes where every price has one, else plain closes."""
        return "adjusted" if all(price.adjusted is not None for price in self.prices) else "close"

    @property
    def points(self) -> tuple[Point, ...]:
        """Dates and prices on this series' basis."""
        if self.basis == "adjusted":
            return tuple((price.date, price.adjusted or price.close) for price in self.prices)
        return tuple((price.date, price.close) for price in self.prices)


class PriceSource(Protocol):
    """Where prices come from. Each method may block, so it is called in a thread."""

    @property
    def currency(self) -> str | None:
        """ISO 4217 code of the prices, where it is known."""
        ...

    def codes(self) -> tuple[str, ...]:
        """Return the codes that this source can list."""
        ...

    def read(self, code: str, until: dt.date, *, fresh: bool) -> PriceSeries:
        """Return the prices of a code; `fresh` goes past every cache of this source.

        Raises:
            ToolError: no such code, or its prices cannot be trusted; names the place and the fix.
        """
        ...


def known_at(series: PriceSeries, now: dt.datetime, *, years: float | None = None) -> PriceSeries:
    """Return what of a series is known at an instant: prices dated that day or before, of the last
    `years`.

    A price is taken to be known on its date, in UTC.

    Raises:
        ToolError: no price is that old.
    """
    today = now.astimezone(dt.UTC).date()
    kept = tuple(price for price in series.prices if price.date <= today)
    if not kept:
        first = series.prices[0].date
        raise ToolError(
            f"{series.location}: {series.code!r} has no price on or before {today}; its first is of {first}",
            hint="take a later 'as_of', or prices that reach further back",
        )
    if years is not None:
        start = kept[-1].date - dt.timedelta(days=round(years * 365.25))
        kept = tuple(price for price in kept if price.date >= start)
    known = tuple(one for one in series.oddities if kept[0].date <= one.date <= today)
    return replace(series, prices=kept, oddities=known)


def checked_code(code: str) -> str:
    """Return a code in upper case.

    Raises:
        ToolError: the text is no code; a code is part of a file's name and of an address.
    """
    shown = code.strip().upper()
    if not CODE.fullmatch(shown) or ".." in shown:
        raise ToolError(
            f"{code!r} is no stock code",
            hint="a code has up to 20 letters, digits and . ^ = _ -, such as 'AAPL' or 'BRK.B'",
        )
    return shown


def unknown_code(code: str, known: Iterable[str], place: str) -> ToolError:
    """Return the error for a code that a source does not have, with the nearest that it has."""
    names = sorted(known)
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    listed = (
        f"name one that it has: {', '.join(names[:10])}{more}"
        if names
        else "it has no codes at all"
    )
    return ToolError(
        f"{place} has no prices for {code!r}", hint=did_you_mean(code, names, 3) or listed
    )
