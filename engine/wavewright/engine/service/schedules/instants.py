"""The instants of a schedule. Times are seconds since 1970 (UTC)."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import zoneinfo
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from cronsim import CronSim

from wavewright.config.schedules import ScheduleTerms

_HASH_RANGE: Final = 2**32


def instants_after(terms: ScheduleTerms, after: float) -> Iterator[float]:
    """Yield the instants after one, in their order; without an end, or until the cron has no more.

    A `cron` is on the clocks of its `timezone`: an hour that they skip is made up for at once, and one
    that they show twice counts once, as in Debian's cron; with `*` as hour or minute it is due at
    each instant that there is. `every` is counted in UTC from 1970 on.
    """
    if terms.every is not None:
        number = int(after // terms.every)
        while True:
            number += 1
            if number * terms.every > after:
                yield number * terms.every
    assert terms.cron is not None, "a schedule has one of the two"
    place = zoneinfo.ZoneInfo(terms.timezone)
    if any(field.startswith("*") for field in terms.cron.split()[:2]):
        yield from _each_instant(terms.cron, after, place)
        return
    for instant in CronSim(terms.cron, dt.datetime.fromtimestamp(after, place)):
        seconds = instant.timestamp()
        # What a repeated hour gives may lie before what it is looked for after.
        if seconds > after:
            yield seconds


def _each_instant(cron: str, after: float, place: zoneinfo.ZoneInfo) -> Iterator[float]:
    """Yield each instant at which the clocks of a place show what a cron says.

    Between two changes of the clocks time is even, so it is looked for in one stretch after another.
    """
    first = math.floor(after) + 1
    while True:
        offset, last = _offset(place, first), first
        for shown in CronSim(cron, _EPOCH + dt.timedelta(seconds=first - 1 + offset)):
            instant = int((shown - _EPOCH).total_seconds()) - offset
            if _offset(place, instant) != offset:
                first = _first_with_other_offset(place, offset, last, instant)
                break
            yield float(instant)
            last = instant
        else:
            return


_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - what clocks show, wherever they are


def _offset(place: zoneinfo.ZoneInfo, instant: float) -> int:
    """Return the seconds that the clocks of a place are ahead of UTC."""
    offset = dt.datetime.fromtimestamp(instant, place).utcoffset()
    assert offset is not None, "clocks of a place have an offset at each instant"
    return round(offset.total_seconds())


def _first_with_other_offset(place: zoneinfo.ZoneInfo, offset: int, before: int, until: int) -> int:
    """Return when the clocks change between two instants, of which the first has the offset."""
    while until - before > 1:
        middle = (before + until) // 2
        if _offset(place, middle) == offset:
            before = middle
        else:
            until = middle
    return until


def instants_between(terms: ScheduleTerms, after: float, until: float) -> Iterator[float]:
    """Yield the instants after one and up to another."""
    return takewhile(lambda instant: instant <= until, instants_after(terms, after))


def delay_of(terms: ScheduleTerms, name: str, instant: float) -> float:
    """Return how many seconds after an instant its run begins: up to the jitter, and the same in
    every process.
    """
    if terms.jitter is None:
        return 0.0
    digest = hashlib.sha256(f"{name} {instant!r}".encode()).digest()
    return terms.jitter * int.from_bytes(digest[:4]) / _HASH_RANGE
