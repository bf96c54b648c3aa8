"""Rules of jobs and messages that every store applies, as pure functions.

*Reception*: a valid message is decided by what the store knows of the job or decision that it
names, within the transaction that reads it. The messages of a job lead to the same end in any order
and however often they are repeated: early ones are deferred, late or repeated ones change nothing,
and the first verdict or answer stands.

*Jobs*: each function takes a job and returns the changed one. A job's place in the queue is its
arrival, moved forward by its priority and back by its weight: it passes jobs of a lower priority
that came up to `SECONDS_PER_PRIORITY` earlier for each level between them, so that a job ages and
none waits for ever; a heavy job lets lighter ones pass that came a little later, by at most
`MAX_CLOCK_STEP_BACK` seconds.

*Attempts*: one that ends with its process is counted, one that fails by an error is counted apart,
and one that is put off (the daemon is stopped, a budget is spent) is not counted. How often a job's
process has ended says nothing about the job: that it ended while one call was in flight does, and
only a trial proves it (`daemon/trials.py`).

*Crash suspects*: the calls that may have ended a job's process are those that were in progress each
time when an attempt was cut off. A call stays suspected until it completes. Only starts of writing
calls are journaled by themselves, so from a job's second attempt on, and after a stop, every call is
*announced*: journaled before it is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias, assert_never

from wavewright.engine.service.job_store.records import (
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    OutgoingMessage,
    Receipt,
    ReceivedMessage,
    ReceptionView,
    VerdictGiven,
)
from wavewright.executor import (
    Event,
    ItemFinished,
    JournalError,
    Noted,
    StepFinished,
    StepStarted,
    new_run_id,
)
from wavewright.planner import RunId, StepKey

MAX_ATTEMPTS: Final = 50
"""Maximum attempts of a job that end with their process without any progress; after the last one it
becomes `dead`.
"""
MAX_FAILURES: Final = 5
"""Maximum attempts of a job that fail by an error; after the last one it becomes `dead`."""
ATTEMPT_PAUSES: tuple[float, ...] = (1.0, 10.0, 60.0, 300.0, 1800.0)
"""Seconds from the beginning of an attempt that ended with its process to the next one, by the
number of such attempts; the last also for all further ones.
"""
CALL_CLEARED: Final = "call_cleared"
"""Topic of the note that a suspected call has come back in a trial."""

ProjectJob: TypeAlias = Callable[[JobRow], Sequence[OutgoingMessage]]
"""Returns the messages that report the new state of a job; they go into the outbox in the same
transaction.

