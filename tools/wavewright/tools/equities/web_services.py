"""Prices from a service over HTTP, in the shape of EODHD.

`GET {base}/eod/{CODE}?api_token=…&fmt=json&from=…&to=…` answers with a list of
`{date, open, high, low, close, adjusted_close, volume}`. The day after which nothing may be known is part of the
request, and what comes back is cut again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial
from typing import cast
from urllib.parse import quote, urlsplit

import anyio

from wavewright.planner.types import Json
from wavewright.tools.equities.prices import PriceSeries, TableRow, find_columns, read_series
from wavewright.tools.equities.settings import PriceServiceSettings
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.web.json_services import fetch_json, key_from_environment

_HEADER = ("date", "close", "adjusted_close")


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
        """Return the prices of a code up to a day; the service is asked every time, so `fresh` adds nothing."""
        del fresh
        symbol = code + self._settings.suffix
        fetch = partial(
            fetch_json,
            f"{self._settings.base_url.rstrip('/')}/eod/{quote(symbol, safe='')}",
            service=self._service,
            params={
                "api_token": key_from_environment(self._settings.api_key_env, service=self._service),
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
        series = read_series(code, rows, columns, file=place, source=self._service)
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
