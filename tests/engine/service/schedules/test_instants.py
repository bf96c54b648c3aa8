"""The instants of a schedule: months' ends, zones, and clocks that go forward and back."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from itertools import islice, takewhile

import pytest
from cronsim import CronSim
from pydantic import ValidationError

from wavewright.config.schedules import ScheduleTerms
from wavewright.engine.service.schedules.instants import delay_of, instants_after, instants_between


def at(text: str) -> float:
    """Return an instant of UTC."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp()


def next_of(cron: str, zone: str, after: str, count: int = 3) -> list[str]:
    """Return the next instants of a cron on the clocks of its zone."""
    terms = ScheduleTerms(cron=cron, timezone=zone)
    found = islice(instants_after(terms, at(after)), count)
    clocks = zoneinfo.ZoneInfo(zone)
    return [dt.datetime.fromtimestamp(one, clocks).strftime("%m-%d %H:%M %z") for one in found]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        (
            "0 7 * * mon-fri",
            "Europe/Berlin",
            "2026-11-27T07:00",
            ["11-30 07:00 +0100", "12-01 07:00 +0100", "12-02 07:00 +0100"],
        ),
        # An hour that is skipped is made up for at once: 02:30 is no time of that day.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00",
            ["03-29 03:00 +0200", "03-30 02:30 +0200", "03-31 02:30 +0200"],
        ),
        # One that comes twice counts once.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00",
            ["10-25 02:30 +0200", "10-26 02:30 +0100", "10-27 02:30 +0100"],
        ),
        # With `*` each instant that there is counts.
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:10",
            ["10-25 02:30 +0200", "10-25 02:00 +0100", "10-25 02:30 +0100"],
        ),
        (
            "0 9 * * *",
            "Asia/Kolkata",
            "2026-11-29T03:30",
            ["11-30 09:00 +0530", "12-01 09:00 +0530", "12-02 09:00 +0530"],
        ),
        (
            "0 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00",
            ["10-04 02:30 +1100", "10-05 02:00 +1100", "10-06 02:00 +1100"],
        ),
        (
            "0 0 31 * *",
            "UTC",
            "2026-01-31T00:00",
            ["03-31 00:00 +0000", "05-31 00:00 +0000", "07-31 00:00 +0000"],
        ),
        (
            "0 0 L * *",
            "UTC",
            "2027-12-31T00:00",
            ["01-31 00:00 +0000", "02-29 00:00 +0000", "03-31 00:00 +0000"],
        ),
    ],
)
def test_a_cron_is_due_on_the_clocks_of_its_zone(
    cron: str, zone: str, after: str, expected: list[str]
) -> None:
    assert next_of(cron, zone, after) == expected


CHANGES = [
    ("Europe/Berlin", "2026-03-28T20:00"),
    ("Europe/Berlin", "2026-10-24T20:00"),
    ("America/New_York", "2026-11-01T00:00"),
    ("America/Santiago", "2026-09-05T20:00"),  # whose midnight does not exist
    ("Australia/Lord_Howe", "2026-04-04T10:00"),  # whose clocks move by half an hour
    ("Australia/Lord_Howe", "2026-10-03T10:00"),
    ("Africa/Casablanca", "2026-02-14T20:00"),
]


@pytest.mark.parametrize(("zone", "start"), CHANGES)
@pytest.mark.parametrize(
    "cron", ["*/20 2 * * *", "*/7 * * * *", "5,35 * * * *", "0 */2 * * *", "*/25 0-3 * * *"]
)
def test_a_cron_with_a_star_is_due_at_each_instant_at_which_clocks_show_it(
    cron: str, zone: str, start: str
) -> None:
    clocks = zoneinfo.ZoneInfo(zone)
    begin = int(at(start))
    minutes = range(begin + 60, begin + 16 * 3600 + 1, 60)
    shown = {minute: dt.datetime.fromtimestamp(minute, clocks) for minute in minutes}
    walls = CronSim(cron, shown[minutes[0]].replace(tzinfo=None) - dt.timedelta(hours=2))
    due = {*takewhile(lambda wall: wall < dt.datetime(2027, 1, 1), walls)}  # noqa: DTZ001 - of clocks
    terms = ScheduleTerms(cron=cron, timezone=zone)
    expected = [float(at) for at in minutes if shown[at].replace(tzinfo=None) in due]

    assert [*instants_between(terms, begin, minutes[-1])] == expected
    assert [
        instant
        for piece in range(begin, minutes[-1], 600)
        for instant in instants_between(terms, piece, piece + 600)
    ] == expected


