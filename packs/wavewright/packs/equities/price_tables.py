"""The conversion of a table's rows to series: which columns hold what, and how dates and numbers are
written.

Columns are recognised by name regardless of case; the first invalid row is an error with its file,
its line and the fix. What was taken for granted, as sorting, is recorded in the series' warnings.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from wavewright.packs.equities.documents import Oddity
from wavewright.packs.equities.prices import CODE, Price, PriceSeries
from wavewright.packs.text.markdown_tables import counted
from wavewright.packs.text.written_values import (
    CURRENCY_SIGNS,
    DECIMAL_COMMA,
    SIGN,
    THOUSANDS,
    bare_date,
    bare_number,
    currency_beside,
    in_plain_digits,
    time_behind,
    written_date,
)
from wavewright.planner import DocumentModel
from wavewright.tools import ToolError


class _TableWords(BaseModel):
    """The form of `price_tables.toml`."""

    no_price: frozenset[str]
    columns: Mapping[str, tuple[str, ...]]
    other_columns: tuple[str, ...]
    hundredths: Mapping[str, str]


_WORDS = _TableWords.model_validate(
    tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
)
_COLUMN_NAMES, _HUNDREDTHS = _WORDS.columns, _WORDS.hundredths
_MEANINGS = sorted(
    (
        *((meaning, name) for meaning, names in _COLUMN_NAMES.items() for name in names if name),
        *(("other", name) for name in _WORDS.other_columns),
    ),
    key=lambda meaning: -len(meaning[1]),
)
"""What the name of a column means, the longest name first: `adj close` before `close`."""
_EXPLANATION = 4
"""Words of a name of which the first ones are the name, and the others explain it."""
_QUOTED_PARTS = re.compile(r"[()'\",]+")
"""Around the parts of a name that a table of pandas wrote: `('Close', 'AAPL')`."""
_EPOCH = re.compile(r"\d{9,10}|(?!(?:19|20)\d\d(?:0[1-9]|1[0-2]))\d{12}|\d{13}")
"""Seconds or milliseconds since 1970; eight digits are a date, and twelve may be one with its time."""
_DAY_NUMBER = re.compile(r"([2-9]\d{4})(?:[.,](\d+))?")
"""A date as spreadsheets count it, in days, from 1954 on; the fraction is the time."""
_DAY_ZERO = dt.date(1899, 12, 30)
_CLOCK = re.compile(
    r"(?<!\d)([01]?\d|2[0-3]):?([0-5]\d)(?::?([0-5]\d))?(?!\d)"
    r"(?:(?:\.\d+)?\s*(?P<half>[ap])\.?m\b)?",
    re.IGNORECASE,
)
"""Behind a date, or in a column of its own: `9:30`, `17:30:00`, `173000` or `5:30 PM`."""
_EVENING_IN_UTC = re.compile(r"\d{4}-\d{2}-\d{2}[T ](?:1[2-9]|2[0-3]):\d{2}.*(?:Z|\+00:?00)")
_FRIDAY, _SUNDAY = 4, 6
_NUMERIC_DAY = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4}|\d{2})")
"""A date whose day and month can only be told apart by the rest of the column."""
_POINTS_OF_THOUSANDS = re.compile(r"\d{1,3}(\.\d{3}){2,}")
_UNIT_OF_NAME = re.compile(
    rf"\s*(?:[(\[]\s*(?P<unit>[A-Za-z]{{3}}|pence|p|[^\w\s])\s*[)\]]|[\s,_]+(?:in\s+)?(?P<bare>{SIGN}))$"
)
"""How the name of a column names the currency of its prices: `Close (GBX)`, `Kurs in €`."""
CURRENCY_LINE = re.compile(
    rf"\W*(?:{'|'.join(_COLUMN_NAMES['currency'])})\W+(?P<unit>[A-Za-z]{{3}}|pence)\W*",
    re.IGNORECASE,
)
"""A line of a file that names the currency of its prices."""
_VOLUME = re.compile(r"(\d+(?:\.\d+)?)\s*([KMBkmb]?)")
_TIMES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}


class PriceColumnNames(DocumentModel):
    """Names of the columns of price files, in place of those that are recognised."""

    date: str | None = None
    close: str | None = None
    adjusted: str | None = None
    symbol: str | None = None
    currency: str | None = None
    volume: str | None = None


@dataclass(frozen=True, slots=True)
class TableForm:
    """What the settings say of the form of price files."""

    columns: PriceColumnNames | None = None
    date_format: str | None = None
    prefers_decimal_comma: bool = False
    """Whether `1,234` is a little more than one: cells are divided by semicolons where the comma
    is that of decimals.
    """


ANY_FORM = TableForm()
"""Nothing is said: columns and dates are recognised."""


Cell = object
"""A cell as its reader gives it: text from CSV, numbers and dates from Parquet."""


@dataclass(frozen=True, slots=True)
class PriceColumns:
    """Positions of the columns in a row."""

    date: int
    close: int
    adjusted: int | None = None
    symbol: int | None = None
    currency: int | None = None
    volume: int | None = None
    time: int | None = None
    """Of the day, where the dates do not have it."""
    unit: str | None = None
    """Currency that the name of the column of prices names."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table, with the place that an error names: `line 14`, `row 3`."""

    place: str
    cells: Sequence[Cell]


