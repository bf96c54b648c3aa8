"""A journal that writes the messages of a job to the outbox in the transaction of its events.

An `OutboxJournal` wraps the real journal while one job runs. The claim of the job holds the lease
of its run, so `open_run` and `close_run` do nothing for that run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from immutables import Map

from wavewright.engine.run.decisions.approvals import APPROVAL_USED, APPROVAL_WANTED
from wavewright.engine.run.target_waves import (
    TARGET_COMPLETED,
    TARGET_FAILED,
    TARGET_PACKAGE_JUDGED,
    TARGET_PACKAGE_SENT,
)
from wavewright.engine.service.daemon.job_projection import JobProjection, project, replay
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import Decision, JobId, JobRow
from wavewright.engine.service.job_store.rules import CrashSuspects, has_advanced
from wavewright.executor import Event, Journal, Noted, PlanAccepted, StepFinished
from wavewright.executor.store.journal import BorrowedJournal
from wavewright.executor.store.transaction import Alongside
from wavewright.planner import RunId
from wavewright.reviewer import Package
from wavewright.tools import JobProgress

QUESTION_TOPICS: Final = frozenset({"question", APPROVAL_WANTED})
"""Topics of notes that ask a person."""
ANSWER_TOPICS: Final = frozenset({"answer", APPROVAL_USED})
"""Topics of notes that use a person's answer."""
TARGET_END_TOPICS: Final = frozenset(
    {TARGET_PACKAGE_SENT, TARGET_PACKAGE_JUDGED, TARGET_COMPLETED, TARGET_FAILED}
)
"""Topics of notes with which a job with targets advances."""


