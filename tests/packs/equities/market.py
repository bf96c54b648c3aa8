"""The pack's tools over folders that a test writes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from wavewright.planner.types import JsonObject
from wavewright.tools import Registry, load_pack

MONTHS = tuple(dt.date(2009 + month // 12, month % 12 + 1, 1) for month in range(15))
"""The first days of January 2009 to March 2010."""


def equities(root: Path, **settings: Any) -> Registry:
    """Return the pack's tools, with settings relative to a folder."""
    given: JsonObject = {"prices": "prices", **settings}
    return Registry(load_pack("equities", given, root).tools)


def write_prices(
    folder: Path, code: str, prices: list[float], dates: tuple[dt.date, ...] = MONTHS
) -> Path:
    """Write one file of prices, oldest first."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{date},{price}" for date, price in zip(dates, prices, strict=False)]
    file = folder / f"{code}.csv"
    file.write_text("\n".join(["date,close", *rows, ""]), encoding="utf-8")
    return file
