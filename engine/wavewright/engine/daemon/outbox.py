"""The journal of a job's run: whatever is journaled is told of in the same transaction.

An `OutboxJournal` stands before the real journal for as long as one job is worked on. The run is held by whoever has
claimed the job, so opening and closing it is none of the run's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from immutables import Map

from wavewright.engine.daemon.job_projection import JobProjection, project, replay
from wavewright.engine.daemon.reports import Reporter
from wavewright.engine.decisions.approvals import APPROVAL_USED, APPROVAL_WANTED
from wavewright.engine.targets.waves import (
    TARGET_COMPLETED,
    TARGET_FAILED,
    TARGET_PACKAGE_JUDGED,
    TARGET_PACKAGE_SENT,
)
from wavewright.executor.events.types import Event, Noted, PlanAccepted, StepFinished
from wavewright.executor.store.job_records import (
    Decision,
    JobId,
    JobRow,
    OutboxWrites,
)
from wavewright.executor.store.job_rules import CrashSuspects, has_advanced
from wavewright.executor.store.journal import Journal, RunRow, StoredOutput
from wavewright.planner.types import RunId, StepKey
from wavewright.reviewer.records import Package

QUESTION_TOPICS: Final = frozenset({"question", APPROVAL_WANTED})
"""Topics of notes that ask people."""
ANSWER_TOPICS: Final = frozenset({"answer", APPROVAL_USED})
"""Topics of notes that act on what they said."""
TARGET_END_TOPICS: Final = frozenset(
    {TARGET_PACKAGE_SENT, TARGET_PACKAGE_JUDGED, TARGET_COMPLETED, TARGET_FAILED}
)
"""Topics of notes by which a job with targets comes further, whatever their runs do."""


class OutboxJournal:
    """A journal around the real one, for one job."""

    def __init__(self, journal: Journal, job: JobRow, reporter: Reporter) -> None:
        self._journal = journal
        self._run = job.run
        self._reporter = reporter
        self._account = JobProjection(job)
        self._package: Package | None = None
        self._of_targets = dict[str, Package]()
        self._accounts = dict[RunId, JobProjection]()
        """Of the targets whose runs were begun and have not ended."""
        self._blames = dict[RunId, CrashSuspects]()
        """Of the job's own run and of those of its targets, as far as they were loaded or begun here."""
        self.has_new_messages = False
        """Whether something was put into the outbox since this was last set back."""
        self.has_ended = False
        """Whether the run's end has given the job up: nothing is left to be said of it."""

    @property
    def job(self) -> JobId:
        """The job."""
        return self._account.job.job

    @property
    def open_decisions(self) -> list[Decision]:
        """The decisions that the job waits for, its own run's first and then those of targets."""
        accounts = (self._account, *self._accounts.values())
        return [account.open_decision for account in accounts if account.open_decision is not None]

    @property
    def awaits_verdicts(self) -> bool:
        """Whether packages of targets are out that have no verdict."""
        return self._account.waves is not None and bool(self._account.waves.awaiting)

    def open_decision_of(self, run: RunId) -> Decision | None:
        """Return the decision that one run of the job waits for."""
        account = self._account if run == self._run else self._accounts.get(run)
        return None if account is None else account.open_decision

    def set_package(self, package: Package, folder: Path) -> tuple[Path, ...]:
        """Take the package that goes out with the run's end.

        Raises:
            Unpublishable: it is too large to be sent, or its result does not fit its message.
        """
        del folder
        self._reporter.check_publishable(self._account.job, package)
        if package.run == self._run:
            self._package = package
        else:
            # It goes out with the note that its target is done, and is not needed after that.
            self._of_targets[package.run] = package
        return ()

    async def open_run(self, run: RunId) -> None:
        """Open another run than the job's, which is open."""
        if run != self._run:
            await self._journal.open_run(run)

    def append(
        self, run: RunId, events: Sequence[Event], outbox_writes: OutboxWrites | None = None
    ) -> Awaitable[None]:
        """Write the events with what they mean for the job."""
        advanced = self._note_progress(run, events)
        if run != self._run:
            return self._journal.append(run, events, self._target_writes(run, events, has_advanced=advanced))
        assert outbox_writes is None, "what goes with a job's events is worked out here"
        self._account, told = project(
            self._account,
            events,
            self._reporter,
            self._package,
            self._of_targets,
            has_advanced=advanced,
        )
        self._drop_settled(events)
        if told is not None:
            self.has_new_messages = True
            self.has_ended = told.change is not None and told.change.state != "running"
        return self._journal.append(run, events, told)

    def _note_progress(self, run: RunId, events: Sequence[Event]) -> bool:
        """Take note of whom these events blame; answer whether the job has come further than when it was cut off."""
        before = self._blames.get(run, CrashSuspects())
        after = self._blames[run] = before.after(events)
        waves = self._account.waves
        if waves is None:
            return has_advanced(before, events, after)
        in_hand = [begun for name, begun in waves.runs.items() if waves.is_in_progress(name)]
        if not all(one in self._blames and self._blames[one].is_empty for one in in_hand):
            return False
        has_ended = any(isinstance(event, Noted) and event.topic in TARGET_END_TOPICS for event in events)
        return has_ended or (run != self._run and has_advanced(before, events, after))

    def _target_writes(
        self, run: RunId, events: Sequence[Event], *, has_advanced: bool
    ) -> OutboxWrites | None:
        """Return what goes with the events of a target's run: its progress, what it asks, and what it was answered."""
        told_of = [event for event in events if _is_reported(event)]
        if not told_of and not has_advanced:
            return None
        account, told = project(
            self._projection_of(run), told_of, self._reporter, None, has_advanced=has_advanced
        )
        self._set_projection(run, account)
        self.has_new_messages = told is not None or self.has_new_messages
        return told

    def _projection_of(self, run: RunId) -> JobProjection:
        job = self._account.job
        known = self._accounts.get(run)
        if known is not None:
            return replace(known, job=replace(job, run=run))
        waves = self._account.waves
        names = [] if waves is None else [name for name, begun in waves.runs.items() if begun == run]
        return JobProjection(replace(job, run=run), target=names[0] if names else None)

    def _set_projection(self, run: RunId, account: JobProjection) -> None:
        self._accounts[run] = account
        # What one target has advanced, the job has.
        job = replace(self._account.job, attempts=account.job.attempts)
        self._account = replace(self._account, job=job)

    def _drop_settled(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Noted) and event.topic in {
                TARGET_PACKAGE_SENT,
                TARGET_COMPLETED,
                TARGET_FAILED,
            }:
                self._of_targets.pop(RunId(str(event.body["run"])), None)
                self._accounts.pop(RunId(str(event.body["run"])), None)

    async def close_run(self, run: RunId) -> None:
        """Give another run than the job's up."""
        if run != self._run:
            await self._journal.close_run(run)

    async def load(self, run: RunId) -> list[Event]:
        """Return the run's events, and take up the job's account where they leave it."""
        events = await self._journal.load(run)
        self._blames[run] = CrashSuspects().after(events)
        if run == self._run:
            self._account = replay(JobProjection(self._account.job), events)
        else:
            fresh = replace(self._projection_of(run), steps=0, ended=Map(), reported=0, open_decision=None)
            self._accounts[run] = replay(fresh, filter(_is_reported, events))
        return events

    async def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest output that any run journaled under the key."""
        return await self._journal.find_output(key)

    async def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        return await self._journal.list_runs()

    async def find_run(self, prefix: str) -> RunId:
        """Return the run whose id or tail starts so."""
        return await self._journal.find_run(prefix)

    async def aclose(self) -> None:
        """Close nothing: the journal behind is the daemon's."""


def _is_reported(event: Event) -> bool:
    """Whether an event of a target's run is told of: how it begins and ends, the job's own run says."""
    if isinstance(event, Noted):
        return event.topic in {*QUESTION_TOPICS, *ANSWER_TOPICS}
    return isinstance(event, PlanAccepted | StepFinished)
