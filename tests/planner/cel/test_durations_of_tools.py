"""`duration()` reads what a tool gives for a duration of Python."""

from __future__ import annotations

import datetime as dt

import pytest

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.plans.expressions import evaluate

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("written", "same"),
    [("PT1H", "1h"), ("P1DT2H3M4.5S", "1d2h3m4.5s"), ("-PT90S", "-90s"), ("PT0S", "0s")],
)
def test_an_iso_duration_is_one(written: str, same: str) -> None:
    assert evaluate(f"duration('{written}') == duration('{same}')", {}, NOW) is True


@pytest.mark.parametrize("written", ["P", "PT", "P1", "T1H", "P1Y"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(f"duration('{written}')", {}, NOW)