It must be pure and fast: it is called within the transaction, off the event loop, and perhaps
twice.
"""


def project_nothing(job: JobRow) -> Sequence[OutgoingMessage]:
    """Return no messages."""
    del job
    return ()


FINAL_STATES: Final[frozenset[JobState]] = frozenset({"completed", "failed", "dead", "cancelled"})
"""States of ended jobs, which never change."""


OPEN_STATES: Final[Sequence[JobState]] = ("queued", "running", "waiting", "validating")
"""States of jobs that have not ended."""


def receipt_for(message: ReceivedMessage, view: ReceptionView) -> Receipt:
    """Return the receipt of a received message."""
    if view.is_seen:
        return Receipt("ack_duplicate", "duplicate", "a message with this id was taken in before")
    match message.request:
        case JobRequested():
            return _receipt_for_job(view)
        case VerdictGiven():
            return _receipt_for_verdict(message.request, view)
        case DecisionMade():
            return receipt_for_answer(message.request, view, message.arrived)
        case _:
            assert_never(message.request)


def receipt_for_answer(
    answer: DecisionMade, view: ReceptionView, arrived: float | None = None
) -> Receipt:
    """Return the receipt of a person's answer, by message or command.

    An answer that came in time counts, however late it is read.
    """
    answered = view.now if arrived is None else min(arrived, view.now)
    decision = view.decision
    if decision is None:
        return Receipt("defer", "unknown_correlation", "no such decision is known here yet")
    if decision.choice is not None:
        return Receipt(
            "ack_duplicate", "duplicate", "the decision was answered before, and that answer stands"
        )
    if view.job is not None and view.job.state in FINAL_STATES:
        return Receipt("ignore_stale", "stale", f"the job of this decision is {view.job.state}")
    if decision.expires is not None and answered >= decision.expires:
        return Receipt("ignore_stale", "stale", "the time for this decision is over")
    if decision.subject != "question" and not answer.is_vouched_for:
        return Receipt(
            "dead_letter",
            "wrong_identity",
            "an approval is given by a signed message or by one whose sender the broker vouches for, "
            "or with `wavewright answer`",
        )
    if decision.options and answer.choice not in decision.options:
        return Receipt(
            "dead_letter", "bad_payload", "the choice is none of the options that were offered"
        )
    return Receipt("accept")


def receipt_for_deferred(message: ReceivedMessage, view: ReceptionView) -> Receipt:
    """Return the receipt of a deferred message, now that what it names is known or has changed.

    An answer may overtake its question, but an approval that was sent before its question is
    dropped, since its sender cannot have seen what it approves.
    """
    is_approval = view.decision is not None and view.decision.subject != "question"
    if isinstance(message.request, DecisionMade) and is_approval:
        return Receipt(
            "ignore_stale", "out_of_order", "the approval came before what it would approve"
        )
    return receipt_for(message, replace(view, is_seen=False))


def _receipt_for_job(view: ReceptionView) -> Receipt:
    # Who sends the request of a dead job again wants its run continued.
    if view.job is not None and view.job.state != "dead":
        return Receipt(
            "ack_duplicate", "duplicate_job", f"a job with this id is {view.job.state} here"
        )
    return Receipt("accept")


def _receipt_for_verdict(verdict: VerdictGiven, view: ReceptionView) -> Receipt:
    job = view.job
    heard = () if job is None else job.feedback
    # A verdict on a package that does not exist must not block the valid one, which may come later.
    known = {(earlier.iteration, earlier.package) for earlier in (*heard, *view.kept)}
    if (verdict.iteration, verdict.package) in known:
        return Receipt(
            "ack_duplicate", "duplicate", "this package has its verdict, and the first one stands"
        )
    if job is None:
        return Receipt("defer", "unknown_correlation", "no such job is known here yet")
    if job.state in FINAL_STATES:
        return Receipt("ignore_stale", "stale", f"the job is {job.state}")
    if (
        sent := next((package for package in job.sent if package.package == verdict.package), None)
    ) is not None:
        if verdict.iteration == sent.iteration:
            return Receipt("accept")
        return Receipt(
            "dead_letter", "unknown_correlation", f"that package is number {sent.iteration}"
        )
    if verdict.iteration < job.iteration:
        return Receipt(
            "ignore_stale", "stale", f"package {job.iteration} of this job is out by now"
        )
    if verdict.iteration > job.iteration:
        return Receipt(
            "defer", "out_of_order", f"of this job {job.iteration} packages are out so far"
        )
    if verdict.package != job.package:
        return Receipt(
            "dead_letter", "unknown_correlation", "that is not the package that this job has sent"
        )
    return Receipt("accept")


_SECONDS_PER_WEIGHT: Final = 1.0
"""Seconds by which a job is moved back for each unit of its weight."""
MAX_CLOCK_STEP_BACK: Final = 600.0
"""Maximum seconds by which a job is moved back, so that it never waits for ever."""


SECONDS_PER_PRIORITY: Final = 1_200.0
"""Seconds that a job has to wait until it has aged by one level of priority."""


def queue_rank(at: float, weight: float, priority: int = 0) -> float:
    """Return the place in the queue of a job that waits since `at`."""
    urgent = at - priority * SECONDS_PER_PRIORITY
    if not weight > 0:
        return urgent
    return urgent + min(weight * _SECONDS_PER_WEIGHT, MAX_CLOCK_STEP_BACK)


def choose_run_id(job: JobId, now: float, is_taken: Callable[[RunId], bool]) -> RunId:
    """Return an unused id for the job's root run; its tail is derived from the job's id."""
    tried = (new_run_id(now, _hash_bytes(f"{job}/{number}")) for number in count())
    return next(run for run in tried if not is_taken(run))


def _hash_bytes(text: str) -> Callable[[int], bytes]:
    """Return a source of bytes from a text's hash, in place of a random one."""
    digest = hashlib.sha256(text.encode()).digest()
    return lambda length: digest[:length]


