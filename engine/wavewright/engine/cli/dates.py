"""Instants as the command line takes them: ISO 8601, in UTC where no zone is named, or how long ago they were."""

from __future__ import annotations

import datetime as dt

from wavewright.engine.cli.failures import CommandError


def parse_instant(text: str | None, name: str = "--as-of") -> dt.datetime | None:
    """Return the instant that an option names.

    Raises:
        CommandError: it is no date.
    """
    if text is None:
        return None
    try:
        instant = dt.datetime.fromisoformat(text)
        return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        msg = f"{name} {text!r} is no date"
        raise CommandError(msg, hint="write it as 2010-03-01 or 2010-03-01T12:00:00+00:00") from error


def parse_seconds(text: str, name: str) -> float:
    """Return the duration that an option gives (`90`, `2h`, `30d`), in seconds.

    Raises:
        CommandError: it is none.
    """
    from wavewright.config.durations import parse_duration

    try:
        found = parse_duration(float(text) if text.isdecimal() else text)
    except ValueError as error:
        raise CommandError(f"{name} {text!r} is no duration", hint="write it as 12h or 30d") from error
    assert isinstance(found, float | int)
    return float(found)


def parse_past_instant(text: str, name: str, now: float) -> float:
    """Return the instant that an option names as a date or as the time since then, in seconds since the epoch.

    Raises:
        CommandError: it is neither.
    """
    try:
        return now - parse_seconds(text, name)
    except CommandError:
        pass
    try:
        instant = parse_instant(text, name)
    except CommandError as error:
        msg = f"{name} {text!r} is neither a date nor a duration"
        raise CommandError(msg, hint="write it as 2010-03-01, or as 12h or 7d") from error
    assert instant is not None
    return instant.timestamp()
