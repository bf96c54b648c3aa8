"""Settings of schedules: when a job is begun by itself, and what comes of instants that were missed.

The same terms stand under `schedules` of the settings, with the job's file, and under `schedule` of
a job's file.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import zoneinfo
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, JsonValue, model_validator

from wavewright.config.value_types import NonEmpty, Seconds, SettingsModel

_CRON_FIELDS: Final = 5
MIN_EVERY: Final = 60.0
"""Seconds between two instants, at least: what is wanted more often is a service of its own."""


_NAMED_CRONS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def _valid_cron(text: str) -> str:
    # Imported here: few jobs have a schedule.
    from cronsim import CronSim, CronSimError

    text = _NAMED_CRONS.get(text.strip().lower(), text)
    if text.lstrip().startswith("@"):
        msg = f"{text!r} is no cron; there are {', '.join(_NAMED_CRONS)}"
        raise ValueError(msg)
    if len(text.split()) != _CRON_FIELDS:
        msg = "a cron has five fields, minute hour day month weekday, such as '0 7 * * mon-fri'"
        raise ValueError(msg)
    try:
        next(CronSim(text, dt.datetime(2000, 1, 1, tzinfo=dt.UTC)))
    except CronSimError as error:
        msg = f"{text!r} is no cron ({str(error).lower()}); '0 7 * * mon-fri' is seven on workdays"
        raise ValueError(msg) from error
    except StopIteration:
        msg = f"{text!r} is a cron of no day at all"
        raise ValueError(msg) from None
    return text


def _valid_timezone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        msg = f"there is no timezone {name!r}; one is Europe/Berlin, another UTC"
        raise ValueError(msg) from error
    return name


def _valid_every(seconds: float) -> float:
    if seconds < MIN_EVERY:
        msg = f"a schedule is due once in {MIN_EVERY:g} seconds at most: write `1m` or more"
        raise ValueError(msg)
    return seconds


ScheduleName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")]


class ScheduleTerms(SettingsModel):
    """When a job is begun by itself."""

    cron: Annotated[str, AfterValidator(_valid_cron)] | None = None
    """Minute, hour, day, month and weekday, such as `0 7 * * mon-fri`, or `@daily` and its like, on
    the clocks of its `timezone`. An hour that is skipped when the clocks go forward is made up for
    at once; one that comes twice counts once.
    """
    every: Annotated[Seconds, AfterValidator(_valid_every)] | None = None
    """Time between two instants, such as `15m`, a minute at least; counted in UTC from 1970 on."""
    timezone: Annotated[str, AfterValidator(_valid_timezone)] = "UTC"
    """Whose clocks `cron` is on, such as `Europe/Berlin`."""
    jitter: Seconds | None = None
    """Longest time that a run begins after its instant, so that not all begin at once; the same for
    the same instant everywhere.
    """
    missed: Literal["skip", "last", "all"] = "last"
    """What comes of instants at which nobody was there: none is made up for, the last of them, or
    all in their order.
    """
    window: Seconds = 86_400.0
    """How long ago an instant may be that is made up for."""
    overlap: Literal["skip", "queue", "cancel_other"] = "skip"
    """Where an earlier run of the schedule has not ended: the instant is left out, waits for its
    end, or ends it.
    """
    paused: bool = False
    """Whether nothing is begun, whatever `wavewright schedules resume` says."""
    inputs: dict[str, JsonValue] = {}
    """Inputs that replace those of the job; `${now()}` is the instant that is scheduled."""

    @model_validator(mode="before")
    @classmethod
    def _has_fields(cls, value: object) -> object:
        if isinstance(value, str) and value:
            rule = "every" if re.fullmatch(r"\s*\d+\s*\w*\s*", value) else "cron"
            msg = (
                f"a schedule says by a field when it is due: write {{{rule}: {json.dumps(value)}}}"
            )
            raise ValueError(msg)
        if isinstance(value, list):
            msg = (
                "a schedule is an object, such as {cron: 0 7 * * mon-fri}; several of one job stand"
                " under `schedules` of the settings, each by its name"
            )
            raise ValueError(msg)  # noqa: TRY004 - what pydantic reports
        return value

    @model_validator(mode="after")
    def _has_one_rule(self) -> Self:
        if (self.cron is None) == (self.every is None):
            msg = "a schedule has one of 'cron' and 'every'"
            raise ValueError(msg)
        return self


class ScheduleSettings(ScheduleTerms):
    """One of `schedules` in `wavewright.yaml`."""

    job: NonEmpty
    """File of the job, or of a plan, relative to the project."""
