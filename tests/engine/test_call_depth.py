"""How many functions lie between the command and a tool."""

from __future__ import annotations

from benchmarks.size import calls_to_a_tool


def test_a_tool_is_at_most_fourteen_calls_below_main() -> None:
    calls = calls_to_a_tool()

    assert (calls[0], calls[7]) == ("main.py:main", "registry.py:_bind_function.<locals>.call")
    assert len(calls) <= 14, "\n".join(calls)
