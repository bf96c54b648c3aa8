"""Price tables in files: CSV or Parquet, a folder with one file per code, or one file of several
codes with a column that names them or a column for each.

A table is read whole, validated, and cached by its modification time and size, so that a file with
five stocks is read once; `fresh` reads it again. A row's place is the line on which it ends,
counted from 1. Parquet needs pyarrow (the extra `parquet`), which has no types; rows are converted
to plain values here. The example prices of `vega_datasets` (monthly, five stocks, 2000-01 to
2010-03) are read from its package without its loader.

pandas reads none of this: it takes `03/04/2010` and `1,234` for one of the two things that they may
be where a table is refused here, drops the line that an error names, and takes the text, the
delimiter, the header and the decimal comma as they are told rather than from the file.
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import importlib
import importlib.util
import io
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from wavewright.config import install_hint
from wavewright.packs.equities.price_tables import (
    ANY_FORM,
    CURRENCY_LINE,
    Cell,
    PriceColumnNames,
    PriceColumns,
    TableForm,
    TableRow,
    find_columns,
    find_columns_by_code,
    group_by_symbol,
    is_header,
    may_be_date,
    read_series,
)
from wavewright.packs.equities.prices import PriceSeries, unknown_code
from wavewright.tools import Folder, PathRefused, ToolError

_DELIMITERS = (";", "\t", "|", ",")
"""Where two stand as often, the earlier one: a comma may be that of decimals."""


class RawTable(NamedTuple):
    """A table as its file has it."""

    header: list[str]
    rows: list[TableRow]
    delimiter: str = ""
    """Between the cells of a line of text."""
    notes: tuple[str, ...] = ()
    """What was taken for granted in reading the file."""
    currency: str | None = None
    """That a line above the header names."""


def read_csv_table(content: bytes, file: str, named: PriceColumnNames | None = None) -> RawTable:
    """Return the header and the rows of a CSV file; comma, semicolon, tab or bar, whichever the
    header has most. Lines above the header are left out; a table without one is read by its numbers.

    Raises:
        ToolError: the file is no text, or no CSV.
    """
    encoding = _encoding(content, named)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolError(
            f"{file}: this is no text in UTF-8, UTF-16 or Windows-1252",
            hint="save the file as CSV (UTF-8)",
        )
    lines = _first_lines(text)
    found = _find_header(lines, named)
    first_cells = _cells(found.line)
    delimiter = _delimiter(found.line)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[TableRow] = []
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = found.names if cells == first_cells else None
                if header is None or not found.is_row:
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
    named_currencies = filter(None, map(CURRENCY_LINE.fullmatch, lines))
    currency = next((line["unit"] for line in named_currencies), None)
    notes = list[str]()
    if encoding != "utf-8-sig":
        shown = encoding.upper().replace("CP", "Windows-")
        notes.append(f"{file}: read as {shown}: it is not UTF-8")
    if found.is_row:
        held = ", ".join(filter(None, found.names))
        notes.append(f"{file}: there is no header; the columns are read as {held}")
    return RawTable(header or [], rows, delimiter, (*notes,), currency)


_LINES_ABOVE = 30
"""Lines among which the header is looked for: services put what a file is about above it."""


def _first_lines(text: str) -> list[str]:
    return [line for line in text.splitlines()[:_LINES_ABOVE] if line.strip()]


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _cells(line: str) -> list[str]:
    """Return the cells of one line; none where it is no CSV."""
    try:
        return [
            cell
            for row in csv.reader([line], delimiter=_delimiter(line), strict=True)
            for cell in row
        ]
    except csv.Error:
        return []


class _Header(NamedTuple):
    """The line that a table begins with, and the names of its columns."""

    line: str
    names: list[str]
    is_row: bool = False
    """Whether there is no header: the line is the first row, and the names are told by its numbers."""


def _known_header(lines: Sequence[str], named: PriceColumnNames | None) -> _Header | None:
    """Return the line above the rows by its names; none where no line has names that are known."""
    for is_known in (is_header, find_columns_by_code):
        for at, line in enumerate(lines):
            for header, names in ((line, _cells(line)), _names_above_dates(lines[at : at + 3])):
                if is_known(names, named):
                    return _Header(header, names)
    return None


def _find_header(lines: Sequence[str], named: PriceColumnNames | None) -> _Header:
    """Return the line above the rows; the first line where none has names that are known."""
    known = _known_header(lines, named)
    if known is not None or not lines:
        return known or _Header("", [])
    rows = [_cells(line) for line in lines]
    # Whoever names columns says that there is a header.
    is_named = named is not None and named != PriceColumnNames()
    names = [] if is_named else _unnamed_columns(rows)
    return _Header(lines[0], names or rows[0], is_row=bool(names))


def _unnamed_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return what the columns of a table without a header hold, where its first rows show it.

    Of two columns the second is the close. Of more, the first four numbers are open, high, low and
    close, as everybody writes them, where in each row the second is the highest and the third the
    lowest; one column behind them is the volume.
    """
    if not all(row and may_be_date(row[0]) for row in rows) or len({len(row) for row in rows}) > 1:
        return []
    before = ["date", "time"] if all(":" in row[1] for row in rows if len(row) > 1) else ["date"]
    numbers = [[_number(cell) for cell in row[len(before) :]] for row in rows]
    count = len(numbers[0])
    if any(math.isnan(number) for row in numbers for number in row[:4]):
        return []
    if count == 1:
        return [*before, "close"]
    is_range = count > 3 and all(
        row[1] == max(row[:4]) and row[2] == min(row[:4]) for row in numbers
    )
    behind = ["volume"] if count == 5 else [""] * (count - 4)
    return [*before, "open", "high", "low", "close", *behind] if is_range else []


