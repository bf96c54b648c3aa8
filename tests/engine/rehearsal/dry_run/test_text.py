"""Paragraphs for a terminal: their width in columns, and characters that do not print."""

from __future__ import annotations

import pytest

from wavewright.planner.diagnostics.rendering import display_columns, wrap_paragraph


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", [""], id="nothing"),
        pytest.param("one two\n three", ["- one two", "  three"], id="words"),
        pytest.param(
            "a-name-that-is-long so", ["- a-name-", "  that-is-", "  long so"], id="hyphens"
        ),
        pytest.param("unbreakable so", ["- unbreakable", "  so"], id="a word that is too long"),
        pytest.param("日本語の計画", ["- 日本語の", "  計画"], id="wide characters"),
        pytest.param(
            "e\u0301e\u0301e\u0301", ["- e\u0301e\u0301e\u0301"], id="combining characters"
        ),
        pytest.param("a\x1b[2Jb", ["- a\\x1b[2Jb"], id="terminal escape"),
        pytest.param("a\u202eb", ["- a\\u202eb"], id="direction mark"),
    ],
)
def test_a_paragraph_fits_its_columns_and_every_character_prints(
    text: str, lines: list[str]
) -> None:
    assert wrap_paragraph(text, indent="- " if text else "", rest="  ", width=10) == lines


def test_no_line_of_wide_text_is_wider_than_the_terminal() -> None:
    lines = wrap_paragraph("見積もり " + "長い文章" * 60 + " end", indent="  ", rest="    ")

    assert max(sum(map(display_columns, line)) for line in lines) in (79, 80)
    assert "".join("".join(lines).split()) == "見積もり" + "長い文章" * 60 + "end"
