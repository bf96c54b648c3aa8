"""What a job names: the words, figures, units and periods of its goal and its inputs.

What stands in neither is the planner's own, see the rules at the head of `provenance`. How a named
figure is applied is not read from the words beside it: that is shown, and the reviewer's to judge.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from wavewright.config.value_types import parse_duration
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.plans.figures import figures_in
from wavewright.planner.types import Json

Operator: TypeAlias = Literal["+", "-", "*", "/", "from", "over"]
"""How a figure is applied: `from` is `1 - x`, `over` is `1 / x`."""
Figures: TypeAlias = tuple[tuple[Operator, float], ...]
"""What is applied to a value, one after the other."""


class JobWords:
    """The words and figures that a job gives: those of its goal and of its inputs."""

    def __init__(self, texts: Sequence[Json], fields: Iterable[str] = ()) -> None:
        """Read the texts of a job, and the names of the fields that its result has to have."""
        said = " ".join(text for value in texts for _, text in iterate_strings(value)).casefold()
        words = _WORDS.findall(said)
        self._percentages = {_number(figure) for figure in _PERCENTAGE.findall(said)}
        self._figures = {figure for text in texts for figure in figures_in(text)}
        self._figures |= {_NUMBERS[_stem(word)] for word in words if _stem(word) in _NUMBERS}
        self._figures |= {_number(f) * _MAGNITUDES[word] for f, word in _MEASURED.findall(said)}
        self._roundings = {
            _number(figure) if figure else _ROUNDED[word]
            for figure, word in _ROUNDING.findall(said)
        }
        self._figures |= {
            _number(figure) for groups in _AMOUNT.findall(said) for figure in filter(None, groups)
        }
        self._figures |= {percentage / 100 for percentage in self._percentages}
        measures = [*_GLUED.finditer(said)]
        self._figures |= {_number(measure["figure"]) for measure in measures}
        self._places = {
            _ORDINALS[word]
            for before, word in pairwise(("", *_WORDS.findall(_PERIOD_OF_ORDER.sub(" ", said))))
            if word in _ORDINALS and before not in _PER  # a time: `per second`
        }
        tokens = [_stem(token) for token in _TOKENS.findall(said)]
        self._neighbours = {*pairwise(tokens)}
        self._names = {token for token in tokens if _LETTER.match(token)}
        times = [*_CLOCK_TIME.finditer(said)]
        self._clock_times = {*map(_clock_time, times)}
        self._parts_of_times = {
            float(part) for time in times if not _may_be_figure(time) for part in _clock_time(time)
        }
        for word in words:
            self._parts_of_times |= _WEEKDAYS.get(_stem(word), frozenset())
        self._lengths = {*map(_length, _LENGTH.finditer(said))}
        self._stems = {_stem(word) for word in words} | {*_SIGNS.findall(said)}
        self._stems |= {_stem(measure["unit"]) for measure in measures}
        for names in (*_UNIT_NAMES, *(names for names, _ in _CONVERSIONS)):
            # A letter alone may be anything; a unit that is written out has its signs.
            if any(
                _stem(name) in self._stems for name in names if len(name) > 1 or name in "%€$£¥"
            ):
                self._stems.update(map(_stem, names))
        self._periods, self._bounds = _periods(said)
        units = {*_units_asked(words), *(name.casefold().rpartition("_")[2] for name in fields)}
        for text in texts:
            for name, value in iterate_strings(text):
                if "unit" in name.casefold():
                    units.add(value.casefold())
        self._conversions = {
            _key(*line) for names, lines in _CONVERSIONS if names & units for line in lines
        }

    def names_figure(self, figure: float) -> bool:
        """Whether a figure names a quantity of the job, or is how a time counts what is named: 17 and
        30 of `5.30 pm`, 1 of `Monday`.
        """
        return self.names_quantity(figure) or figure in self._parts_of_times

    def names_quantity(self, figure: float) -> bool:
        """Whether a figure is among them, or is as many days or hours as a period that is named: 14 of
        `two weeks`. Nothing has to name 0.
        """
        if figure == 0 or figure in self._figures:
            return True
        return any(figure * unit in self._lengths for unit in _PERIODS_OF_TIME)

    def names_place(self, index: Json) -> bool:
        """Whether an ordinal, as in `the second largest`, is the one of an index; `the last` is that of
        -1.
        """
        return index in self._places

    def names_rounding(self, unit: float) -> bool:
        """Whether values are wanted to the nearest unit: `to the nearest thousand`."""
        return unit in self._roundings

    def asks_for(self, figures: Figures, *, is_count: bool = False) -> bool:
        """Whether the job names what is applied to a value: a unit that figures convert into (`in km`),
        a percentage (`plus 19 %`), and each other figure once.

        Args:
            figures: What is applied to a value.
            is_count: Whether the value counts something, so that there is no smaller unit of it.
        """
        rest, named = list[tuple[Operator, float]](), set[float]()
        for operator, figure in figures:
            if figure not in named and self._names_amount(operator, figure):
                named.add(figure)
            else:
                rest.append((operator, figure))
        return not rest or any(
            self._comes_to_a_unit(factors, is_count=is_count) for factors in (figures, rest)
        )

    def _names_amount(self, operator: Operator, figure: float) -> bool:
        shares = {percentage / 100 for percentage in self._percentages}
        amounts = self._figures - self._percentages - shares
        return figure in amounts or (operator == "/" and figure != 0 and 1 / figure in amounts)

    def _comes_to_a_unit(
        self, figures: Sequence[tuple[Operator, float]], *, is_count: bool
    ) -> bool:
        """Whether figures come to a conversion or a percentage that is named, or to both."""
        line = _line_of(figures)
        if line is None:
            return False
        factor, shift = line
        if _key(factor, shift) in self._conversions:
            return not (is_count and factor > 1)
        for percentage in self._percentages - {0.0}:
            share = percentage / 100
            # A part, added, taken off, or taken out of what it was added to.
            for part in (share, 1 + share, 1 - share, 1 / (1 + share), share / (1 + share)):
                if part and _key(factor / part, shift) in {_SAME, *self._conversions}:
                    return True
        return False

    def names_period(self, text: str) -> bool:
        """Whether a duration is named in any unit: `336h` by `14 days`, `24h` by `tomorrow`."""
        try:
            seconds = parse_duration(text)
        except ValueError:
            return False
        if not isinstance(seconds, float) or not seconds:
            return False
        for unit, words in _PERIODS_OF_TIME.items():
            count = seconds / unit
            if count in self._figures or (count == 1 and not words.isdisjoint(self._stems)):
                return True
        return False

    def words_figures_so(self, text: str) -> bool:
        """Whether the job has each figure of a text beside the same word, as `30 days`, and each day,
        time of day and name (`p1`, `web-1`) anywhere: what says of which data a value is.
        """
        folded = text.casefold()
        rest = _LENGTH.sub(
            lambda match: "" if _length(match) in self._lengths else match[0], folded
        )
        rest = _PERIOD.sub(lambda match: "" if self._names_day(match[0]) else match[0], rest)
        rest = _CLOCK_TIME.sub(
            lambda match: "" if self._names_time(match) and not _may_be_figure(match) else match[0],
            rest,
        )
        tokens = [_stem(token) for token in _TOKENS.findall(rest)]
        pairs = [*pairwise(("", *tokens, ""))]
        for before, after in pairwise(pairs):
            token = before[1]
            is_said = token in self._names or not self._neighbours.isdisjoint((before, after))
            if _DIGIT.search(token) and not is_said:
                return False
        return True

    def _names_day(self, text: str) -> bool:
        """Whether all days and months of a text are named; it has one at least."""
        days, _ = _periods(text)
        return bool(days) and days <= self._periods

    def _names_time(self, time: re.Match[str]) -> bool:
        """Whether a time of day is named, in whatever way it is written."""
        return _clock_time(time) in self._clock_times

    def _names_moment(self, moment: re.Match[str]) -> bool:
        """Whether the day and the time of an instant, or the one of them that it has, are named; a day
        begins at midnight.
        """
        day, time = moment["day"], moment["time"]
        if day is not None and (time is None or time == "00:00"):
            return day in self._periods
        clock = _CLOCK_TIME.fullmatch(time)
        is_time_named = clock is not None and self._names_time(clock)
        return is_time_named and (day is None or day in self._periods)

    def names_bound(self, operator: str, text: str) -> bool:
        """Whether a day or a month that is compared with (`value operator text`) is named, or bounds a
        period that is named, on either side of it.
        """
        day = text.casefold().removesuffix("t00:00:00z")
        return self.names(text) or (operator, day) in self._bounds

    def names(self, text: str) -> bool:
        """Whether all words, figures and signs of a text are among them; a month counts as named if
        its name is.
        """
        folded = text.casefold()
        moment = _MOMENT.fullmatch(folded)
        if moment is not None:
            return self._names_moment(moment)
        if folded in self._periods:
            return True
        time = _CLOCK_TIME.fullmatch(folded)
        if time is not None and self._names_time(time):
            return True
        figures = {*figures_in(text)}
        words = {*_SIGNS.findall(folded), *filter(self._is_word, _WORDS.findall(folded))}
        says_something = bool(words or figures or _YEAR.search(folded))
        return (
            says_something
            and all(map(self._names_word, words))
            and all(map(self.names_figure, figures))
        )

    def _is_word(self, word: str) -> bool:
        """Whether a word is no figure alone: `p1` is a name, and a year a word unless it is a figure of
        an input.
        """
        if _YEAR.fullmatch(word):
            return not self.names_figure(float(word))
        return _LETTER.search(word) is not None

    def _names_word(self, word: str) -> bool:
        """Whether a word is among them, or is a figure and a unit that are: `30km`."""
        if _stem(word) in self._stems:
            return True
        measure = _GLUED.fullmatch(word)
        return (
            measure is not None
            and self.names_figure(_number(measure["figure"]))
            and _stem(measure["unit"]) in self._stems
        )


def _line_of(figures: Sequence[tuple[Operator, float]]) -> tuple[float, float] | None:
    """Return the factor and the shift that figures come to; None where the value becomes a divisor."""
    factor, shift = 1.0, 0.0
    for operator, figure in figures:
        match operator:
            case "*":
                factor, shift = factor * figure, shift * figure
            case "/" if figure != 0:
                factor, shift = factor / figure, shift / figure
            case "+":
                shift += figure
            case "-":
                shift -= figure
            case "from":
                factor, shift = -factor, figure - shift
            case _:
                return None
    return factor, shift


def _key(factor: float, shift: float) -> str:
    """Return what figures come to without what doubles add to it: 115 / 100 is 1.15."""
    return f"{factor:.9g} {shift:.9g}"


_SAME: Final = _key(1.0, 0.0)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _stem(word: str) -> str:
    """Return the part of a word that its plural has as well."""
    return word.removesuffix("s")


def _clock_time(time: re.Match[str]) -> tuple[int, str]:
    """Return the hour and the minutes of a time of day: those of `9:00`, `09:00:00` and `9 am`."""
    if time["word"] is not None:
        return _HOURS_OF_WORDS[time["word"]], "00"
    hour, half = int(time["hour"]), time["half"] or time["half_day"]
    if half is not None:
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    return hour % 24, time["minute"] or "00"


def _may_be_figure(time: re.Match[str]) -> bool:
    """Whether a time of day may be a figure as well: `9.30`, and not `9.30 Uhr`."""
    return time["mark"] == "." and time["half"] is None and time["clock"] is None


def _length(period: re.Match[str]) -> float:
    """Return the seconds of a period: of `two weeks`, `14 days` and `a 14-day window` the same."""
    figure, word = period["figure"], period["word"]
    count = _number(figure) if figure is not None else _NUMBERS.get(word, 1.0)
    unit = next(unit for unit, words in _PERIODS_OF_TIME.items() if period["unit"] in words)
    return count * unit


def _units_asked(words: Sequence[str]) -> Iterator[str]:
    """Yield the units in which a text wants figures: `in km`, `how many degrees Celsius`, `a month`."""
    before = ""
    for word in words:
        if before in _BEFORE_A_UNIT:
            yield word
        if before in _PER:
            yield f"per {_stem(word)}"
        if word.endswith(("ly", "annual")):
            yield word
        if word not in _BESIDE_A_UNIT:
            before = word


def _periods(said: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the months and days that a text names (`3 May 2024`, `2024-05-03`), and how values are
    compared with days to be before, in or after these and the years that it names.
    """
    named, bounds = set[str](), set[tuple[str, str]]()
    for match in _PERIOD.finditer(_SHARED_YEAR.sub(r"\1 \3 \2", said)):
        month, day = match["iso_month"], match["iso_day"]
        if match["month"] is not None:
            month = _MONTHS.index(match["month"][:3]) + 1
            day = match["day"] or match["day_after"]
        try:
            first = dt.date(int(match["year"]), int(month or 1), int(day or 1))
        except ValueError:
            continue  # the 31st of April
        if day is not None:
            named.add(first.isoformat())
            after = first + dt.timedelta(1)
        elif month is not None:
            named.add(f"{first:%Y-%m}")
            after = dt.date(first.year + first.month // 12, first.month % 12 + 1, 1)
        else:
            after = dt.date(first.year + 1, 1, 1)
        bounds |= _bounds_of(first, after)
    for ordinal, part, letter, digit, year in _parts_of_years(said):
        months = _PARTS[part or letter]
        number = 12 // months if ordinal == "last" else _NUMBERS_OF_PARTS[ordinal or digit]
        begin = months * (number - 1)
        if begin < 12:
            first = dt.date(int(year), begin + 1, 1)
            end = begin + months
            bounds |= _bounds_of(first, dt.date(int(year) + end // 12, end % 12 + 1, 1))
    return named, bounds


def _parts_of_years(said: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the halves and quarters that a text names: the ordinal and the word, or the letter and
    the digit, and the year.
    """
    yield from _PART.findall(_TURNED_PART.sub(r"\2\1", said))
    for year, letter, digit in _PART_AFTER_YEAR.findall(said):
        yield "", "", letter, digit, year


def _bounds_of(first: dt.date, after: dt.date) -> set[tuple[str, str]]:
    """Return how values are compared with days to be before, in or after a period."""
    last = after - dt.timedelta(1)
    bounds = {(sign, edge.isoformat()) for sign in (">=", "<") for edge in (first, after)}
    return bounds | {(sign, last.isoformat()) for sign in (">", "<=")}


_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORDS: Final = re.compile(r"[^\W_]+(?:\.\d+)?")
_TOKENS: Final = re.compile(r"[^\W_]+(?:[.,:/][^\W_]+|-\d+)*")
"""Words and figures, each figure with its point and its colon; of `30-day` both."""
_HOURS_OF_WORDS: Final = {"noon": 12, "midday": 12, "midnight": 0}
_CLOCK_TIME: Final = re.compile(
    rf"""
    (?<!\w)(?<!\d[:.,])
    (?:(?P<hour>\d{{1,2}})
        (?:(?P<mark>[:.])(?P<minute>[0-5]\d)(?::00)?
            (?:\s?(?P<half>[ap])\.?m\b\.?|(?P<clock>\s?(?:o['’]?clock|uhr)\b))?
        |\s?(?P<half_day>[ap])\.?m\b\.?
        |\s(?:o['’]?clock|uhr)\b)
    |(?P<word>{"|".join(_HOURS_OF_WORDS)}))
    (?!\w|:\w|\.\d)
    """,
    re.VERBOSE,
)
"""A time of day; see `_may_be_figure`."""
_GLUED: Final = re.compile(
    r"(?<![\w.])(?P<figure>\d[\d,]*(?:\.\d+)?)(?!(?:st|nd|rd|th|am|pm)\b)(?P<unit>[^\W\d_]+)\b"
)
"""A figure with its unit: `30km`."""
_WEEKDAYS: Final[Mapping[str, frozenset[float]]] = {
    **{
        day: frozenset({float(number)})
        for number, day in enumerate(
            ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
        )
    },
    "weekday": frozenset(map(float, range(1, 6))),
    "weekend": frozenset({0.0, 6.0}),
}
"""How `getDayOfWeek()` counts them."""
_SIGNS: Final = re.compile("[%‰±<>≈~€$£¥]")
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_MOMENT: Final = re.compile(
    r"(?=[\dt])(?P<day>\d{4}-\d\d-\d\d)?(?:t(?P<time>\d\d:\d\d)(?::00(?:\.0+)?)?z?)?"
)
"""A day, a time behind it, or both: `2026-12-01T18:00:00Z`."""
_FIGURE: Final = r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)"
_LIKE_A_YEAR: Final = r"(?<![\w.,/-])((?:19|20)\d\d)(?![\w/-]|[.,]\d)"
_AMOUNT: Final = re.compile(
    rf"""
    (?:\b(?<!later\s)(?<!earlier\s)(?<!newer\s)(?<!older\s)(?<!younger\s)
        (?:than|above|below|under|exceeds?|exceeding|least|most|exactly|plus|minus|add|less|times
        |nearest|multiplied\sby|divided\sby|percent\sof|%\sof|against|beyond|reach\w*|all)\s
        |[€$£¥]\s?){_LIKE_A_YEAR}
    | {_LIKE_A_YEAR}(?=\s?[%‰€$£¥]|\s(?:percent|eur|usd|euros?|dollars?|pounds?|people)\b)
    | (?<!in\s)(?<!since\s)(?<!of\s)(?<![\w.,/-])((?:19|20|21)00)(?=\s\w+s\b)
    | \b(?:over|up\sto|first|last|top|within|limited\sto|max|maximum(?:\sof)?)\s
        {_LIKE_A_YEAR}(?=\s\w+s\b)
    | (?:\b(?:over|up\sto)\s|[<>]=?\s?)((?:19|20|21)00)(?![\w/-]|[.,]\d|\s(?:and|to|until)\b)
    | (?<![\w.,/-])([12],\d\d\d)(?![\w/-]|[.,]\d)
    """,
    re.VERBOSE,
)
"""Figures that might be years, and by what stands beside them are none: `more than 2000`."""
_PERCENTAGE: Final = re.compile(rf"{_FIGURE}\s?(?:%|per ?cent\b)")

# Figures that people write as words; `one` is often none.
_COUNTED: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = {
    **{word: float(number) for number, word in enumerate(_COUNTED, 2)},
    "half": 0.5,
    "twice": 2.0,
    "double": 2.0,
    "triple": 3.0,
    "dozen": 12.0,
    "twenty": 20.0,
}
_ORDINALS: Final = {
    "first": 0,
    "last": -1,
    "latest": -1,
    "second": 1,
    "third": 2,
    "fourth": 3,
    "fifth": 4,
    "2nd": 1,
    "3rd": 2,
    "4th": 3,
    "5th": 4,
}
_MAGNITUDES: Final = {
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mio": 1e6,
    "million": 1e6,
    "bn": 1e9,
    "billion": 1e9,
}
_MEASURED: Final = re.compile(rf"{_FIGURE}\s?(thousand|million|billion|mio|bn|[km]\b)")

# What values are rounded to, but for decimal places.
_ROUNDED: Final = {**_NUMBERS, "hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_ROUNDING: Final = re.compile(
    rf"\b(?:nearest|next|full|whole|round\w*(?: (?:up|down|off))? to)"
    rf" (?:{_FIGURE}|({'|'.join(_ROUNDED)})s?)\b(?!\s?(?:decimal|digit|place|significant))"
)

_PERIODS_OF_TIME: Final = {
    1.0: frozenset({"second"}),
    60.0: frozenset({"minute"}),
    3600.0: frozenset({"hour", "hourly"}),
    86400.0: frozenset({"day", "daily", "today", "tomorrow", "yesterday"}),
    604800.0: frozenset({"week", "weekly"}),
    1209600.0: frozenset({"fortnight", "fortnightly"}),
    2592000.0: frozenset({"month", "monthly"}),
    7776000.0: frozenset({"quarter", "quarterly"}),
    31536000.0: frozenset({"year", "yearly"}),
}
"""The seconds of units of time, and the words that name one of them."""
_LENGTH: Final = re.compile(
    rf"(?:(?P<figure>{_FIGURE})|\b(?P<word>an?|one|last|past|previous|next|{'|'.join(_NUMBERS)}))"
    r"[\s-](?P<unit>second|minute|hour|day|week|fortnight|month|quarter|year)s?\b"
)
"""A period of so many units of time: `two weeks`, `30-day`, `last week`."""
_PERIOD_OF_ORDER: Final = re.compile(rf"(?:\b(?:{'|'.join(_ORDINALS)})\s)?{_LENGTH.pattern}")
"""A period, with an ordinal that is of it and of no list: `last 30 days`."""

# Units: their signs, the words before them, and how values in usual other units come into them.
_UNIT_NAMES: Final = (
    ("%", "percent", "percentage"),
    ("€", "eur", "euro"),
    ("$", "usd", "dollar"),
    ("£", "gbp", "pound"),
    ("¥", "jpy", "yen"),
)
_BEFORE_A_UNIT: Final = frozenset({"in", "into", "as", "to", "many", "per"})
_BESIDE_A_UNIT: Final = frozenset({"degree", "degrees", "whole", "full"})
_PER: Final = frozenset({"per", "a", "an", "each", "every", "one"})
_CONVERSION_TABLE: Final = """
kelvin k: +273.15
celsius c: -273.15 -32/1.8
fahrenheit f: *1.8+32
thousand thousands: /1000
million millions: /1000000 /1000
billion billions: /1000000000 /1000000 /1000
hundred hundreds: /100
km kilometre kilometres kilometer kilometers: /1000 *1.609344 *3.6
m metre metres meter meters: *1000 *0.3048 /100 /1000
cm centimetres centimeters: *100 *2.54 /10
mm millimetres millimeters: *10 *1000
mile miles: /1.609344 /1609.344
foot feet: /0.3048
inch inches: /2.54 /25.4
kg kilogram kilograms: /1000 *0.45359237
g gram grams: *1000
t tonne tonnes tons: /1000
l litre litres liter liters: /1000
ml millilitres milliliters: *1000
kwh kw kb gb: /1000
mwh mw mb: /1000 /1000000
ms milliseconds: *1000
s second seconds: *60 *3600 *86400 /1000
min minute minutes: /60 *60
h hour hours: /60 /3600 *24
day days: /24 /86400 /1440 *7
week weeks: /7
month months: *12
year years: /12 /365 /365.25
hourly per-hour: /24
daily per-day: /7 /365
weekly per-week: /52
monthly per-month: /12
quarterly per-quarter: /4
yearly annual annually per-year: *12 *4
"""


def _conversions_of(table: str) -> Iterator[tuple[frozenset[str], list[tuple[float, float]]]]:
    """Yield the names of each unit with what leads to it."""
    operators: dict[str, Operator] = {"*": "*", "/": "/", "+": "+", "-": "-"}
    for row in table.strip().splitlines():
        names, _, formulas = row.partition(": ")
        lines = list[tuple[float, float]]()
        for formula in formulas.split():
            steps = _STEP.findall(formula)
            line = _line_of(tuple((operators[sign], float(figure)) for sign, figure in steps))
            assert line is not None
            lines.append(line)
        yield frozenset(name.replace("-", " ") for name in names.split()), lines


_STEP: Final = re.compile(r"([-+*/])([\d.]+)")
_CONVERSIONS: Final = (*_conversions_of(_CONVERSION_TABLE),)

# Periods: a year, alone or after a month and a day.
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
"""How the names of months begin, which is what people write of them as well."""
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_NUMBERED: Final = r"(?:[12]\d|3[01]|[1-9])(?:st|nd|rd|th)?"
_PERIOD: Final = re.compile(
    rf"""
    (?:(?:\b(?P<day>[12]\d|3[01]|[1-9])(?:st|nd|rd|th)?\s(?:of\s)?)?
        \b(?P<month>{_MONTH})\.?\s
        (?:(?P<day_after>[12]\d|3[01]|[1-9])(?:st|nd|rd|th)?,?\s)?
        (?:of\s)?)?
    \b(?P<year>(?:19|20)\d\d)
    (?:-(?P<iso_month>\d\d)(?:-(?P<iso_day>\d\d))?(?!\d|-\d))?
    (?!\d)
    """,
    re.VERBOSE,
)
_PARTS: Final = {"half": 6, "quarter": 3, "h": 6, "q": 3}
"""The months of a part of a year."""
_NUMBERS_OF_PARTS: Final = {
    **{word: number for number, word in enumerate(("first", "second", "third", "fourth"), 1)},
    **{f"{number}{end}": number for number, end in enumerate(("st", "nd", "rd", "th"), 1)},
    **{str(number): number for number in range(1, 5)},
}
_OF_YEAR: Final = r"(?:\sof|\sin|,|/)?(?:\sthe\syear)?\s?((?:19|20)\d\d)(?!\d)"
_PART: Final = re.compile(
    r"\b(?:(first|second|third|fourth|last|1st|2nd|3rd|4th)\s(half|quarter)|([hq])([1-4]))"
    + _OF_YEAR
)
_TURNED_PART: Final = re.compile(rf"\b([1-4])([hq])(?={_OF_YEAR})")
"""`4Q 2022`, which is `Q4 2022`."""
_PART_AFTER_YEAR: Final = re.compile(r"(?<![\w.,/-])((?:19|20)\d\d)[ /-]?([hq])([1-4])\b")
"""`2023 Q4`, `2023-Q4`, `2023H2`."""
_SHARED_YEAR: Final = re.compile(
    rf"({_MONTH}(?: {_NUMBERED})?)"
    rf"( (?:and|to|until|till|through|or) (?:{_NUMBERED} )?{_MONTH}(?: {_NUMBERED},?)? ((?:19|20)\d\d))"
)
"""Months that are named with the year of a later one: `3 May and 4 June 2024`."""
