"""A small project for sessions of an editor."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.engine.interfaces.cli.lsp.editor import Editor, open_editor

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


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Editor]:
    """One editor with its server for the tests of a module."""
    async with open_editor(tmp_path_factory.mktemp("home")) as editor:
        yield editor


@pytest.fixture
def editor(session: Editor) -> Editor:
    """The editor without files."""
    session.forget()
    return session
