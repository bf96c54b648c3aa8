"""The scheduler: begins the jobs of a project's schedules, in a daemon and in `wavewright serve`."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias

import anyio

from wavewright.config import LogLevel, Settings
from wavewright.config.schedules import ScheduleTerms
from wavewright.engine.service.job_store.records import (
    JobId,
    JobRequested,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.rules import ProjectJob, project_nothing
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.requested_jobs import FILE_KEY, INPUTS_KEY
from wavewright.engine.service.schedules.instants import instants_between
from wavewright.engine.service.schedules.project_schedules import (
    ProjectSchedule,
    ScheduleUnknown,
    inputs_at,
    project_schedules,
)
from wavewright.engine.service.schedules.rules import decide_tick
from wavewright.engine.service.schedules.schedule_store import InstantFaulty, ScheduleStore, Ticked
from wavewright.executor import JournalError
from wavewright.planner import ExpressionError, JsonObject

TICK_SECONDS: Final = 1.0
"""How often schedules are looked at."""
ASK_SECONDS: Final = 5.0
"""How often the store is asked about a schedule that is not due: an earlier run may have ended, and
somebody may have paused it.
"""
READ_SECONDS: Final = 10.0
"""How often the project's files are looked through for schedules."""
SCHEDULED: Final = "scheduled_job"
"""Kind of the request of a job that a schedule begins, which comes by no message."""
_NAMESPACE: Final = uuid.UUID("7a0c7f4e-3c39-4b8e-9f55-6d0f3b7f0c11")


def scheduled_request(
    schedule: ProjectSchedule, instant: float, now: float, *, once: str = ""
) -> ReceivedMessage:
    """Return the request of the job that a schedule begins at an instant, as if it had come as a
    message; its id names the schedule and the instant, so it has an effect once.

    Args:
        schedule: The schedule.
        instant: The instant; `${now()}` in its inputs.
        now: When it is begun.
        once: What else makes the request another one, where somebody asks for it beside the
            schedule.

    Raises:
        InstantFaulty: the inputs of the schedule cannot be computed.
    """
    job = str(uuid.uuid5(_NAMESPACE, f"{schedule.name} {instant!r} {once}"))
    try:
        inputs = {} if schedule.terms is None else inputs_at(schedule.terms, instant)
    except ExpressionError as fault:
        message = f"the inputs of schedule {schedule.name!r} cannot be computed: {fault.message}"
        raise InstantFaulty(message) from fault
    request: JsonObject = {
        FILE_KEY: schedule.job,
        INPUTS_KEY: inputs,
        "job": {"name": schedule.name},
        "schedule": schedule.name,
    }
    return ReceivedMessage(
        message=MessageId(job),
        kind=SCHEDULED,
        source=f"schedule {schedule.name}",
        at=now,
        request=JobRequested(JobId(job), request),
    )


ScheduleAct: TypeAlias = Literal["begin", "pause", "resume"]
"""What a person does with a schedule."""


async def steer_schedule(
    store: ScheduleStore, schedule: ProjectSchedule, act: ScheduleAct, by: str, project: ProjectJob
) -> JobId | None:
    """Begin the job of a schedule now, and return its id; or begin nothing by it until it is
    resumed.

    Raises:
        ScheduleUnknown: it is to be resumed, and its `paused` says otherwise.
        JournalError: nothing was written; or the inputs of the schedule cannot be computed.
    """
    now = time.time()
    match act:
        case "begin":
            message = scheduled_request(schedule, now, now, once=str(uuid.uuid4()))
            await store.begin(replace(message, source=by), project)
            return JobId(message.message)
        case "pause":
            await store.pause(schedule.name, by, now)
        case "resume":
            if schedule.terms is not None and schedule.terms.paused:
                raise ScheduleUnknown(
                    f"schedule {schedule.name!r} is paused where it is written",
                    place=schedule.place,
                    hint="take `paused: true` out of it",
                )
            await store.resume(schedule.name, now)
    return None


