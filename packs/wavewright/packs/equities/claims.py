"""Whether a conclusion says what the computed table says.

A *conclusion* is data: a stock, a figure of it, the period that the figure covers, its direction,
and a sentence. It *contradicts* the table where one of the first four is not the table's, or where
the sentence has a number that no figure of the stock has, words of other directions alone, or another
stock. It is *verified* where besides every word of the sentence speaks of that one figure, once and
plainly: only then is the sentence shown. A sentence that says more (why, what comes, what to do) may be
true, and no table says so: it is the model's opinion, and the code's own sentence stands in its place.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, BeforeValidator

from wavewright.packs.equities.documents import signed_percent, two_decimals, unsigned_percent
from wavewright.packs.extraction.blocks import word_set
from wavewright.planner import Json, JsonObject, as_list, as_object

Figure: TypeAlias = Literal[
    "return_1y",
    "period_return",
    "annual_growth",
    "volatility",
    "max_drawdown",
    "trend",
    "current_price",
    "excess_return",
    "beta",
    "correlation",
]
Period: TypeAlias = Literal["one year", "all prices", "latest"]
Direction: TypeAlias = Literal["up", "down", "flat", "none"]

FIGURES: Final[tuple[Figure, ...]] = get_args(Figure)
PERIODS: Final[tuple[Period, ...]] = get_args(Period)
DIRECTIONS: Final[tuple[Direction, ...]] = get_args(Direction)

Words: TypeAlias = Annotated[frozenset[str], BeforeValidator(word_set)]


class _Lexicon(BaseModel):
    """The form of `claims.toml`."""

    neutral: Words
    up: Words
    down: Words
    flat: Words
    comparing: Words
    of_average: Words
    of_returns: Words
    says_more: re.Pattern[str]
    figures: Mapping[Figure, Words]
    periods: Mapping[Period, Words]
    told_by: Mapping[Figure, re.Pattern[str]]
    titles: Mapping[Figure, str]


_LEXICON: Final = _Lexicon.model_validate(
    tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
)
_OF_DIRECTION: Final[Mapping[Direction, frozenset[str]]] = {
    "up": _LEXICON.up,
    "down": _LEXICON.down,
    "flat": _LEXICON.flat,
    "none": frozenset(),
}
_DIRECTIONS: Final = _LEXICON.up | _LEXICON.down | _LEXICON.flat
_OF_FIGURES: Final = _LEXICON.neutral.union(_DIRECTIONS, *_LEXICON.figures.values())
"""Words behind which a number is one of the stock, also where they begin a sentence."""
_MOVES: Final = _LEXICON.up | _LEXICON.down | _LEXICON.of_returns
"""Words by which a text says that a number is a return."""
_RATE: Final = _LEXICON.told_by["annual_growth"]
_RETURNS: Final[frozenset[Figure]] = frozenset(
    {"return_1y", "period_return", "annual_growth", "excess_return"}
)
_PERIOD_OF: Final[Mapping[Figure, Period]] = {
    "return_1y": "one year",
    "trend": "latest",
    "current_price": "latest",
}
"""Every other figure is of all prices."""
_PERCENT: Final[frozenset[Figure]] = frozenset({*_RETURNS, "volatility", "max_drawdown"})
_WITHOUT_DIRECTION: Final[frozenset[Figure]] = frozenset(
    {"volatility", "current_price", "beta", "correlation"}
)
_COMPARED: Final[frozenset[Figure]] = frozenset({"excess_return", "beta", "correlation"})
_FLAT: Final = 0.0005
"""What is shown as 0.0 % goes neither up nor down."""


@dataclass(frozen=True, slots=True)
class StatedFigure:
    """One figure of one stock in the table."""

    code: str
    name: str | None
    figure: Figure
    value: float | str
    """A fraction, a price, a ratio, or the trend's signal."""
    dates: tuple[str, ...]
    """The days that the figure is about, as ISO dates."""
    benchmark: str | None = None
    currency: str | None = None

    @property
    def period(self) -> Period:
        """The period that the figure covers."""
        return _PERIOD_OF.get(self.figure, "all prices")

    @property
    def days(self) -> int:
        """How many days lie between the first and the last day of the figure."""
        first, last = map(dt.date.fromisoformat, (self.dates[0], self.dates[-1]))
        return (last - first).days

    @property
    def direction(self) -> Direction:
        """Where the figure points."""
        if isinstance(self.value, str):
            signals: dict[str, Direction] = {"up": "up", "down": "down", "sideways": "flat"}
            return signals.get(self.value, "none")
        if self.figure in _WITHOUT_DIRECTION:
            return "none"
        if abs(self.value) < _FLAT:
            return "flat"
        return "up" if self.value > 0 else "down"

    def sentence(self) -> str:
        """Return what the table says, in words of code."""
        return f"{self.code}: {_LEXICON.titles[self.figure]} {self._shown()}{self._span()}."

    def _shown(self) -> str:
        if isinstance(self.value, str):
            return self.value
        if self.figure == "volatility":
            return unsigned_percent(self.value)
        if self.figure in _PERCENT:
            return signed_percent(self.value)
        unit = f" {self.currency}" if self.figure == "current_price" and self.currency else ""
        return two_decimals(self.value) + unit

    def _span(self) -> str:
        against = f" against {self.benchmark}" if self.figure in _COMPARED else ""
        if self.figure == "return_1y":
            return f" to {self.dates[-1]}"
        if self.period == "latest":
            return f" on {self.dates[-1]}"
        return f"{against} from {self.dates[0]} to {self.dates[-1]}"


