"""Runs one claimed job until it ends, waits, or is stopped.

Its run starts, or continues from its journal. The run's end changes the job's state in the same
transaction; the runner changes it only where the run does not end: stopped, waiting for a person or
a verdict, or failed to start. An error of one job never ends the daemon.

A run's questions are answered from the job store, where people may answer days later. Without an
answer the run stops and its job waits. An answer is marked as used in the transaction in which the
run journals it, so it is used once, and an approval only for exactly what was asked.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

import anyio

from wavewright.config import Settings, WavewrightError, exit_codes
from wavewright.config.sections import DaemonSection
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import Feedback, RunContext
from wavewright.engine.run.decisions.approvals import APPROVE, matches_binding
from wavewright.engine.run.permanent_errors import PERMANENT_ERRORS, permanent_error_text
from wavewright.engine.run.pipeline.phase import PhaseEvent
from wavewright.engine.run.ports import (
    Approval,
    ApprovalRequest,
    Attempt,
    Means,
    PackageValidation,
    PackageVerdict,
    People,
    Ports,
    TargetPorts,
)
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.target_waves import TARGET_COMPLETED, TARGET_FAILED, target_runs
from wavewright.engine.service.daemon.budgets import (
    DaemonBudgetStore,
    DailyBudget,
    format_instant,
    job_cycles,
)
from wavewright.engine.service.daemon.maintenance import CheckpointWriter
from wavewright.engine.service.daemon.model_circuit import ModelCircuitBreaker
from wavewright.engine.service.daemon.note_projection import MAX_QUESTION_LENGTH
from wavewright.engine.service.daemon.outbox import OutboxJournal
from wavewright.engine.service.daemon.reports import Reporter, shorten_reason
from wavewright.engine.service.daemon.trials import (
    SURVIVED_SECONDS,
    SUSPICIOUS_DEATHS,
    Suspect,
    TrialResult,
    clearing_note,
    describe_guilt,
    suspects_of,
    try_call,
)
from wavewright.engine.service.job_store.records import Decision, JobChange, JobRow, OutgoingMessage
from wavewright.engine.service.job_store.rules import FINAL_STATES
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages.decoding import target_of, trace_of
from wavewright.engine.service.messages.models import package_id
from wavewright.engine.service.operations.monitoring import Telemetry
from wavewright.engine.service.requested_jobs import job_name, run_of_request
from wavewright.executor import (
    Event,
    Journal,
    JournalError,
    Noted,
    RunFinished,
    RunLost,
    StepFinished,
    fold,
)
from wavewright.executor.store.errors import EventDamaged, EventUnwritable, JournalStopped
from wavewright.executor.store.journal import LeftAnswer
from wavewright.planner import RunId, UserQuestion
from wavewright.tools import Services


def job_feedback(job: JobRow, section: DaemonSection) -> Feedback | None:
    """Return the feedback on a job's last package where that was rejected; else None."""
    verdict = job.feedback[-1] if job.feedback else None
    if verdict is None or verdict.accepted or verdict.iteration != job.iteration:
        return None
    return Feedback(
        verdict.package, verdict.iteration, verdict.feedback, section.validation.iterations
    )


