"""What goes out: ids, bytes and signatures."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import cast

import pytest
from hypothesis import example, given, strategies as st

from tests.engine.service.messages.sample_messages import JOB, NOW, RULES
from wavewright.config.redaction import Redactor
from wavewright.config.secret_patterns import REDACTED
from wavewright.engine.service.job_store.records import (
    DecisionMade,
    JobId,
    JobRequested,
    JobRow,
    OutgoingMessage,
    VerdictGiven,
)
from wavewright.engine.service.messages.decoding import correlation_of, decode, sender_of
from wavewright.engine.service.messages.delivery import Delivery
from wavewright.engine.service.messages.encoding import MessageAddress, encode
from wavewright.engine.service.messages.models import (
    REPORTS,
    Envelope,
    GoalRequest,
    JobRequest,
    JobStatusUpdate,
    PackageReport,
    TargetFailure,
    UserDecisionRequired,
    UserDecisionResponse,
    ValidationResult,
    decision_id,
    message_id,
    package_id,
)
from wavewright.engine.service.messages.reading import MessageRejected, read_strict_json
from wavewright.packs.lore.messages import CONTRACT, ResearchPackage
from wavewright.packs.lore.models import NPCData, ZoneData
from wavewright.planner.types import JsonObject, RunId
from wavewright.tools.message_contract import Payload

KEY = b"a key that nobody else has"
JOB_ID = JobId(JOB)
MESSAGE = message_id(JOB_ID, 1, "job_status", "ACCEPTED")
TO_US = MessageAddress("ui_backend", RULES.agent, "wavewright.topic", "wavewright.jobs")

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30
)
uuids = st.uuids().map(str)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
requests: st.SearchStrategy[Payload] = st.one_of(
    st.builds(JobRequest, job_id=uuids, job=st.dictionaries(texts, values, min_size=1, max_size=4)),
    st.builds(
        GoalRequest,
        job_id=uuids,
        goal=texts,
        depth=st.integers(0, 5),
        budget_tokens=st.integers(1, 10_000_000),
        target=names,
    ),
    st.builds(
        ValidationResult,
        job_id=uuids,
        package_id=texts,
        accepted=st.booleans(),
        iteration=st.integers(1, 10),
        feedback=st.lists(texts, max_size=5),
    ),
    st.builds(UserDecisionResponse, decision_id=uuids, choice=texts),
)
reports: st.SearchStrategy[Payload] = st.one_of(
    st.builds(
        PackageReport, job_id=uuids, package_id=texts, iteration=st.integers(1, 10), package=objects
    ),
    st.builds(
        JobStatusUpdate,
        job_id=uuids,
        status=st.sampled_from(["ACCEPTED", "JOB_FAILED"]),
        target=st.none() | names,
        steps_completed=st.none() | st.integers(0, 9),
        reason=st.none() | texts,
    ),
    st.builds(
        UserDecisionRequired,
        question=texts,
        options=st.lists(texts, max_size=3),
        context=texts,
        decision_id=uuids,
    ),
)
instants = st.floats(1_500_000_000, 2_500_000_000)


def sent(payload: Payload, *, key: bytes | None = None, at: float = NOW) -> OutgoingMessage:
    return encode(
        payload, replace(TO_US, key=key), message=MESSAGE, correlation=JOB, at=at, job=JOB_ID
    )


def arrived(outgoing: OutgoingMessage) -> Delivery:
    """Return a message as its reader's broker delivers it."""
    return Delivery(
        body=outgoing.body,
        routing_key=outgoing.routing_key,
        content_type="application/json",
        content_encoding="utf-8",
        message_id=outgoing.message,
        headers=outgoing.headers,
    )


def read(outgoing: OutgoingMessage) -> JsonObject:
    return cast("JsonObject", json.loads(outgoing.body))


