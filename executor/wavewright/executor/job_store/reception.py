"""What becomes of a message: one rule for every store.

A message that is sound in itself is judged by what the store knows of the job or the decision that it names. The rule
is pure, and a store asks it in the transaction in which it looked, so stores cannot differ, and the messages of a job
lead to one end in whatever order and however often they come: what comes early waits for its turn, what comes late or
again changes nothing, and the first verdict or answer stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from wavewright.executor.job_store.records import (
    DecisionMade,
    JobRequested,
    JobState,
    Receipt,
    ReceivedMessage,
    ReceptionView,
    VerdictGiven,
)

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
    """Say what becomes of a person's answer, by whichever door it came."""
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
