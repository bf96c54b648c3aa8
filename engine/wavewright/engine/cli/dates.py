"""Instants as the command line takes them: ISO 8601, in UTC where no zone is named."""

from __future__ import annotations

import datetime as dt

from wavewright.engine.cli.failures import CommandError


def instant_of(text: str | None, name: str = "--as-of") -> dt.datetime | None:
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
