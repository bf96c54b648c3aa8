"""One job, from the moment it is claimed to the moment it is given up.

Its run begins, or goes on where its journal ends. A job ends with its run, in one transaction; what is said here is
only what a run cannot say itself: that it was stopped, that it waits for a person, that it could not even begin. A
fault of one job never ends the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from wavewright.config.settings import Settings
from wavewright.engine.context import RunContext, RunRequest
from wavewright.engine.daemon.answers import Answers, drop_stale
from wavewright.engine.daemon.day import Day, instant
from wavewright.engine.daemon.feedback import feedback_of, validation_of
from wavewright.engine.daemon.job_documents import document_of, name_of
from wavewright.engine.daemon.model_circuit import ModelCircuit
from wavewright.engine.daemon.outbox_journal import OutboxJournal
from wavewright.engine.daemon.reports import Reporter, shortened
from wavewright.engine.lasting_faults import LASTING_FAULTS, told
from wavewright.engine.operations.watch import Watch
from wavewright.engine.services import OpenServices
from wavewright.engine.session import run_request
from wavewright.engine.stopping import Stopper
from wavewright.executor.events import Event
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.reception import ENDED
from wavewright.executor.job_store.records import JobChange, JobRow, Outgoing
from wavewright.executor.journal import Journal
from wavewright.executor.journal_errors import (
    EventDamaged,
    EventUnwritable,
    JournalError,
    JournalStopped,
    RunLost,
)
from wavewright.planner.types import RunId

FIRST_WAIT: Final = 2.0
"""Seconds before a job whose attempt failed is begun again; twice as long after each further one."""
LONGEST_WAIT: Final = 300.0
_NO_MODEL: Final = "it waits for its model: "
"""How the reason of a job begins that waits until a model can be asked again."""
STORE_WAIT: Final = 5.0
"""Seconds before a job is begun again whose events could not be written."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """All that working on jobs takes."""

    settings: Settings
    journal: Journal
    jobs: JobStore
    opened: OpenServices
    reporter: Reporter
    watch: Watch
    day: Day
    circuit: ModelCircuit
    nudge: Callable[[], None]
    """Called where something was put into the outbox."""
    clock: Callable[[], float]

    def on_store(self, fault: JournalError | None, *, wrote: bool = False) -> None:
        """Note whether the store can be used, and say so when it cannot.

        Raises:
            JournalStopped: it never can again in this process, which has to end.
        """
        if fault is None:
            self.watch.store.worked(wrote=wrote)
        else:
            self.watch.store.failed(fault)
        if isinstance(fault, JournalStopped):
            raise fault

    async def work_on(self, job: JobRow, stopper: Stopper) -> None:
        """Work on a job that was claimed here until it ends, parks or is stopped; what is said of it is durable.

        A store that cannot be written ends the attempt, and the job waits until somebody claims it again.
        """
        outbox = OutboxJournal(self.journal, job, self.reporter)
        try:
            change = await self._attempt(job, outbox, stopper)
            if not outbox.has_ended and change is not None:
                await self.jobs.change(change, self._tell)
        except RunLost as lost:
            # Another owner has it, and whatever this one knows is stale.
            self.watch.log.say("job_lost", "warning", job_id=job.job, error=lost)
        except (EventDamaged, EventUnwritable) as fault:
            # Of this run alone, and it will be there the next time, too.
            await self._give_up(self._put_off(job, fault), job.run)
        except JournalError as fault:
            self.on_store(fault)
            wait = JobChange(job.job, "queued", reason="the store", not_before=self.clock() + STORE_WAIT)
            await self._give_up(wait, job.run)
        finally:
            if self.opened.purse is not None:
                self.opened.purse.limit_run(job.run, None)
        self.nudge()

    async def _attempt(self, job: JobRow, outbox: OutboxJournal, stopper: Stopper) -> JobChange | None:
        answers = Answers(self.jobs, outbox, self.clock, job.run)

        @contextmanager
        def watching(name: str) -> Generator[Callable[[Event], None]]:
            with self.watch.run(job.job, name) as watched:

                def on_event(event: Event) -> None:
                    watched(event)
                    if outbox.has_told:
                        outbox.has_told = False
                        self.nudge()

                yield on_event

        with watching(name_of(job)) as on_event, self.day.stopping(job.run, stopper) as stopped_too:

            def people_of(run: RunId) -> tuple[Answers, Answers]:
                stopped_too(run)
                of_target = replace(answers, run=run)
                return of_target, of_target

            try:
                done = await run_request(
                    RunRequest(
                        job=document_of(job, self.settings),
                        run=job.run,
                        feedback=feedback_of(job, self.settings.daemon),
                    ),
                    settings=self.settings,
                    journal=outbox,
                    approver=answers,
                    asker=answers,
                    on_event=on_event,
                    stopper=stopper,
                    publish=outbox.keep,
                    people_of=people_of,
                    watch_target=watching,
                    validation=validation_of(job, self.settings.daemon),
                    opened=self.opened,
                    announces_calls=job.attempts > 1,
                )
            except JournalError:
                raise
            except LASTING_FAULTS as fault:
                return JobChange(job.job, "failed", reason=shortened(told(fault)))
            except Exception as fault:  # noqa: BLE001 - the edge of a job: its fault is its own
                return self._put_off(job, fault, stopper)
        return await self._standing(job, done.context, outbox, stopper)

    async def _standing(
        self, job: JobRow, context: RunContext, outbox: OutboxJournal, stopper: Stopper
    ) -> JobChange | None:
        """Return how a job stands whose run has returned; none where the run's end has said it."""
        if outbox.has_ended:
            return None
        if stopper.is_stopped:
            return self._stopped(job)
        if outbox.all_wanted:
            await drop_stale(self.jobs, outbox)
            return JobChange(job.job, "parked", reason=shortened(outbox.all_wanted[0].question))
        if outbox.awaits_verdicts:
            return JobChange(job.job, "awaiting", reason="packages of targets await their verdicts")
        finished = context.state.finished
        return JobChange(
            job.job, "failed", reason=shortened(finished.reason if finished else "it has no end")
        )

    def _tell(self, job: JobRow) -> Sequence[Outgoing]:
        """Return what is told of a job that is given up before its end, and of one that could not be begun."""
        if job.state == "queued" and job.not_before is not None and job.not_before == self.day.until:
            why = f"the budget of the day is spent; it goes on at {instant(job.not_before)}"
            return (self.reporter.status(job, "JOB_PAUSED", job.since, repr(job.since), reason=why),)
        if job.state == "queued" and job.reason.startswith(_NO_MODEL):
            return (self.reporter.status(job, "JOB_PAUSED", job.since, repr(job.since), reason=job.reason),)
        return self.reporter.tell(job) if job.state in ENDED else ()

    def _stopped(self, job: JobRow) -> JobChange:
        opened = self.circuit.opened
        if self.day.until is None and opened is not None:
            reason = shortened(f"{_NO_MODEL}{opened.reason}")
            return JobChange(job.job, "queued", reason=reason, not_before=opened.until)
        return JobChange(job.job, "queued", reason="stopped", not_before=self.day.until)

    def _put_off(self, job: JobRow, fault: Exception, stopper: Stopper | None = None) -> JobChange:
        self.watch.log.say("error", "error", job_id=job.job, error=fault, retry_count=job.attempts)
        if stopper is not None and stopper.is_stopped:
            # The stop may have brought it about, so the attempt does not count against the job.
            return self._stopped(job)
        wait = min(FIRST_WAIT * 2 ** max(0, job.attempts - 1), LONGEST_WAIT)
        return JobChange(
            job.job,
            "queued",
            reason=shortened(f"{type(fault).__name__}: {fault}"),
            not_before=self.clock() + wait,
            is_failed_attempt=True,
        )

    async def _give_up(self, change: JobChange, run: RunId) -> None:
        """Let go of a job whose events cannot be written or read, so that it can be claimed again."""
        try:
            await self.jobs.change(change)
        except JournalError:
            # Its hold is let go without a word; whoever claims next finds it without an owner.
            with suppress(JournalError):
                await self.journal.close_run(run)