@dataclass(slots=True)
class JobScheduler:
    """Begins the jobs of a project's schedules."""

    settings: Settings
    store: ScheduleStore
    log: StructuredLog
    clock: Callable[[], float]
    on_begun: Callable[[], None] = lambda: None
    """Called after jobs were begun."""
    project: ProjectJob = project_nothing
    """Tells of jobs that are taken in or cancelled."""
    on_missed: Callable[[ProjectSchedule, float], None] = lambda _schedule, _instant: None
    _known: list[ProjectSchedule] = field(default_factory=list[ProjectSchedule])
    _read_at: float | None = None
    _asked: dict[str, float] = field(default_factory=dict[str, float])
    """By schedule, when the store was asked last, by the clock."""
    _faults: dict[str, str] = field(default_factory=dict[str, str])
    """What was logged of each schedule, so that it is logged once."""

    async def run(self) -> None:
        """Begin jobs when they are due, until this is cancelled."""
        while True:
            await self.tick()
            await anyio.sleep(TICK_SECONDS)

    async def tick(self) -> None:
        """Begin the jobs that are due now; what cannot be done is logged, and tried again."""
        for schedule in await self._schedules():
            try:
                if schedule.terms is None or schedule.fault:
                    self._log_fault(schedule, schedule.fault)
                    await self._tell_of_missed(schedule)
                elif self._is_due(schedule.name, schedule.terms):
                    await self._tick(schedule)
                    self._faults.pop(schedule.name, None)
            except JournalError as fault:
                self._log_fault(schedule, str(fault))

    async def _schedules(self) -> list[ProjectSchedule]:
        now = anyio.current_time()
        if self._read_at is None or now - self._read_at >= READ_SECONDS:
            self._known = await anyio.to_thread.run_sync(project_schedules, self.settings)
            self._read_at = now
        return self._known

    def _is_due(self, name: str, terms: ScheduleTerms) -> bool:
        """Whether an instant has come since the store was asked, or it was long ago."""
        now, asked_at = self.clock(), self._asked.get(name)
        if asked_at is not None and 0 <= now - asked_at < ASK_SECONDS:
            return next(instants_between(terms, asked_at, now), None) is not None
        return True

    async def _tell_of_missed(self, schedule: ProjectSchedule) -> None:
        """Have people told of each instant of a faulty schedule, unless it is paused. What becomes of
        the instant is decided once the fault is mended.
        """
        terms, now = schedule.terms, self.clock()
        since = self._asked.get(schedule.name, now)
        self._asked[schedule.name] = now
        if terms is None or terms.paused:
            return
        due = [*instants_between(terms, since, now)]
        stored = (await self.store.stored([schedule.name])).get(schedule.name) if due else None
        if stored is None or stored.paused_by is None:
            for instant in due:
                self.on_missed(schedule, instant)

    async def _tick(self, schedule: ProjectSchedule) -> None:
        terms, now = schedule.terms, self.clock()
        assert terms is not None, "a schedule without terms has a fault"
        ticked = await self.store.tick(
            schedule.name,
            lambda state: decide_tick(terms, schedule.name, state, now),
            partial(scheduled_request, schedule, now=now),
            self.project,
        )
        self._asked[schedule.name] = now
        self._log_tick(schedule, ticked)
        if ticked.begun:
            self.on_begun()

    def _log_tick(self, schedule: ProjectSchedule, ticked: Ticked) -> None:
        for instant, outcome in ticked.tick.outcomes:
            level: LogLevel = "warning" if outcome in {"missed", "skipped"} else "info"
            at = dt.datetime.fromtimestamp(instant, dt.UTC).isoformat()
            self.log.write(
                "schedule_due", level, schedule=schedule.name, instant=at, outcome=outcome
            )
            if outcome == "missed":
                self.on_missed(schedule, instant)

    def _log_fault(self, schedule: ProjectSchedule, fault: str) -> None:
        if self._faults.get(schedule.name) != fault:
            self._faults[schedule.name] = fault
            self.log.write("schedule_faulty", "error", schedule=schedule.name, error=fault)
