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
from wavewright.engine.daemon.answers import StoredAnswers, discard_stale_answers
from wavewright.engine.daemon.day import DailyBudget, format_instant
from wavewright.engine.daemon.feedback import job_feedback, target_validation
from wavewright.engine.daemon.job_documents import job_document, job_name
from wavewright.engine.daemon.model_circuit import ModelCircuitBreaker
from wavewright.engine.daemon.outbox_journal import OutboxJournal
from wavewright.engine.daemon.reports import Reporter, shorten_reason
from wavewright.engine.lasting_faults import PERMANENT_ERRORS, permanent_error_text
from wavewright.engine.operations.watch import Telemetry
from wavewright.engine.services import OpenServices
from wavewright.engine.session import run_request
from wavewright.engine.stopping import CancellationToken
from wavewright.executor.events import Event
from wavewright.executor.job_store.port import JobStore
from wavewright.executor.job_store.reception import FINAL_STATES
from wavewright.executor.job_store.records import JobChange, JobRow, OutgoingMessage
from wavewright.executor.journal import Journal
from wavewright.executor.journal_errors import (
    EventDamaged,
    EventUnwritable,
    JournalError,
    JournalStopped,
    RunLost,
)
from wavewright.planner.types import RunId

FIRST_RETRY_SECONDS: Final = 2.0
"""Seconds before a job whose attempt failed is begun again; twice as long after each further one."""
MAX_RETRY_SECONDS: Final = 300.0
_NO_MODEL_PREFIX: Final = "it waits for its model: "
"""How the reason of a job begins that waits until a model can be asked again."""
STORE_RETRY_SECONDS: Final = 5.0
"""Seconds before a job is begun again whose events could not be written."""


