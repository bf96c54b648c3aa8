"""How many functions lie between the command, or the road of a run, and a tool."""

from __future__ import annotations

import pytest

from benchmarks.size import calls_to_a_tool


@pytest.fixture(scope="module")
def calls() -> list[str]:
    return calls_to_a_tool()


def test_a_tool_is_at_most_fifteen_calls_below_main(calls: list[str]) -> None:
    assert calls[0] == "main.py:main"
    assert calls[-1] == "registry.py:_bind_function.<locals>.call"
    assert len(calls) <= 15, "\n".join(calls)


def test_a_tool_is_reached_by_stepping_from_the_road_of_a_run_through_at_most_twelve_functions(
    calls: list[str],
) -> None:
    road = calls[calls.index("run_job.py:run_job") :]

    assert len(road) <= 12, "\n".join(road)
