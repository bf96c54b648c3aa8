"""Each rule of what a call means names a test that holds it and code that decides it, and each row
of the values that become JSON is run.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from tests.tools.calling import call
from wavewright.tools import make_tool

ROOT = Path(__file__).parents[2]
PAGE = "\n".join(
    (ROOT / "docs" / "explanation" / name).read_text(encoding="utf-8")
    for name in ("semantics.md", "values.md")
)
# A bar that stands in a cell is escaped.
RULES = [
    re.split(r"(?<!\\)\|", line.strip("|")) for line in PAGE.splitlines() if line.startswith("| **")
]
_VALUES = PAGE.partition("| value | JSON | parameter |\n|---|---|---|\n")[2].partition("\n\n")[0]
VALUES = [re.findall(r"`([^`]+)`", line) for line in _VALUES.splitlines()]
_SOURCES = ("planner", "executor", "engine", "tools", "reviewer", "config")


class Colour(Enum):
    """The choice of which the page speaks."""

    RED = "red"


class Row(BaseModel):
    """The model of which the page speaks."""

    day: date


_NAMES = {
    kind.__name__: kind
    for kind in (datetime, date, time, timedelta, Path, UUID, Decimal, Colour, Row)
} | {"UTC": UTC}


def source(path: str) -> Path:
    """Return the file that the page names: `executor/run/rules.py` lies in the root `executor`."""
    room = path.partition("/")[0]
    return ROOT / (path if room == "tests" else f"{room}/wavewright/{path}")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[0].strip(" *").partition("**")[0])
def test_a_rule_names_a_test_and_code_that_are_there(rule: list[str]) -> None:
    _, test, code = rule
    names = [
        [part for one in re.findall(r"`([^`]+)`", cell) for part in one.split("::")]
        for cell in (test, code)
    ]

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


def _evaluated(expression: str) -> Any:
    return eval(expression, dict(_NAMES))  # noqa: S307 - it is our own page's


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row[0])
def test_a_value_becomes_the_json_of_its_row_and_is_read_back(row: list[str]) -> None:
    value, annotation = _evaluated(row[0]), _evaluated(row[-1])
    written = json.loads(row[-2])
    taken: list[Any] = []

    def give() -> Any:
        return value

    def take(value: Any) -> None:
        taken.append(value)

    take.__annotations__["value"] = annotation

    assert call(make_tool(give)) == written
    call(make_tool(take), value=written)
    assert taken == [value]
    assert type(taken[0]) is type(value) or isinstance(value, Path)


def test_the_table_of_values_is_read_whole() -> None:
    assert len(VALUES) >= 15
