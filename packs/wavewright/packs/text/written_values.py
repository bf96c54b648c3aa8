"""Numbers, currencies and dates as people and programs write them, by the words of
`written_values.toml`.

Nothing is guessed: what may be read in two ways, as `03/04/2010` or `1,234`, is told by the caller,
who knows its neighbours.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator


class _Writing(BaseModel):
    """The form of `written_values.toml`."""

    date_formats: tuple[str, ...]
    months: tuple[Annotated[list[str], BeforeValidator(str.split)], ...]
    weekdays: tuple[Annotated[list[str], BeforeValidator(str.split)], ...]
    beside_dates: Annotated[frozenset[str], BeforeValidator(str.split)]
    signs: Mapping[str, str]


_WRITING: Final = _Writing.model_validate(
    tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
)

# -- numbers --------------------------------------------------------------------------------------

CURRENCY_SIGNS: Final = _WRITING.signs
"""What stands beside an amount, with the currency; empty where it is of several countries."""
SIGN: Final = "|".join(re.escape(sign) for sign in sorted(CURRENCY_SIGNS, key=len, reverse=True))
"""Pattern of such a sign."""
DECIMAL_COMMA: Final = re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+),[0-9]+")
"""`1.250,50`, and `1,5`, whose comma cannot be one of thousands."""
THOUSANDS: Final = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{2,3})*,[0-9]{3}(?:\.[0-9]+)?")
"""`1,234.50`, and `12,34,567` of India; `0,125` is less than one. `1,234` may have decimals, too."""
_AMOUNT: Final = re.compile(
    rf"(?P<minus>[(\u2212-])?\+?\s*(?P<before>{SIGN})?\s*(?P<inner>[\u2212-])?"
    rf"(?P<number>\.?\d.*?)\s*(?P<after>{SIGN})?(?P<end>[)-])?"
)
"""A number with what stands around it: a currency, a minus before or behind it, or brackets for one."""
_MARKS_OF_THOUSANDS: Final = re.compile(r"(?<=\d)['’\s\u202f](?=\d{3}(?!\d))")


def bare_number(text: str) -> str:
    """Return a number without the sign of a currency and without marks of thousands that are no
    comma and no point, with any minus as a hyphen before it.
    """
    amount = _amount(text)
    if amount is None or (amount["minus"] == "(") != (amount["end"] == ")"):
        return _MARKS_OF_THOUSANDS.sub("", text)
    is_negative = amount["minus"] or amount["inner"] or amount["end"]
    return ("-" if is_negative else "") + _MARKS_OF_THOUSANDS.sub("", amount["number"])


def currency_beside(text: str) -> str | None:
    """Return the currency whose sign stands beside a number, where it is that of one country."""
    amount = _amount(text)
    sign = None if amount is None else amount["before"] or amount["after"]
    return CURRENCY_SIGNS.get(sign or "") or None


def _amount(text: str) -> re.Match[str] | None:
    # Of long runs of blanks the pattern would try each part.
    return _AMOUNT.fullmatch(" ".join(text.split()))


def in_plain_digits(number: str, *, has_decimal_comma: bool) -> str:
    """Return a bare number with a point before its decimals and without marks of thousands."""
    if has_decimal_comma:
        return number.replace(".", "").replace(",", ".")
    return number.replace(",", "") if THOUSANDS.fullmatch(number) else number


# -- dates ----------------------------------------------------------------------------------------

_MONTHS: Final = {
    name: month for month, names in enumerate(_WRITING.months, start=1) for name in names
}
_WEEKDAYS: Final = frozenset(name for names in _WRITING.weekdays for name in names)
_BESIDE_DATES: Final = (_WRITING.beside_dates | _WEEKDAYS) - _MONTHS.keys()
_WORD_OR_NUMBER: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*|\d+")
_WEEKDAY_BEFORE: Final = re.compile(
    rf"^(?:{'|'.join(sorted(_WEEKDAYS, key=len, reverse=True))})\b[.,]*\s*"
    r"(?=\d{1,4}[./-]\s?\d{1,2}[./-])",
    re.IGNORECASE,
)
"""Before a date in digits, as `Mo, 27.11.2026`."""
_TIME: Final = re.compile(
    r"(?<=\d)[ T]+\d{1,2}:\d{2}.*"
    r"|(?:(?<=\d{8})|(?<=-\d\d-\d\d))[ T]+\d{3,6}(?!\d).*"
    r"|(?<=^(?:19|20)\d{6})\d{4}(?:\d{2})?$"
)
"""What follows a date and is no part of it: ` 17:30`, ` 1730`, `1730` behind eight digits."""
_FIRST_YEAR_OF_1900: Final = 69
"""Of years with two digits, as POSIX has it."""


def time_behind(text: str) -> str:
    """Return what stands behind a date for a time; empty where nothing does."""
    behind = _TIME.search(text)
    return "" if behind is None else behind[0]


def bare_date(text: str) -> str:
    """Return a date without a time behind it and without a day of the week before its digits."""
    return _TIME.sub("", _WEEKDAY_BEFORE.sub("", text.strip()))


def written_date(text: str) -> dt.date | None:
    """Return a date in ISO 8601, in words, or in digits whose order is known."""
    shown = bare_date(text)
    try:
        return dt.date.fromisoformat(shown)
    except ValueError:
        return _date_in_words(shown) or _date_in_digits(shown)


def _date_in_words(text: str) -> dt.date | None:
    """Return a date whose month is a word, in any order; of a month alone its first day."""
    words = [one for one in _WORD_OR_NUMBER.findall(text.casefold()) if one not in _BESIDE_DATES]
    if sum(word in _MONTHS for word in words) > 1 and words[0] in _WEEKDAYS:
        del words[0]
    months = [_MONTHS[word] for word in words if word in _MONTHS]
    numbers = [word for word in words if word.isdecimal()]
    if len(months) != 1 or len(numbers) + 1 != len(words) or not 1 <= len(numbers) <= 2:
        return None
    *days, year = reversed(numbers) if len(numbers[0]) == 4 else numbers
    if len(year) != 4 and not (days and len(year) == 2):
        return None
    century = 0 if len(year) == 4 else 2000 if int(year) < _FIRST_YEAR_OF_1900 else 1900
    try:
        return dt.date(century + int(year), months[0], int(days[0]) if days else 1)
    except ValueError:
        return None


def _date_in_digits(text: str) -> dt.date | None:
    for form in _WRITING.date_formats:
        try:
            return dt.datetime.strptime(text, form).replace(tzinfo=dt.UTC).date()
        except ValueError:
            continue
    return None
