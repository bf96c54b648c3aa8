"""What makes a series of prices doubtful: jumps that look like splits or like another unit, single
prices far from their neighbours, and days without prices.

Splits and spikes are looked for in daily prices alone: within a week or a month a price may double.
A fall on a day of very heavy trading is news and no split.
Sessions are weekdays, or those of an exchange where the settings name its calendar.
"""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from wavewright.config import install_hint
from wavewright.packs.equities.documents import Frequency, Oddity, Point
from wavewright.tools import ToolError

_SPLITS: Final = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50)
_SMALL_SPLIT: Final = 1.5
"""Three for two. A price may well rise by half: what is smaller is looked for in falls alone."""
_NEAR: Final = 0.06
"""How far the ratio of two prices may be from that of a split, as a share of it."""
_SCALE: Final = 100
_SCALE_NEAR: Final = 0.25
_SPIKE: Final = 3.0
_WEEKS: Final = 20
"""Sessions before and after a day that its volume is compared with."""
_HEAVY: Final = 2.0
_LONGEST_GAP: Final[dict[Frequency, int]] = {"daily": 7, "weekly": 28, "monthly": 75}
"""Days between two prices that need no remark: holidays, and a price that is a little late."""
_LOST_WEEK: Final = 5
"""Sessions without a daily price that are more than holidays."""

WEEKDAYS: Final = "weekdays"


def find_oddities(
    prices: Sequence[Point],
    frequency: Frequency,
    volumes: Sequence[float | None] = (),
    calendar: str | None = None,
) -> list[Oddity]:
    """Return what is doubtful in a series, each with its day.

    Args:
        prices: The series.
        frequency: How often it is observed.
        volumes: Those of its days.
        calendar: The exchange whose sessions count; weekdays where absent.

    Raises:
        ToolError: the calendar is not installed, or not known.
    """
    jumps = [*_scale_jumps(prices)]
    known = {oddity.date for oddity in jumps}
    if frequency == "daily":
        spikes = [spike for spike in _spikes(prices) if spike.date not in known]
        known |= _days_around(prices, spikes)
        jumps += spikes
        jumps += [split for split in _split_jumps(prices, volumes) if split.date not in known]
    jumps += _gaps(prices, frequency, calendar)
    return sorted(jumps, key=lambda oddity: (oddity.date, oddity.kind))


def _ratio(earlier: float, later: float) -> float:
    return max(earlier, later) / min(earlier, later)


def _scale_jumps(prices: Sequence[Point]) -> Iterator[Oddity]:
    for (_, earlier), (date, later) in pairwise(prices):
        if abs(_ratio(earlier, later) / _SCALE - 1) <= _SCALE_NEAR:
            text = f"{date}: {earlier:g} to {later:g}, a factor of about 100: another unit?"
            yield Oddity(kind="scale", date=date, text=text)


def _spikes(prices: Sequence[Point]) -> Iterator[Oddity]:
    for (_, before), (date, price), (_, after) in zip(prices, prices[1:], prices[2:], strict=False):
        is_above = price > _SPIKE * max(before, after)
        is_below = price * _SPIKE < min(before, after)
        if is_above or is_below:
            text = f"{date}: {price:g} stands between {before:g} and {after:g}"
            yield Oddity(kind="spike", date=date, text=text)


def _days_around(prices: Sequence[Point], spikes: Sequence[Oddity]) -> set[dt.date]:
    """Return the days of spikes and the next days: the way back is no second oddity."""
    days = {spike.date for spike in spikes}
    return days | {later for (earlier, _), (later, _) in pairwise(prices) if earlier in days}


def _split_jumps(prices: Sequence[Point], volumes: Sequence[float | None]) -> Iterator[Oddity]:
    for at, ((_, earlier), (date, later)) in enumerate(pairwise(prices), start=1):
        ratio = _ratio(earlier, later)
        sizes = (_SMALL_SPLIT, *_SPLITS) if later < earlier else _SPLITS
        split = min(sizes, key=lambda n: abs(ratio / n - 1))
        if abs(ratio / split - 1) <= _NEAR and not _is_heavily_traded(volumes, at, ratio):
            shares = "3 for 2" if split == _SMALL_SPLIT else f"{split} for 1"
            way = shares if later < earlier else f"1 for {split}"
            text = f"{date}: {earlier:g} to {later:g}, which looks like a split {way}"
            yield Oddity(kind="split", date=date, text=text)


def _is_heavily_traded(volumes: Sequence[float | None], at: int, ratio: float) -> bool:
    """Whether a day saw far more trading than the weeks around it, as the day of bad news does and
    that of a split does not, be its volume back-adjusted or that of more shares from then on.
    """
    before = [volume for volume in volumes[max(0, at - _WEEKS) : at] if volume]
    after = [volume for volume in volumes[at + 1 : at + 1 + _WEEKS] if volume]
    on_the_day = volumes[at] if at < len(volumes) else None
    if not on_the_day or not before or not after:
        return False
    return on_the_day > _HEAVY * max(ratio * median(before), median(after))


def _gaps(prices: Sequence[Point], frequency: Frequency, calendar: str | None) -> Iterator[Oddity]:
    longest = _LONGEST_GAP.get(frequency)
    for (earlier, _), (date, _) in pairwise(prices):
        days = (date - earlier).days
        if longest is None or days <= longest:
            continue
        if frequency == "daily" and sessions_between(earlier, date, calendar) < _LOST_WEEK:
            continue
        text = f"{date}: no price between {earlier} and {date}, {days} days"
        yield Oddity(kind="gap", date=date, text=text)


def sessions_between(since: dt.date, until: dt.date, calendar: str | None) -> int:
    """Return how many trading sessions lie after one day and before another.

    Raises:
        ToolError: the calendar is not installed, or not known.
    """
    if (until - since).days <= 1:
        return 0
    if calendar is None:
        weeks, rest = divmod((until - since).days - 1, 7)
        first = since.weekday() + 1
        return 5 * weeks + sum((first + day) % 7 < 5 for day in range(rest))
    try:
        calendars: Any = importlib.import_module("exchange_calendars")
    except ImportError as error:
        raise ToolError(
            f"sessions of {calendar!r} are counted with exchange-calendars, which is not installed",
            hint=f"{install_hint('calendars')}, or leave 'calendar' out: weekdays are counted then",
        ) from error
    try:
        sessions = calendars.get_calendar(calendar).sessions_in_range(
            str(since + dt.timedelta(days=1)), str(until - dt.timedelta(days=1))
        )
    except (calendars.errors.CalendarError, ValueError) as error:
        raise ToolError(
            f"the calendar {calendar!r} does not say which sessions lie between {since} and {until}: "
            f"{error}",
            hint="name the exchange by its MIC, such as XNYS, XLON or XASX",
        ) from error
    return len(sessions)
