"""The verdicts that a job goes on with: on the package that it has sent last, or on those of its targets.

Whoever a job's run asks: people who answer through the job store, perhaps days later.

An answer that is there already is given; where there is none the run parks. It is taken in the transaction in which
the run journals it, so one answer is used once, and an approval only for exactly what was asked.

One job, from the moment it is claimed to the moment it is given up.

Its run begins, or goes on where its journal ends. A job ends with its run, in one transaction; what is said here is
only what a run cannot say itself: that it was stopped, that it waits for a person, that it could not even begin. A
fault of one job never ends the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from wavewright.config.sections import DaemonSection
from wavewright.config.settings import Settings
from wavewright.engine.daemon.daily_budget import DailyBudget, format_instant
from wavewright.engine.daemon.model_circuit import ModelCircuitBreaker
from wavewright.engine.daemon.note_projection import MAX_QUESTION_LENGTH
from wavewright.engine.daemon.outbox import OutboxJournal
from wavewright.engine.daemon.reports import Reporter, shorten_reason
from wavewright.engine.decisions.approvals import APPROVE, matches_binding
from wavewright.engine.jobs.job_requests import job_document, job_name
from wavewright.engine.messages.ids import package_id
from wavewright.engine.operations.monitoring import Telemetry
from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.engine.pipeline.context import (
    PERMANENT_ERRORS,
    ApprovalRequest,
    Feedback,
    PackageValidation,
    PackageVerdict,
    Ports,
    RunContext,
    RunRequest,
    permanent_error_text,
)
from wavewright.engine.pipeline.services import OpenServices
from wavewright.engine.session import run_request
from wavewright.executor.events.types import Event
from wavewright.executor.store.errors import (
    EventDamaged,
    EventUnwritable,
    JournalError,
    JournalStopped,
    RunLost,
)
from wavewright.executor.store.job_records import Decision, JobChange, JobRow, OutgoingMessage
from wavewright.executor.store.job_rules import FINAL_STATES
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.store.journal import Journal
from wavewright.planner.planning.planner import UserQuestion
from wavewright.planner.types import RunId


def job_feedback(job: JobRow, section: DaemonSection) -> Feedback | None:
    """Return what was said of a job's package; none where its last package is not out, or was not rejected."""
    verdict = job.feedback[-1] if job.feedback else None
    if verdict is None or verdict.accepted or verdict.iteration != job.iteration:
        return None
    return Feedback(verdict.package, verdict.iteration, verdict.feedback, section.validation.iterations)


def target_validation(job: JobRow, section: DaemonSection) -> PackageValidation:
    """Return who looks at the packages of a job's targets, with what was said of them so far."""
    said = {verdict.package: verdict for verdict in job.feedback}

    def verdict_on(target: str, iteration: int) -> PackageVerdict | None:
        package = package_id(job.job, iteration, target)
        verdict = said.get(package)
        return (
            None
            if verdict is None
            else PackageVerdict(verdict.accepted, package, iteration, verdict.feedback)
        )

    return PackageValidation(section.validation.iterations, verdict_on)


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """Approver and asker of one job."""

    jobs: JobStore
    journal: OutboxJournal
    clock: Callable[[], float]
    run: RunId
    """Whose questions are answered: the job's run, or that of one of its targets."""

    async def ask(self, question: UserQuestion) -> str | None:
        """Return what a person has answered to the question that the run waits with."""
        wanted = self.journal.open_decision_of(self.run)
        asked = question.question[:MAX_QUESTION_LENGTH]
        if wanted is None or wanted.subject != "question" or wanted.question != asked:
            return None
        return await self._stored_choice(wanted)

    async def approve(self, request: ApprovalRequest) -> bool | None:
        """Return a person's word for exactly this plan or patch."""
        wanted = self.journal.open_decision_of(self.run)
        if (
            wanted is None
            or wanted.subject != request.subject
            or not matches_binding(wanted.binding, request.binding)
        ):
            return None
        choice = await self._stored_choice(wanted)
        return None if choice is None else choice == APPROVE

    async def _stored_choice(self, wanted: Decision) -> str | None:
        known = await self.jobs.find_decision(wanted.id)
        if known is None or known.used is not None or self._has_expired(known):
            return None
        return known.choice

    def _has_expired(self, decision: Decision) -> bool:
        return decision.expires is not None and self.clock() >= decision.expires


async def discard_stale_answers(jobs: JobStore, journal: OutboxJournal) -> None:
    """Use up the answers to what a job asks no more: with one of them left it would never stay waiting."""
    wanted = {decision.id for decision in journal.open_decisions}
    for decision in await jobs.list_decisions(is_open=False, job=journal.job):
        if decision.used is None and decision.id not in wanted:
            await jobs.take_answer(decision.id)


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

    async def run_job(self, job: JobRow, cancellation: CancellationToken) -> None:
        """Work on a job that was claimed here until it ends, parks or is stopped; what is said of it is durable.

        A store that cannot be written ends the attempt, and the job waits until somebody claims it again.
        """
        outbox = OutboxJournal(self.journal, job, self.reporter)
        try:
            change = await self._run_once(job, outbox, cancellation)
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
        self, job: JobRow, outbox: OutboxJournal, cancellation: CancellationToken
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
            self.daily_budget.stops_when_spent(job.run, cancellation) as stopped_too,
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
                    Ports(
                        journal=outbox,
                        settings=self.settings,
                        services=self.open_services.services,
                        budget_store=self.open_services.budget_store,
                        approver=answers,
                        asker=answers,
                        on_event=on_event,
                        cancellation=cancellation,
                        publish=outbox.set_package,
                        people_for_run=people_of,
                        observe_target=watching,
                        validation=target_validation(job, self.settings.daemon),
                        announces_calls=job.attempts > 1,
                    ),
                )
            except JournalError:
                raise
            except PERMANENT_ERRORS as fault:
                return JobChange(job.job, "failed", reason=shorten_reason(permanent_error_text(fault)))
            except Exception as fault:  # noqa: BLE001 - the edge of a job: its fault is its own
                return self._retry_change(job, fault, cancellation)
        return await self._outcome(job, done.context, outbox, cancellation)

    async def _outcome(
        self, job: JobRow, context: RunContext, outbox: OutboxJournal, cancellation: CancellationToken
    ) -> JobChange | None:
        """Return how a job stands whose run has returned; none where the run's end has said it."""
        if outbox.has_ended:
            return None
        if cancellation.is_cancelled:
            return self._stopped_change(job)
        if outbox.open_decisions:
            await discard_stale_answers(self.jobs, outbox)
            return JobChange(job.job, "waiting", reason=shorten_reason(outbox.open_decisions[0].question))
        if outbox.awaits_verdicts:
            return JobChange(job.job, "validating", reason="packages of targets await their verdicts")
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
        self, job: JobRow, fault: Exception, cancellation: CancellationToken | None = None
    ) -> JobChange:
        self.watch.log.write("error", "error", job_id=job.job, error=fault, retry_count=job.attempts)
        if cancellation is not None and cancellation.is_cancelled:
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
