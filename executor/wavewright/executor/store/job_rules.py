"""What becomes of a message: one rule for every store.

A message that is sound in itself is judged by what the store knows of the job or the decision that it names. The rule
is pure, and a store asks it in the transaction in which it looked, so stores cannot differ, and the messages of a job
lead to one end in whatever order and however often they come: what comes early waits for its turn, what comes late or
again changes nothing, and the first verdict or answer stands.

How a job changes: one rule for every store.

Each function takes a job as it stands and returns it as it stands afterwards; none of them looks at a clock or a
database, so stores cannot differ. A job's *turn* is when it came, moved back by its weight: a heavy one lets lighter
ones pass that came a little later, and never waits longer than `LONGEST_STEP_BACK` for them.

Which calls may have ended a job's process: worked out from the events of a run.

The *blame* of a run is on the calls that were under way each time when an attempt was cut off. The call that ends its
process stays among them, however much else of the run comes to its end between; a run that somebody else's fault cuts
off brings those calls to their end, or is cut off at others. Only the start of a writing call is journaled by itself,
so from a job's second attempt on every call is *announced*: journaled before it is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias, assert_never

from wavewright.executor.events.types import Event, ItemFinished, Noted, StepFinished, StepStarted
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import (
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
from wavewright.executor.store.journal import new_run_id
from wavewright.planner.types import RunId, StepKey

MAX_ATTEMPTS: Final = 5
"""Times that a job is begun; one that did not say how it ended is `dead` after the last."""

ProjectJob: TypeAlias = Callable[[JobRow], Sequence[OutgoingMessage]]
"""Makes the messages that tell of a job as it stands from now on; they go into the outbox in the same transaction.

It is pure and quick: it is called within the transaction, off the event loop, and perhaps twice."""


def project_nothing(job: JobRow) -> Sequence[OutgoingMessage]:
    """Make no message."""
    del job
    return ()


FINAL_STATES: Final[frozenset[JobState]] = frozenset({"completed", "failed", "dead"})
"""A job that has ended stays so, whatever comes."""


def receipt_for(message: ReceivedMessage, view: ReceptionView) -> Receipt:
    """Say what becomes of a message that has just come in."""
    if view.is_seen:
        return Receipt("ack_duplicate", "duplicate", "a message with this id was taken in before")
    match message.request:
        case JobRequested():
            return _receipt_for_job(view)
        case VerdictGiven():
            return _receipt_for_verdict(message.request, view)
        case DecisionMade():
            return receipt_for_answer(message.request, view)
        case _:
            assert_never(message.request)


def receipt_for_answer(made: DecisionMade, view: ReceptionView) -> Receipt:
    """Say what becomes of a person's answer, however it came."""
    decision = view.decision
    if decision is None:
        return Receipt("defer", "unknown_correlation", "no such decision is known here yet")
    if decision.choice is not None:
        return Receipt(
            "ack_duplicate", "duplicate", "the decision was answered before, and that answer stands"
        )
    if view.job is not None and view.job.state in FINAL_STATES:
        return Receipt("ignore_stale", "stale", f"the job of this decision is {view.job.state}")
    if decision.expires is not None and view.now >= decision.expires:
        return Receipt("ignore_stale", "stale", "the time for this decision is over")
    if decision.subject != "question" and not made.is_vouched_for:
        return Receipt(
            "dead_letter",
            "wrong_identity",
            "an approval is given by a signed message or by one whose sender the broker vouches for, "
            "or with `wavewright answer`",
        )
    if decision.options and made.choice not in decision.options:
        return Receipt("dead_letter", "bad_payload", "the choice is none of the options that were offered")
    return Receipt("accept")


def receipt_for_deferred(message: ReceivedMessage, view: ReceptionView) -> Receipt:
    """Say what becomes of a message that was kept, now that what it names is known or has changed.

    An answer may overtake its question; but nobody approves what was not yet there to be seen, so an approval that
    was sent ahead is dropped.
    """
    is_approval = view.decision is not None and view.decision.subject != "question"
    if isinstance(message.request, DecisionMade) and is_approval:
        return Receipt("ignore_stale", "out_of_order", "the approval came before what it would approve")
    return receipt_for(message, replace(view, is_seen=False))


def _receipt_for_job(view: ReceptionView) -> Receipt:
    if view.job is not None:
        return Receipt("ack_duplicate", "duplicate_job", f"a job with this id is {view.job.state} here")
    return Receipt("accept")


