"""`wavewright schedules`: list the project's schedules, begin one now, pause one, resume one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import anyio

from wavewright.config import exit_codes
from wavewright.config.settings import Settings
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    print_json,
    print_line,
)
from wavewright.engine.interfaces.cli.common.terminal import local_user
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.schedules.project_schedules import named_schedule
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.engine.service.schedules.scheduler import begin_now
from wavewright.engine.service.schedules.shown_schedules import ShownSchedule, shown_schedules
from wavewright.executor.stores import journal_of


def list_schedules(*, output_format: str) -> int:
    """Print the schedules of the project with their next instants; the exit code is 1 where one is
    faulty.
    """
    settings = project_settings()
    known = anyio.run(_shown, settings)
    if output_format == "json":
        print_json([asdict(schedule) for schedule in known])
    elif not known:
        print_line("no schedules: give a job's file a `schedule`, or the settings `schedules`")
    else:
        for schedule in known:
            for line in _lines(schedule):
                print_line(line)
    return exit_codes.NEGATIVE if any(schedule.fault for schedule in known) else exit_codes.OK


def begin(name: str) -> int:
    """Have the job of a schedule begun now, and print its id.

    Raises:
        ScheduleUnknown: there is no such schedule, or the file of its job is faulty.
    """
    settings = project_settings()
    schedule = named_schedule(settings, name)

    async def work(store: ScheduleStore) -> str:
        return await begin_now(
            store, schedule, time.time(), local_user(), Reporter.of(settings).state_reports
        )

    job = anyio.run(_with_store, settings, work)
    print_line(f"job {job} begins as soon as `wavewright serve` or a daemon has a slot for it")
    return exit_codes.OK


def pause(name: str) -> int:
    """Begin nothing by a schedule until it is resumed."""
    settings = project_settings()
    named_schedule(settings, name)

    async def pause_it(store: ScheduleStore) -> None:
        await store.pause(name, local_user(), time.time())

    anyio.run(_with_store, settings, pause_it)
    print_line(f"schedule {name} is paused; `wavewright schedules resume {name}` ends that")
    return exit_codes.OK


def resume(name: str) -> int:
    """Begin jobs by a schedule again.

    Raises:
        CommandError: there is no such schedule, or its `paused` says otherwise.
    """
    settings = project_settings()
    schedule = named_schedule(settings, name)
    if schedule.terms is not None and schedule.terms.paused:
        raise CommandError(
            f"schedule {name!r} is paused where it is written",
            place=schedule.job,
            hint="take `paused: true` out of it",
        )

    async def resume_it(store: ScheduleStore) -> None:
        await store.resume(name, time.time())

    anyio.run(_with_store, settings, resume_it)
    print_line(f"schedule {name} begins its jobs again")
    return exit_codes.OK


async def _with_store(
    settings: Settings, work: Callable[[ScheduleStore], Awaitable[object]]
) -> object:
    async with journal_of(settings) as journal:
        return await work(ScheduleStore(journal))


async def _shown(settings: Settings) -> list[ShownSchedule]:
    if settings.journal_url is None and not settings.journal.exists():
        return await shown_schedules(settings, None, time.time())
    async with journal_of(settings) as journal:
        return await shown_schedules(settings, ScheduleStore(journal), time.time())


def _lines(schedule: ShownSchedule) -> list[str]:
    named = schedule.name if schedule.name == schedule.job else f"{schedule.name} ({schedule.job})"
    lines = [named]
    if schedule.rule:
        lines.append(f"  due    {schedule.rule}")
    lines.append(f"  state  {schedule.state}")
    if schedule.last:
        lines.append(f"  last   {schedule.last}: {schedule.outcome}")
    lines += [
        f"  {'next' if number == 0 else '':<5}  {instant}"
        for number, instant in enumerate(schedule.next)
    ]
    return lines