@dataclass(frozen=True, slots=True)
class JobRunner:
    """All that working on jobs takes."""

    settings: Settings
    journal: Journal
    jobs: JobStore
    open_services: OpenServices
    reporter: Reporter
    watch: Telemetry
    daily_budget: DailyBudget
    model_circuit: ModelCircuitBreaker
    wake_relay: Callable[[], None]
    """Called where something was put into the outbox."""
    clock: Callable[[], float]

    def note_store_state(self, fault: JournalError | None, *, wrote: bool = False) -> None:
        """Note whether the store can be used, and say so when it cannot.

        Raises:
            JournalStopped: it never can again in this process, which has to end.
        """
        if fault is None:
            self.watch.store.mark_worked(wrote=wrote)
        else:
            self.watch.store.mark_failed(fault)
        if isinstance(fault, JournalStopped):
            raise fault

    async def run_job(self, job: JobRow, stopper: CancellationToken) -> None:
        """Work on a job that was claimed here until it ends, parks or is stopped; what is said of it is durable.

        A store that cannot be written ends the attempt, and the job waits until somebody claims it again.
        """
        outbox = OutboxJournal(self.journal, job, self.reporter)
        try:
            change = await self._run_once(job, outbox, stopper)
            if not outbox.has_ended and change is not None:
                await self.jobs.change(change, self._reports_on_release)
        except RunLost as lost:
            # Another owner has it, and whatever this one knows is stale.
            self.watch.log.write("job_lost", "warning", job_id=job.job, error=lost)
        except (EventDamaged, EventUnwritable) as fault:
            # Of this run alone, and it will be there the next time, too.
            await self._release_job(self._retry_change(job, fault), job.run)
        except JournalError as fault:
            self.note_store_state(fault)
            wait = JobChange(
                job.job, "queued", reason="the store", not_before=self.clock() + STORE_RETRY_SECONDS
            )
            await self._release_job(wait, job.run)
        finally:
            if self.open_services.budget_store is not None:
                self.open_services.budget_store.limit_run(job.run, None)
        self.wake_relay()

    async def _run_once(
        self, job: JobRow, outbox: OutboxJournal, stopper: CancellationToken
    ) -> JobChange | None:
        answers = StoredAnswers(self.jobs, outbox, self.clock, job.run)

        @contextmanager
        def watching(name: str) -> Generator[Callable[[Event], None]]:
            with self.watch.observe_run(job.job, name) as watched:

                def on_event(event: Event) -> None:
                    watched(event)
                    if outbox.has_new_messages:
                        outbox.has_new_messages = False
                        self.wake_relay()

                yield on_event

        with (
            watching(job_name(job)) as on_event,
            self.daily_budget.stops_when_spent(job.run, stopper) as stopped_too,
        ):

            def people_of(run: RunId) -> tuple[StoredAnswers, StoredAnswers]:
                stopped_too(run)
                of_target = replace(answers, run=run)
                return of_target, of_target

            try:
                done = await run_request(
                    RunRequest(
                        job=job_document(job, self.settings),
                        run=job.run,
                        feedback=job_feedback(job, self.settings.daemon),
                    ),
                    settings=self.settings,
                    journal=outbox,
                    approver=answers,
                    asker=answers,
                    on_event=on_event,
                    stopper=stopper,
                    publish=outbox.set_package,
                    people_of=people_of,
                    watch_target=watching,
                    validation=target_validation(job, self.settings.daemon),
                    opened=self.open_services,
                    announces_calls=job.attempts > 1,
                )
            except JournalError:
                raise
            except PERMANENT_ERRORS as fault:
                return JobChange(job.job, "failed", reason=shorten_reason(permanent_error_text(fault)))
            except Exception as fault:  # noqa: BLE001 - the edge of a job: its fault is its own
                return self._retry_change(job, fault, stopper)
        return await self._outcome(job, done.context, outbox, stopper)

    async def _outcome(
        self, job: JobRow, context: RunContext, outbox: OutboxJournal, stopper: CancellationToken
    ) -> JobChange | None:
        """Return how a job stands whose run has returned; none where the run's end has said it."""
        if outbox.has_ended:
            return None
        if stopper.is_cancelled:
            return self._stopped_change(job)
        if outbox.open_decisions:
            await discard_stale_answers(self.jobs, outbox)
            return JobChange(job.job, "parked", reason=shorten_reason(outbox.open_decisions[0].question))
        if outbox.awaits_verdicts:
            return JobChange(job.job, "awaiting", reason="packages of targets await their verdicts")
        finished = context.state.finished
        return JobChange(
            job.job, "failed", reason=shorten_reason(finished.reason if finished else "it has no end")
        )

    def _reports_on_release(self, job: JobRow) -> Sequence[OutgoingMessage]:
        """Return what is told of a job that is given up before its end, and of one that could not be begun."""
        if (
            job.state == "queued"
            and job.not_before is not None
            and job.not_before == self.daily_budget.paused_until
        ):
            why = f"the budget of the day is spent; it goes on at {format_instant(job.not_before)}"
            return (
                self.reporter.status(job, "JOB_PAUSED", job.state_since, repr(job.state_since), reason=why),
            )
        if job.state == "queued" and job.reason.startswith(_NO_MODEL_PREFIX):
            return (
                self.reporter.status(
                    job, "JOB_PAUSED", job.state_since, repr(job.state_since), reason=job.reason
                ),
            )
        return self.reporter.state_reports(job) if job.state in FINAL_STATES else ()

    def _stopped_change(self, job: JobRow) -> JobChange:
        opened = self.model_circuit.open_circuit
        if self.daily_budget.paused_until is None and opened is not None:
            reason = shorten_reason(f"{_NO_MODEL_PREFIX}{opened.reason}")
            return JobChange(job.job, "queued", reason=reason, not_before=opened.until)
        return JobChange(job.job, "queued", reason="stopped", not_before=self.daily_budget.paused_until)

    def _retry_change(
        self, job: JobRow, fault: Exception, stopper: CancellationToken | None = None
    ) -> JobChange:
        self.watch.log.write("error", "error", job_id=job.job, error=fault, retry_count=job.attempts)
        if stopper is not None and stopper.is_cancelled:
            # The stop may have brought it about, so the attempt does not count against the job.
            return self._stopped_change(job)
        wait = min(FIRST_RETRY_SECONDS * 2 ** max(0, job.attempts - 1), MAX_RETRY_SECONDS)
        return JobChange(
            job.job,
            "queued",
            reason=shorten_reason(f"{type(fault).__name__}: {fault}"),
            not_before=self.clock() + wait,
            is_failed_attempt=True,
        )

    async def _release_job(self, change: JobChange, run: RunId) -> None:
        """Let go of a job whose events cannot be written or read, so that it can be claimed again."""
        try:
            await self.jobs.change(change)
        except JournalError:
            # Its hold is let go without a word; whoever claims next finds it without an owner.
            with suppress(JournalError):
                await self.journal.close_run(run)