def _number(cell: str) -> float:
    """Return the number in a cell, or NaN; for comparing it with others of its row alone."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return math.nan


def _names_above_dates(lines: Sequence[str]) -> tuple[str, list[str]]:
    """Return the last of three lines that are the header of one table, and the names of its columns.

    The files of yfinance have what a column holds, then its code, and the name of the dates in a
    line of its own below both.
    """
    if len(lines) < 3:
        return "", []
    held, codes, (date, *others) = _cells(lines[0]), _cells(lines[1]), _cells(lines[2]) or [""]
    if not date or any(others):
        return "", []
    is_of_one = len({*codes[1:]}) == 1
    names = held[1:]
    if not is_of_one:
        names = [f"{name} {code}" for name, code in zip(held[1:], codes[1:], strict=False)]
    return lines[2], [date, *names]


_OTHER_ENCODINGS = ("cp1252", "cp1251", "cp932", "gb18030", "cp949", "big5")


def _encoding(content: bytes, named: PriceColumnNames | None) -> str:
    """Return how a text is written: UTF-8, UTF-16, else that in which the header has names that are
    known, or what Windows writes in the west.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in content[:2]:
        # The first character of a table is a Latin one, and has a byte that is nothing.
        return "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        read = ((one, _first_lines(content.decode(one, "ignore"))) for one in _OTHER_ENCODINGS)
        return next((one for one, lines in read if _known_header(lines, named)), "cp1252")
    return "utf-8-sig"


def read_parquet_table(
    content: bytes, file: str, named: PriceColumnNames | None = None
) -> RawTable:
    """Return the column names and the rows of a Parquet file.

    Raises:
        ToolError: pyarrow is not installed, or this is no Parquet file.
    """
    del named
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ToolError(
            f"{file}: Parquet files are read with pyarrow, which is not installed",
            hint=f"{install_hint('parquet')}, or give the prices as CSV",
        ) from error
    try:
        table = parquet.read_table(io.BytesIO(content))
        names: list[str] = list(table.column_names)
        columns: dict[str, list[Cell]] = table.to_pydict()
    except (
        ValueError,
        OSError,
        NotImplementedError,
        KeyError,
    ) as error:  # pyarrow's own errors are these
        reason = str(error).split("\n", 1)[0][:200]
        raise ToolError(
            f"{file}: this is no Parquet file: {reason}", hint="write the file again"
        ) from error
    lists = [columns[name] for name in names]
    rows = [
        TableRow(f"row {number}", cells)
        for number, cells in enumerate(zip(*lists, strict=True), start=1)
    ]
    return RawTable(names, rows)


MAX_FILE_BYTES = 64 * 2**20


class RowsOfCode(NamedTuple):
    """Where the prices of a code stand in a table."""

    columns: PriceColumns
    rows: Sequence[TableRow]


