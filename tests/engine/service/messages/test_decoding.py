"""What is taken in off the wire, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.engine.service.messages.sample_messages import (
    ANSWER,
    GOAL,
    JOB,
    NOW,
    RULES,
    VERDICT,
    Loose,
    decoded,
    delivered,
    envelope,
    refusal,
    without,
)
from wavewright.engine.service.daemon.dispatcher import SMALL_JOB_WEIGHT
from wavewright.engine.service.job_store.records import (
    DecisionMade,
    JobId,
    JobRequested,
    JobRow,
    SentPackage,
    VerdictGiven,
)
from wavewright.engine.service.job_store.rules import new_job
from wavewright.engine.service.messages.decoding import decode, resolved_verdict
from wavewright.engine.service.messages.delivery import Delivery
from wavewright.engine.service.messages.models import package_id
from wavewright.engine.service.messages.reading import MessageRejected
from wavewright.planner.types import JsonObject, RunId
from wavewright.tools.message_contract import stored_goal

DOCUMENT: Loose = {
    "name": "words",
    "plan": {"steps": [{"id": "a", "tool": "x"}, {"id": "b", "tool": "x"}]},
}


def test_a_goal_is_read_with_what_its_sender_goes_by() -> None:
    received = decoded(delivered(envelope(GOAL)))

    assert received.message == "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0eaa"
    assert (received.kind, received.source, received.at) == ("job_request", "ui_backend", NOW - 45)
    assert isinstance(received.request, JobRequested)
    assert received.request.job == JOB
    assert received.request.request == {
        "message_type": "job_request",
        "payload": GOAL,
        "goal": without(GOAL, "job_id"),
        "correlation_id": "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0ecc",
        "source_agent": "ui_backend",
    }


def test_a_job_document_is_read_as_it_is() -> None:
    received = decoded(delivered(envelope({"job_id": JOB, "job": DOCUMENT})))

    assert isinstance(received.request, JobRequested)
    assert received.request.request["job"] == DOCUMENT


def test_the_weight_of_a_job_comes_from_its_plan_or_its_tokens() -> None:
    def weight(payload: object) -> float:
        request = decoded(delivered(envelope(payload))).request
        assert isinstance(request, JobRequested)
        return request.weight

    assert weight({"job_id": JOB, "job": DOCUMENT}) == 2
    assert weight({"job_id": JOB, "job": {"goal_template": "word_ranking"}}) == 1
    assert weight({"job_id": JOB, "job": DOCUMENT | {"targets": {"first": ["A", "B", "C"]}}}) == 6
    # Nobody knows what its waves will find, and it is no small one.
    assert (
        weight({"job_id": JOB, "job": {"targets": {"first": ["A"], "depth": 2}}}) > SMALL_JOB_WEIGHT
    )
    assert weight({"job_id": JOB, "job": {"targets": ["A"]}}) == 1
    assert weight(GOAL | {"budget_tokens": 1}) < weight(GOAL | {"budget_tokens": 500_000})


def test_a_verdict_is_read() -> None:
    received = decoded(delivered(envelope(VERDICT, "validation_result")))

    assert received.request == VerdictGiven(
        job=JobId(JOB),
        package="package-1",
        iteration=1,
        accepted=False,
        feedback=("no sources",),
    )


BY_FIELD: Loose = {
    "field": "npcs",
    "reason": "none is named",
    "suggestion": "read the page of the village",
}


def test_a_verdict_may_say_what_is_wrong_with_each_field() -> None:
    received = decoded(
        delivered(envelope(VERDICT | {"feedback": [BY_FIELD, "no sources"]}, "validation_result"))
    )

    assert isinstance(received.request, VerdictGiven)
    assert received.request.feedback == (
        "npcs: none is named; read the page of the village",
        "no sources",
    )


def test_a_verdict_without_ids_is_found_by_its_correlation_id_target_and_iteration() -> None:
    rules = replace(RULES, target_field="zone_name")
    sent: Loose = {
        "zone_name": "Westfall",
        "accepted": False,
        "feedback": [BY_FIELD],
        "iteration": 2,
    }
    verdict = decoded(delivered(envelope(sent, "validation_result")), rules).request
    assert isinstance(verdict, VerdictGiven)
    ours: JsonObject = {"correlation_id": "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0ecc"}
    mill = package_id(JobId(JOB), 2, "Westfall")
    other = JobRow(JobId("other"), RunId("r1"), "validating", {}, 0.0, package="p", iteration=2)
    single = replace(other, job=JobId(JOB), request=ours, package=package_id(JobId(JOB), 2))
    several = replace(single, package=None, iteration=0, sent=(SentPackage(mill, 2),))

    assert resolved_verdict(verdict, [other]) == verdict
    for job, package in ((single, single.package), (several, mill)):
        found = resolved_verdict(verdict, [other, job])
        assert (found.job, found.package) == (JOB, package)
    # The one that was judged is still found when its verdict comes again.
    judged = replace(several, sent=(), feedback=(replace(verdict, package=mill),))
    assert resolved_verdict(verdict, [judged]).package == mill


def test_an_answer_is_that_of_the_agent_who_sent_it() -> None:
    request = decoded(delivered(envelope(ANSWER, "user_decision_response"))).request

    assert isinstance(request, DecisionMade)
    assert (request.decision, request.choice, request.by) == (
        ANSWER["decision_id"],
        "Sedge Hollow",
        "ui_backend",
    )


def test_an_id_is_the_same_in_whichever_case_it_is_written() -> None:
    loud = envelope(
        GOAL | {"job_id": JOB.upper()}, message_id="5D1C0A52-7A3E-4F0B-9A53-2F6B8C1D0EAA"
    )

    assert decoded(delivered(loud)) == decoded(delivered(envelope(GOAL)))


def wrong(*changes: tuple[str, object]) -> Loose:
    return envelope(GOAL | dict(changes))


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        pytest.param(envelope(GOAL) | {"admin": True}, "unknown_field", id="field of nobody"),
        pytest.param(wrong(("admin", True)), "unknown_field", id="field of nobody in the payload"),
        pytest.param(
            envelope(dict.fromkeys(map(str, range(200)))),
            "unknown_field",
            id="200 fields of nobody",
        ),
        pytest.param(without(envelope(GOAL), "message_id"), "missing_field", id="no id"),
        pytest.param(envelope(without(GOAL, "goal")), "missing_field", id="no goal"),
        pytest.param(envelope({}), "missing_field", id="nothing in the payload"),
        pytest.param(envelope(None), "wrong_type", id="null for a payload"),
        pytest.param(envelope([GOAL]), "wrong_type", id="list for a payload"),
        pytest.param(envelope(GOAL, message_id=7), "wrong_type", id="number for an id"),
        pytest.param(envelope(GOAL, message_type=None), "wrong_type", id="null for a type"),
        pytest.param(wrong(("depth", "1")), "wrong_type", id="text for a number"),
        pytest.param(wrong(("depth", 1.0)), "wrong_type", id="fraction for a whole number"),
        pytest.param(wrong(("depth", True)), "wrong_type", id="truth for a number"),
        pytest.param(wrong(("goal", ["Sedge Hollow"])), "wrong_type", id="list for a text"),
        pytest.param(
            envelope(GOAL, message_id="{5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0eaa}"),
            "bad_payload",
            id="braces",
        ),
        pytest.param(
            envelope(GOAL, message_id="5d1c0a527a3e4f0b9a532f6b8c1d0eaa"),
            "bad_payload",
            id="no hyphens",
        ),
        pytest.param(
            envelope(GOAL, correlation_id="job 7"), "bad_payload", id="correlated by no id"
        ),
        pytest.param(envelope(GOAL, source_agent=""), "bad_payload", id="sender without a name"),
        pytest.param(wrong(("job_id", JOB + "\n")), "bad_payload", id="line break behind an id"),
        pytest.param(wrong(("depth", 6)), "bad_payload", id="too deep a job"),
        pytest.param(wrong(("budget_tokens", 10_000_001)), "bad_payload", id="too many tokens"),
        pytest.param(wrong(("goal", "x" * 4_001)), "bad_payload", id="too long a goal"),
        pytest.param(
            wrong(("target", "West\u2028fall")), "bad_payload", id="line separator in a name"
        ),
        pytest.param(
            wrong(("target", "\u202eSedge Hollow")),
            "bad_payload",
            id="name that turns its direction",
        ),
        pytest.param(envelope({"job_id": JOB, "job": {}}), "bad_payload", id="empty job"),
        pytest.param(envelope({"job_id": JOB, "job": "words"}), "wrong_type", id="job by name"),
        pytest.param(envelope(GOAL | {"job": DOCUMENT}), "unknown_field", id="both forms of a job"),
        pytest.param(
            envelope({"py/object": "os.system"}), "bad_payload", id="shape of a serialised object"
        ),
        pytest.param(
            envelope(VERDICT | {"iteration": 0}, "validation_result"), "bad_payload", id="package 0"
        ),
        pytest.param(
            envelope(VERDICT | {"iteration": 11}, "validation_result"),
            "bad_payload",
            id="package 11",
        ),
        pytest.param(
            envelope(VERDICT | {"accepted": "no"}, "validation_result"),
            "wrong_type",
            id="verdict in words",
        ),
        pytest.param(
            envelope(VERDICT | {"feedback": ["x"] * 51}, "validation_result"),
            "bad_payload",
            id="51 points",
        ),
        pytest.param(
            envelope(VERDICT | {"feedback": ["x" * 2_001]}, "validation_result"),
            "bad_payload",
            id="a long point",
        ),
        pytest.param(
            envelope(ANSWER | {"choice": ""}, "user_decision_response"),
            "bad_payload",
            id="no choice",
        ),
        pytest.param(envelope(GOAL, "job_status"), "unknown_type", id="a type that is only sent"),
        pytest.param(envelope(GOAL, "JOB_REQUEST"), "unknown_type", id="a type in capitals"),
        pytest.param(envelope(GOAL, target_agent="validator"), "wrong_target", id="for another"),
        pytest.param(envelope(GOAL, target_agent=""), "wrong_target", id="for nobody"),
        pytest.param(
            envelope(GOAL, source_agent="nobody"), "wrong_identity", id="from nobody known"
        ),
        pytest.param(
            envelope(GOAL, source_agent="validator"),
            "wrong_identity",
            id="from one who may not send it",
        ),
        pytest.param(
            envelope(GOAL, timestamp=1_776_158_955), "bad_timestamp", id="seconds for an instant"
        ),
        pytest.param(
            envelope(GOAL, timestamp="2026-04-14"), "bad_timestamp", id="a date for an instant"
        ),
        pytest.param(
            envelope(GOAL, timestamp="2026-04-14T09:29:15"),
            "bad_timestamp",
            id="instant of no zone",
        ),
        pytest.param(
            envelope(GOAL, timestamp="2026-04-31T09:29:15Z"),
            "bad_timestamp",
            id="day that never was",
        ),
        pytest.param(
            envelope(GOAL, timestamp="2026-04-14T09:35:01Z"), "bad_timestamp", id="from the future"
        ),
        pytest.param(
            envelope(GOAL, timestamp="0001-01-01T00:00:00+23:59"),
            "stale",
            id="from the beginning of time",
        ),
        pytest.param(
            envelope(GOAL, timestamp="2026-04-07T09:29:59Z"), "stale", id="more than a week old"
        ),
    ],
)
def test_a_message_that_is_wrong_in_itself_is_refused(document: Loose, kind: str) -> None:
    assert refusal(delivered(document)) == kind


SOUND = json.dumps(envelope(GOAL))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param(b"", "not_json", id="nothing"),
        pytest.param(b"null", "not_json", id="null"),
        pytest.param(b"[]", "not_json", id="list"),
        pytest.param(f"[{SOUND}]".encode(), "not_json", id="envelope in a list"),
        pytest.param(json.dumps(SOUND).encode(), "not_json", id="envelope in a text"),
        pytest.param(SOUND[:-1].encode(), "not_json", id="cut"),
        pytest.param(f"{SOUND} {SOUND}".encode(), "not_json", id="two of them"),
        pytest.param(f"{SOUND},".encode(), "not_json", id="comma behind it"),
        pytest.param(f"\ufeff{SOUND}".encode(), "not_json", id="byte order mark"),
        pytest.param(f"```json\n{SOUND}\n```".encode(), "not_json", id="code fence"),
        pytest.param(SOUND.replace('"', "'").encode(), "not_json", id="single quotes"),
        pytest.param(
            SOUND.replace("Sedge Hollow", "Sedge\nHollow").encode(), "not_json", id="raw line break"
        ),
        pytest.param(
            SOUND.replace(": 2,", ": 02,").encode(), "not_json", id="nought before a number"
        ),
        pytest.param(SOUND.encode("utf-16"), "bad_encoding", id="UTF-16"),
        pytest.param(
            SOUND.encode().replace(b"Sedge Hollow", b"\xc3\x28"), "bad_encoding", id="broken UTF-8"
        ),
        pytest.param(
            SOUND.encode().replace(b"Sedge Hollow", b"\xed\xa0\x80"),
            "bad_encoding",
            id="surrogate in UTF-8",
        ),
        pytest.param(
            SOUND.replace("Sedge Hollow", "\\ud83d").encode(), "bad_unicode", id="half a pair"
        ),
        pytest.param(SOUND.replace("Sedge Hollow", "\\u0000").encode(), "bad_unicode", id="NUL"),
        pytest.param(
            SOUND.replace('"goal"', '"g\\u0000al"').encode(), "bad_unicode", id="NUL in a name"
        ),
        pytest.param(SOUND.replace("32000", "NaN").encode(), "nonfinite_number", id="NaN"),
        pytest.param(
            SOUND.replace("32000", "-Infinity").encode(), "nonfinite_number", id="infinity"
        ),
        pytest.param(SOUND.replace("32000", "1e999").encode(), "nonfinite_number", id="overflow"),
        pytest.param(
            SOUND.replace("32000", "9007199254740992").encode(), "number_out_of_range", id="2^53"
        ),
        pytest.param(
            SOUND.replace("32000", "9" * 9_000).encode(), "number_out_of_range", id="9,000 digits"
        ),
        pytest.param(
            SOUND.replace('"depth"', '"goal"').encode(), "duplicate_key", id="a name twice"
        ),
        pytest.param(
            SOUND.replace("32000", "[" * 40 + "]" * 40).encode(), "too_deep", id="40 lists deep"
        ),
        pytest.param(
            SOUND.replace("32000", "[" * 9_000 + "]" * 9_000).encode(),
            "too_deep",
            id="9,000 lists deep",
        ),
        pytest.param(
            SOUND.replace("32000", "[" * 100).encode(), "too_deep", id="100 lists that never end"
        ),
        pytest.param(
            SOUND.replace("32000", "[[").encode(), "not_json", id="two lists that never end"
        ),
        pytest.param(
            SOUND.replace("32000", "[" * 9_000).encode(),
            "too_deep",
            id="9,000 lists that never end",
        ),
        pytest.param(
            SOUND.replace("32000", '{"a":' * 60_000).encode(), "too_deep", id="60,000 objects deep"
        ),
        pytest.param(
            SOUND.replace("32000", "[]," * 60_000).encode(), "too_large", id="60,000 lists"
        ),
        pytest.param(b"{" + b" " * RULES.max_body, "too_large", id="a megabyte"),
    ],
)
def test_a_body_that_is_not_one_sound_json_object_is_refused(body: bytes, kind: str) -> None:
    assert refusal(delivered(body)) == kind


@pytest.mark.parametrize(("lists", "kind"), [(29, None), (30, "too_deep")])
def test_a_body_may_be_as_deep_as_the_rules_say_and_no_deeper(lists: int, kind: str | None) -> None:
    nested: object = 1
    for _ in range(lists):
        nested = [nested]
    # Envelope, payload and job are three more.
    document = envelope({"job_id": JOB, "job": {"inputs": nested}})

    assert RULES.max_depth == 32
    assert refusal(delivered(document)) == kind


@pytest.mark.parametrize(
    "goal", ["\U0001f600", "\\ud83d\\ude00", "\\\\u0000", "back\\\\slash", "\u202e", "\\u00e9"]
)
def test_text_of_every_kind_is_taken_as_it_is(goal: str) -> None:
    body = SOUND.replace("Tell what the fishers of Sedge Hollow believe", goal).encode()
    request = decoded(delivered(body)).request

    assert isinstance(request, JobRequested)
    assert (stated := stored_goal(request.request)) is not None
    assert stated.goal == json.loads(f'"{goal}"')


@pytest.mark.parametrize(
    ("content_type", "encoding", "kind"),
    [
        ("application/json", None, None),
        ("application/json", "UTF-8", None),
        ("application/json", "identity", None),
        ("Application/JSON; charset=utf-8", None, None),
        (None, None, "bad_content_type"),
        ("", None, "bad_content_type"),
        ("text/plain", None, "bad_content_type"),
        ("application/x-python-serialize", None, "bad_content_type"),
        ("application/json; charset=latin-1", None, "bad_content_type"),
        ("application/json", "gzip", "bad_content_type"),
        ("application/json", "br", "bad_content_type"),
    ],
)
def test_only_plain_json_is_opened(
    content_type: str | None, encoding: str | None, kind: str | None
) -> None:
    delivery = delivered(envelope(GOAL), content_type=content_type, content_encoding=encoding)

    assert refusal(delivery) == kind


@pytest.mark.parametrize(
    ("version", "kind"),
    [(1, None), ("1", None), (2, "bad_content_type"), (True, "bad_content_type")],
)
def test_a_message_of_another_version_is_refused(version: object, kind: str | None) -> None:
    delivery = replace(delivered(envelope(GOAL)), headers={"x-wavewright-version": version})

    assert refusal(delivery) == kind


def test_what_a_sender_writes_into_headers_and_properties_decides_nothing() -> None:
    plain = delivered(envelope(GOAL))
    busy = replace(
        plain,
        headers={"x-death": [{"count": 999_999_999}], "x-delivery-count": 99, "x-retry": "-1"},
        message_id="another",
        correlation_id="another",
        reply_to="amq.rabbitmq.reply-to",
        expiration="1",
        kind="validation_result",
        app_id="somebody",
        timestamp=0.0,
        delivery_count=99,
    )

    assert decoded(busy) == decoded(plain)


def test_a_goal_is_refused_where_no_goal_template_is_for_it() -> None:
    rules = replace(RULES, takes_goals=False)

    with pytest.raises(MessageRejected, match="no goal template is configured"):
        decode(delivered(envelope(GOAL)), rules, NOW)
    assert refusal(delivered(envelope({"job_id": JOB, "job": DOCUMENT})), rules) is None


def test_a_refusal_names_the_place_and_what_would_be_right() -> None:
    broken = envelope(GOAL | {"depth": 9, "target": "a\nb", "budget_tokens": "many"})

    with pytest.raises(MessageRejected) as caught:
        decode(delivered(broken), RULES, NOW)

    assert caught.value.reason == (
        "payload.depth must be less than or equal to 5; "
        "payload.budget_tokens must be a whole number; "
        "payload.target must hold no control characters"
    )


def test_a_refusal_repeats_no_word_of_the_message() -> None:
    canary = "sk-live-4242424242424242"
    places = [
        envelope(GOAL, message_id=canary),
        envelope(GOAL, message_type=canary),
        envelope(GOAL, target_agent=canary),
        envelope(GOAL, source_agent=canary),
        envelope(GOAL, timestamp=canary),
        envelope(GOAL) | {canary: canary},
        envelope(canary),
        envelope({canary: canary}),
        envelope(GOAL | {canary: 1}),
        envelope(GOAL | {"depth": canary}),
        envelope(GOAL | {"target": f"{canary}\n"}),
        envelope(VERDICT | {"feedback": [{canary: canary}]}, "validation_result"),
    ]
    bodies = [
        SOUND.replace("32000", f'"{canary}').encode(),
        SOUND.replace('"goal"', f'"{canary}": 1, "{canary}"').encode(),
        SOUND.replace("Sedge Hollow", f"{canary}\\ud800").encode(),
        canary.encode(),
        canary.encode("utf-16"),
    ]

    for delivery in (*map(delivered, places), *map(delivered, bodies)):
        with pytest.raises(MessageRejected) as caught:
            decode(delivery, RULES, NOW)
        assert canary not in str(caught.value)
        assert caught.value.__cause__ is None
        assert len(caught.value.reason) <= 500


def test_where_no_senders_are_listed_everybody_may_send_everything() -> None:
    rules = replace(RULES, identities={})

    assert refusal(delivered(envelope(GOAL, source_agent="anybody"), user_id=None), rules) is None


@pytest.mark.parametrize("user", [None, "svc_validator", "SVC_UI", ""])
def test_a_sender_is_believed_only_as_the_brokers_user_that_it_is(user: str | None) -> None:
    assert refusal(delivered(envelope(GOAL), user_id=user)) == "wrong_identity"


def priority_of(delivery: Delivery, setting: int = 0) -> int:
    received = decoded(delivery, replace(RULES, priority=setting))
    assert isinstance(received.request, JobRequested)
    return new_job(received.request, RunId("r"), NOW).priority


def test_the_priority_of_a_job_is_that_of_its_header_or_its_property_or_the_settings() -> None:
    asked = delivered(envelope(GOAL))

    assert priority_of(asked) == 0
    assert priority_of(asked, setting=4) == 4
    assert priority_of(replace(asked, priority=7), setting=4) == 7
    assert priority_of(replace(asked, priority=7, headers={"priority": 0}), setting=4) == 0
    assert priority_of(replace(asked, headers={"priority": "9"})) == 9


@pytest.mark.parametrize("value", [-1, 10, 2.5, True, "high", None, [1]])
def test_a_priority_that_is_none_is_refused(value: object) -> None:
    assert refusal(delivered(envelope(GOAL), headers={"priority": value})) == "bad_payload"
