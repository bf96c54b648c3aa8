"""Figures in values: which numbers count as one."""

from __future__ import annotations

from wavewright.planner.plans.figures import figures_in


def test_a_whole_number_that_no_float_holds_is_no_figure() -> None:
    assert [*figures_in({"n": 10**400, "of": [1234, "1,500 pages"]})] == [1234.0, 1500.0]