def target_validation(job: JobRow, section: DaemonSection) -> PackageValidation:
    """Return the validation of the packages of a job's targets, with the verdicts so far."""
    verdicts = {verdict.package: verdict for verdict in job.feedback}

    def verdict_on(target: str, iteration: int) -> PackageVerdict | None:
        package = package_id(job.job, iteration, target)
        if (verdict := verdicts.get(package)) is None:
            return None
        return PackageVerdict(verdict.accepted, package, iteration, verdict.feedback)

    return PackageValidation(section.validation.iterations, verdict_on)


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """Answers of people from the job store, for the approvals and questions of one run."""

    jobs: JobStore
    journal: OutboxJournal
    clock: Callable[[], float]
    run: RunId
    """The job's run, or that of one of its targets."""
    are_given: bool = True
    """Whether people answer at all; without them every approval is refused."""

    async def ask(self, question: UserQuestion) -> str | None:
        """Return the answer to the run's open question; None where there is none yet, or it is
        another question.
        """
        decision = self.journal.open_decision_of(self.run)
        text = question.question[:MAX_QUESTION_LENGTH]
        if decision is None or decision.subject != "question" or decision.question != text:
            return None
        answered = await self._stored_answer(decision)
        return None if answered is None else answered.choice

    async def approve(self, request: ApprovalRequest) -> Approval | None:
        """Return whether exactly this plan or patch was approved or refused; None where there is no
        answer.
        """
        if not self.are_given:
            return Approval(
                approved=False, reason="nobody answers here: `daemon.decisions` is false"
            )
        decision = self.journal.open_decision_of(self.run)
        if (
            decision is None
            or decision.subject != request.subject
            or not matches_binding(decision.binding, request.binding)
        ):
            return None
        answered = await self._stored_answer(decision)
        if answered is None:
            return None
        return Approval(answered.choice == APPROVE, by=answered.by or "")

    async def find_answer(self, run: RunId, nonce: str) -> LeftAnswer | None:
        """Return the answer to the run's open question, as far as there is one."""
        decision = self.journal.open_decision_of(run)
        answered = None if decision is None else await self._stored_answer(decision)
        if answered is None or answered.choice is None:
            return None
        return LeftAnswer(nonce, answered.choice, answered.by or "")

    async def _stored_answer(self, decision: Decision) -> Decision | None:
        known = await self.jobs.find_decision(decision.id)
        if known is None or known.used is not None or self._has_expired(known):
            return None
        return None if known.choice is None else known

    def _has_expired(self, decision: Decision) -> bool:
        """Return whether the answer came too late; one that came in time counts however long its
        job waited for a slot.
        """
        answered = self.clock() if decision.answered is None else decision.answered
        return decision.expires is not None and answered >= decision.expires


async def discard_stale_answers(jobs: JobStore, journal: OutboxJournal) -> None:
    """Mark answers to questions that are not open any more as used, since an unused answer would
    queue the job.
    """
    open_ids = {decision.id for decision in journal.open_decisions}
    for decision in await jobs.list_decisions(is_open=False, job=journal.job):
        if decision.used is None and decision.id not in open_ids:
            await jobs.take_answer(decision.id)


FIRST_RETRY_SECONDS: Final = 2.0
"""Seconds before the next attempt of a job; twice as long after each that failed."""
MAX_RETRY_SECONDS: Final = 300.0
STORE_RETRY_SECONDS: Final = 5.0
"""Seconds before the next attempt of a job whose events could not be written."""
STOPPED: Final = "stopped"
"""Reason of a job that is queued because its daemon was asked to stop."""


class ProcessExhausted(WavewrightError):
    """The daemon's process has no memory or no file descriptors left, whoever took them: it fails
    sound jobs, and only a new process helps.
    """

    exit_code = exit_codes.ENVIRONMENT


def is_out_of_resources(fault: BaseException) -> bool:
    """Whether a process that raises this has no memory, threads or file descriptors left."""
    if isinstance(fault, BaseExceptionGroup):
        parts = cast("BaseExceptionGroup[BaseException]", fault).exceptions
        return any(map(is_out_of_resources, parts))
    if isinstance(fault, OSError):
        return fault.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
    return isinstance(fault, MemoryError) or str(fault) == "can't start new thread"


@dataclass(frozen=True, slots=True)
class JobRelease:
    """How a job stands that is worked on no more."""

    change: JobChange
    pause: str = ""
    """Why it pauses, which its sender is told; empty where it is queued for another reason."""