@dataclass(frozen=True, slots=True)
class PriceTable:
    """A file's columns and rows."""

    raw: RawTable
    whole: RowsOfCode | None
    """All rows, where the table is of one code and does not name it."""
    by_code: Mapping[str, RowsOfCode]
    """What the table has of each code that it names."""


def _price_table(
    raw: RawTable, shown: str, named: PriceColumnNames | None, code: str
) -> PriceTable:
    """Return a table by the names of its columns.

    Raises:
        ToolError: there is no column of dates or of prices, or one name stands twice.
    """
    by_code = {} if is_header(raw.header, named) else find_columns_by_code(raw.header, named)
    if by_code and code not in by_code:
        return PriceTable(
            raw, None, {name: RowsOfCode(at, raw.rows) for name, at in by_code.items()}
        )
    columns = find_columns(raw.header, shown, named, code)
    if columns.symbol is None:
        return PriceTable(raw, RowsOfCode(columns, raw.rows), {})
    groups = group_by_symbol(raw.rows, columns.symbol)
    return PriceTable(raw, None, {name: RowsOfCode(columns, rows) for name, rows in groups.items()})


_Reader: TypeAlias = Callable[[bytes, str, PriceColumnNames | None], RawTable]
_READERS: dict[str, _Reader] = {
    ".csv": read_csv_table,
    ".txt": read_csv_table,
    ".tsv": read_csv_table,
    ".parquet": read_parquet_table,
}


