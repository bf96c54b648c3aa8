"""Tables and counts of documents for people, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_CELL: Final = 240
"""Characters of a cell; the package has the whole."""


def markdown_table(
    title: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]
) -> list[str]:
    """Return a heading and a table as parts of a document; nothing without rows."""
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if not lines:
        return []
    head = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    return [f"## {title}", "\n".join([*head, *lines])]


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _cell(text: str) -> str:
    line = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
    return line if len(line) <= _CELL else f"{line[:_CELL].rstrip()}…"
