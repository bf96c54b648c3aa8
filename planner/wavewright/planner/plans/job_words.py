"""What a job names: the words, figures, places and days of its goal and its inputs.

A figure or a word that stands in neither is the planner's own, see `docs/explanation/confidence.md`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.plans.figures import YEARS, figures_in
from wavewright.planner.plans.formulas import UNITS, Figures, Operator, folded
from wavewright.planner.types import Json


class JobWords:
    """The words and figures that a job gives: those of its goal and of its inputs."""

    def __init__(self, texts: Sequence[Json], fields: Iterable[str] = ()) -> None:
        """Read the texts of a job, and the names of the fields that its result has to have."""
        said = " ".join(text for value in texts for _, text in iterate_strings(value)).casefold()
        words = _WORDS.findall(said)
        self._figures = {figure for text in texts for figure in figures_in(text)}
        self._figures |= {
            *_worded_figures(said),
            *(_NUMBERS[word] for word in words if word in _NUMBERS),
        }
        self._bounds = {float(figure.replace(",", "")) for figure in _BOUND.findall(said)}
        self._lower = {float(figure.replace(",", "")) for figure in _LOWER_BOUND.findall(said)}
        self._upper = {float(figure.replace(",", "")) for figure in _UPPER_BOUND.findall(said)}
        self._has_exceptions = _EXCEPTION.search(said) is not None
        self._shares = {
            float(figure.replace(",", "")) / 100 for figure in _PERCENTAGE.findall(said)
        }
        self._places = {
            _ORDINALS[word]
            for before, word in pairwise(("", *words))
            if word in _ORDINALS and before not in _BEFORE_A_UNIT
        }
        self._worded_factors = {*_factors_in_words(said, self._bounds)}
        self._stems = {_stem(word) for word in words} | _signs_named(said)
        self._periods = [*_periods(_WORDS.findall(_with_months_in_words(said)))]
        units = {*_units_asked(words), *(field.casefold().rpartition("_")[2] for field in fields)}
        units |= {
            value.casefold()
            for text in texts
            for name, value in iterate_strings(text)
            if "unit" in name.casefold()
        }
        self.asks_for_share: Final = any(_SHARE.search(name) for name in (said, *units))
        self.asks_whether_there_is: Final = (
            _EXISTENCE.search(said) is not None and _ABSENCE.search(said) is None
        )
        self._is_divided = _DIVIDED.search(said) is not None
        self._conversions = {figures for unit in units for figures in UNITS.get(unit, ())}

    def names_figure(self, figure: float) -> bool:
        """Whether a figure is among them; nothing has to name 0."""
        return figure == 0 or figure in self._figures

    def allows_side(self, operator: str, figure: float) -> bool:
        """Whether values may be on this side of a figure (`value operator figure`): all but the one
        that the job's words rule out (`above 400`), unless they take something out.
        """
        if self._has_exceptions or (figure in self._lower) == (figure in self._upper):
            return True
        return operator not in ({"<", "<="} if figure in self._lower else {">", ">="})

    def is_of_percentage(self, figure: float) -> bool:
        """Whether a figure takes a named percentage in some way: as a part, added or taken off."""
        return any(
            math.isclose(figure, form)
            for share in self._shares
            for form in (share, 1 + share, 1 - share)
        )

    def names_place(self, index: Json) -> bool:
        """Whether an ordinal, as in `the second largest`, is the one of an index."""
        return index in self._places

    def names_conversion(self, figures: Figures) -> bool:
        """Whether a formula converts into a unit that the job asks for: `in km`."""
        return folded(figures) in self._conversions

    def names_formula(self, figures: Figures) -> bool:
        """Whether a formula applies figures of the job, in a way that it names."""
        is_each_once = len(set(figures)) == len(figures)
        return is_each_once and all(self._asks_to(*applied) for applied in figures)

    def _asks_to(self, operator: Operator, figure: float) -> bool:
        """Whether the job names a figure, and how it is applied: a number of things divides
        where a mean or a part is wanted, a percentage is added, taken off or a part; more wants a word that says so.
        """
        if (operator, figure) in self._worded_factors:
            return True
        is_amount = figure in self._figures and figure not in self._bounds and figure not in YEARS
        return operator == "/" and is_amount and self._is_divided

    def names_bound(self, operator: str, text: str) -> bool:
        """Whether a day or a month that is compared with (`value operator text`) is named, or bounds
        a period that is named on the side that its words say.
        """
        day = text.casefold().removesuffix("t00:00:00z")
        if not _DAY.fullmatch(day):
            return self.names(text)
        if any(day == period.only_day for period in self._periods):
            return True
        return any((operator, day) in period.bounds for period in self._periods)

    def names(self, text: str) -> bool:
        """Whether all words, figures and signs of a text are among them; a month counts as named if
        its name is.
        """
        folded_text = text.casefold()
        day = folded_text.removesuffix("t00:00:00z")
        if _DAY.fullmatch(day):
            return any(day == period.only_day for period in self._periods)
        if any(day == period.month for period in self._periods):
            return True
        figures, signs = [*figures_in(text)], _SIGNS.findall(folded_text)
        words, years = list[str](), list[str]()
        for word in _WORDS.findall(folded_text):
            if _YEAR.fullmatch(word):
                years.append(word)
            elif not _DIGIT.search(word):
                words.append(word)
        # A year is a figure of an input, or a word of the goal.
        words += [year for year in years if not self.names_figure(float(year))]
        return (
            bool(words or years or signs or figures)
            and all(self.names_figure(figure) for figure in figures)
            and all(_stem(word) in self._stems for word in words)
            and all(sign in self._stems for sign in signs)
        )


@dataclass(frozen=True, slots=True)
class _Period:
    """A year, a month or a day that a goal names, and the word before it."""

    word: str
    first: dt.date
    after: dt.date
    """The first day that is no longer of it."""

    @property
    def only_day(self) -> str:
        """The day, where it is one."""
        return self.first.isoformat() if self._last == self.first else ""

    @property
    def month(self) -> str:
        """The month, where it is one."""
        is_month = self.first.day == 1 and self.after == _month_after(self.first)
        return f"{self.first:%Y-%m}" if is_month else ""

    @property
    def bounds(self) -> frozenset[tuple[str, str]]:
        """How values may be compared with days to be in the period, or where its word says."""
        first, last, after = (day.isoformat() for day in (self.first, self._last, self.after))
        if self.word == "before":
            return frozenset({("<", first)})
        if self.word == "after":
            return frozenset({(">", last), (">=", after)})
        lower, upper = {(">=", first)}, {("<=", last), ("<", after)}
        if self.word in {"since", "from"}:
            return frozenset(lower)
        if self.word in {"until", "till", "to", "through", "by"}:
            return frozenset(upper)
        return frozenset(lower | upper)

    @property
    def _last(self) -> dt.date:
        return self.after - dt.timedelta(1)


def _periods(words: Sequence[str]) -> Iterator[_Period]:
    """Yield the years of a text, or the months and days where they are named with a year."""
    for at, word in enumerate(words):
        if not _YEAR.fullmatch(word):
            continue
        year = int(word)
        named = [*_months_before(words, at)]
        for place, month, day in named:
            start = dt.date(year, month, 1)
            only = start + dt.timedelta((day or 1) - 1)
            if day is None:
                yield _Period(_word_before(words, place), start, _month_after(start))
            elif only < _month_after(start):
                yield _Period(_word_before(words, place), only, only + dt.timedelta(1))
        if not named:
            word_before = _word_before(words, at)
            yield _Period(word_before, dt.date(year, 1, 1), dt.date(year + 1, 1, 1))


def _word_before(words: Sequence[str], place: int) -> str:
    """Return the word that says on which side of a period something is: `since the year 2024`."""
    before = [word for word in words[max(0, place - 4) : place] if word not in _BESIDE_A_PERIOD]
    return before[-1] if before else ""


def _with_months_in_words(said: str) -> str:
    """Return a text with its days and months as people write them: `2024-05-03` as `3 may 2024`."""

    def written_out(match: re.Match[str]) -> str:
        month = int(match["month"])
        if not 1 <= month <= len(_MONTHS):
            return match[0]
        day = "" if match["day"] is None else f"{int(match['day'])} "
        return f"{day}{_MONTHS[month - 1]} {match['year']} "

    return _DATE.sub(written_out, said)


def _months_before(words: Sequence[str], at: int) -> Iterator[tuple[int, int, int | None]]:
    """Yield the months before a year (`3 May and 4 June 2024`): the place where each begins, its
    number, and the day where one is named.
    """
    place = at - 1 if at and words[at - 1] == "of" else at
    while place > 0 and (match := _month_ending(words, place)) is not None:
        place = match[0]
        yield match
        if place > 0 and words[place - 1] in _BETWEEN_MONTHS:
            # The word stands before the later month, and the earlier one follows.
            place -= 1


def _month_ending(words: Sequence[str], end: int) -> tuple[int, int, int | None] | None:
    """Return the month that ends before a place: `may`, `3 may`, `may 3`."""
    last, before = words[end - 1], words[end - 2] if end > 1 else ""
    if last in _MONTHS:
        is_dated = _DAY_NUMBER.fullmatch(before) is not None
        return (end - 1 - is_dated, _MONTHS.index(last) + 1, _day(before) if is_dated else None)
    if _DAY_NUMBER.fullmatch(last) and before in _MONTHS:
        return (end - 2, _MONTHS.index(before) + 1, _day(last))
    return None


def _day(text: str) -> int:
    return int(_DIGITS.findall(text)[0])


def _month_after(day: dt.date) -> dt.date:
    return dt.date(day.year + day.month // 12, day.month % 12 + 1, 1)


def _units_asked(words: Sequence[str]) -> Iterator[str]:
    """Yield the units in which a text wants figures: `in km`, `how many degrees Celsius`."""
    before = ""
    for word in words:
        if before in _BEFORE_A_RESULTS_UNIT:
            yield word
        if word not in _DEGREES:
            before = word


def _stem(word: str) -> str:
    """Return the part of a word that its plural has as well."""
    return word.removesuffix("s")


def _worded_figures(said: str) -> Iterator[float]:
    """Yield the figures that a text gives with a magnitude or as a percentage: `2 million`, `20 %`."""
    for figure, word in _MEASURED.findall(said):
        yield float(figure.replace(",", "")) * _MAGNITUDES[word]


def _factors_in_words(said: str, bounds: Collection[float]) -> Iterator[tuple[Operator, float]]:
    """Yield what a text has values multiplied with or divided by: `19 % VAT`, `half of`, `twice`."""
    for match in _PERCENTAGE.finditer(said):
        figure = float(match[1].replace(",", ""))
        if figure in bounds:
            continue
        # Written out, as the doubles of a plan are: 1 + 0.19 is another one than 1.19.
        share, added, taken_off = (
            float(f"{part / 100:.12g}") for part in (figure, 100 + figure, 100 - figure)
        )
        before, after = said[: match.start()], said[match.end() :]
        if _ADDED_BEFORE.search(before):
            yield ("*", added)
        elif _TAKEN_OFF_BEFORE.search(before) or _TAKEN_OFF_AFTER.match(after):
            yield ("*", share)
            yield ("*", taken_off)
        elif _PART_AFTER.match(after) and not before.endswith(" of "):
            yield ("*", share)
        else:
            yield ("*", share)
            yield ("*", added)
            yield ("*", taken_off)
            yield ("/", added)
    for operator, applied in _APPLIED.items():
        for text in applied.findall(said):
            yield (operator, float(text.replace(",", "")))
    words = {*_WORDS.findall(said)}
    if words & {"twice", "double"}:
        yield ("*", 2.0)
    if "half" in words:
        yield ("*", 0.5)
        yield ("/", 2.0)


def _signs_named(said: str) -> set[str]:
    """Return the signs and codes of the units that a text names in words, and the other way round."""
    words = {_stem(word) for word in _WORDS.findall(said)} | {*_SIGNS.findall(said)}
    return {_stem(name) for names in _UNIT_NAMES if words & {*names} for name in names}


_DIGIT: Final = re.compile(r"\d")
_WORDS: Final = re.compile(r"[^\W_]+(?:\.\d+)?")
_SIGNS: Final = re.compile("[%‰±<>≈~€$£¥]")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_DATE: Final = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?!\d|-\d)")
_BESIDE_A_PERIOD: Final = frozenset({"the", "year", "of", "beginning", "start"})
_DAY_NUMBER: Final = re.compile(r"(?:[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?")
_DIGITS: Final = re.compile(r"\d+")
_BETWEEN_MONTHS: Final = frozenset({"and", "to", "until", "till", "through", "or"})
_BOUND: Final = re.compile(
    r"\b(?:above|over|below|under|than|least|most|exceed(?:s|ing)?|beyond|within|after|before|until|since)"
    r" (?:the |about )?[$€£]?(\d[\d,]*(?:\.\d+)?)"
)
"""Figures that values are compared with, and not calculated with."""
_LOWER_BOUND: Final = re.compile(
    r"(?<!no )\b(?:above|over|(?:more|greater|higher|larger|bigger) than|at least|exceed(?:s|ing)?)"
    r" (?:the |about )?[$€£]?(\d[\d,]*(?:\.\d+)?)(?! ?(?:%|per ?cent\b))"
)
_UPPER_BOUND: Final = re.compile(
    r"(?<!no )\b(?:below|under|(?:less|fewer|lower|smaller|cheaper) than|at most)"
    r" (?:the |about )?[$€£]?(\d[\d,]*(?:\.\d+)?)(?! ?(?:%|per ?cent\b))"
)
_EXCEPTION: Final = re.compile(
    r"\b(?:no|not|none|all|every|each|any|other|others|rest|without|except|exclud\w*|ignor\w*|omit\w*"
    r"|remov\w*|drop\w*|skip\w*|leav\w*|discard\w*|unless|if|otherwise|or)\b|n't\b"
)
"""Words by which what is on the other side of a bound may be wanted."""
_ADDED_BEFORE: Final = re.compile(r"\b(?:plus|add|adding|increased by) (?:a |an |the )?$")
_TAKEN_OFF_BEFORE: Final = re.compile(
    r"\b(?:minus|less|discount of|rebate of|reduced by) (?:a |an |the )?$"
)
_TAKEN_OFF_AFTER: Final = re.compile(r" (?:off|discount|rebate)\b")
_PART_AFTER: Final = re.compile(r" of (?!vat\b|tax\b|discount\b|interest\b)")
_SHARE: Final = re.compile(
    r"%|\b(?:per ?cent(?:age|ages|s)?|pct|shares?|proportions?|(?<!exchange )rates?|growth|grow(?:s|n)?"
    r"|grew|change[sd]?|(?:in|de)crease[sd]?|quotas?|margins?|fractions?|portions?|returns?|volatility"
    r"|yields?|drops?|gains?|loss(?:es)?|rises?|rose|falls?|fell|coverage|utili[sz]ation|usage|load"
    r"|discounts?|interest|inflation|deviations?|differences?|performance|progress|completion|accuracy"
    r"|complete|done|how much of)\b"
)
"""Words after which a figure may be a percentage."""
_EXISTENCE: Final = re.compile(r"\b(?:is|are|was|were) there\b")
_ABSENCE: Final = re.compile(
    r"\b(?:no|not|none|nothing|without|only|missing|lacks?|free of|absent|un\w+)\b"
)
_DIVIDED: Final = re.compile(
    r"\b(?:means?|averages?|avg|per|each|every|apiece|equal(?:ly)?|divided?|split|shares?|shared|ratios?"
    r"|rates?|parts?|portions?|daily|weekly|monthly|yearly|by)\b"
)
"""Words by which a number of things divides."""
_PERCENTAGE: Final = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s?(?:%|per ?cent\b)")
_BEFORE_A_RESULTS_UNIT: Final = frozenset({"in", "into", "as", "to", "many", "per"})
_DEGREES: Final = frozenset({"degree", "degrees", "whole", "full"})


def _after(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words}) [$€£]?(\d[\d,]*(?:\.\d+)?)")


_APPLIED: Final[dict[Operator, re.Pattern[str]]] = {
    "+": _after("plus|add|adding|increased by"),
    "-": _after("minus|less|subtract|subtracting|deduct|without|reduced by"),
    "*": _after("times|multiplied by|multiply by|per|at|factor|factor of|rate of"),
}
"""Figures after the words that say how they are applied."""
_COUNTED: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = {
    **{word: float(number) for number, word in enumerate(_COUNTED, 2)},
    "half": 0.5,
    "twice": 2.0,
    "dozen": 12.0,
    "twenty": 20.0,
}
"""Figures that people write as words; `one` is often none."""
_ORDINALS: Final = {
    **dict.fromkeys(("second", "2nd"), 1),
    **dict.fromkeys(("third", "3rd"), 2),
    **dict.fromkeys(("fourth", "4th"), 3),
    **dict.fromkeys(("fifth", "5th"), 4),
}
"""The index of an entry that people count by an ordinal."""
_BEFORE_A_UNIT: Final = frozenset({"per", "a", "each", "every", "one"})
"""Words after which a second is a time."""
_MAGNITUDES: Final = {
    **dict.fromkeys(("k", "thousand"), 1e3),
    **dict.fromkeys(("million", "m", "mio"), 1e6),
    **dict.fromkeys(("billion", "bn"), 1e9),
    **dict.fromkeys(("%", "percent", "per cent"), 0.01),
}
_MEASURED: Final = re.compile(
    r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s?(per cent|percent|thousand|million|billion|mio|bn|[km]\b|%)"
)
_UNIT_NAMES: Final = (
    ("%", "percent", "percentage"),
    ("€", "eur", "euro"),
    ("$", "usd", "dollar"),
    ("£", "gbp", "pound"),
    ("¥", "jpy", "yen"),
)
_MONTHS: Final = tuple(
    re.findall(
        r"\w+",
        "january february march april may june july august september october november december",
    )
)
