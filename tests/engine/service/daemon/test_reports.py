"""What is told of jobs: in the same bytes each time, and without secrets."""

from __future__ import annotations

import json
from dataclasses import replace

from wavewright.config.redaction import Redactor
from wavewright.config.secret_patterns import REDACTED
from wavewright.config.sections import DaemonSection
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.records import JobId, JobRequested, JobRow
from wavewright.engine.service.messages.decoding import decode
from wavewright.engine.service.messages.delivery import AcceptanceRules, Delivery
from wavewright.planner.types import JsonObject, RunId

CANARY = "correct-horse-battery"
CORRELATION = "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0ecc"
DEAD = JobRow(
    job=JobId("5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0e01"),
    run=RunId("20260601-120000-3f2a7c"),
    state="dead",
    request={"job": {"name": "words"}, "source_agent": "ui_backend"},
    received=1_780_315_200.0,
    state_since=1_780_315_260.0,
    attempts=5,
    reason=f"started 5 times; last reason: 401 for {CANARY}",
)


def test_a_job_that_was_given_up_is_laid_aside_with_the_reason_and_its_request() -> None:
    failed, letter = Reporter(DaemonSection()).state_reports(DEAD)

    assert json.loads(failed.body)["payload"]["status"] == "JOB_FAILED"
    assert (letter.exchange, letter.routing_key) == ("wavewright.dlx", "wavewright.jobs")
    assert letter.headers["x-wavewright-kind"] == "max_deliveries"
    assert str(letter.headers["x-wavewright-reason"]).startswith("max_deliveries: started 5 times")
    assert letter.headers["x-wavewright-attempts"] == 5
    assert json.loads(letter.body)["payload"] == {"job_id": DEAD.job, "job": {"name": "words"}}


def test_what_was_given_up_can_be_sent_again_as_it_lies_among_the_dead_letters() -> None:
    goal: JsonObject = {"goal": "Tell", "depth": 1, "budget_tokens": 500, "target": "Westfall"}
    sent: JsonObject = {
        "message_type": "job_request",
        "payload": {"job_id": DEAD.job, **goal},
        "goal": goal,
        "source_agent": "ui_backend",
        "correlation_id": CORRELATION,
    }
    *_, letter = Reporter(DaemonSection(), key=b"0123456789abcdef").state_reports(
        replace(DEAD, request=sent)
    )
    delivery = Delivery(
        body=letter.body, routing_key=letter.routing_key, content_type="application/json"
    )

    received = decode(delivery, AcceptanceRules("wavewright"), DEAD.state_since)

    assert received.source == "ui_backend"
    assert isinstance(received.request, JobRequested)
    assert (received.request.job, received.request.request) == (DEAD.job, sent)
    assert "x-wavewright-signature" not in letter.headers


def test_reports_are_made_while_another_thread_forgets_the_jobs_told_of() -> None:
    class ForgottenAtOnce(dict[JobId, Redactor]):
        def __setitem__(self, job: JobId, redactor: Redactor) -> None:
            """Keep nothing: the other thread has cleared it."""

    reporter = Reporter(DaemonSection(), redactor=Redactor([CANARY]), _redactors=ForgottenAtOnce())

    assert reporter.state_reports(DEAD) == Reporter(
        DaemonSection(), redactor=Redactor([CANARY])
    ).state_reports(DEAD)


def test_no_secret_goes_out_with_the_reason_of_a_failure() -> None:
    reporter = Reporter(DaemonSection(), redactor=Redactor([CANARY]))

    for message in reporter.state_reports(DEAD):
        assert CANARY not in message.body.decode()
        assert CANARY not in str(message.headers)
        assert REDACTED in message.body.decode() + str(message.headers)


def test_what_a_job_hands_over_under_a_secrets_name_is_in_nothing_that_is_told_of_it() -> None:
    document: JsonObject = {"name": "words", "variables": {"api_key": CANARY}}
    failed, letter = Reporter(DaemonSection()).state_reports(
        replace(DEAD, request={"job": document})
    )

    assert CANARY not in failed.body.decode()
    assert CANARY not in str(letter.headers)
    assert json.loads(letter.body)["payload"]["job"] == document, (
        "its own document is as it was sent"
    )


def test_what_is_told_again_is_told_in_the_same_bytes() -> None:
    reporter = Reporter(DaemonSection(), key=b"0123456789abcdef")

    assert reporter.state_reports(DEAD) == reporter.state_reports(DEAD)
