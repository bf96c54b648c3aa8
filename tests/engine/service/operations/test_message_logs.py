"""What the log says of messages, in the words that users of zone researchers know."""

from __future__ import annotations

import io
import json

from wavewright.engine.service.bus.topology import REASON_HEADER
from wavewright.engine.service.job_store.records import (
    DecisionId,
    DecisionMade,
    JobId,
    MessageId,
    OutgoingMessage,
    ReceivedMessage,
    Request,
    VerdictGiven,
)
from wavewright.engine.service.operations.job_logs import log_received, log_sent
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.packs.lore.messages import CONTRACT
from wavewright.planner.types import JsonObject
from wavewright.tools.message_contract import MessageContract

JOB = "9a1f6c3e-0000-4000-8000-000000000001"


def told_of(request: Request, kind: str) -> list[JsonObject]:
    stream = io.StringIO()
    log = StructuredLog(agent="a", domain="d", stream=stream)
    log_received(
        log, ReceivedMessage(MessageId("m"), kind, "validator", 0.0, request), JOB, "Westfall"
    )
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fields(line: JsonObject, *names: str) -> list[object]:
    return [line[name] for name in ("event", "level", *names)]


def test_a_verdict_is_received_and_a_rejection_warns_with_what_is_missing() -> None:
    bad = VerdictGiven(
        JobId(JOB), "p", 2, accepted=False, feedback=("no level range", "two sources")
    )

    received, rejected = told_of(bad, "validation_result")

    assert fields(received, "target", "accepted", "iteration") == [
        "validation_received", "info", "Westfall", False, 2,
    ]  # fmt: skip
    assert fields(rejected, "target", "iteration", "feedback_summary") == [
        "validation_rejected", "warning", "Westfall", 2, "no level range; two sources",
    ]  # fmt: skip


def test_an_accepted_package_is_one_line() -> None:
    [line] = told_of(VerdictGiven(JobId(JOB), "p", 1, accepted=True), "validation_result")

    assert fields(line, "accepted") == ["validation_received", "info", True]


def test_an_answer_names_its_decision_and_who_gave_it() -> None:
    [line] = told_of(DecisionMade(DecisionId("d"), "Duskwood", "ada"), "user_decision_response")

    assert fields(line, "job_id", "decision_id", "choice", "by") == [
        "user_decision_received", "info", JOB, "d", "Duskwood", "ada",
    ]  # fmt: skip


def test_a_question_is_told_of_with_its_options_when_it_is_out() -> None:
    stream = io.StringIO()
    payload = {"question": "Where next?", "options": ["Duskwood", "Redridge"], "decision_id": "d"}
    body = json.dumps({"payload": payload}).encode()
    sent = OutgoingMessage(
        MessageId("m"), "user_decision_required", "x", "user.decisions", body, JobId(JOB)
    )

    log_sent(StructuredLog(agent="a", domain="d", stream=stream), sent)

    assert fields(json.loads(stream.getvalue()), "decision_id", "options", "question") == [
        "user_decision_requested", "info", "d", ["Duskwood", "Redridge"], "Where next?",
    ]  # fmt: skip


def test_a_job_that_is_given_up_is_an_error_with_its_reason() -> None:
    stream = io.StringIO()
    why: JsonObject = {REASON_HEADER: "poison: started 5 times, and never finished"}
    sent = OutgoingMessage(MessageId("m"), "dead_letter", "x", "q", b"{}", JobId(JOB), headers=why)

    log_sent(StructuredLog(agent="a", domain="d", stream=stream), sent)

    assert fields(json.loads(stream.getvalue()), "job_id", "message") == [
        "job_dead_lettered", "error", JOB, "poison: started 5 times, and never finished",
    ]  # fmt: skip


def sent_line(kind: str, payload: JsonObject, contract: MessageContract) -> JsonObject:
    """Return the line about a message that was sent."""
    stream = io.StringIO()
    body = json.dumps({"message_type": kind, "payload": payload}).encode()
    reported = "job_status" if kind == "job_status" else "package"
    sent = OutgoingMessage(MessageId("m"), reported, "x", "q", body, JobId(JOB))
    log_sent(StructuredLog(agent="a", domain="d", stream=stream, contract=contract), sent)
    line: JsonObject = json.loads(stream.getvalue())
    return line


def test_a_package_in_the_packs_form_is_counted_as_the_pack_says() -> None:
    payload: JsonObject = {"zone_name": "Westfall", "npcs": [{}, {}], "lore": [{}], "sources": [{}]}

    line = sent_line("research_package", payload, CONTRACT)

    assert fields(line, "zone_name", "data_point_count", "total_sources") == [
        "package_sent", "info", "Westfall", 4, 1,
    ]  # fmt: skip


def test_a_failed_target_is_an_error_in_the_packs_words_and_in_neutral_ones() -> None:
    own = sent_line(
        "job_status",
        {"status": "ZONE_FAILED", "zone_name": "Westfall", "reason": "no page"},
        CONTRACT,
    )
    neutral = sent_line(
        "job_status", {"status": "TARGET_FAILED", "target": "mill"}, MessageContract()
    )

    assert fields(own, "zone", "message") == ["zone_failed", "error", "Westfall", "no page"]
    assert fields(neutral, "target") == ["target_failed", "error", "mill"]
