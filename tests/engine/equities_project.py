"""Jobs over prices that a test writes or serves, run from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.engine.conftest import Answer, CommandLine
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package


def equities_job(
    *stocks: str, as_of: str | None = "2010-03-10", tools: dict[str, Any], **fields: Any
) -> dict[str, Any]:
    """Return a job under the shipped template, as JSON."""
    return {
        "name": "a few stocks",
        "goal_template": "stock_analysis",
        "variables": [{"code": code} for code in stocks],
        **({} if as_of is None else {"as_of": as_of}),
        "tools": {"equities": tools},
        **fields,
    }


def run_job(wavewright: CommandLine, folder: Path, job: dict[str, Any]) -> tuple[Answer, Package]:
    """Write a job into the folder, run it, and return what was printed with the package."""
    file = folder / "few.job.json"
    file.write_text(json.dumps(job), encoding="utf-8")
    output = folder / f"out{len(list(folder.glob('out*')))}"
    ran = wavewright("run", file, "--output", output)
    packages = list(output.glob("*/package.json"))
    assert packages, ran.err
    return ran, read_package(packages[0].read_bytes())


def served_prices(last: str, months: int = 14) -> list[dict[str, Any]]:
    """Return monthly prices in the shape of EODHD, up to a month such as `2010-03`."""
    year, month = map(int, last.split("-"))
    count = [year * 12 + month - 1 - back for back in reversed(range(months))]
    return [
        {
            "date": f"{at // 12}-{at % 12 + 1:02d}-01",
            "close": 10 + place,
            "adjusted_close": 10 + place,
        }
        for place, at in enumerate(count)
    ]
