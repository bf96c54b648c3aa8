"""What a run found, as a few lines of plain text.

A result that is a text, or a document with text, is shown as that text, its tables aligned; any other as JSON. Long
results are cut, and say where the whole is.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from itertools import groupby

from wavewright.reviewer.records import Package

_MAX_LINES = 30
_MAX_TEXT_LINES = 200


def result_lines(package: Package, width: int) -> Iterator[str]:
    """Yield the result's lines, none wider than that; none where there is no result."""
    if package.result is None:
        return
    text = result_text(package)
    lines = list(_text_lines(text, width) if text is not None else _json_lines(package))
    most = _MAX_LINES if text is None else _MAX_TEXT_LINES
    for line in lines[:most]:
        yield line if len(line) <= width else f"{line[: width - 1]}…"
    if len(lines) > most:
        yield "…"
        yield f"({len(lines)} lines in all; the package holds them)"


def result_text(package: Package) -> str | None:
    """Return the result where it is a text, or the text of the document that it is; none for anything else."""
    if isinstance(package.result, str):
        return package.result
    texts = [document.markdown for document in package.documents if document.is_result and document.markdown]
    return texts[0] if texts and package.result is not None else None


def _json_lines(package: Package) -> list[str]:
    return json.dumps(package.result, indent=2, ensure_ascii=False).splitlines()


def _text_lines(markdown: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, prose wrapped; blank ones at both ends are dropped."""
    for is_table, lines in groupby(markdown.strip().splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            yield from _aligned(list(lines), width)
        else:
            for line in lines:
                yield from textwrap.wrap(line, width, subsequent_indent="  " * line.startswith("- ")) or [""]


def _aligned(rows: list[str], width: int) -> Iterator[str]:
    """Yield the rows of a Markdown table in columns; those that its second row marks so are set to the right."""
    cells = [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows]
    columns = max(map(len, cells))
    padded = [row + [""] * (columns - len(row)) for row in cells]
    marks = padded[1] if len(padded) > 1 else [""] * columns
    shown = [row for number, row in enumerate(padded) if number != 1]
    widths = [max(len(row[column]) for row in shown) for column in range(columns)]
    gap = "  " if sum(widths) + 2 * (columns - 1) <= width else " "
    for row in shown:
        yield gap.join(
            cell.rjust(room) if mark.endswith(":") else cell.ljust(room)
            for cell, room, mark in zip(row, widths, marks, strict=True)
        ).rstrip()
