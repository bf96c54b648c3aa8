"""Prices of a service over HTTP.

A service has the shape of EODHD: `GET {base}/eod/{CODE}?api_token=…&fmt=json&from=…&to=…` answers
with a list of `{date, open, high, low, close, adjusted_close, volume}`. The day after which nothing
may be known is part of the request, and what comes back is cut again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Literal, cast
from urllib.parse import quote, urlsplit

import anyio
from pydantic import Field

from wavewright.config import Seconds
from wavewright.packs.equities.price_tables import TableRow, find_columns, read_series
from wavewright.packs.equities.prices import PriceSeries
from wavewright.packs.web.json_services import fetch_json, key_from_environment
from wavewright.planner import DocumentModel, Json
from wavewright.tools import ToolError

_HEADER = ("date", "close", "adjusted_close")


class PriceServiceSettings(DocumentModel):
    """A price service over HTTP, in the shape of EODHD."""

    provider: Literal["eodhd"] = "eodhd"
    base_url: Annotated[str, Field(pattern=r"^https?://")] = "https://eodhd.com/api"
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "EODHD_API_KEY"
    """Name of the environment variable that holds the key."""
    suffix: str = ""
    """Put after every code, such as `.AU` or `.US`."""
    timeout: Seconds = 30.0
    since: str = "2000-01-01"
    """First day that is asked for."""


class EodPrices:
    """End-of-day prices of one service."""

    def __init__(self, settings: PriceServiceSettings, currency: str | None) -> None:
        self._settings = settings
        self.currency = currency
        self._service = f"{settings.provider} at {urlsplit(settings.base_url).hostname}"

    def codes(self) -> tuple[str, ...]:
        """Return nothing: the service lists no codes here, so a basket must name its own."""
        return ()

    def read(self, code: str, until: dt.date, *, fresh: bool) -> PriceSeries:
        """Return the prices of a code up to a day; the service is asked every time, so `fresh` adds
        nothing.
        """
        del fresh
        symbol = code + self._settings.suffix
        fetch = partial(
            fetch_json,
            f"{self._settings.base_url.rstrip('/')}/eod/{quote(symbol, safe='')}",
            service=self._service,
            params={
                "api_token": key_from_environment(
                    self._settings.api_key_env, service=self._service
                ),
                "fmt": "json",
                "from": self._settings.since,
                "to": until.isoformat(),
            },
            seconds=self._settings.timeout,
        )
        answer = anyio.run(fetch)
        place = f"{self._service}, {symbol}"
        rows = list(self._rows(answer, place))
        has_adjusted = bool(rows) and all(row.cells[2] is not None for row in rows)
        columns = find_columns(_HEADER if has_adjusted else _HEADER[:2], place)
        series = read_series(
            code, rows, columns, file=place, source=self._service, currency=self.currency
        )
        if series is None:
            raise ToolError(
                f"{place}: no prices between {self._settings.since} and {until}",
                hint="check the code and the suffix, or set an earlier 'since'",
            )
        return series

    def _rows(self, answer: Json, place: str) -> Iterator[TableRow]:
        if not isinstance(answer, list):
            raise ToolError(
                f"{place}: the answer is no list of prices",
                hint="check the address in the settings; the service's shape is that of EODHD",
            )
        for number, entry in enumerate(answer, start=1):
            if not isinstance(entry, dict) or "date" not in entry or "close" not in entry:
                raise ToolError(
                    f"{place}, entry {number}: no object with date and close",
                    hint="the service's shape is that of EODHD: [{date, close, adjusted_close, …}]",
                )
            yield TableRow(f"entry {number}", [cast("object", entry.get(name)) for name in _HEADER])
