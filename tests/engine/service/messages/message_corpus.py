"""Messages of every kind that a broker may bring, each with what may become of it, and the state
that they come upon.

The corpus lies beside the project; where it is not there, there are no rows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    Receipt,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.rules import ProjectJob
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.job_store.stores import Stores
from wavewright.engine.service.messages.decoding import decode
from wavewright.engine.service.messages.delivery import (
    SIGNATURE_HEADER,
    AcceptanceRules,
    Delivery,
    SenderIdentity,
    request_forms,
    sign,
)
from wavewright.engine.service.messages.reading import MessageRejected
from wavewright.executor.sqlite.journal import SqliteBudgetStore, SqliteJournal
from wavewright.packs.lore.messages import CONTRACT
from wavewright.planner.types import JsonObject

CASES = Path(__file__).parents[5] / "shared" / "cases"
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
    may_send: list[str]


class _Job(TypedDict):
    status: str
    iteration: int
    package_id: str


class _Decision(TypedDict):
    options: list[str]
    choice: NotRequired[str]


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
    return cast(
        "Contract", json.loads((CASES / "envelope_contract.json").read_text(encoding="utf-8"))
    )


@dataclass(frozen=True)
class MessageReceiver:
    """Takes messages in as the daemon does, over a real store."""

    stores: Stores
    rules: AcceptanceRules
    now: float

    async def take(self, delivery: Delivery) -> Receipt:
        try:
            message = decode(delivery, self.rules, self.now)
        except MessageRejected as refused:
            return Receipt("dead_letter", refused.kind, refused.reason)
        return await self.stores.jobs.receive(message)

    async def begin(self) -> JobRow:
        job = await self.stores.jobs.claim()
        assert job is not None
        return job

    async def fail_until_dead(self, tell: ProjectJob) -> None:
        """Begin every job that waits and let its attempt fail, until none waits any more."""
        while (job := await self.stores.jobs.claim(project=tell)) is not None:
            await self.stores.jobs.change(JobChange(job.job, "queued", is_failed_attempt=True))


async def furnished(stores: Stores, agreed: Contract) -> MessageReceiver:
    """Put into a store what the contract says that it holds, and sit down before it."""
    now = datetime.fromisoformat(agreed["now"]).timestamp()
    receiver = MessageReceiver(stores, rules_of(agreed), now)
    await _furnish(receiver, agreed["default_state"])
    return receiver


@asynccontextmanager
async def open_receiver(path: Path, agreed: Contract) -> AsyncGenerator[MessageReceiver]:
    """Open a SQLite file that holds what the contract says."""
    async with SqliteJournal(path) as journal, SqliteBudgetStore(path) as budget_store:
        yield await furnished(Stores(journal, JobStore(journal), budget_store), agreed)


async def _furnish(receiver: MessageReceiver, state: _State) -> None:
    jobs = receiver.stores.jobs
    for name, stated in state["jobs"].items():
        seen = MessageId(state["seen"][0] if stated["status"] == "completed" else name)
        await jobs.receive(
            ReceivedMessage(
                seen, "job_request", "somebody", receiver.now, JobRequested(JobId(name), {})
            )
        )
        job = await receiver.begin()
        if stated["status"] == "running":
            asked = tuple(
                question_of(DecisionId(one), job, tuple(decision["options"]))
                for one, decision in state["decisions"].items()
            )
            await receiver.stores.journal.append(job.run, [], OutboxWrites(decisions=asked))
        end: JobState = "completed" if stated["status"] == "completed" else "validating"
        await jobs.change(
            JobChange(job.job, end, iteration=stated["iteration"], package=stated["package_id"])
        )
    for one, decision in state["decisions"].items():
        if "choice" in decision:
            await jobs.decide(DecisionMade(DecisionId(one), decision["choice"], "somebody"))


def question_of(name: DecisionId, job: JobRow, options: tuple[str, ...]) -> Decision:
    return Decision(
        id=name, job=job.job, run=job.run, subject="question", question="Which?", options=options
    )


def rules_of(agreed: Contract) -> AcceptanceRules:
    identities = {
        name: SenderIdentity(one["user_id"], frozenset(one["may_send"]))
        for name, one in agreed["identity"].items()
    }
    return AcceptanceRules(
        agent="world_lore_researcher",
        max_body=agreed["max_body"],
        max_depth=agreed["max_depth"],
        max_age=agreed["max_age_s"],
        skew=agreed["skew_s"],
        identities=identities,
        key=KEY,
        forms=request_forms(CONTRACT),
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


def signature_of(row: Row, body: bytes, queue: str, other_queue: str) -> str | None:
    stated = row.get("body", {})
    message_id, timestamp = str(stated.get("message_id", "")), str(stated.get("timestamp", ""))

    def signed(key: bytes = KEY, content: bytes = body, routing_key: str = queue) -> str:
        return sign(
            key, body=content, message_id=message_id, timestamp=timestamp, routing_key=routing_key
        )

    match row["sig"]:
        case "missing":
            return None
        case "wrong":
            return "0" * 64
        case "other_key":
            return signed(key=OTHER_KEY)
        case "body_changed":
            return signed(content=body + b" ")
        case "other_routing_key":
            return signed(routing_key=other_queue)
        case _:
            return signed()


def delivery_of(row: Row, queue: str = QUEUE, other_queue: str = OTHER_QUEUE) -> Delivery:
    """Return a row as it is delivered from a queue, signed as it says."""
    body, properties = body_of(row), row["properties"]
    signature = signature_of(row, body, queue, other_queue)
    headers = dict(cast("Mapping[str, object]", properties.get("headers", {})))
    if signature is not None:
        headers[SIGNATURE_HEADER] = signature
    return Delivery(
        body=body,
        routing_key=queue,
        content_type=cast("str | None", properties.get("content_type")),
        content_encoding=cast("str | None", properties.get("content_encoding")),
        expiration=cast("str | None", properties.get("expiration")),
        reply_to=cast("str | None", properties.get("reply_to")),
        user_id=cast("str | None", properties.get("user_id")),
        headers=headers,
    )