@dataclass(frozen=True, slots=True)
class StatedTable:
    """All figures that a summary states, by stock and figure."""

    figures: Mapping[str, Mapping[str, StatedFigure]]
    """By the code of the stock and the name of the figure."""
    names: Mapping[str, str | None]
    """Codes of the stocks and of the benchmark, each with the company's name."""

    def of_stock(self, code: str) -> Iterator[StatedFigure]:
        """Yield the figures of one stock."""
        yield from self.figures[code].values()


def stated_table(document: JsonObject) -> StatedTable:
    """Return the figures of a summary document."""
    stocks = [as_object(stock) for stock in as_list(document.get("stocks"))]
    benchmark = as_object(document.get("benchmark"))
    figures: dict[str, Mapping[str, StatedFigure]] = {
        str(entry["code"]): {stated.figure: stated for stated in _figures_of(entry)}
        for entry in (*stocks, *([benchmark] if benchmark else []))
    }
    names = {str(entry["code"]): cast("str | None", entry.get("name")) for entry in stocks}
    if benchmark:
        names[str(benchmark["code"])] = None
    return StatedTable(figures, names)


def _figures_of(entry: JsonObject) -> Iterator[StatedFigure]:
    comparison, drawdown = as_object(entry.get("comparison")), as_object(entry.get("max_drawdown"))
    until = str(entry["as_of"])
    since = str(entry.get("since") or until)
    values: dict[Figure, tuple[Json, tuple[Json, ...]]] = {
        "return_1y": (entry.get("return_1y"), (until,)),
        "period_return": (entry.get("period_return"), (since, until)),
        "annual_growth": (entry.get("annual_growth"), (since, until)),
        "volatility": (entry.get("volatility"), (since, until)),
        "max_drawdown": (drawdown.get("depth"), (drawdown.get("peak"), drawdown.get("trough"))),
        "trend": (entry.get("trend_signal"), (until,)),
        "current_price": (entry.get("current_price"), (until,)),
    }
    span = (comparison.get("since"), comparison.get("until"))
    values |= {figure: (comparison.get(figure), span) for figure in _COMPARED}
    for figure, (value, dates) in values.items():
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            yield StatedFigure(
                code=str(entry["code"]),
                name=cast("str | None", entry.get("name")),
                figure=figure,
                value=value,
                dates=tuple(str(date) for date in dates),
                benchmark=cast("str | None", comparison.get("benchmark")),
                currency=cast("str | None", entry.get("currency")),
            )


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A conclusion of a model, held against the table."""

    stated: StatedFigure
    text: str
    is_verified: bool
    """Whether every word of the text speaks of the figure, and none says more."""

    def shown(self) -> str:
        """Return the sentence that may be shown as checked."""
        if not self.is_verified:
            return self.stated.sentence()
        if _stands_in(self.stated.code, self.text):
            return self.text
        return f"{self.stated.code}: {self.text}"


def read_conclusion(given: JsonObject, table: StatedTable) -> Conclusion | str:
    """Return a conclusion that the table does not contradict, or what contradicts it."""
    code = str(given.get("stock", "")).strip().upper()
    if code not in table.names:
        return f"{code!r} is no stock of the table; it has {', '.join(table.names)}"
    stated = table.figures[code].get(str(given.get("figure")))
    if stated is None:
        return f"the table has no {given.get('figure')} of {code}"
    text = " ".join(str(given.get("text", "")).split())
    wrong = [
        f"its {field} is {is_so!r}, not {given.get(field)!r}"
        for field, is_so in (("period", stated.period), ("direction", stated.direction))
        if given.get(field) != is_so
    ]
    if not text:
        wrong.append("the text is empty")
    plain = _in_plain_forms(text)
    wrong += _contradictions(plain, stated, table)
    if wrong:
        return f"{stated.figure} of {code}: {'; '.join(wrong)}"
    return Conclusion(stated, text, is_verified=_speaks_of_it_alone(plain, stated))


_DATE: Final = re.compile(r"\b\d{4}-\d{2}(?:-\d{2})?\b")
_NUMBER: Final = re.compile(
    r"(?P<sign>(?<![\w.,)])[+\N{MINUS SIGN}-]\s?)?"
    r"(?<![\w.])(?P<digits>\d{1,3}(?:,\d{3})+|\d+)(?P<decimals>\.\d+|,\d{1,2}(?!\d))?"
    r"(?P<unit>\s?(?:%|per ?cent\b|percent(?:age)?\b))?(?P<points>\s?points?\b)?"
    r"(?!\w)"
)
"""With a decimal comma, too: a model may write in another language."""
_MONTHS: Final = [name for name in calendar.month_abbr if name]
_WRITTEN_DATE: Final = re.compile(
    r"\b(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?\.? )?"
    rf"(?P<month>{'|'.join([*calendar.month_name[1:], *_MONTHS])})\.? "
    r"(?:(?P<day_behind>\d{1,2})(?:st|nd|rd|th)?,? )?(?P<year>\d{4})\b",
    re.IGNORECASE,
)
_OF_A_NAME: Final = re.compile(r"\b(?P<name>[A-Z][\w&]*)\s\d+\b(?![.,]\d|\s?(?:%|p|[A-Z]{3}\b))")
"""A number that belongs to a name, as of an index: `S&P 500`."""
_LENGTH: Final = re.compile(
    r"\b(?P<digits>\d+)(?P<decimals>\.\d+)?[- ](?P<unit>day|week|month|year)s?\b", re.IGNORECASE
)
_DAYS_OF: Final = {"day": 1, "week": 7, "month": 30.44, "year": 365.25}
_OF_TREND: Final = re.compile(
    r"\b(?:200[- ]day|40[- ]week|10[- ]month)s?(?=\s(?:(?:simple|exponential)\s)?"
    r"(?:moving average|average|line|trend|[SE]?MA)\b)",
    re.IGNORECASE,
)
"""The lengths of the averages that a trend is told by: a gain over ten months is none of them."""
_DAY: Final = re.compile(
    r"(?:(?P<begin>\b(?:from|since|between|peak (?:in|of|on))\s+)|"
    r"(?P<end>\b(?:to|until|and|trough (?:in|of|on))\s+))?"
    r"(?P<day>\b(?:\d{4}-\d{2}(?:-\d{2})?|(?:19|20)\d\d(?![\d-]|[.,]\d))\b)(?!\s?(?:%|per|USD|EUR|GBP))",
    re.IGNORECASE,
)
"""A day or a year, with the word that makes it the begin or the end of a span."""
_NEITHER: Final = re.compile(r"\bneither up nor down\b", re.IGNORECASE)
_OF: Final = "['\N{RIGHT SINGLE QUOTATION MARK}]s"
_CURRENCIES: Final = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_A_YEAR: Final = re.compile(r"\b(?:1 year|12 months|52 weeks)\b", re.IGNORECASE)
_OTHER_YEAR: Final = re.compile(
    r"\b(?:this|that|which|its) year\b|(?<!the )\blast year\b", re.IGNORECASE
)
"""A year that is not the one up to the last price."""
_WORD: Final = re.compile(r"[^\W\d_][\w'\N{RIGHT SINGLE QUOTATION MARK}-]*")


def _contradictions(text: str, stated: StatedFigure, table: StatedTable) -> Iterator[str]:
    for other in _others_named(text, stated, table):
        yield f"the text speaks of {other}, too: a conclusion is about one stock"
    bare = _without_names(text, stated)
    of_stock = [*table.of_stock(stated.code)]
    days = {day for figure in of_stock for day in figure.dates}
    for date in _DATE.findall(bare):
        if not any(day.startswith(date) for day in days):
            yield f"no figure of it is of {date}"
    # The length of another figure is a false period. The deepest drawdown has two: its own, and that
    # of all prices, of which it is the deepest.
    with_its_length = {stated.figure}
    if stated.figure == "max_drawdown":
        with_its_length.add("period_return")
    own_spans = [figure for figure in of_stock if figure.figure in with_its_length]
    counted = _without_named_numbers(
        _without_lengths(_A_YEAR.sub(" ", _DATE.sub(" ", bare)), own_spans)
    )
    for match in _NUMBER.finditer(counted):
        if not any(_is_of_figure(match, figure) for figure in of_stock):
            yield f"{match[0].strip()} is no figure of it"
    words = {*_words(bare)}
    own = _OF_DIRECTION[stated.direction]
    # Words of both ways say more than the figure ("fell in 2022 and rose since"), and nothing against
    # it. "MKT lagged behind ANV": of the benchmark as the subject the words go the other way.
    if own and own.isdisjoint(words) and _has_its_subject(text, stated):
        # A price may be at a new level, and a return has one.
        for word in sorted(words & _DIRECTIONS - _LEXICON.of_returns):
            yield f"the text says {word!r}, and it goes {stated.direction}"
    if stated.period == "all prices" and stated.figure != "annual_growth" and _A_YEAR.search(bare):
        yield f"it is of all prices, from {stated.dates[0]} to {stated.dates[-1]}, and of no year"


def _others_named(text: str, stated: StatedFigure, table: StatedTable) -> Iterator[str]:
    allowed = {stated.code, stated.benchmark if stated.figure in _COMPARED else stated.code}
    for code, name in table.names.items():
        spellings = [code, *([name] if name else [])]
        if code not in allowed and any(_stands_in(spelling, text) for spelling in spellings):
            yield code


def _stands_in(name: str, text: str) -> bool:
    """Return whether a code or a name stands in a text; a code of capitals only as it is written,
    so that the stock `ALL` is not every "all".
    """
    flags = re.NOFLAG if name.isupper() else re.IGNORECASE
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags) is not None


def _without_names(text: str, stated: StatedFigure) -> str:
    for name in (stated.code, stated.name, stated.benchmark, stated.currency):
        if name:
            named = rf"(?<!\w){re.escape(name)}(?:{_OF})?(?!\w)"
            text = re.sub(named, " ", text, flags=re.IGNORECASE)
    return text


def _in_plain_forms(text: str) -> str:
    """Return a text with dates as ISO dates, and `flat` for what is neither up nor down."""

    def as_iso(match: re.Match[str]) -> str:
        month = _MONTHS.index(match["month"][:3].title()) + 1
        day = match["day"] or match["day_behind"]
        return f"{match['year']}-{month:02}" + (f"-{int(day):02}" if day else "")

    return _NEITHER.sub("flat", _WRITTEN_DATE.sub(as_iso, text))


def _without_lengths(text: str, figures: Sequence[StatedFigure]) -> str:
    """Return a text without the lengths of time that figures are of, and without those that a trend
    is told by.
    """

    def rest(match: re.Match[str]) -> str:
        unit = match["unit"].lower()
        lengths = (Decimal(figure.days / _DAYS_OF[unit]) for figure in figures)
        return " " if any(_rounds_to(length, match) for length in lengths) else match[0]

    return _LENGTH.sub(rest, _OF_TREND.sub(" ", text))


def _without_named_numbers(text: str) -> str:
    """Return a text without the numbers of names; `Beta 9` is no name, but a figure."""

    def rest(match: re.Match[str]) -> str:
        return match[0] if match["name"].casefold() in _OF_FIGURES else " "

    return _OF_A_NAME.sub(rest, text)


def _is_of_figure(match: re.Match[str], stated: StatedFigure) -> bool:
    has_percent = match["unit"] is not None or match["points"] is not None
    is_bare = not has_percent and not match["decimals"]
    is_year = is_bare and len(match["digits"]) == 4
    if is_year and any(day.startswith(match["digits"]) for day in stated.dates):
        return True
    if isinstance(stated.value, str):
        return False
    if has_percent and stated.figure not in _PERCENT:
        return False
    # Points are the difference of two shares, and of these figures one alone is a difference.
    if match["points"] and stated.figure != "excess_return":
        return False
    value = Decimal(str(stated.value)) * (100 if has_percent else 1)
    # A ratio without a sign is a positive one; a fall is written without its sign: "lost 5 %".
    has_own_sign = stated.figure in _WITHOUT_DIRECTION
    sign = match["sign"] or ("+" if has_own_sign else None)
    is_above = sign is not None and sign.strip() == "+"
    has_sign = sign is None or (value >= 0 if is_above else value <= 0)
    return has_sign and _rounds_to(abs(value), match)


def _rounds_to(value: Decimal, match: re.Match[str]) -> bool:
    digits = match["digits"].replace(",", "") + (match["decimals"] or "").replace(",", ".")
    places = len(match["decimals"] or ".") - 1
    # Half a unit of the last place, both ways: either rounding of a half is accepted.
    return abs(value - Decimal(digits)) <= Decimal(5).scaleb(-places - 1)


def _words(text: str) -> Sequence[str]:
    return [word.casefold() for word in _WORD.findall(_NUMBER.sub(" ", _A_YEAR.sub(" ", text)))]


def _speaks_of_it_alone(text: str, stated: StatedFigure) -> bool:
    bare = _without_names(text, stated)
    words = {*_words(bare)}
    known = _LEXICON.neutral | _LEXICON.figures[stated.figure] | _LEXICON.periods[stated.period]
    known |= _OF_DIRECTION[stated.direction]
    if stated.figure == "trend":
        known -= _LEXICON.comparing - _LEXICON.of_average
    elif stated.figure != "excess_return":
        known -= _LEXICON.comparing
    numbers = [*_NUMBER.finditer(_A_YEAR.sub(" ", _DAY.sub(" ", bare)))]
    return (
        known.issuperset(words)
        and not _LEXICON.says_more.search(bare)
        and len(numbers) <= 1
        and all(_is_of_figure(match, stated) for match in numbers)
        and _is_told(bare, words, numbers, stated)
        and _has_its_period(bare, stated)
        and all(_CURRENCIES.get(sign, stated.currency) == stated.currency for sign in text)
        and _has_its_subject(text, stated)
    )


def _is_told(
    text: str, words: AbstractSet[str], numbers: Sequence[re.Match[str]], stated: StatedFigure
) -> bool:
    """Whether a text tells the figure: by its name and with its number, or of a return which way it
    goes, once; with a number of a return, that it is one, and of a fall without a sign, that it is a fall.
    """
    if not _LEXICON.told_by[stated.figure].search(text):
        return False
    if stated.figure == "trend":
        return True
    if not numbers:
        # Which way a return goes is a figure, too: it is the direction that was checked.
        return stated.figure in _RETURNS and not _DIRECTIONS.isdisjoint(words)
    if stated.figure in _RETURNS - {"excess_return"} and len(words & _DIRECTIONS) > 1:
        return False  # "its negative return fell"
    is_signed = all(match["sign"] for match in numbers)
    if stated.direction == "down" and stated.figure != "max_drawdown":
        return is_signed or not _LEXICON.down.isdisjoint(words)
    return stated.figure not in _RETURNS or is_signed or not _MOVES.isdisjoint(words)


def _has_its_period(text: str, stated: StatedFigure) -> bool:
    """Whether a text speaks of no other days and of no other span: a rate is one of each year, and
    what is no rate is none.
    """
    if stated.period != "one year" and _A_YEAR.search(text):
        return False
    if stated.period == "one year" and _OTHER_YEAR.search(text):
        return False
    is_rate = _RATE.search(text) is not None
    if stated.figure == "annual_growth" and not is_rate:
        return False
    if is_rate and stated.figure not in {"annual_growth", "volatility"}:
        return False
    return all(_is_its_day(match, stated) for match in _DAY.finditer(text))


def _is_its_day(match: re.Match[str], stated: StatedFigure) -> bool:
    """Whether a day or a year is the one that its words speak of: the first or the last of the
    figure's, or both.
    """
    first, last = stated.dates[0], stated.dates[-1]
    if stated.period == "one year" and match["day"].isdigit():
        return False  # the year up to a day is no calendar year
    if match["begin"]:
        return first.startswith(match["day"])
    if match["end"]:
        return last.startswith(match["day"])
    return first.startswith(match["day"]) and last.startswith(match["day"])


def _has_its_subject(text: str, stated: StatedFigure) -> bool:
    """Whether a comparison speaks of the stock and then of its benchmark, and neither the other way
    round nor of both.
    """
    if stated.figure not in _COMPARED:
        return True
    benchmark = rf"\b(?:benchmark|index|market|{re.escape(stated.benchmark or 'benchmark')})\b"
    other = re.search(benchmark, text, re.IGNORECASE)
    if other is None:
        return stated.figure != "excess_return"
    if re.search(rf"\band (?:the |its )?{benchmark}", text, re.IGNORECASE):
        return False
    own = re.search("|".join(re.escape(one) for one in (stated.code, stated.name) if one), text)
    is_first = own is not None and own.start() < other.start()
    return is_first or (own is None and stated.figure == "excess_return")
