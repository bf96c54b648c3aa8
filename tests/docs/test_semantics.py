"""Each rule of what a call means names a test that holds it and code that decides it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "semantics.md").read_text(encoding="utf-8")
RULES = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| **")]
_SOURCES = ("planner", "executor", "engine", "tools", "reviewer", "config")


def source(path: str) -> Path:
    """Return the file that the page names: `executor/run/rules.py` lies in the root `executor`."""
    room = path.partition("/")[0]
    return ROOT / (path if room == "tests" else f"{room}/wavewright/{path}")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[0].strip(" *").partition("**")[0])
def test_a_rule_names_a_test_and_code_that_are_there(rule: list[str]) -> None:
    _, test, code = rule
    names = re.findall(r"`([^`]+)`", test), re.findall(r"`([^`]+)`", code)

    for named in names:
        files = [source(name) for name in named if name.endswith(".py")]
        assert all(file.is_file() for file in files)
        known = files or [file for room in _SOURCES for file in (ROOT / room).rglob("*.py")]
        texts = "\n".join(file.read_text(encoding="utf-8") for file in known)
        for name in named:
            if not name.endswith(".py"):
                assert re.search(rf"\b(def|class) {name.rpartition('.')[2]}\b", texts), name


def test_every_line_of_the_table_is_a_rule_with_its_test_and_code() -> None:
    assert len(RULES) > 20
    assert all(len(rule) == 3 for rule in RULES)