@given(requests, instants, st.sampled_from([None, KEY]))
def test_what_is_sent_is_what_is_taken_in(payload: Payload, at: float, key: bytes | None) -> None:
    rules = replace(RULES, identities={}, key=key)

    received = decode(arrived(sent(payload, key=key, at=at)), rules, at)

    assert (received.message, received.source) == (MESSAGE, "ui_backend")
    assert received.at == pytest.approx(at, abs=1e-6)
    match received.request:
        case JobRequested(job=job, request=request):
            stored = (
                request["payload"] if isinstance(payload, GoalRequest) else {"job": request["job"]}
            )
            assert payload.model_dump() == {"job_id": job, **cast("JsonObject", stored)}
        case VerdictGiven() as verdict:
            assert isinstance(payload, ValidationResult)
            assert (
                verdict.job,
                verdict.package,
                verdict.iteration,
                verdict.accepted,
                list(verdict.feedback),
            ) == (
                payload.job_id,
                payload.package_id,
                payload.iteration,
                payload.accepted,
                payload.feedback,
            )
        case DecisionMade() as made:
            assert isinstance(payload, UserDecisionResponse)
            assert (made.decision, made.choice) == (payload.decision_id, payload.choice)


@given(reports)
def test_a_report_can_be_read_by_its_own_model(payload: Payload) -> None:
    outgoing = sent(payload)
    envelope = Envelope.model_validate(read(outgoing))

    assert envelope.message_type == outgoing.kind
    assert [model for model in REPORTS if model.message_type == outgoing.kind] == [type(payload)]
    assert type(payload).model_validate(envelope.payload) == payload


@given(st.dictionaries(st.text(max_size=4), st.text(st.characters(), max_size=8), max_size=4))
@example({"a": "half of a pair: \ud83d", "b\0": "nothing: \0", "c": "whole: \U0001f600"})
def test_texts_that_go_out_can_be_read_as_strictly_as_those_that_come_in(
    found: dict[str, str],
) -> None:
    package = PackageReport(job_id=JOB, package_id="p", iteration=1, package={"found": {**found}})

    document = read_strict_json(sent(package).body, max_depth=32)

    shown = {fit(name): fit(text) for name, text in found.items()}
    assert cast("JsonObject", document["payload"])["package"] == {"found": shown}


def fit(text: str) -> str:
    return "".join(
        "\ufffd" if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text
    )


@given(reports, st.randoms(use_true_random=False))
def test_a_repeat_has_the_same_bytes_however_its_objects_are_ordered(
    payload: Payload, random: Random
) -> None:
    def shuffled(value: object) -> object:
        if isinstance(value, dict):
            members = list(cast("JsonObject", value).items())
            random.shuffle(members)
            return {name: shuffled(inner) for name, inner in members}
        return (
            [shuffled(inner) for inner in cast("list[object]", value)]
            if isinstance(value, list)
            else value
        )

    again = type(payload).model_validate(shuffled(payload.model_dump()))

    assert sent(again, key=KEY) == sent(payload, key=KEY)


def test_an_envelope_says_who_sends_what_to_whom_and_when() -> None:
    outgoing = sent(
        JobStatusUpdate(job_id=JOB, status="TARGET_STARTED", target="Westfall", targets_completed=0)
    )

    assert read(outgoing) == {
        "message_id": MESSAGE,
        "source_agent": "ui_backend",
        "target_agent": "wavewright",
        "message_type": "job_status",
        "timestamp": "2026-04-14T09:30:00+00:00",
        "correlation_id": JOB,
        "payload": {
            "job_id": JOB,
            "status": "TARGET_STARTED",
            "target": "Westfall",
            "targets_completed": 0,
        },
    }
    assert (outgoing.message, outgoing.kind, outgoing.job, outgoing.at) == (
        MESSAGE,
        "job_status",
        JOB,
        NOW,
    )
    assert (outgoing.exchange, outgoing.routing_key) == ("wavewright.topic", "wavewright.jobs")
    assert outgoing.headers == {"x-wavewright-version": 1}


