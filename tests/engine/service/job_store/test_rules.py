"""The rule by which every store judges messages."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    ReceivedMessage,
    ReceptionView,
    Request,
    VerdictGiven,
)
from wavewright.engine.service.job_store.rules import (
    FINAL_STATES,
    SECONDS_PER_PRIORITY,
    queue_rank,
    receipt_for,
    receipt_for_answer,
    receipt_for_deferred,
)
from wavewright.planner.types import RunId

JOB = JobId("0a8b6f6e-0000-4000-8000-000000000001")
DECISION = DecisionId("0a8b6f6e-0000-4000-8000-0000000000d1")
NOW = 1_800_000_000.0
STATES: tuple[JobState, ...] = get_args(JobState)

AT_WORK = JobRow(
    job=JOB, run=RunId("r"), state="validating", request={}, received=NOW, iteration=2, package="p2"
)
QUESTION = Decision(
    id=DECISION,
    job=JOB,
    run=RunId("r"),
    subject="question",
    question="Where?",
    options=("north", "south"),
)
REJECTED = VerdictGiven(
    job=JOB, package="p2", iteration=2, accepted=False, feedback=("no sources",)
)
ANSWER = DecisionMade(decision=DECISION, choice="north", by="ada")


def message(request: Request) -> ReceivedMessage:
    return ReceivedMessage(
        message=MessageId("m"), kind="any", source="somebody", at=NOW, request=request
    )


def judged(request: Request, view: ReceptionView) -> tuple[str, str | None]:
    receipt = receipt_for(message(request), view)
    return receipt.action, receipt.kind


@pytest.mark.parametrize(
    "request_", [JobRequested(JOB, {}), REJECTED, ANSWER], ids=["job", "verdict", "answer"]
)
def test_a_message_that_was_taken_in_before_has_no_effect_again(request_: Request) -> None:
    view = ReceptionView(now=NOW, is_seen=True, job=AT_WORK, decision=QUESTION)

    assert judged(request_, view) == ("ack_duplicate", "duplicate")


def test_a_job_that_is_not_known_is_taken_in() -> None:
    assert judged(JobRequested(JOB, {}), ReceptionView(now=NOW)) == ("accept", None)


def test_a_dead_job_whose_request_comes_again_is_taken_in() -> None:
    view = ReceptionView(now=NOW, job=replace(AT_WORK, state="dead"))

    assert judged(JobRequested(JOB, {}), view) == ("accept", None)


@pytest.mark.parametrize("state", [state for state in STATES if state != "dead"])
def test_a_job_is_not_begun_twice_however_it_stands(state: JobState) -> None:
    view = ReceptionView(now=NOW, job=replace(AT_WORK, state=state))

    assert judged(JobRequested(JOB, {"another": "wish"}), view) == (
        "ack_duplicate",
        "duplicate_job",
    )


@pytest.mark.parametrize("state", [state for state in STATES if state not in FINAL_STATES])
def test_a_verdict_on_the_latest_package_counts_while_its_job_goes_on(state: JobState) -> None:
    assert judged(REJECTED, ReceptionView(now=NOW, job=replace(AT_WORK, state=state))) == (
        "accept",
        None,
    )


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
def test_a_verdict_changes_nothing_of_a_job_that_has_ended(state: JobState) -> None:
    assert judged(REJECTED, ReceptionView(now=NOW, job=replace(AT_WORK, state=state))) == (
        "ignore_stale",
        "stale",
    )


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        pytest.param(
            replace(REJECTED, iteration=1, package="p1"), ("ignore_stale", "stale"), id="older"
        ),
        pytest.param(
            replace(REJECTED, iteration=3, package="p3"),
            ("defer", "out_of_order"),
            id="not yet out",
        ),
        pytest.param(
            replace(REJECTED, package="p9"),
            ("dead_letter", "unknown_correlation"),
            id="another package",
        ),
    ],
)
def test_a_verdict_is_held_against_the_packages_of_its_job(
    verdict: VerdictGiven, outcome: tuple[str, str]
) -> None:
    assert judged(verdict, ReceptionView(now=NOW, job=AT_WORK)) == outcome


def test_a_verdict_may_come_before_its_job() -> None:
    assert judged(REJECTED, ReceptionView(now=NOW)) == ("defer", "unknown_correlation")


def test_the_first_verdict_on_a_package_stands_whatever_a_second_one_says() -> None:
    second = replace(REJECTED, accepted=True)

    heard = ReceptionView(now=NOW, job=replace(AT_WORK, feedback=(REJECTED,)))
    waiting = ReceptionView(now=NOW, kept=(REJECTED,))

    assert judged(second, heard) == ("ack_duplicate", "duplicate")
    assert judged(second, waiting) == ("ack_duplicate", "duplicate")


def test_a_verdict_on_a_package_that_never_was_does_not_keep_out_the_true_one() -> None:
    false = replace(REJECTED, package="made up")

    assert judged(REJECTED, ReceptionView(now=NOW, job=AT_WORK, kept=(false,))) == ("accept", None)


def test_an_answer_to_an_open_question_is_taken() -> None:
    assert judged(ANSWER, ReceptionView(now=NOW, job=AT_WORK, decision=QUESTION)) == (
        "accept",
        None,
    )


def test_any_text_answers_a_question_without_options() -> None:
    view = ReceptionView(now=NOW, job=AT_WORK, decision=replace(QUESTION, options=()))

    assert judged(replace(ANSWER, choice="the east"), view) == ("accept", None)


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        pytest.param(None, ("defer", "unknown_correlation"), id="unknown"),
        pytest.param(
            replace(QUESTION, choice="south"),
            ("ack_duplicate", "duplicate"),
            id="answered otherwise",
        ),
        pytest.param(
            replace(QUESTION, choice="north"), ("ack_duplicate", "duplicate"), id="answered so"
        ),
        pytest.param(replace(QUESTION, expires=NOW), ("ignore_stale", "stale"), id="too late"),
        pytest.param(
            replace(QUESTION, options=("east",)), ("dead_letter", "bad_payload"), id="not offered"
        ),
    ],
)
def test_an_answer_is_held_against_its_question(
    decision: Decision | None, outcome: tuple[str, str]
) -> None:
    assert judged(ANSWER, ReceptionView(now=NOW, job=AT_WORK, decision=decision)) == outcome


def test_a_question_of_a_job_that_has_ended_needs_no_answer() -> None:
    view = ReceptionView(now=NOW, job=replace(AT_WORK, state="failed"), decision=QUESTION)

    assert judged(ANSWER, view) == ("ignore_stale", "stale")


def test_the_door_by_which_an_answer_comes_makes_no_difference() -> None:
    views = [
        ReceptionView(now=NOW, job=AT_WORK, decision=decision)
        for decision in (
            None,
            QUESTION,
            replace(QUESTION, choice="south"),
            replace(QUESTION, options=("east",)),
        )
    ]

    assert [receipt_for_answer(ANSWER, view) for view in views] == [
        receipt_for(message(ANSWER), view) for view in views
    ]


def test_a_kept_message_is_judged_anew_when_its_turn_comes() -> None:
    verdict = ReceptionView(now=NOW, is_seen=True, job=AT_WORK)
    answer = ReceptionView(now=NOW, is_seen=True, job=AT_WORK, decision=QUESTION)

    assert receipt_for_deferred(message(REJECTED), verdict).action == "accept"
    assert receipt_for_deferred(message(ANSWER), answer).action == "accept"


@pytest.mark.parametrize("subject", ["step", "patch"])
def test_nothing_can_be_approved_ahead_of_being_asked(subject: str) -> None:
    asked = replace(QUESTION, subject="step" if subject == "step" else "patch", options=())
    view = ReceptionView(now=NOW, job=AT_WORK, decision=asked)

    assert receipt_for(message(ANSWER), view).action == "accept"
    assert receipt_for_deferred(message(ANSWER), view).action == "ignore_stale"


@pytest.mark.parametrize(("subject", "action"), [("question", "accept"), ("step", "dead_letter")])
def test_a_name_that_nobody_vouches_for_may_answer_and_not_approve(
    subject: str, action: str
) -> None:
    asked = replace(QUESTION, subject="step" if subject == "step" else "question", options=())
    view = ReceptionView(now=NOW, job=AT_WORK, decision=asked)

    receipt = receipt_for(message(replace(ANSWER, is_vouched_for=False)), view)

    assert (receipt.action, receipt.kind) == (
        action,
        "wrong_identity" if action == "dead_letter" else None,
    )


def test_a_job_that_waits_ages_until_no_urgent_one_passes_it() -> None:
    def rank(at: float, priority: int) -> float:
        return queue_rank(at, 1.0, priority)

    assert rank(NOW + SECONDS_PER_PRIORITY - 1, 1) < rank(NOW, 0)
    assert rank(NOW + SECONDS_PER_PRIORITY + 1, 1) > rank(NOW, 0)
    assert rank(NOW + 9 * SECONDS_PER_PRIORITY + 1, 9) > rank(NOW, 0)