def find_columns(
    header: Sequence[str], file: str, named: PriceColumnNames | None = None, code: str = ""
) -> PriceColumns:
    """Return where the columns stand; that of prices may be called by their `code`, too.

    Raises:
        ToolError: there is no column of dates or of prices, or one name stands twice.
    """
    names, units = _names_and_units(header)
    own = {} if named is None else named.model_dump(exclude_none=True)
    of_code = {"close": (*_COLUMN_NAMES["close"], code.lower())} if code else {}
    found = {
        meaning: _position(names, (_plain_name(own[meaning]),) if meaning in own else known, file)
        for meaning, known in {**_COLUMN_NAMES, **of_code}.items()
    }
    for meaning, name in own.items():
        if found[meaning] is None:
            raise ToolError(
                f"{file}: there is no column {name!r}, which 'columns.{meaning}' names",
                hint=f"the header has {', '.join(map(repr, header))}",
            )
    close = found["adjusted"] if found["close"] is None else found["close"]
    if found["date"] is None or close is None:
        missing = "dates" if found["date"] is None else "prices"
        wanted = ("date",) if found["date"] is None else (*_COLUMN_NAMES["close"][:2], "adj_close")
        raise ToolError(
            f"{file}: no column of {missing}; the header has {', '.join(map(repr, header)) or 'nothing'}",
            hint=f"name one column {' or '.join(map(repr, wanted))}, or say which it is: 'columns' in the settings",
        )
    return PriceColumns(
        date=found["date"],
        close=close,
        adjusted=found["adjusted"],
        symbol=found["symbol"],
        currency=found["currency"],
        volume=found["volume"],
        time=found["time"] if found["time"] != found["date"] else None,
        unit=units[close],
    )


def find_columns_by_code(
    header: Sequence[str], named: PriceColumnNames | None = None
) -> dict[str, PriceColumns]:
    """Return where the columns of each code stand in a table with a column a code; none where it is
    no such table.

    A column is called by its code in capitals (`AAPL`), or by what it holds and the code, in either
    order (`Close AAPL`, `AAPL.Volume`). Where a column beside that of dates is neither, nothing says
    that the others are codes.
    """
    names, units = _names_and_units(header)
    own = None if named is None else named.date
    dates = _COLUMN_NAMES["date"] if own is None else (_plain_name(own),)
    date = next((names.index(name) for name in dates if name in names), None)
    if date is None:
        return {}
    positions: dict[str, dict[str, int]] = {}
    for at, name in enumerate(header):
        if at == date or not name.strip():
            continue
        meaning, code = _column_of_code(_UNIT_OF_NAME.sub("", name.strip()))
        if not code or meaning in positions.setdefault(code, {}):
            return {}
        positions[code][meaning] = at
    by_code: dict[str, PriceColumns] = {}
    for code, at_of in positions.items():
        close = at_of.get("close", at_of.get("adjusted"))
        if close is not None:
            by_code[code] = PriceColumns(
                date=date,
                close=close,
                adjusted=at_of.get("adjusted"),
                volume=at_of.get("volume"),
                unit=units[close],
            )
    return by_code