def test_a_research_package_is_told_field_by_field() -> None:
    package = ResearchPackage(
        job_id=JOB,
        package_id=package_id(JOB_ID, 1),
        iteration=1,
        zone_name="Westfall",
        zone_data=ZoneData(name="Westfall"),
        npcs=[NPCData(name="Gryan Stoutmantle")],
        confidence={"npcs": 0.7},
    )

    assert read(sent(package))["message_type"] == "research_package"
    assert set(cast("JsonObject", read(sent(package))["payload"])) == set(
        ResearchPackage.model_fields
    )


def test_a_target_is_told_of_by_its_name_whatever_characters_it_has() -> None:
    names = ["soft\u00adhyphen", "a\nb", "x" * 500, ""]

    told = [
        sent(JobStatusUpdate(job_id=JOB, status="TARGET_FAILED", target=name)) for name in names
    ]

    assert [cast("JsonObject", read(one)["payload"])["target"] for one in told] == names


def test_a_status_has_the_names_of_the_contract() -> None:
    status = JobStatusUpdate(
        job_id=JOB,
        status="TARGET_FAILED",
        target="Moonbrook",
        targets_total=2,
        targets_failed=[TargetFailure(target="Moonbrook", error="empty")],
    )

    named = encode(status, TO_US, message=MESSAGE, correlation=JOB, at=NOW, contract=CONTRACT)

    assert read(named)["payload"] == {
        "job_id": JOB,
        "status": "ZONE_FAILED",
        "zone_name": "Moonbrook",
        "zones_total": 2,
        "zones_failed": [{"zone_name": "Moonbrook", "error": "empty"}],
    }


def test_failed_targets_are_reported_with_the_reason() -> None:
    status = JobStatusUpdate(
        job_id=JOB,
        status="JOB_PARTIALLY_COMPLETED",
        targets_failed=[TargetFailure(target="Moonbrook", error="empty")],
    )

    assert cast("JsonObject", read(sent(status))["payload"])["targets_failed"] == [
        {"target": "Moonbrook", "error": "empty"}
    ]


def test_ids_stay_what_they_are_for_ever() -> None:
    """A job that was begun by an older version goes on with the ids that its readers have seen."""
    assert MESSAGE == "a1fea944-8841-5a52-a0cd-8981cdd1b3db"
    assert package_id(JOB_ID, 1) == "54f0f946-cb64-5455-954b-20c9ebe9ba91"
    assert decision_id(JOB_ID, "plan", "f00d") == "000b0f87-9a14-50a7-942d-3c830502de8c"


@given(texts, texts, texts, texts)
def test_what_differs_has_different_ids(one: str, two: str, three: str, four: str) -> None:
    is_same = message_id(JOB_ID, 1, one, two) == message_id(JOB_ID, 1, three, four)

    assert is_same == ((one, two) == (three, four))


def test_ids_of_different_things_differ() -> None:
    made: set[str] = {
        message_id(JOB_ID, 1, "package"),
        package_id(JOB_ID, 1),
        decision_id(JOB_ID, 1),
        message_id(JOB_ID, 2, "package"),
        message_id(JOB_ID, 1, "a/b"),
        message_id(JOB_ID, 1, "a", "b"),
    }

    assert len(made) == 6


def refused(delivery: Delivery, key: bytes = KEY) -> str | None:
    try:
        decode(delivery, replace(RULES, identities={}, key=key), NOW)
    except MessageRejected as refusal:
        return refusal.kind
    return None


ANSWER = sent(UserDecisionResponse(decision_id=JOB, choice="yes"), key=KEY)


