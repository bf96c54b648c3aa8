"""Rows of a CSV file of prices, with their lines.

A *row's place* is the line that it ends on, counted from 1 as editors do, so that a message about a bad price
leads straight to it.
"""

from __future__ import annotations

import csv
import io

from wavewright.tools.calls import ToolError
from wavewright.tools.equities.columns import TableRow

_DELIMITERS = (",", ";", "\t", "|")


def read_csv_table(content: bytes, file: str) -> tuple[list[str], list[TableRow]]:
    """Return the header and the rows of a CSV file; comma, semicolon, tab or bar, whichever the header has most.

    Raises:
        ToolError: the file is not UTF-8, or is no CSV.
    """
    text = _decoded(content, file)
    header_line = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=header_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[TableRow] = []
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = cells
                continue
            if len(cells) > len(header) and any(cell.strip() for cell in cells[len(header) :]):
                raise ToolError(
                    f"{file}, line {reader.line_num}: {len(cells)} cells under {len(header)} columns",
                    hint="quote text that holds the delimiter, and write decimals with a point",
                )
            rows.append(TableRow(f"line {reader.line_num}", cells))
    except csv.Error as error:
        raise ToolError(
            f"{file}, line {reader.line_num}: this is no CSV: {error}",
            hint="save the file as CSV (UTF-8) again",
        ) from error
    return header or [], rows


def _decoded(content: bytes, file: str) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolError(
            f"{file}: the file is UTF-16, not UTF-8", hint=f"convert it: iconv -f UTF-16 -t UTF-8 {file}"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ToolError(
            f"{file}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8",
            hint=f"convert it, for example: iconv -f ISO-8859-1 -t UTF-8 {file}",
        ) from error
