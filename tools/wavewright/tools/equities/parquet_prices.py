"""Rows of a Parquet file of prices, through pyarrow (the extra `parquet`).

pyarrow comes without types, so this module is the edge: what leaves it is rows of plain Python values.
"""

from __future__ import annotations

import importlib
import io
from typing import Protocol, cast

from wavewright.config.extras import install_hint
from wavewright.tools.calls import ToolError
from wavewright.tools.equities.columns import Cell, TableRow


class _Table(Protocol):
    @property
    def column_names(self) -> list[str]: ...
    def to_pydict(self) -> dict[str, list[Cell]]: ...


class _ParquetModule(Protocol):
    def read_table(self, source: io.BytesIO) -> _Table: ...


def read_parquet_table(content: bytes, file: str) -> tuple[list[str], list[TableRow]]:
    """Return the column names and the rows of a Parquet file.

    Raises:
        ToolError: pyarrow is not installed, or this is no Parquet file.
    """
    try:
        parquet = cast("_ParquetModule", importlib.import_module("pyarrow.parquet"))
    except ImportError as error:
        raise ToolError(
            f"{file}: Parquet files are read with pyarrow, which is not installed",
            hint=f"{install_hint('parquet')}, or give the prices as CSV",
        ) from error
    try:
        table = parquet.read_table(io.BytesIO(content))
        names = list(table.column_names)
        columns = table.to_pydict()
    except (ValueError, OSError, NotImplementedError, KeyError) as error:  # pyarrow's own errors are these
        reason = str(error).split("\n", 1)[0][:200]
        raise ToolError(f"{file}: this is no Parquet file: {reason}", hint="write the file again") from error
    lists = [columns[name] for name in names]
    rows = [
        TableRow(f"row {number}", cells) for number, cells in enumerate(zip(*lists, strict=True), start=1)
    ]
    return names, rows