def test_a_signed_message_is_taken_in_by_whoever_has_the_key() -> None:
    assert refused(arrived(ANSWER)) is None
    assert refused(arrived(ANSWER), b"another key") == "bad_signature"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(ANSWER, headers={}), id="unsigned"),
        pytest.param(
            replace(ANSWER, headers={"x-wavewright-signature": 7}), id="signed by a number"
        ),
        pytest.param(
            replace(ANSWER, headers={"x-wavewright-signature": "é" * 64}), id="signed by letters"
        ),
        pytest.param(
            replace(ANSWER, headers={"x-wavewright-signature": "0" * 64}), id="signed by noughts"
        ),
        pytest.param(
            replace(ANSWER, routing_key="wavewright.packages"), id="moved to another queue"
        ),
        pytest.param(
            replace(ANSWER, body=ANSWER.body.replace(b'"yes"', b'"no"')), id="another choice"
        ),
        pytest.param(replace(ANSWER, body=ANSWER.body + b" "), id="a blank behind it"),
        pytest.param(
            replace(ANSWER, body=ANSWER.body.replace(b"09:30:00", b"09:30:01")), id="another time"
        ),
    ],
)
def test_a_message_is_refused_where_it_is_not_what_was_signed(changed: OutgoingMessage) -> None:
    assert refused(arrived(changed)) == "bad_signature"


def test_a_signature_is_asked_for_only_where_there_is_a_key() -> None:
    assert (
        decode(arrived(ANSWER), replace(RULES, identities={}), NOW).kind == "user_decision_response"
    )


def test_messages_of_a_job_have_in_common_what_its_request_was_correlated_by() -> None:
    row = JobRow(job=JOB_ID, run=RunId("r"), state="queued", request={}, received=NOW)
    asked = replace(row, request={"correlation_id": "c", "source_agent": "ui_backend"})

    assert (correlation_of(asked), sender_of(asked)) == ("c", "ui_backend")
    assert (correlation_of(row), sender_of(row)) == (JOB, None)


CANARY = "correct-horse-battery"


@pytest.mark.parametrize(
    "payload",
    [
        JobStatusUpdate(job_id=JOB, status="JOB_FAILED", reason=f"401 for {CANARY}"),
        JobStatusUpdate(
            job_id=JOB,
            status="JOB_FAILED",
            targets_failed=[TargetFailure(target="Moonbrook", error=CANARY)],
        ),
        UserDecisionRequired(
            question="Which?", options=[CANARY], context=f'{{"key": "{CANARY}"}}', decision_id=JOB
        ),
        PackageReport(
            job_id=JOB,
            package_id="p",
            iteration=1,
            package={"documents": [{CANARY: f"it is {CANARY}."}]},
        ),
        ResearchPackage(
            job_id=JOB,
            package_id="p",
            iteration=1,
            zone_name="Westfall",
            zone_data=ZoneData(name="Westfall", narrative_arc=CANARY),
        ),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_a_secret_that_is_known_never_goes_out(payload: Payload) -> None:
    address = replace(TO_US, redactor=Redactor([CANARY]))

    outgoing = encode(payload, address, message=MESSAGE, correlation=JOB, at=NOW)

    assert CANARY in sent(payload).body.decode()
    assert CANARY not in outgoing.body.decode()
    assert REDACTED in outgoing.body.decode()


def test_a_question_shows_what_would_be_done_as_it_is() -> None:
    context = 'to: "token=mallory@evil.example"'
    asked = UserDecisionRequired(
        question="May it?", options=["approve"], context=context, decision_id=JOB
    )

    assert cast("JsonObject", read(sent(asked))["payload"])["context"] == context


def test_a_sentence_loses_also_what_only_looks_like_a_secret() -> None:
    reason = "the provider refused sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"

    status = sent(JobStatusUpdate(job_id=JOB, status="JOB_FAILED", reason=reason))
    package = sent(PackageReport(job_id=JOB, package_id="p", iteration=1, package={"read": reason}))

    assert (
        cast("JsonObject", read(status)["payload"])["reason"] == f"the provider refused {REDACTED}"
    )
    assert cast("JsonObject", read(package)["payload"])["package"] == {"read": reason}


def test_the_key_is_not_shown() -> None:
    shown = repr(replace(TO_US, key=KEY)) + repr(replace(RULES, key=KEY))

    assert KEY.decode() not in shown