@pytest.mark.parametrize(("zone", "start"), CHANGES)
@pytest.mark.parametrize(
    "cron", ["0 0 * * *", "30 0 * * *", "45 1 * * *", "30 2 * * *", "0 3 * * *"]
)
def test_a_time_of_day_comes_once_a_day_whatever_clocks_do(
    cron: str, zone: str, start: str
) -> None:
    terms = ScheduleTerms(cron=cron, timezone=zone)
    begin = int(at(start)) - 86_400
    pieces = range(begin, begin + 4 * 86_400, 600)
    found = [one for piece in pieces for one in instants_between(terms, piece, piece + 600)]
    days = [dt.datetime.fromtimestamp(one, zoneinfo.ZoneInfo(zone)).date() for one in found]

    assert len(days) == 4
    assert len({*days}) == 4


def test_a_cron_that_has_a_name_is_the_one_that_it_names() -> None:
    assert next_of("@Daily", "Europe/Berlin", "2026-11-27T07:00", 1) == ["11-28 00:00 +0100"]
    assert ScheduleTerms(cron="@weekly").cron == "0 0 * * 0"


def test_the_29th_of_february_comes_in_leap_years() -> None:
    terms = ScheduleTerms(cron="0 0 29 2 *")
    found = islice(instants_after(terms, at("2026-01-01")), 3)

    assert [dt.datetime.fromtimestamp(one, dt.UTC).year for one in found] == [2028, 2032, 2036]


def test_a_period_is_counted_in_utc_whatever_clocks_do() -> None:
    terms = ScheduleTerms(every=900)
    found = instants_between(terms, at("2026-03-29T00:50"), at("2026-03-29T01:20"))

    assert [*found] == [at("2026-03-29T01:00"), at("2026-03-29T01:15")]


def test_a_delay_is_within_the_jitter_and_the_same_everywhere() -> None:
    terms = ScheduleTerms(every=900, jitter=120)
    delays = [delay_of(terms, "a", float(number)) for number in range(50)]

    assert delays == [delay_of(terms, "a", float(number)) for number in range(50)]
    assert all(0 <= delay < 120 for delay in delays)
    assert len({*delays}) == 50


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"cron": "0 0 7 * * *"}, "a cron has five fields"),
        ({"cron": "0 25 * * *"}, "is no cron"),
        ({"cron": "0 0 31 2 *"}, "is no cron"),
        ({"cron": "@reboot"}, "is no cron; there are @hourly, @daily"),
        ({"every": "10s"}, "once in 60 seconds at most"),
        ({"cron": "0 7 * * *", "every": "1h"}, "one of 'cron' and 'every'"),
        ({}, "one of 'cron' and 'every'"),
        ("0 7 * * mon-fri", 'write {cron: "0 7 * * mon-fri"}'),
        ("@daily", 'write {cron: "@daily"}'),
        ("15m", 'write {every: "15m"}'),
        ([{"cron": "0 7 * * *"}], "several of one job stand under `schedules`"),
        ({"cron": "0 7 * * *", "timezone": "Europe/Berlinn"}, "no timezone 'Europe/Berlinn'"),
        ({"cron": "0 7 * * *", "timezone": "../etc/passwd"}, "no timezone"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused(terms: object, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ScheduleTerms.model_validate(terms)

    assert said in str(refused.value)