def _column_of_code(name: str) -> tuple[str, str]:
    """Return what a column of one code holds, and the code; none where the name has none."""
    plain = _QUOTED_PARTS.sub(" ", name).strip()
    if _is_code_in_capitals(plain):
        return "close", plain
    for meaning, known in _MEANINGS:
        before = re.match(rf"{re.escape(known)}[\s_.|/]+", plain, re.IGNORECASE)
        behind = re.search(rf"[\s_.|/]+{re.escape(known)}$", plain, re.IGNORECASE)
        code = plain[before.end() :] if before else plain[: behind.start()] if behind else ""
        if _is_code_in_capitals(code):
            return meaning, code
    return "", ""


def _is_code_in_capitals(text: str) -> bool:
    is_name_of_column = any(text.lower() == known for _, known in _MEANINGS)
    is_code = CODE.fullmatch(text) is not None and any(character.isalpha() for character in text)
    return is_code and not is_name_of_column


def _names_and_units(header: Sequence[str]) -> tuple[list[str], list[str | None]]:
    """Return the plain names of columns, and the currency that each names."""
    names: list[str] = []
    units: list[str | None] = []
    for name in header:
        unit = _UNIT_OF_NAME.search(_bare_name(name))
        sign = "" if unit is None else unit["unit"] or unit["bare"]
        names.append(_plain_name(name))
        units.append(CURRENCY_SIGNS.get(sign, sign) or None)
    return names, units


def _bare_name(name: str) -> str:
    # Names stand in angle brackets, and those of a page with notes below it have stars behind them.
    return name.strip().lstrip("\ufeff").strip("<>*")


def _plain_name(name: str) -> str:
    """Return the name of a column in the form in which it is known: small, with one space between
    its words, and without an explanation behind it, as pages have it (`Close Close price adjusted
    for splits.`).
    """
    plain = _UNIT_OF_NAME.sub("", _bare_name(name)).lower()
    plain = " ".join(plain.replace("_", " ").replace(". ", " ").split())
    if len(plain.split()) >= _EXPLANATION:
        return next((known for _, known in _MEANINGS if plain.startswith(f"{known} ")), plain)
    return plain


def is_header(cells: Sequence[str], named: PriceColumnNames | None = None) -> bool:
    """Whether a row has the names of a column of dates and of one of prices."""
    try:
        find_columns(cells, "", named)
    except ToolError:
        return False
    return True


def _position(names: Sequence[str], known: Sequence[str], file: str) -> int | None:
    for name in known:
        if names.count(name) > 1:
            raise ToolError(
                f"{file}: the header has {name!r} twice", hint="keep one of the two columns"
            )
        if name in names:
            return names.index(name)
    return None


