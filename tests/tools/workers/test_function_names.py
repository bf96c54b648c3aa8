"""Names of functions that providers of models accept, for tools with a dot in their names."""

from __future__ import annotations

import re

from wavewright.tools.workers.agent_tools import function_names


def test_a_dot_is_written_as_two_underscores_and_other_names_stay() -> None:
    assert function_names(["note", "time.get-now"]) == {
        "note": "note",
        "time__get-now": "time.get-now",
    }


def test_names_that_are_taken_or_too_long_are_told_apart_by_a_hash() -> None:
    names = ["a.b", "a__b", f"{'s' * 31}.{'t' * 63}", f"{'s' * 31}.{'t' * 62}u"]

    functions = function_names(names)

    assert sorted(functions.values()) == sorted(names)
    assert functions["a__b"] == "a__b"
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function) for function in functions)
