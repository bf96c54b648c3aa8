"""The JSON Schema that the writers of the other end are given."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest
from hypothesis import given

from tests.engine.service.messages.sample_messages import (
    ANSWER,
    GOAL,
    JOB,
    VERDICT,
    Loose,
    delivered,
    envelope,
    refusal,
    without,
)
from tests.engine.service.messages.test_encoding import reports, requests, sent
from wavewright.engine.service.messages.contract import message_schema
from wavewright.tools.message_contract import MessageContract, Payload

VALIDATOR = jsonschema_rs.validator_for(message_schema(MessageContract()))


@given(reports)
def test_what_the_daemon_sends_fits(payload: Payload) -> None:
    VALIDATOR.validate(json.loads(sent(payload).body))


@given(requests)
def test_what_the_daemon_takes_in_fits(payload: Payload) -> None:
    VALIDATOR.validate(json.loads(sent(payload).body))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(envelope(GOAL) | {"admin": True}, id="field of nobody"),
        pytest.param(envelope(GOAL | {"admin": True}), id="field of nobody in the payload"),
        pytest.param(without(envelope(GOAL), "payload"), id="no payload"),
        pytest.param(envelope(without(GOAL, "goal")), id="no goal"),
        pytest.param(envelope({"job_id": JOB, "job": {}}), id="empty job"),
        pytest.param(envelope(GOAL | {"job": {"name": "words"}}), id="both forms of a job"),
        pytest.param(envelope(GOAL, message_id="one"), id="no UUID"),
        pytest.param(envelope(GOAL, timestamp="2026-04-14"), id="no instant"),
        pytest.param(envelope(GOAL, "postcard"), id="another type"),
        pytest.param(envelope(GOAL, "user_decision_response"), id="payload of another type"),
        pytest.param(envelope(GOAL | {"depth": "1"}), id="text for a number"),
        pytest.param(envelope(VERDICT | {"iteration": 11}, "validation_result"), id="package 11"),
        pytest.param(envelope(ANSWER | {"choice": ""}, "user_decision_response"), id="no choice"),
    ],
)
def test_what_the_daemon_refuses_does_not_fit(document: Loose) -> None:
    assert refusal(delivered(document)) is not None
    assert not VALIDATOR.is_valid(document)


def test_each_payload_is_described_by_its_own_fields() -> None:
    schema = json.dumps(message_schema(MessageContract()))

    assert "The sender's id of the job" in schema
    assert "What the answer must name." in schema
