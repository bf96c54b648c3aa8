"""Messages of every kind that a broker may bring, each with what may become of it.

The corpus lies beside the project; where it is not there, its rows are skipped by name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import pytest

from wavewright.engine.messages.decoding import decode
from wavewright.engine.messages.delivery import Delivery
from wavewright.engine.messages.envelope import RequestType
from wavewright.engine.messages.refusals import Refused
from wavewright.engine.messages.rules import Identity, WireRules
from wavewright.engine.messages.signatures import SIGNATURE_HEADER, sign
from wavewright.executor.job_store.reception import judge
from wavewright.executor.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    Receipt,
    Received,
    ReceptionView,
    VerdictGiven,
)
from wavewright.planner.types import JsonObject, RunId

CASES = Path(__file__).parents[4] / "shared" / "cases"
KEY, OTHER_KEY = b"the key of the corpus", b"the key of somebody else"
QUEUE, OTHER_QUEUE = "agent.world_lore_researcher", "agent.world_lore_validator"


class _Generated(TypedDict):
    prefix: str
    unit: str
    count: int
    suffix: str


class Row(TypedDict):
    """One line of the corpus."""

    id: str
    properties: dict[str, object]
    sig: str
    deliveries: int
    actions: list[str]
    kind: str | None
    why: str
    body: NotRequired[JsonObject]
    body_raw: NotRequired[str]
    body_b64: NotRequired[str]
    body_gen: NotRequired[_Generated]


class _Identity(TypedDict):
    user_id: str
    may_send: list[RequestType]


class _Job(TypedDict):
    status: str
    iteration: int
    package_id: str


class _Decision(TypedDict):
    options: list[str]
    status: str
    choice: str


class _State(TypedDict):
    jobs: dict[str, _Job]
    decisions: dict[str, _Decision]
    seen: list[str]


class Contract(TypedDict):
    """What the corpus says of the daemon that it is for."""

    now: str
    max_body: int
    max_depth: int
    skew_s: float
    max_age_s: float
    identity: dict[str, _Identity]
    default_state: _State


def rows() -> list[Row]:
    path = CASES / "bad_envelopes.jsonl"
    if not path.exists():
        return []
    return [cast("Row", json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def contract() -> Contract:
    return cast("Contract", json.loads((CASES / "envelope_contract.json").read_text(encoding="utf-8")))


class Desk:
    """Takes messages in over a small state in memory, by the rules of the contract."""

    def __init__(self, agreed: Contract) -> None:
        state = agreed["default_state"]
        self.now = datetime.fromisoformat(agreed["now"]).timestamp()
        self.rules = rules_of(agreed)
        self.seen = {MessageId(message) for message in state["seen"]}
        self.jobs = {JobId(name): job_of(JobId(name), job) for name, job in state["jobs"].items()}
        self.decisions = {
            DecisionId(name): decision_of(DecisionId(name), decision)
            for name, decision in state["decisions"].items()
        }

    def take(self, delivery: Delivery) -> Receipt:
        try:
            message = decode(delivery, self.rules, self.now)
        except Refused as refused:
            return Receipt("dead_letter", refused.kind, refused.reason)
        receipt = judge(message, self.view(message))
        if receipt.action == "accept":
            self.write(message)
        return receipt

    def view(self, message: Received) -> ReceptionView:
        seen = message.message in self.seen
        match message.request:
            case JobRequested(job=job) | VerdictGiven(job=job):
                return ReceptionView(now=self.now, is_seen=seen, job=self.jobs.get(job))
            case DecisionMade(decision=name):
                decision = self.decisions.get(name)
                job_row = self.jobs.get(decision.job) if decision is not None else None
                return ReceptionView(now=self.now, is_seen=seen, job=job_row, decision=decision)

    def write(self, message: Received) -> None:
        self.seen.add(message.message)
        match message.request:
            case JobRequested(job=job, request=request):
                self.jobs[job] = JobRow(
                    job=job, run=RunId("r"), state="queued", request=request, received=self.now
                )
            case VerdictGiven(job=job) as verdict:
                row = self.jobs[job]
                self.jobs[job] = replace(row, feedback=(*row.feedback, verdict))
            case DecisionMade(decision=name, choice=choice):
                self.decisions[name] = replace(self.decisions[name], choice=choice)


def rules_of(agreed: Contract) -> WireRules:
    identities = {
        name: Identity(one["user_id"], frozenset(one["may_send"])) for name, one in agreed["identity"].items()
    }
    return WireRules(
        agent="world_lore_researcher",
        max_body=agreed["max_body"],
        max_depth=agreed["max_depth"],
        max_age=agreed["max_age_s"],
        skew=agreed["skew_s"],
        identities=identities,
        key=KEY,
    )


def job_of(name: JobId, job: _Job) -> JobRow:
    return JobRow(
        job=name,
        run=RunId("r"),
        state="completed" if job["status"] == "completed" else "running",
        request={},
        received=0.0,
        iteration=job["iteration"],
        package=job["package_id"],
    )


def decision_of(name: DecisionId, decision: _Decision) -> Decision:
    return Decision(
        id=name,
        job=JobId("4a7b0000-0000-4000-8000-000000000001"),
        run=RunId("r"),
        subject="question",
        question="Which?",
        options=tuple(decision["options"]),
        choice=decision.get("choice"),
    )


def body_of(row: Row) -> bytes:
    if "body" in row:
        return json.dumps(row["body"], separators=(",", ":"), ensure_ascii=False).encode()
    if "body_raw" in row:
        return row["body_raw"].encode()
    if "body_b64" in row:
        return base64.b64decode(row["body_b64"])
    assert "body_gen" in row
    made = row["body_gen"]
    return (made["prefix"] + made["unit"] * made["count"] + made["suffix"]).encode()


def signature_of(row: Row, body: bytes) -> str | None:
    stated = row.get("body", {})
    message_id, timestamp = str(stated.get("message_id", "")), str(stated.get("timestamp", ""))
    match row["sig"]:
        case "missing":
            return None
        case "wrong":
            return "0" * 64
        case "other_key":
            return sign(OTHER_KEY, body=body, message_id=message_id, timestamp=timestamp, routing_key=QUEUE)
        case "body_changed":
            return sign(KEY, body=body + b" ", message_id=message_id, timestamp=timestamp, routing_key=QUEUE)
        case "other_routing_key":
            return sign(KEY, body=body, message_id=message_id, timestamp=timestamp, routing_key=OTHER_QUEUE)
        case _:
            return sign(KEY, body=body, message_id=message_id, timestamp=timestamp, routing_key=QUEUE)


def delivery_of(row: Row) -> Delivery:
    body, properties = body_of(row), row["properties"]
    signature = signature_of(row, body)
    headers = dict(cast("Mapping[str, object]", properties.get("headers", {})))
    if signature is not None:
        headers[SIGNATURE_HEADER] = signature
    return Delivery(
        body=body,
        routing_key=QUEUE,
        content_type=cast("str | None", properties.get("content_type")),
        content_encoding=cast("str | None", properties.get("content_encoding")),
        expiration=cast("str | None", properties.get("expiration")),
        reply_to=cast("str | None", properties.get("reply_to")),
        user_id=cast("str | None", properties.get("user_id")),
        headers=headers,
    )


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['id']}-{row['why']}")
def test_a_message_of_the_corpus_ends_as_its_contract_says(row: Row) -> None:
    desk = Desk(contract())

    first, *others = [desk.take(delivery_of(row)) for _ in range(row["deliveries"])]

    if row["kind"] == "max_deliveries":
        # What makes a sound job poison is found out by running it: to be taken in once is all there is to see here.
        assert (first.action, {other.action for other in others}) == ("accept", {"ack_duplicate"})
    else:
        assert first.action in row["actions"]
        assert first.kind == (row["kind"] if first.action != "accept" else None)


def test_the_corpus_is_complete() -> None:
    if not CASES.exists():
        pytest.skip("the shared cases are not beside the project")

    assert len(rows()) == 47