def _receipt_for_verdict(verdict: VerdictGiven, view: ReceptionView) -> Receipt:
    if any(_is_same_package(verdict, earlier) for earlier in _known_verdicts(view)):
        return Receipt("ack_duplicate", "duplicate", "this package has its verdict, and the first one stands")
    job = view.job
    if job is None:
        return Receipt("defer", "unknown_correlation", "no such job is known here yet")
    if job.state in FINAL_STATES:
        return Receipt("ignore_stale", "stale", f"the job is {job.state}")
    if (sent := next((one for one in job.sent if one.package == verdict.package), None)) is not None:
        if verdict.iteration == sent.iteration:
            return Receipt("accept")
        return Receipt("dead_letter", "unknown_correlation", f"that package is number {sent.iteration}")
    if verdict.iteration < job.iteration:
        return Receipt("ignore_stale", "stale", f"package {job.iteration} of this job is out by now")
    if verdict.iteration > job.iteration:
        return Receipt("defer", "out_of_order", f"of this job {job.iteration} packages are out so far")
    if verdict.package != job.package:
        return Receipt("dead_letter", "unknown_correlation", "that is not the package that this job has sent")
    return Receipt("accept")


def _known_verdicts(view: ReceptionView) -> tuple[VerdictGiven, ...]:
    heard = view.job.feedback if view.job is not None else ()
    return (*heard, *view.kept)


def _is_same_package(verdict: VerdictGiven, earlier: VerdictGiven) -> bool:
    # One on a package that never was must not stand in the way of the true one, which may come after it.
    return (verdict.iteration, verdict.package) == (earlier.iteration, earlier.package)


SECONDS_PER_WEIGHT: Final = 1.0
"""How much later a job is taken for each unit of its weight."""
TRUSTED_ATTEMPTS: Final = 2
"""Attempts that may come to nothing before a job is suspected of ending its process."""
MAX_CLOCK_STEP_BACK: Final = 600.0
"""Seconds that the heaviest job is moved back, so that small ones cannot keep it waiting for ever."""


def queue_rank(at: float, weight: float) -> float:
    """Return the place in the queue of a job that has been waiting since then."""
    if not weight > 0:
        return at
    return at + min(weight * SECONDS_PER_WEIGHT, MAX_CLOCK_STEP_BACK)


def choose_run_id(job: JobId, now: float, is_taken: Callable[[RunId], bool]) -> RunId:
    """Return an id for the job's root run; its tail is made of the job's id."""
    tried = (new_run_id(now, _hash_bytes(f"{job}/{number}")) for number in count())
    return next(run for run in tried if not is_taken(run))


def _hash_bytes(text: str) -> Callable[[int], bytes]:
    """Return what gives the first bytes of a text's hash, where random ones are asked for."""
    digest = hashlib.sha256(text.encode()).digest()
    return lambda length: digest[:length]


def new_job(request: JobRequested, run: RunId, now: float) -> JobRow:
    """Return a job that has just come in."""
    return JobRow(
        job=request.job,
        run=run,
        state="queued",
        request=request.request,
        received=now,
        weight=request.weight,
        state_since=now,
        queue_rank=queue_rank(now, request.weight),
    )


def has_exhausted_attempts(job: JobRow) -> bool:
    """Return whether it was begun too often to be begun again."""
    return job.attempts >= MAX_ATTEMPTS


def is_poison_candidate(job: JobRow) -> bool:
    """Return whether it was there each time when a process ended, and may be why.

    One owner works on one such job at a time: its neighbours are cleared of it by advancing, and the one that ends
    its process takes none of them along.
    """
    return TRUSTED_ATTEMPTS <= job.attempts < MAX_ATTEMPTS


def begin_attempt(job: JobRow, now: float) -> JobRow:
    """Return the job as it is begun: the attempt counts before anything is done."""
    return replace(job, state="running", attempts=job.attempts + 1, not_before=None, state_since=now)


def dead_letter(job: JobRow, now: float) -> JobRow:
    """Return a worn-out job, dead."""
    reason = f"begun {job.attempts} times, and never came to an end"
    if job.reason:
        reason = f"{reason}; the last that it said: {job.reason}"
    return replace(job, state="dead", reason=reason, not_before=None, finished=now, state_since=now)


def can_apply_verdict(job: JobRow, verdict: VerdictGiven) -> bool:
    """Whether a verdict that fits has its effect now; one that comes while the job is worked on waits."""
    is_of_target = any(one.package == verdict.package for one in job.sent)
    # Verdicts on several targets may come before anybody goes on with the first.
    return job.state == "validating" or (is_of_target and job.state in {"waiting", "queued"})


