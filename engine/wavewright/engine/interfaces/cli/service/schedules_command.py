"""`wavewright schedules`: list the project's schedules, begin one now, pause one, resume one."""

from __future__ import annotations

import time
from dataclasses import asdict

import anyio

from wavewright.config import Settings, exit_codes
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import print_json, print_line, print_lines
from wavewright.engine.interfaces.cli.common.terminal import local_user
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.schedules.project_schedules import ProjectSchedule, named_schedule
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.engine.service.schedules.scheduler import ScheduleAct, steer_schedule
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
        print_lines(line for schedule in known for line in _lines(schedule))
    is_faulty = any(schedule.fault for schedule in known)
    return exit_codes.NEGATIVE if is_faulty else exit_codes.OK


def steer(act: ScheduleAct, name: str) -> int:
    """Have the job of a schedule begun now, pause the schedule or resume it, and say so.

    Raises:
        ScheduleUnknown: there is no such schedule, it is faulty, or it is to be resumed and its
            `paused` says otherwise.
    """
    settings = project_settings()
    job = anyio.run(_steer, settings, named_schedule(settings, name), act)
    match act:
        case "begin":
            print_line(
                f"job {job} begins as soon as `wavewright serve` or a daemon has a slot for it"
            )
        case "pause":
            print_line(f"schedule {name} is paused; `wavewright schedules resume {name}` ends that")
        case "resume":
            print_line(f"schedule {name} begins its jobs again")
    return exit_codes.OK


async def _steer(settings: Settings, schedule: ProjectSchedule, act: ScheduleAct) -> JobId | None:
    async with journal_of(settings) as journal:
        project = Reporter.of(settings).state_reports
        return await steer_schedule(ScheduleStore(journal), schedule, act, local_user(), project)


async def _shown(settings: Settings) -> list[ShownSchedule]:
    if settings.journal_url is None and not settings.journal.exists():
        return await shown_schedules(settings, None, time.time())
    async with journal_of(settings) as journal:
        return await shown_schedules(settings, ScheduleStore(journal), time.time())


def _lines(schedule: ShownSchedule) -> list[str]:
    file = "" if schedule.name == schedule.job else f" ({schedule.job})"
    lines = [f"{schedule.name}{file}"]
    if schedule.rule:
        lines.append(f"  due    {schedule.rule}")
    lines.append(f"  state  {schedule.state}")
    if schedule.last:
        lines.append(f"  last   {schedule.last}: {schedule.outcome}")
    # The first has the word, and those below it stand under it.
    return [*lines, *(f"  {'' if n else 'next':<5}  {due}" for n, due in enumerate(schedule.next))]