class OutboxJournal(BorrowedJournal):
    """A wrapper of the journal for one job."""

    def __init__(self, journal: Journal, job: JobRow, reporter: Reporter) -> None:
        super().__init__(journal)
        self._run = job.run
        self._reporter = reporter
        self._projection = JobProjection(job)
        self._package: Package | None = None
        self._packages = dict[str, Package]()
        """Of targets that have not ended, by run."""
        self._target_projections = dict[RunId, JobProjection]()
        """Of targets that have started and not ended."""
        self._ended_steps = dict[RunId, tuple[str, ...]]()
        """Steps that had ended in the runs of targets whose projections are dropped."""
        self._suspects = dict[RunId, CrashSuspects]()
        """Of the job's own run and of those of its targets that were loaded or started here."""
        self.has_new_messages = False
        """Whether messages were written to the outbox since this was last reset."""
        self.has_ended = False
        """Whether the run's end has changed the job's state and released it."""

    @property
    def job(self) -> JobId:
        """The job."""
        return self._projection.job.job

    @property
    def open_decisions(self) -> list[Decision]:
        """The decisions that the job waits for, its own run's first and then those of targets."""
        projections = (self._projection, *self._target_projections.values())
        return [
            projection.open_decision
            for projection in projections
            if projection.open_decision is not None
        ]

    @property
    def awaits_verdicts(self) -> bool:
        """Whether published packages of targets have no verdict."""
        return self._projection.waves is not None and bool(self._projection.waves.awaiting)

    def open_decision_of(self, run: RunId) -> Decision | None:
        """Return the decision that one run of the job waits for."""
        projection = self._projection if run == self._run else self._target_projections.get(run)
        return None if projection is None else projection.open_decision

    def progress(self, target: str) -> JobProgress:
        """Return where the job stands and its current target; the job's goal, where it has no
        targets.
        """
        waves = self._projection.waves
        if waves is None:
            return JobProgress(
                run=self._run, target=target, steps=tuple(sorted(self._projection.ended))
            )
        run = waves.runs.get(target)
        projection = None if run is None else self._target_projections.get(run)
        waiting = tuple(known.name for known in waves.known() if known.name not in waves.runs)
        return JobProgress(
            run=self._run,
            target=target,
            steps=tuple(sorted(projection.ended))
            if projection is not None
            else self._ended_steps.get(run or RunId(""), ()),
            waiting=waiting,
            chosen=tuple(name for name in waves.chosen if name in waiting),
            completed=tuple(
                known.name
                for known in waves.known()
                if known.name in waves.ends and known.name not in waves.failed
            ),
            failed={name: waves.ends[name].reason for name in waves.failed},
            packages={name: sent.iteration for name, sent in waves.packages.items()},
        )

    def set_package(self, package: Package, folder: Path) -> tuple[Path, ...]:
        """Set the package that is published with the end of its run.

        Raises:
            PackageNotPublished: it is too large to be sent, or its result does not fit its message.
        """
        del folder
        self._reporter.check_publishable(self._projection.job, package)
        if package.run == self._run:
            self._package = package
        else:
            self._packages[package.run] = package
        return ()

    async def open_run(self, run: RunId) -> None:
        """Open a run, unless it is the job's own, which is open."""
        if run != self._run:
            await self._journal.open_run(run)

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        """Journal the events, and in the same transaction the messages and changes of the job that
        they cause.
        """
        advanced = self._note_progress(run, events)
        if run != self._run:
            return self._journal.append(
                run, events, self._target_writes(run, events, has_advanced=advanced)
            )
        assert alongside is None, "they are projected here"
        self._projection, writes = project(
            self._projection,
            events,
            self._reporter,
            self._package,
            self._packages,
            has_advanced=advanced,
        )
        self._drop_ended(events)
        if writes is not None:
            self.has_new_messages = True
            self.has_ended = writes.change is not None and writes.change.state != "running"
        return self._journal.append(run, events, writes)

    def _note_progress(self, run: RunId, events: Sequence[Event]) -> bool:
        """Update the crash suspects; return whether the job gets further than in its interrupted
        attempts.
        """
        before = self._suspects.get(run, CrashSuspects())
        after = self._suspects[run] = before.after(events)
        waves = self._projection.waves
        if waves is None:
            return has_advanced(before, events, after)
        running = [started for name, started in waves.runs.items() if waves.is_in_progress(name)]
        if not all(
            started in self._suspects and self._suspects[started].is_empty for started in running
        ):
            return False
        has_ended = any(
            isinstance(event, Noted) and event.topic in TARGET_END_TOPICS for event in events
        )
        return has_ended or (run != self._run and has_advanced(before, events, after))

    def _target_writes(
        self, run: RunId, events: Sequence[Event], *, has_advanced: bool
    ) -> OutboxWrites | None:
        """Return what is written with the events of a target's run: its progress, questions and
        used answers.
        """
        reported = [event for event in events if _is_reported(event)]
        if not reported and not has_advanced:
            return None
        projection, writes = project(
            self._projection_of(run), reported, self._reporter, None, has_advanced=has_advanced
        )
        self._target_projections[run] = projection
        # A job advances with each of its targets.
        job = replace(self._projection.job, attempts=projection.job.attempts)
        self._projection = replace(self._projection, job=job)
        self.has_new_messages = writes is not None or self.has_new_messages
        return writes

    def _projection_of(self, run: RunId) -> JobProjection:
        job = replace(self._projection.job, run=run)
        known = self._target_projections.get(run)
        if known is not None:
            return replace(known, job=job)
        waves = self._projection.waves
        names = (
            []
            if waves is None
            else [name for name, run_of_target in waves.runs.items() if run_of_target == run]
        )
        return JobProjection(job, target=names[0] if names else None)

    def _drop_ended(self, events: Sequence[Event]) -> None:
        """Drop the packages and projections of targets whose package is published or which have
        ended.
        """
        for event in events:
            if isinstance(event, Noted) and event.topic in TARGET_END_TOPICS - {
                TARGET_PACKAGE_JUDGED
            }:
                run = RunId(str(event.body["run"]))
                self._packages.pop(run, None)
                dropped = self._target_projections.pop(run, None)
                if dropped is not None:
                    self._ended_steps[run] = tuple(sorted(dropped.ended))

    async def close_run(self, run: RunId) -> None:
        """Close a run, unless it is the job's own, which stays open until the job is released."""
        if run != self._run:
            await self._journal.close_run(run)

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events, and set its projection from them."""
        events = await super().load(run)
        self._suspects[run] = CrashSuspects().after(events)
        if run == self._run:
            self._projection = replay(JobProjection(self._projection.job), events)
        else:
            fresh = replace(
                self._projection_of(run), steps=0, ended=Map(), reported=0, open_decision=None
            )
            self._target_projections[run] = replay(fresh, filter(_is_reported, events))
        return events


def _is_reported(event: Event) -> bool:
    """Whether an event of a target's run is projected; the job's own run reports its start and end."""
    if isinstance(event, Noted):
        return event.topic in {*QUESTION_TOPICS, *ANSWER_TOPICS}
    return isinstance(event, PlanAccepted | StepFinished)