def apply_verdict(job: JobRow, verdict: VerdictGiven, now: float) -> JobRow:
    """Return a job that awaited this verdict; one with several targets always goes on."""
    sent = tuple(one for one in job.sent if one.package != verdict.package)
    is_of_target = sent != job.sent
    job = replace(job, feedback=(*job.feedback, verdict), sent=sent, attempts=0, reason="", state_since=now)
    if verdict.accepted and not is_of_target:
        return replace(job, state="completed", not_before=None, finished=now)
    return _enqueue(job, now)


def resume_job(job: JobRow, now: float) -> JobRow:
    """Return a job whose question was answered: one that was waiting for it is queued."""
    return (
        _enqueue(replace(job, attempts=0, reason="", state_since=now), now) if job.state == "waiting" else job
    )


def change_job(job: JobRow, change: JobChange, now: float) -> JobRow:
    """Return a job as its owner says that it stands.

    Raises:
        JournalError: it has ended, and not so.
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
    job = replace(
        job,
        state=change.state,
        reason=change.reason,
        iteration=job.iteration if change.iteration is None else change.iteration,
        package=job.package if change.package is None else change.package,
        sent=(*job.sent, *(one for one in change.sent if one not in job.sent)),
        not_before=change.not_before if change.state == "queued" else None,
        attempts=_attempts_after(job, change),
        state_since=job.state_since if is_same else now,
        finished=now if change.state in FINAL_STATES else None,
    )
    return _enqueue(job, now, not_before=job.not_before) if change.state == "queued" else job


def _attempts_after(job: JobRow, change: JobChange) -> int:
    match change.state:
        case "running" if change.has_advanced:
            return min(job.attempts, 1)
        case "running" | "dead":
            return job.attempts
        case "queued":
            return job.attempts if change.is_failed_attempt else max(0, job.attempts - 1)
        case _:
            return 0


def _enqueue(job: JobRow, now: float, *, not_before: float | None = None) -> JobRow:
    waits_from = now if not_before is None else max(now, not_before)
    queued: JobState = "queued"
    return replace(job, state=queued, not_before=not_before, queue_rank=queue_rank(waits_from, job.weight))


_NO_CALLS: Final = frozenset[StepKey]()
_OUTSIDE_CALLS: Final = frozenset({StepKey("")})
"""Blamed where no call was under way, such as while the plan was made: any step that ends disproves it."""


@dataclass(frozen=True, slots=True)
class CrashSuspects:
    """The blame of one run after some of its events."""

    calls: frozenset[StepKey] | None = _NO_CALLS
    """None where an attempt was cut off and nobody knows at which calls."""
    under_way: frozenset[StepKey] = _NO_CALLS
    """Calls of this attempt that were announced and have not ended."""
    announces: bool = False
    """Whether this attempt announces every call."""

    @property
    def is_empty(self) -> bool:
        """Whether no call is to blame."""
        return self.calls is not None and not self.calls

    def after(self, events: Iterable[Event]) -> CrashSuspects:
        """Return the blame after some more events."""
        blame = self
        for event in events:
            match event:
                case StepStarted():
                    blame = replace(blame, under_way=blame.under_way | {event.key})
                case StepFinished() | ItemFinished() if is_final(event):
                    ended = _OUTSIDE_CALLS if event.key is None else _OUTSIDE_CALLS | {event.key}
                    calls = None if blame.calls is None else blame.calls - ended
                    blame = replace(blame, calls=calls, under_way=blame.under_way - ended)
                case Noted(topic="resumed"):
                    blame = CrashSuspects(
                        _interrupted_calls(blame), announces=event.body.get("announced") is True
                    )
                case _:
                    pass
        return blame


def _interrupted_calls(blame: CrashSuspects) -> frozenset[StepKey] | None:
    """Return the calls that are to blame where the attempt has ended here."""
    if not blame.announces:
        return None if blame.is_empty else blame.calls
    cut_off = blame.under_way or _OUTSIDE_CALLS
    return cut_off if blame.calls is None or blame.calls <= _OUTSIDE_CALLS else blame.calls & cut_off


def has_advanced(before: CrashSuspects, events: Iterable[Event], after: CrashSuspects) -> bool:
    """Whether a run has come further with these events than the attempts that were cut off."""
    return after.is_empty and (not before.is_empty or any(map(is_final, events)))


def is_final(event: Event) -> bool:
    """Whether the event is the end of a step or an item that was not merely broken off."""
    return isinstance(event, StepFinished | ItemFinished) and event.status != "cancelled"