def read_series(
    code: str,
    rows: Iterable[TableRow],
    columns: PriceColumns,
    *,
    file: str,
    source: str,
    notes: tuple[str, ...] = (),
    form: TableForm = ANY_FORM,
    currency: str | None = None,
) -> PriceSeries | None:
    """Return the prices in the rows of one code, or nothing where there are no rows.

    `currency` is that of a table that names none.

    Raises:
        ToolError: a row cannot be trusted.
    """
    rows = list(rows)
    dates = [_cell_text(row, columns.date) for row in rows]
    # `Average` below the prices has no digit in the place of a date.
    dated = [at for at, date in enumerate(dates, 1) if not date or any(map(str.isdigit, date))]
    below = dates[dated[-1] :] if dated else []
    rows = rows[: len(rows) - len(below)]
    reader = _RowReader(rows, columns, file, form, currency)
    read = _prices_by_day(reader, rows)
    prices = [one.price for one in read.by_day.values()]
    if not prices and read.oddities:
        raise ToolError(
            f"{file}: no price can be trusted: {read.oddities[0].text}", hint="correct the rows"
        )
    if not prices:
        return None
    unadjusted = [f"{price.date}" for price in prices if price.adjusted is None]
    for found, what in (
        (read.without, "without a price left out"),
        (below, "below the prices left out"),
        (read.repeated, "given twice with the same price"),
        (read.earlier, "of a day with a later price left out"),
        (
            unadjusted if len(unadjusted) < len(prices) else [],
            "without an adjusted price, so plain closes are used",
        ),
    ):
        if found:
            listed = ", ".join(found[:5]) + (" and more" if len(found) > 5 else "")
            notes = (*notes, f"{file}: {counted(len(found), 'row')} {what}: {listed}")
    ordered = sorted(prices, key=lambda price: price.date)
    warnings = (
        ()
        if ordered == prices
        else (f"{file}: the dates were not in order; they have been sorted",)
    )
    return PriceSeries(
        code=code,
        prices=tuple(ordered),
        source=source,
        location=file,
        warnings=(*notes, *reader.taken(), *warnings),
        currency=reader.currency(),
        oddities=tuple(read.oddities),
    )


class _ReadPrice(NamedTuple):
    """A price, and how and where its row has it."""

    price: Price
    time: dt.time
    place: str
    written: str


@dataclass(frozen=True, slots=True)
class _ReadRows:
    """What the rows of one code have."""

    by_day: dict[dt.date, _ReadPrice] = field(default_factory=dict[dt.date, _ReadPrice])
    oddities: list[Oddity] = field(default_factory=list[Oddity])
    without: list[str] = field(default_factory=list[str])
    """Dates of rows without a price."""
    repeated: list[str] = field(default_factory=list[str])
    """Days that two rows give the same price of."""
    earlier: list[str] = field(default_factory=list[str])
    """Days of prices that a later one of the same day stands for."""

    def add(self, new: _ReadPrice, *, has_symbols: bool) -> None:
        """Add a price: one that cannot be right, and a second one of a day, is an oddity."""
        price = new.price
        if price.close <= 0 or (price.adjusted is not None and price.adjusted <= 0):
            text = f"{price.date}: the price {new.written} in {new.place} is not above zero"
            self.oddities.append(Oddity(kind="value", date=price.date, text=text))
            return
        known = self.by_day.setdefault(price.date, new)
        if known is new:
            return
        if known.time != new.time:
            # Of several prices of a day, the last is the one that it closed at.
            self.by_day[price.date] = max(known, new, key=lambda one: one.time)
            self.earlier.append(f"{price.date}")
        elif (known.price.close, known.price.adjusted) == (price.close, price.adjusted):
            self.repeated.append(f"{price.date} in {known.place} and {new.place}")
        else:
            text = (
                f"{price.date}: {known.written} in {known.place}, and {new.written} in {new.place}"
            )
            text += "" if has_symbols else "; several codes need a 'symbol' column"
            self.oddities.append(Oddity(kind="duplicate", date=price.date, text=text))


def _prices_by_day(reader: _RowReader, rows: Iterable[TableRow]) -> _ReadRows:
    read = _ReadRows()
    columns = reader.columns
    for row in rows:
        if reader.is_note(row):
            continue
        price = reader.read(row)
        if price is None:
            read.without.append(_cell_text(row, columns.date) or row.place)
            continue
        cell = _cell(row, columns.close)
        written = f"{cell:g}" if isinstance(cell, float) else _cell_text(row, columns.close)
        new = _ReadPrice(price, reader.time(row), row.place, written)
        read.add(new, has_symbols=columns.symbol is not None)
    return read


def group_by_symbol(rows: Iterable[TableRow], symbol: int) -> dict[str, list[TableRow]]:
    """Return the rows of each code of a table with a symbol column, so that each row is read once."""
    groups: dict[str, list[TableRow]] = {}
    for row in rows:
        code = _cell_text(row, symbol).upper()
        if code:
            groups.setdefault(code, []).append(row)
    return groups