@dataclass(frozen=True)
class FilePrices:
    """Prices from one folder or one long file."""

    path: Path
    """As the user wrote it, made absolute: where the prices stand."""
    shown: str
    """As the user wrote it: what messages and sources say."""
    currency: str | None = None
    source_name: str | None = None
    """What a source note says; `prices of CODE` where it is absent."""
    form: TableForm = ANY_FORM
    notes: tuple[str, ...] = ()
    """What a reader of any series of this source should know; becomes a warning."""
    _tables: dict[str, tuple[tuple[int, int], PriceTable]] = field(
        default_factory=dict[str, tuple[tuple[int, int], PriceTable]]
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def codes(self) -> tuple[str, ...]:
        """Return the codes that the files have."""
        if not self._is_folder():
            table = self._table(self.path.parent, self.path.name, self.shown, fresh=False)
            return tuple(sorted(table.by_code))
        names = self._file_names()
        long = self._long_table(names, fresh=False)
        if long is not None:
            return tuple(sorted(long.by_code))
        return tuple(sorted({Path(name).stem.upper() for name in names}))

    def read(self, code: str, until: dt.date, *, fresh: bool) -> PriceSeries:
        """Return the prices of a code, whatever `until` is: the whole file has been read anyway."""
        del until
        if not self._is_folder():
            table = self._table(self.path.parent, self.path.name, self.shown, fresh=fresh)
            return self._series(code, table, self.shown)
        names = self._file_names()
        fitting = [name for name in names if Path(name).stem.upper() == code]
        if len(fitting) > 1:
            raise ToolError(
                f"{self.shown}: {' and '.join(map(repr, fitting))} are both files of {code!r}",
                hint="keep one file for each code",
            )
        if fitting:
            shown = f"{self.shown}/{fitting[0]}"
            table = self._table(self.path, fitting[0], shown, fresh=fresh)
            return self._series(code, table, shown, is_own_file=True)
        long = self._long_table(names, fresh=fresh)
        if long is not None:
            return self._series(code, long, f"{self.shown}/{names[0]}")
        raise unknown_code(code, (Path(name).stem.upper() for name in names), self.shown)

    def _is_folder(self) -> bool:
        if not self.path.exists():
            raise ToolError(
                f"{self.shown}: there is no such file or folder of prices",
                hint="set 'prices' to a folder with one CSV or Parquet file a code, such as prices/AAPL.csv; "
                f"it was looked for at {self.path}",
            )
        return self.path.is_dir()

    def _file_names(self) -> list[str]:
        with _open_folder(self.path, self.shown) as folder:
            entries = folder.entries()
        names = [entry.name for entry in entries if Path(entry.name).suffix.lower() in _READERS]
        if not names:
            others = f" (it has {len(entries)} other entries)" if entries else ""
            raise ToolError(
                f"{self.shown}: the folder has no price files{others}",
                hint="put one CSV or Parquet file a code there, such as AAPL.csv with the columns date and close",
            )
        return names

    def _long_table(self, names: Sequence[str], *, fresh: bool) -> PriceTable | None:
        """Return a folder's only file where it names the codes that it holds."""
        if len(names) != 1:
            return None
        table = self._table(self.path, names[0], f"{self.shown}/{names[0]}", fresh=fresh)
        return table if table.whole is None else None

    def _table(self, folder: Path, name: str, shown: str, *, fresh: bool) -> PriceTable:
        reader = _READERS.get(Path(name).suffix.lower())
        if reader is None:
            raise ToolError(
                f"{shown}: neither a CSV nor a Parquet file", hint="name it .csv or .parquet"
            )
        with self._lock, _open_folder(folder, shown) as opened:
            stamp = _file_stamp(folder / name)
            kept = self._tables.get(name)
            if kept is not None and kept[0] == stamp and not fresh:
                return kept[1]
            content = _read_content(opened, name, shown)
            raw = reader(content, shown, self.form.columns)
            table = _price_table(raw, shown, self.form.columns, Path(name).stem.upper())
            self._tables[name] = (stamp, table)
            return table

    def _series(
        self, code: str, table: PriceTable, shown: str, *, is_own_file: bool = False
    ) -> PriceSeries:
        """Return the series of a code; a file of its own may call it by another symbol."""
        of_code = table.whole or table.by_code.get(code)
        if of_code is None and is_own_file and len(table.by_code) == 1:
            (of_code,) = table.by_code.values()
        if of_code is None:
            raise unknown_code(code, table.by_code, shown)
        series = read_series(
            code,
            of_code.rows,
            of_code.columns,
            file=shown,
            source=self.source_name or f"prices of {code}",
            notes=(*self.notes, *table.raw.notes),
            form=replace(self.form, prefers_decimal_comma=table.raw.delimiter == ";"),
            currency=table.raw.currency or self.currency,
        )
        if series is not None:
            return series
        if table.whole is None:
            raise ToolError(
                f"{shown}: there is no price of {code!r}", hint="add prices, or leave the code out"
            )
        raise ToolError(
            f"{shown}: the file has a header and no prices", hint="add rows, or remove the file"
        )


def _open_folder(folder: Path, shown: str) -> Folder:
    try:
        return Folder(folder)
    except OSError as error:
        raise ToolError(f"{shown}: {(error.strerror or 'cannot be opened').lower()}") from error


def _read_content(folder: Folder, name: str, shown: str) -> bytes:
    try:
        # What stands in the folder is read whatever it is called; other names are refused as paths.
        listed = next((one for one in folder.entries() if one.name == name and one.is_file), None)
        content = (
            folder.read(name, max_bytes=MAX_FILE_BYTES)
            if listed is None
            else folder.read_entry(listed, max_bytes=MAX_FILE_BYTES)
        )
    except PathRefused as error:
        raise ToolError(
            f"{shown}: {error.reason}",
            hint=f"prices stand in regular files of at most {MAX_FILE_BYTES // 2**20} MiB",
        ) from error
    if not content.strip():
        raise ToolError(
            f"{shown}: the file is empty", hint="write a header and one row a date, or remove it"
        )
    return content


def _file_stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


VEGA_DATASETS = "vega_datasets"

_MONTH_NOTE = (
    "vega_datasets labels a month by its first day while the price is of a later day of that month, "
    "so a month's price may not yet have been known on its date"
)


def vega_prices() -> FilePrices:
    """Return the package's prices as a source.

    Raises:
        ToolError: the package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec(VEGA_DATASETS)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    path = Path(places[0]) / "_data" / "stocks.csv" if places else None
    if path is None or not path.is_file():
        raise ToolError(
            "the prices of vega_datasets are not installed",
            hint=f"{install_hint('equities')}, or set 'prices' to a folder of CSV files",
        )
    return FilePrices(
        path=path,
        shown=f"{VEGA_DATASETS}:stocks.csv",
        currency="USD",
        source_name="vega_datasets, monthly prices of five US stocks",
        notes=(_MONTH_NOTE,),
    )
