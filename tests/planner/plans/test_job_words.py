"""The words of a job: which figures and bounds of periods they name."""

from __future__ import annotations

import pytest

from wavewright.planner.plans.job_words import JobWords


@pytest.mark.parametrize(
    "text",
    ["sales in Q4 2023", "sales in 2023 Q4", "2023-Q4", "2023Q4", "the last quarter of 2023"],
)
def test_a_part_of_a_year_bounds_days_whichever_way_it_is_written(text: str) -> None:
    words = JobWords([text])

    assert words.names_bound(">=", "2023-10-01")
    assert words.names_bound("<", "2024-01-01")
    assert words.names_bound("<=", "2023-12-31")
    assert not words.names_bound(">=", "2023-07-01")


@pytest.mark.parametrize("text", ["the part 12023 Q4", "the model x-2023-q4-b", "2023 Q7"])
def test_what_only_looks_like_a_part_of_a_year_bounds_no_days(text: str) -> None:
    assert not JobWords([text]).names_bound(">=", "2023-10-01")