def new_job(request: JobRequested, run: RunId, now: float) -> JobRow:
    """Return the job of a request."""
    job = JobRow(
        job=request.job,
        run=run,
        state="queued",
        request=request.request,
        received=now,
        weight=request.weight,
        state_since=now,
    )
    return replace(job, queue_rank=queue_rank(now, job.weight, job.priority))


def has_exhausted_attempts(job: JobRow) -> bool:
    """Return whether it has had all of its attempts."""
    return job.attempts >= MAX_ATTEMPTS or job.failures >= MAX_FAILURES


def attempt_is_due(attempts: int, since: float, now: float) -> bool:
    """Return whether a job whose process has ended may be begun again.

    Args:
        attempts: How many of its attempts have ended so.
        since: When the last one began.
        now: The current time; one before `since` is of a clock that went back.
    """
    if attempts < 1 or not ATTEMPT_PAUSES or now < since:
        return True
    pause = ATTEMPT_PAUSES[min(attempts, len(ATTEMPT_PAUSES)) - 1]
    return now >= since + pause


def begin_attempt(job: JobRow, now: float) -> JobRow:
    """Return the job with a new attempt, which is counted before its work."""
    return replace(
        job, state="running", attempts=job.attempts + 1, not_before=None, state_since=now
    )


def dead_letter(job: JobRow, now: float) -> JobRow:
    """Return the job as `dead`, with the reason."""
    if job.failures >= MAX_FAILURES:
        reason = f"started {job.failures} times, and failed each time"
    else:
        reason = f"started {job.attempts} times, and never finished"
    if job.reason:
        reason = f"{reason}; last reason: {job.reason}"
    return replace(job, state="dead", reason=reason, not_before=None, finished=now, state_since=now)


def can_apply_verdict(job: JobRow, verdict: VerdictGiven) -> bool:
    """Whether a valid verdict takes effect now; while the job runs it is deferred."""
    is_of_target = any(package.package == verdict.package for package in job.sent)
    # Verdicts on several targets may arrive before the job continues with the first.
    return job.state == "validating" or (is_of_target and job.state in {"waiting", "queued"})


def apply_verdict(job: JobRow, verdict: VerdictGiven, now: float) -> JobRow:
    """Return the job after a verdict that it awaited; one with several targets always continues."""
    sent = tuple(package for package in job.sent if package.package != verdict.package)
    is_of_target = sent != job.sent
    job = replace(
        job,
        feedback=(*job.feedback, verdict),
        sent=sent,
        attempts=0,
        failures=0,
        reason="",
        state_since=now,
    )
    if verdict.accepted and not is_of_target:
        return replace(job, state="completed", not_before=None, finished=now)
    return _enqueue(job, now)


def resume_job(job: JobRow, now: float) -> JobRow:
    """Return the job after an answer to its question: if it was waiting it is queued."""
    is_waiting = job.state == "waiting"
    return (
        _enqueue(replace(job, attempts=0, failures=0, reason="", state_since=now), now)
        if is_waiting
        else job
    )


def change_job(job: JobRow, change: JobChange, now: float) -> JobRow:
    """Return the job with a change by its owner.

    Raises:
        JournalError: it has another end.
    """
    if job.state in FINAL_STATES:
        if job.state == change.state:
            return job
        raise JournalError(
            f"job {job.job} is {job.state}; it cannot become {change.state}",
            place=f"job {job.job}, run {job.run}",
            hint="send the work again as a new job",
        )
    is_same = job.state == change.state
    attempts, failures = _counts_after(job, change)
    job = replace(
        job,
        state=change.state,
        reason=change.reason,
        iteration=job.iteration if change.iteration is None else change.iteration,
        package=job.package if change.package is None else change.package,
        sent=(*job.sent, *(package for package in change.sent if package not in job.sent)),
        not_before=change.not_before if change.state == "queued" else None,
        attempts=attempts,
        failures=failures,
        state_since=job.state_since if is_same else now,
        finished=now if change.state in FINAL_STATES else None,
    )
    return _enqueue(job, now, not_before=job.not_before) if change.state == "queued" else job


