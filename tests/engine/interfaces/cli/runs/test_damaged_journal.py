"""A journal in which one bit is another than was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine

PLAN = """
version: 1
steps: [{id: a, tool: double, params: {number: 21}}]
result: ${steps.a}
"""
TOOLS = '''
def double(number: int) -> int:
    """Double a number."""
    return 2 * number
'''


@pytest.fixture
def journal(wavewright: CommandLine, tmp_path: Path) -> Path:
    """The journal of a project with one run."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "numbers.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text("tools: [{path: numbers.py}]\n")
    assert wavewright("run", "plan.yaml", "--quiet").code == 0
    return tmp_path / ".wavewright" / "journal.sqlite"


def flip(journal: Path, place: int, bit: int) -> None:
    content = bytearray(journal.read_bytes())
    content[place] ^= 1 << bit
    journal.write_bytes(content)


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 4, 6, 7])  # bit 5 is the case of a letter
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(b"heartbeat_at", id="name-of-a-column"),
        pytest.param(b"CREATE TABLE", id="statement-of-a-table"),
        pytest.param(b"double", id="text-of-an-event"),
    ],
)
def test_a_command_says_what_is_damaged_and_what_can_be_saved(
    journal: Path, wavewright: CommandLine, what: bytes, bit: int
) -> None:
    flip(journal, journal.read_bytes().index(what), bit)

    answer = wavewright("show")

    assert answer.code == 3
    assert "the journal is damaged" in answer.err
    assert "sqlite3 " in answer.err or "all other runs can be read" in answer.err


@pytest.mark.parametrize("place", [*range(60, 64), *range(68, 72)])
def test_a_damaged_header_is_no_other_format_and_no_other_program(
    journal: Path, wavewright: CommandLine, place: int
) -> None:
    flip(journal, place, bit=5)

    answer = wavewright("runs")

    assert answer.code == 3
    assert "the journal is damaged" in answer.err or "by a newer wavewright" in answer.err
