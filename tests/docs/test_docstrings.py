"""Public names have an example in their docstring, and it does what it shows."""

from __future__ import annotations

import doctest
import inspect
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOMS = ("config", "engine", "executor", "planner", "prompts", "reviewer", "tools")
ASKS_A_MODEL = {"reviewer.ModelJudge", "reviewer.measure_judge"}
"""Shown by a program in `docs/reference/judge-gates.md`: nothing of them works without answers."""


def public_objects() -> Iterator[tuple[str, object]]:
    """Yield the functions and classes of each package's room; neither the types of ports, which
    nobody makes, nor exceptions, which the functions that raise them name.
    """
    for room in ROOMS:
        module = import_module(f"wavewright.{room}")
        for name in module.__all__:
            value = inspect.unwrap(getattr(module, name))
            if inspect.isfunction(value) or (
                inspect.isclass(value)
                and not issubclass(value, BaseException)
                and not getattr(value, "_is_protocol", False)
            ):
                yield f"{room}.{name}", value


GOES_ON = re.compile(r"The example goes on from that of `(\w+)`\.")
OBJECTS = {name: value for name, value in public_objects() if name not in ASKS_A_MODEL}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_name_has_an_example_that_does_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [*os.environ]:
        if variable.startswith("WAVEWRIGHT_"):
            monkeypatch.delenv(variable)
    text = inspect.getdoc(OBJECTS[name]) or ""
    names: dict[str, object] = {}
    if (before := GOES_ON.search(text)) is not None:
        room = name.partition(".")[0]
        earlier = inspect.getdoc(OBJECTS[f"{room}.{before[1]}"]) or ""
        # What it defines stays, for the example that goes on from it.
        example = doctest.DocTestParser().get_doctest(earlier, names, before[1], None, None)
        assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
        names = example.globs
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)

    assert example.examples, f"the docstring of wavewright.{name} has no example"
    assert doctest.DocTestRunner().run(example).failed == 0
