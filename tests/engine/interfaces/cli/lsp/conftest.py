"""A small project for sessions of an editor."""

from __future__ import annotations

from pathlib import Path

import pytest

TOOLS = '''
from typing import TypedDict


class Line(TypedDict):
    text: str
    words: int


def fetch(code: str, days: int = 30) -> dict[str, float]:
    """Fetch the prices of one stock."""
    return {code: float(days)}


def headline(title: str, count: int = 3) -> list[Line]:
    """Return lines of news."""
    return [Line(text=title, words=count)]


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b
'''
PLAN = """\
steps:
  - id: prices
    tool: fetch
    params:
      code: AAPL
  - id: total
    tool: add
    params:
      a: ${steps.prices.AAPL}
      b: 2
result: ${steps.total}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mine.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text("tools: [tools/mine.py]\n")
    (tmp_path / "sum.plan.yaml").write_text(PLAN)
    return tmp_path
