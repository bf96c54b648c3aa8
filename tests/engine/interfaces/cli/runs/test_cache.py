"""Results that other runs reuse are those of the same code, and `--no-cache` passes over them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine

PRICE = '''RATE = {rate}


def price(code: str) -> int:
    """Look up a price."""
    return {base} * RATE
'''
PLAN = """
version: 1
steps: [{id: a, tool: price, params: {code: X}}]
result: "${steps.a}"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: mine.py, functions: {price: {cache_for: 30d}}}]\n"
    )
    (tmp_path / "p.plan.yaml").write_text(PLAN)
    (tmp_path / "mine.py").write_text(PRICE.format(rate=1, base=100))
    return tmp_path


def results(wavewright: CommandLine, *options: str) -> tuple[str, bool]:
    """Run the plan; return the price and whether it was reused."""
    ran = wavewright("run", "p.plan.yaml", *options)
    assert ran.code == 0, ran.err
    text = ran.out + ran.err
    price = re.search(r"^Result\n  (\d+)$", text, re.MULTILINE)
    assert price is not None, text
    return price[1], re.search(r"^ +a +reused\b", text, re.MULTILINE) is not None


def test_a_result_is_reused_while_the_code_is_the_same(
    project: Path, wavewright: CommandLine
) -> None:
    assert results(wavewright) == ("100", False)
    assert results(wavewright) == ("100", True)


@pytest.mark.parametrize(
    ("rate", "base", "price"),
    [pytest.param(1, 200, "200", id="function"), pytest.param(3, 100, "300", id="constant")],
)
def test_a_result_of_other_code_is_not_reused(
    rate: int, base: int, price: str, project: Path, wavewright: CommandLine
) -> None:
    results(wavewright)
    edited = project / "mine.py"
    edited.write_text(PRICE.format(rate=rate, base=base))
    # Python takes compiled code of the same size and second for that of the file.
    os.utime(edited, (0, 0))

    assert results(wavewright) == (price, False)


def test_no_cache_calls_and_keeps_the_new_result(project: Path, wavewright: CommandLine) -> None:
    results(wavewright)

    assert results(wavewright, "--no-cache") == ("100", False)
    assert results(wavewright) == ("100", True)