def parse_date(text: str) -> dt.date | None:
    """Return a date as it is written, or from the numbers by which computers and spreadsheets count;
    a time is dropped.
    """
    shown = bare_date(text)
    if _EPOCH.fullmatch(shown):
        return _instant(shown).date()
    if days := _DAY_NUMBER.fullmatch(shown):
        return _DAY_ZERO + dt.timedelta(days=int(days[1]))
    return written_date(shown)


def may_be_date(text: str) -> bool:
    """Whether a text is a date, in any order of day and month."""
    return _NUMERIC_DAY.fullmatch(bare_date(text)) is not None or parse_date(text) is not None


def _instant(text: str) -> dt.datetime:
    """Return the instant of seconds or milliseconds since 1970."""
    seconds = int(text) / (1000 if len(text) > 10 else 1)
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


class _RowReader:
    """Reads the rows of one table: the form of its dates and numbers is that of the whole column."""

    def __init__(
        self,
        rows: Sequence[TableRow],
        columns: PriceColumns,
        file: str,
        form: TableForm,
        currency: str | None,
    ) -> None:
        self._rows = rows
        self.columns = columns
        self._file = file
        self._date_format = form.date_format or self._numeric_date_format()
        self._is_given = form.date_format is not None
        self._has_decimal_comma = self._uses_decimal_comma(prefers_it=form.prefers_decimal_comma)
        self._are_evenings = self._are_evenings_before()
        self._units = self._units_of_rows(currency)

    def is_note(self, row: TableRow) -> bool:
        """Whether a row has words in one cell and nothing else, as notes below a table have, or
        marks alone, as the line under the names of a Markdown table.
        """
        cells = [text for at in range(len(row.cells)) if (text := _cell_text(row, at))]
        if not any(character.isalnum() for text in cells for character in text):
            return True
        return len(cells) == 1 and parse_date(cells[0]) is None and not cells[0][0].isdigit()

    def taken(self) -> Iterator[str]:
        """Yield what was taken for granted, where it could have been read otherwise."""
        if self._date_format is not None and not self._is_given:
            order = "day, month" if self._date_format.startswith("%d") else "month, day"
            yield f"{self._file}: dates are read as {order}, year: no other order fits all of them"
        if any(_DAY_NUMBER.fullmatch(_cell_text(row, self.columns.date)) for row in self._rows):
            yield f"{self._file}: numbers are read as dates of a spreadsheet, in days from 1900"
        if self._are_evenings:
            yield (
                f"{self._file}: times are of the evening before, in UTC: there are prices of Sundays "
                "and none of Fridays; each is taken for the next day"
            )
        if self._has_decimal_comma:
            yield f"{self._file}: prices are read with a decimal comma"
        for unit in sorted({*self._units.values()} & _HUNDREDTHS.keys()):
            shown = _HUNDREDTHS[unit]
            yield f"{self._file}: prices in {unit} are shown in {shown}, a hundredth each"

    def currency(self) -> str | None:
        """Return the currency of the prices.

        Raises:
            ToolError: there are two.
        """
        units = {*self._units.values()} - {""}
        currencies = {_HUNDREDTHS.get(unit, unit) for unit in units}
        if len(currencies) > 1:
            raise ToolError(
                f"{self._file}: the prices are in {' and '.join(sorted(units))}",
                hint="keep the prices of one code in one currency",
            )
        return next(iter(currencies), None)

    def _units_of_rows(self, currency: str | None) -> dict[str, str]:
        """Return the unit of each row's price, by the row's place: that of its own cell or sign, or
        of the name of its column; else the one of the other rows, or of the whole table.
        """
        at = self.columns.currency
        prices = ((row.place, _cell_text(row, self.columns.close)) for row in self._rows)
        written = (
            {place: currency_beside(price) or "" for place, price in prices}
            if at is None
            else {row.place: _cell_text(row, at) for row in self._rows}
        )
        named = {*written.values()} - {""}
        of_others = next(iter(named)) if len(named) == 1 else None
        rest = (self.columns.unit if at is None else None) or of_others or currency or ""
        units = {place: unit or rest for place, unit in written.items()}
        return {
            place: unit if unit in _HUNDREDTHS else unit.upper() for place, unit in units.items()
        }

    def read(self, row: TableRow) -> Price | None:
        """Return the price of a row; none where the row says that there was none.

        Raises:
            ToolError: the row cannot be trusted.
        """
        close = None if self._is_event(row) else self._number(row, self.columns.close)
        if close is None:
            return None
        adjusted = None
        if self.columns.adjusted is not None:
            adjusted = self._number(row, self.columns.adjusted)
        price = Price(self._date(row), close, adjusted, self._volume(row))
        return _in_hundredths(price) if self._units[row.place] in _HUNDREDTHS else price

    def time(self, row: TableRow) -> dt.time:
        """Return the time of a row's price; midnight where the row has none."""
        cell = _cell(row, self.columns.date)
        if isinstance(cell, dt.datetime):
            return cell.time()
        text = _cell_text(row, self.columns.date)
        if _EPOCH.fullmatch(text):
            return _instant(text).time()
        counted_days = _DAY_NUMBER.fullmatch(text)
        if counted_days and counted_days[2]:
            midnight = dt.datetime.combine(_DAY_ZERO, dt.time.min)
            return (midnight + dt.timedelta(days=float(f"0.{counted_days[2]}"))).time()
        at = self.columns.time
        clock = _CLOCK.search(time_behind(text) if at is None else _cell_text(row, at))
        if clock is None:
            return dt.time.min
        hour, minute, second = (int(part or 0) for part in clock.group(1, 2, 3))
        if clock["half"]:
            hour = hour % 12 + (12 if clock["half"] in "pP" else 0)
        return dt.time(hour, minute, second)

    def _is_event(self, row: TableRow) -> bool:
        """Whether a row ends before its price with what happened on the day, as pages have it between
        the prices: `0.25 Dividend`.
        """
        words = [_cell_text(row, at) for at in range(len(row.cells)) if at != self.columns.date]
        has_words = any(character.isalpha() for text in words for character in text)
        return self.columns.close >= len(row.cells) and has_words

    def _volume(self, row: TableRow) -> float | None:
        """Return what was traded; none where the cell does not say, for no figure rests on it."""
        if self.columns.volume is None:
            return None
        text = bare_number(_cell_text(row, self.columns.volume))
        text = text.replace(".", "").replace(",", ".") if self._has_decimal_comma else text
        found = _VOLUME.fullmatch(text.replace(",", ""))
        return None if found is None else float(found[1]) * _TIMES[found[2].upper()]

    def _number(self, row: TableRow, position: int) -> float | None:
        text = bare_number(_cell_text(row, position))
        if position >= len(row.cells):
            raise ToolError(
                f"{self._file}, {row.place}: the price is missing",
                hint="fill the price in, or remove the row",
            )
        if text.casefold() in _WORDS.no_price:
            return None
        digits = in_plain_digits(text, has_decimal_comma=self._has_decimal_comma)
        return _price_of(digits, row, self._file)

    def _date(self, row: TableRow) -> dt.date:
        text = _cell_text(row, self.columns.date)
        date = self._written_date(row)
        if date is None:
            shown = f"the date {text[:40]!r} cannot be read" if text else "the date is empty"
            raise ToolError(
                f"{self._file}, {row.place}: {shown}",
                hint="write dates as 2010-03-01 (or 'Mar 1 2010'), or name their form: 'date_format'",
            )
        return date + dt.timedelta(days=1) if self._are_evenings else date

    def _written_date(self, row: TableRow) -> dt.date | None:
        cell = _cell(row, self.columns.date)
        if isinstance(cell, dt.datetime):
            return cell.date()
        if isinstance(cell, dt.date):
            return cell
        return self._read_date(_cell_text(row, self.columns.date))

    def _are_evenings_before(self) -> bool:
        """Whether a day begins east of Greenwich: its midnight is the evening before in UTC."""
        texts = [_cell_text(row, self.columns.date) for row in self._rows]
        if not all(_EPOCH.fullmatch(text) or _EVENING_IN_UTC.fullmatch(text) for text in texts):
            return False
        days = {date.weekday() for row in self._rows if (date := self._written_date(row))}
        return _SUNDAY in days and _FRIDAY not in days

    def _read_date(self, text: str) -> dt.date | None:
        if self._date_format is None:
            return parse_date(text)
        numeric = None if self._is_given else _NUMERIC_DAY.fullmatch(bare_date(text))
        shown = text if numeric is None else "/".join(numeric.groups())
        try:
            return dt.datetime.strptime(shown, self._date_format).replace(tzinfo=dt.UTC).date()
        except ValueError:
            return None if self._is_given else parse_date(text)

    def _numeric_date_format(self) -> str | None:
        """Return whether days or months come first in dates such as 03/04/2010; none where there
        are no such dates.

        Raises:
            ToolError: either order fits every date, or none fits all of them.
        """
        texts = [bare_date(_cell_text(row, self.columns.date)) for row in self._rows]
        found = [match for text in texts if (match := _NUMERIC_DAY.fullmatch(text))]
        if not found:
            return None
        is_day_first = any(int(match[1]) > 12 for match in found)
        is_month_first = any(int(match[2]) > 12 for match in found)
        if is_day_first and is_month_first:
            day, month = (next(one[0] for one in found if int(one[at]) > 12) for at in (1, 2))
            raise ToolError(
                f"{self._file}: {day!r} begins with the day, and {month!r} with the month",
                hint="write all dates in one order, best as 2010-03-01",
            )
        if not is_day_first and not is_month_first:
            raise ToolError(
                f"{self._file}: {found[0][0]!r} may begin with the day or with the month",
                hint="say which in the settings: date_format: '%d/%m/%Y' or '%m/%d/%Y' (%y for two digits)",
            )
        year = "%Y" if all(len(match[3]) == 4 for match in found) else "%y"
        return f"%d/%m/{year}" if is_day_first else f"%m/%d/{year}"

    def _uses_decimal_comma(self, *, prefers_it: bool) -> bool:
        """Return whether prices are written with a decimal comma.

        Raises:
            ToolError: every comma may be either a decimal comma or one of thousands.
        """
        texts = [bare_number(_cell_text(row, self.columns.close)).lstrip("-") for row in self._rows]
        with_comma = [text for text in texts if "," in text]
        if not with_comma and any(map(_POINTS_OF_THOUSANDS.fullmatch, texts)):
            return True
        if not with_comma or any(not DECIMAL_COMMA.fullmatch(text) for text in with_comma):
            return False
        if not prefers_it and all(THOUSANDS.fullmatch(text) for text in with_comma):
            raise ToolError(
                f"{self._file}: the comma of {with_comma[0]!r} may be that of decimals or of thousands",
                hint="write prices with a point and without marks of thousands, such as 1223.02",
            )
        return True


def _in_hundredths(price: Price) -> Price:
    adjusted = None if price.adjusted is None else price.adjusted / 100
    return replace(price, close=price.close / 100, adjusted=adjusted)


def _cell(row: TableRow, position: int) -> Cell:
    return row.cells[position] if position < len(row.cells) else None


def _cell_text(row: TableRow, position: int) -> str:
    cell = _cell(row, position)
    return "" if cell is None else str(cell).strip()


def _price_of(text: str, row: TableRow, file: str) -> float:
    try:
        value = float(text.replace("_", "?"))  # Python alone reads 1_000
    except ValueError:
        raise ToolError(
            f"{file}, {row.place}: the price {text[:40]!r} is no number",
            hint="write prices as numbers, such as 223.02",
        ) from None
    if not math.isfinite(value):
        raise ToolError(
            f"{file}, {row.place}: the price {text[:40]} is not finite",
            hint="a price is a finite number; fix or remove the row",
        )
    return value