def _counts_after(job: JobRow, change: JobChange) -> tuple[int, int]:
    """Return the attempts that ended with their process, this one included, and those that failed."""
    match change.state:
        case "running" if change.has_advanced:
            return min(job.attempts, 1), 0
        case "running" if change.attempts is not None:
            return change.attempts, job.failures
        case "running" | "dead":
            return job.attempts, job.failures
        case "queued":
            # This one did not end with its process.
            return max(0, job.attempts - 1), job.failures + int(change.is_failed_attempt)
        case _:
            return 0, 0


def revive_job(job: JobRow, now: float) -> JobRow:
    """Return a dead job whose request is sent again: it continues with the run that it has."""
    job = replace(job, attempts=0, failures=0, reason="", finished=None, state_since=now)
    return _enqueue(job, now)


def _enqueue(job: JobRow, now: float, *, not_before: float | None = None) -> JobRow:
    since = now if not_before is None else max(now, not_before)
    rank = queue_rank(since, job.weight, job.priority)
    return replace(job, state="queued", not_before=not_before, queue_rank=rank)


_NO_CALLS: Final = frozenset[StepKey]()
_OUTSIDE_CALLS: Final = frozenset({StepKey("")})
"""Suspected if no call was in progress, as during planning; any step that ends clears it."""


@dataclass(frozen=True, slots=True)
class CrashSuspects:
    """The crash suspects of a run after some of its events."""

    calls: frozenset[StepKey] | None = _NO_CALLS
    """None if an attempt was cut off at unknown calls."""
    under_way: frozenset[StepKey] = _NO_CALLS
    """Announced calls of this attempt that have not ended."""
    announces: bool = False
    """Whether this attempt announces every call."""

    @property
    def is_empty(self) -> bool:
        """Whether no call is suspected."""
        return self.calls is not None and not self.calls

    def after(self, events: Iterable[Event]) -> CrashSuspects:
        """Return the suspects after further events."""
        blame = self
        for event in events:
            match event:
                case StepStarted(key=key) if key is not None:
                    blame = replace(blame, under_way=blame.under_way | {key})
                case StepFinished() | ItemFinished() if is_final(event):
                    ended = _OUTSIDE_CALLS if event.key is None else _OUTSIDE_CALLS | {event.key}
                    calls = None if blame.calls is None else blame.calls - ended
                    blame = replace(blame, calls=calls, under_way=blame.under_way - ended)
                case Noted(topic="call_cleared"):
                    cleared = {StepKey(str(event.body.get("key")))}
                    calls = None if blame.calls is None else blame.calls - cleared
                    blame = replace(blame, calls=calls, under_way=blame.under_way - cleared)
                case Noted(topic="resumed"):
                    blame = CrashSuspects(
                        _interrupted_calls(blame), announces=event.body.get("announced") is True
                    )
                case _:
                    pass
        return blame


def _interrupted_calls(blame: CrashSuspects) -> frozenset[StepKey] | None:
    """Return the suspects if the attempt ends here."""
    if not blame.announces:
        return None if blame.is_empty else blame.calls
    cut_off = blame.under_way or _OUTSIDE_CALLS
    return (
        cut_off if blame.calls is None or blame.calls <= _OUTSIDE_CALLS else blame.calls & cut_off
    )


def has_advanced(before: CrashSuspects, events: Iterable[Event], after: CrashSuspects) -> bool:
    """Whether these events are progress over the attempts that were cut off."""
    return after.is_empty and (not before.is_empty or any(map(is_final, events)))


def is_final(event: Event) -> bool:
    """Whether the event is the end of a step or an item that was not interrupted."""
    return isinstance(event, StepFinished | ItemFinished) and event.status != "cancelled"
