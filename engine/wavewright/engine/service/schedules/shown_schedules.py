"""A schedule as people see it: when it is due, how it stands, its next instants."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

import anyio.to_thread

from wavewright.config import Settings
from wavewright.config.value_types import written_duration
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.schedules.instants import instants_after
from wavewright.engine.service.schedules.project_schedules import ProjectSchedule, project_schedules
from wavewright.engine.service.schedules.schedule_store import ScheduleStore, StoredSchedule

_NEXT: Final = 3
"""Instants that are shown of each schedule."""


@dataclass(frozen=True, slots=True)
class ShownSchedule:
    """A schedule as people see it; instants are on the clocks of its `timezone`."""

    name: str
    job: str
    """File of the job."""
    rule: str
    """When it is due."""
    state: str
    switch: Literal["pause", "resume"] | None
    """What people can do to it; None where it is paused by whoever wrote it."""
    fault: str
    """Why it begins nothing; empty where it begins its jobs."""
    last: str
    """The latest instant; empty where there is none."""
    outcome: str
    """What came of that instant."""
    last_job: JobId | None
    next: tuple[str, ...]
    """The next instants; none of one that is paused or begins nothing."""


async def shown_schedules(
    settings: Settings, store: ScheduleStore | None, now: float
) -> list[ShownSchedule]:
    """Return the schedules of a project, with what the store has of them where there is one.

    Each of their plans is checked, in a thread, as the tools of the project are loaded for it.
    """
    known = await anyio.to_thread.run_sync(project_schedules, settings)
    names = [schedule.name for schedule in known]
    stored = {} if store is None or not names else await store.stored(names)
    return [_shown(one, stored.get(one.name, StoredSchedule()), now) for one in known]


def _shown(schedule: ProjectSchedule, stored: StoredSchedule, now: float) -> ShownSchedule:
    terms = schedule.terms
    switch: Literal["pause", "resume"] | None = "pause" if stored.paused_by is None else "resume"
    if terms is not None and terms.paused:
        switch = None
    begins = switch == "pause" and not schedule.fault
    coming = islice(instants_after(terms, now), _NEXT) if terms and begins else ()
    last, outcome = stored.last or (None, "")
    return ShownSchedule(
        name=schedule.name,
        job=schedule.job,
        rule=_rule_text(schedule),
        state=_state_text(schedule, stored),
        switch=switch,
        fault=schedule.fault,
        last="" if last is None else _local_text(schedule, last),
        outcome=outcome,
        last_job=stored.last_job,
        next=tuple(_local_text(schedule, instant) for instant in coming),
    )


def _rule_text(schedule: ProjectSchedule) -> str:
    terms = schedule.terms
    if terms is None:
        return ""
    if terms.every is not None:
        return f"every {written_duration(terms.every)}"
    return f"{terms.cron} in {terms.timezone}"


def _state_text(schedule: ProjectSchedule, stored: StoredSchedule) -> str:
    if schedule.fault:
        return f"faulty: {schedule.fault}"
    if stored.paused_at is not None:
        return f"paused by {stored.paused_by} since {_local_text(schedule, stored.paused_at)}"
    if schedule.terms is not None and schedule.terms.paused:
        return "paused where it is written"
    return "active"


def _local_text(schedule: ProjectSchedule, instant: float) -> str:
    place = "UTC" if schedule.terms is None else schedule.terms.timezone
    moment = dt.datetime.fromtimestamp(instant, zoneinfo.ZoneInfo(place))
    return moment.isoformat(sep=" ", timespec="seconds")