def budget_spent_until(day_ends: float) -> str:
    """Return why a job pauses until there are tokens again."""
    return f"the day's budget is spent; the job continues at {format_instant(day_ends)}"


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Runs jobs, with the daemon's stores, models, reports and telemetry."""

    settings: Settings
    journal: Journal
    jobs: JobStore
    services: Services
    reporter: Reporter
    watch: Telemetry
    daily_budget: DailyBudget
    model_circuit: ModelCircuitBreaker
    wake_relay: Callable[[], None]
    """Called when messages were written to the outbox."""
    clock: Callable[[], float]
    budget_store: DaemonBudgetStore | None = None
    """Counts the calls of a standing job for its cycles; needed where the settings have one."""
    checkpoints: CheckpointWriter | None = None
    """Copies the progress of jobs; None where the pack or the project has no place for it."""
    trial_turn: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while the process of a trial starts: one at a time, so that trials after a death of the
    machine do not slow each other down until the next one.
    """

    def note_store_state(self, fault: JournalError | None, *, wrote: bool = False) -> None:
        """Report whether the store works, and whether something was written.

        Raises:
            JournalStopped: this process cannot use the store again and must end.
        """
        if fault is None:
            self.watch.store.mark_worked(wrote=wrote)
            return
        self.watch.store.mark_failed(fault)
        if isinstance(fault, JournalStopped):
            raise fault

    async def run_job(self, job: JobRow, cancellation: CancellationToken) -> None:
        """Run a job that was claimed here until it ends, waits or is stopped, and release it.

        Where the store cannot be written the attempt ends, and the job waits until a daemon claims
        it again.
        """
        outbox = OutboxJournal(self.journal, job, self.reporter)
        try:
            release = await self._try_suspects(job, cancellation)
            if release is None:
                release = await self._run_once(job, outbox, cancellation)
            if not outbox.has_ended and release is not None:
                reports = partial(self._reports_on_release, release.pause)
                await self.jobs.change(release.change, reports)
        except RunLost as lost:
            # Another daemon has it.
            self.watch.log.write("job_lost", "warning", job_id=job.job, error=lost)
        except (EventDamaged, EventUnwritable) as fault:
            # An error of this run alone, which the next attempt has, too.
            await self._release_job(self._retry(job, fault).change, job.run)
        except JournalError as fault:
            self.note_store_state(fault)
            wait = JobChange(
                job.job, "queued", reason="the store", not_before=self.clock() + STORE_RETRY_SECONDS
            )
            await self._release_job(wait, job.run)
        finally:
            if self.services.budget_store is not None:
                self.services.budget_store.limit_run(job.run, None)
        self.wake_relay()

    async def _try_suspects(
        self, job: JobRow, cancellation: CancellationToken
    ) -> JobRelease | None:
        """Try the calls that were in flight at several deaths of a process, or were cut off by
        several stops, each alone.

        Returns:
            The end of the job where one is guilty, or that it is put off where the daemon stops;
            None where the job may go on.
        """
        # A call that another process makes has not ended this one.
        is_local = self.settings.fleet is None and self.settings.runtime is None
        may_have_suspects = job.attempts > SUSPICIOUS_DEATHS or job.reason == STOPPED
        if not may_have_suspects or not is_local:
            return None
        suspects = await self._suspects(job)
        for suspect in suspects:
            self.watch.log.write(
                "call_tried", "warning", job_id=job.job, step=suspect.step, run=suspect.run
            )
            results = list[TrialResult]()
            # A death before the call is made says nothing about the job; one during it counts, for
            # a call that always takes the daemon with it must not be tried for ever.
            await self._count_attempts(job, job.attempts - 1)
            with cancellation.scope():
                results.append(await self._try_in_turn(job, suspect))
                if results[0].is_guilty:
                    # The daemon must outlive it, and not be asked to stop as the trial was.
                    await anyio.sleep(SURVIVED_SECONDS)
            if not results or cancellation.is_draining or cancellation.is_cancelled:
                return self._stopped(job)
            [result] = results
            if result.is_guilty:
                reason = shorten_reason(describe_guilt(result))
                return JobRelease(JobChange(job.job, "dead", reason=reason))
            if result.outcome != "unproven":
                await self._clear(job, result.suspect)
        if suspects:
            await self._count_attempts(job, job.attempts)
        return None

    async def _try_in_turn(self, job: JobRow, suspect: Suspect) -> TrialResult:
        """Try one call; no other process of a trial starts before the call is made."""
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self.trial_turn)

            async def note_call() -> None:
                await self._count_attempts(job, job.attempts)
                # The call may be long, and the calls of others must not wait for it.
                await turn.aclose()

            return await try_call(self.settings, job.job, suspect, note_call)

    async def _count_attempts(self, job: JobRow, attempts: int) -> None:
        await self.jobs.change(JobChange(job.job, "running", attempts=attempts))

    async def _suspects(self, job: JobRow) -> list[Suspect]:
        events = await self.journal.load(job.run)
        suspects = suspects_of(job.run, events)
        for run in target_runs(fold(events)):
            suspects += suspects_of(run, await self.journal.load(run))
        return suspects

    async def _clear(self, job: JobRow, suspect: Suspect) -> None:
        """Journal that a call has come back, so that its deaths count no more."""
        is_of_target = suspect.run != job.run
        if is_of_target:
            await self.journal.open_run(suspect.run)
        try:
            await self.journal.append(suspect.run, [clearing_note(suspect, self.clock())])
        finally:
            if is_of_target:
                await self.journal.close_run(suspect.run)

    async def _run_once(
        self, job: JobRow, outbox: OutboxJournal, cancellation: CancellationToken
    ) -> JobRelease | None:
        asks_people = self.settings.daemon.decisions
        answers = StoredAnswers(self.jobs, outbox, self.clock, job.run, asks_people)
        cycles = job_cycles(job, self.settings.daemon, self.clock, cancellation, self.watch.log)
        own = job_name(job)
        runs = {job.run}  # and those of its targets

        @contextmanager
        def watching(name: str) -> Generator[Callable[[Event | PhaseEvent], None]]:
            with self.watch.observe_run(job.job, name, trace_of(job)) as watched:

                def on_event(event: Event | PhaseEvent) -> None:
                    watched(event)
                    self._copy_progress(
                        outbox, event, target_of(job) or name if name == own else name
                    )
                    if outbox.has_new_messages:
                        outbox.has_new_messages = False
                        self.wake_relay()

                yield on_event

        with (
            watching(own) as on_event,
            self.daily_budget.stops_when_spent(job.run, cancellation) as stop_with_job,
        ):

            def people_for_run(run: RunId) -> tuple[StoredAnswers, StoredAnswers]:
                runs.add(run)
                stop_with_job(run)
                if cycles is not None and self.budget_store is not None:
                    self.budget_store.count_for_cycle(run, cycles)
                of_target = replace(answers, run=run)
                return of_target, of_target

            try:
                done = await run_job(
                    run_of_request(job, self.settings, job_feedback(job, self.settings.daemon)),
                    Ports(
                        attempt=Attempt(
                            journal=outbox,
                            on_event=on_event,
                            cancellation=cancellation,
                            announces_calls=job.attempts > 1 or job.reason == STOPPED,
                        ),
                        means=Means(settings=self.settings, services=self.services),
                        people=People(
                            approver=answers,
                            asker=answers,
                            can_ask=asks_people,
                            can_answer=asks_people,
                            find_answer=answers.find_answer,
                        ),
                        targets=TargetPorts(
                            people_for_run=people_for_run,
                            observe=watching,
                            validation=target_validation(job, self.settings.daemon),
                            cycles=cycles,
                        ),
                        on_phase=on_event,
                        find_cancel_request=self.jobs.find_cancel_request,
                        publish=outbox.set_package,
                    ),
                )
            except JournalError:
                raise
            except PERMANENT_ERRORS as fault:
                reason = permanent_error_text(fault)
                self.watch.log.write("error", "error", job_id=job.job, error=fault, message=reason)
                return await self._fail(job, outbox, reason)
            except Exception as fault:
                if is_out_of_resources(fault):
                    raise ProcessExhausted(
                        "the daemon has no memory, threads or file descriptors left",
                        hint="the next one continues its jobs, and tries suspected calls alone",
                    ) from fault
                retry = self._retry(job, fault)
                # A stop may be the cause, so that the attempt does not count as failed.
                return self._stopped(job, runs) if cancellation.is_cancelled else retry
            finally:
                if cycles is not None and self.budget_store is not None:
                    self.budget_store.end_attempt(cycles)
        if cycles is not None and cycles.resumes_at is not None and not outbox.open_decisions:
            return None if outbox.has_ended else self._next_cycle(job, cycles.resumes_at)
        return await self._outcome(job, done.context, outbox, cancellation, runs)

    def _next_cycle(self, job: JobRow, starts_at: float) -> JobRelease:
        """Return the release of a standing job between two cycles."""
        cycle = f"the next cycle starts at {format_instant(starts_at)}"
        day_ends = self.daily_budget.paused_until
        change = JobChange(job.job, "queued", reason=cycle, not_before=starts_at)
        # Where the day has no tokens left either, that is what the job waits for in the end.
        if day_ends is not None and day_ends >= starts_at:
            return JobRelease(change, budget_spent_until(day_ends))
        return JobRelease(change, cycle)

    async def _outcome(
        self,
        job: JobRow,
        context: RunContext,
        outbox: OutboxJournal,
        cancellation: CancellationToken,
        runs: Collection[RunId],
    ) -> JobRelease | None:
        """Return the release of a job whose run has returned; None where the run's end has changed
        it.
        """
        if outbox.has_ended:
            return None
        if cancellation.is_cancelled:
            return self._stopped(job, runs)
        if outbox.open_decisions:
            await discard_stale_answers(self.jobs, outbox)
            question = outbox.open_decisions[0].question
            if not self.settings.daemon.decisions:
                reason = (
                    f"nobody answers here (`daemon.decisions` is false), and it asks: {question}"
                )
                return _failed(job, reason)
            return JobRelease(JobChange(job.job, "waiting", reason=shorten_reason(question)))
        if outbox.awaits_verdicts:
            reason = "packages of targets wait for their verdicts"
            return JobRelease(JobChange(job.job, "validating", reason=reason))
        finished = context.state.finished
        return _failed(job, finished.reason if finished else "the run has not ended")

    async def _fail(self, job: JobRow, outbox: OutboxJournal, reason: str) -> JobRelease | None:
        """Return the release of a job that no further attempt helps.

        A run that has begun stays as it is, to be resumed once the cause is mended. One that could
        not begin gets the end of its job: nobody could resume it, and it would be listed as
        interrupted for ever.
        """
        if await self.journal.load(job.run):
            return _failed(job, reason)
        ended = RunFinished(self.clock(), "failed", shorten_reason(reason))
        await outbox.append(job.run, [ended])
        return None

    def _copy_progress(self, outbox: OutboxJournal, event: Event | PhaseEvent, name: str) -> None:
        """Have the job's progress copied after a step, and where one of its targets has ended."""
        if self.checkpoints is None:
            return
        if isinstance(event, Noted) and event.topic in {TARGET_COMPLETED, TARGET_FAILED}:
            self.checkpoints.note(outbox.progress(str(event.body["target"])))
        elif isinstance(event, StepFinished):
            self.checkpoints.note(outbox.progress(name))

    def _reports_on_release(self, pause: str, job: JobRow) -> Sequence[OutgoingMessage]:
        """Return the messages about a job that is released: that it is paused, or that it has
        failed.
        """
        if job.state in FINAL_STATES:
            return self.reporter.state_reports(job)
        if job.state != "queued" or not pause:
            return ()
        at = job.state_since
        return (self.reporter.status(job, "JOB_PAUSED", at, repr(at), reason=pause),)

    def _stopped(self, job: JobRow, runs: Collection[RunId] = ()) -> JobRelease:
        """Return the release of a job that was stopped from outside, by a spent budget, or because
        the model of one of its runs does not answer.
        """
        day_ends = self.daily_budget.paused_until
        if day_ends is not None:
            spent = budget_spent_until(day_ends)
            # Without an instant: who raises the budget does not wait for midnight. No daemon begins
            # a job while the day's budget is spent.
            return JobRelease(JobChange(job.job, "queued", reason=spent), spent)
        opened = self.model_circuit.circuit_that_stopped(runs)
        if opened is not None:
            reason = shorten_reason(f"it waits for its model: {opened.reason}")
            change = JobChange(job.job, "queued", reason=reason, not_before=opened.until)
            return JobRelease(change, reason)
        return JobRelease(JobChange(job.job, "queued", reason=STOPPED))

    def _retry(self, job: JobRow, fault: Exception) -> JobRelease:
        """Log that an attempt of a job has failed, and return the release of the job; the next one
        begins after a wait.
        """
        self.watch.log.write(
            "error", "error", job_id=job.job, error=fault, retry_count=job.failures + 1
        )
        wait = min(FIRST_RETRY_SECONDS * 2**job.failures, MAX_RETRY_SECONDS)
        change = JobChange(
            job.job,
            "queued",
            reason=shorten_reason(f"{type(fault).__name__}: {fault}"),
            not_before=self.clock() + wait,
            is_failed_attempt=True,
        )
        return JobRelease(change)

    async def _release_job(self, change: JobChange, run: RunId) -> None:
        """Release a job whose events cannot be written or read, so that it can be claimed again."""
        try:
            await self.jobs.change(change)
        except JournalError:
            # Without its lease the next claim finds the job without an owner.
            with suppress(JournalError):
                await self.journal.close_run(run)


def _failed(job: JobRow, reason: str) -> JobRelease:
    return JobRelease(JobChange(job.job, "failed", reason=shorten_reason(reason)))
