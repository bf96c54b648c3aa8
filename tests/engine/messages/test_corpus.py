"""Messages of every kind that a broker may bring, each with what may become of it.

The corpus lies beside the project; where it is not there, its rows are skipped by name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
from wavewright.executor.job_store.port import MOST_ATTEMPTS
from wavewright.executor.job_store.records import (
    Alongside,
    Decision,
    DecisionId,
    DecisionMade,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    JobState,
    MessageId,
    Outgoing,
    Receipt,
    Received,
)
from wavewright.executor.job_store.sqlite import SqliteJobStore
from wavewright.executor.journal_sqlite import SqliteJournal
from wavewright.executor.purse_sqlite import SqlitePurse
from wavewright.executor.stores import Stores
from wavewright.planner.types import JsonObject

CASES = Path(__file__).parents[4] / "shared" / "cases"
KEY, OTHER_KEY = b"the key of the corpus", b"the key of somebody else"
JUDGED_BY_STORE = {
    "duplicate",
    "duplicate_job",
    "stale",
    "out_of_order",
    "unknown_correlation",
    "bad_payload",
}
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
    return cast("Contract", json.loads((CASES / "envelope_contract.json").read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Desk:
    """Takes messages in as the daemon does, over a real store."""

    stores: Stores
    rules: WireRules
    now: float

    async def take(self, delivery: Delivery) -> Receipt:
        try:
            message = decode(delivery, self.rules, self.now)
        except Refused as refused:
            return Receipt("dead_letter", refused.kind, refused.reason)
        return await self.stores.jobs.receive(message)

    async def begin(self) -> JobRow:
        job = await self.stores.jobs.claim()
        assert job is not None
        return job

    async def fail_until_dead(self) -> JobRow | None:
        """Begin a job and let its attempt fail, again and again; return it as it is given up."""
        dead = list[JobRow]()

        def tell(job: JobRow) -> Sequence[Outgoing]:
            dead.append(job)
            return ()

        for _ in range(50):
            job = await self.stores.jobs.claim(tell=tell)
            if job is None:
                break
            await self.stores.jobs.change(JobChange(job.job, "queued", is_failed_attempt=True))
        return dead[0] if dead else None


@asynccontextmanager
async def open_desk(path: Path, agreed: Contract) -> AsyncGenerator[Desk]:
    """Open a store that holds what the contract says."""
    now = datetime.fromisoformat(agreed["now"]).timestamp()
    async with SqliteJournal(path) as journal, SqlitePurse(path) as purse:
        desk = Desk(Stores(journal, SqliteJobStore(journal, clock=lambda: now), purse), rules_of(agreed), now)
        await furnish(desk, agreed["default_state"])
        yield desk


async def furnish(desk: Desk, state: _State) -> None:
    jobs = desk.stores.jobs
    for name, stated in state["jobs"].items():
        seen = MessageId(state["seen"][0] if stated["status"] == "completed" else name)
        await jobs.receive(Received(seen, "job_request", "somebody", desk.now, JobRequested(JobId(name), {})))
        job = await desk.begin()
        if stated["status"] == "running":
            asked = tuple(
                question_of(DecisionId(one), job, tuple(decision["options"]))
                for one, decision in state["decisions"].items()
            )
            await desk.stores.journal.append(job.run, [], Alongside(decisions=asked))
        end: JobState = "completed" if stated["status"] == "completed" else "awaiting"
        await jobs.change(
            JobChange(job.job, end, iteration=stated["iteration"], package=stated["package_id"])
        )
    for one, decision in state["decisions"].items():
        if "choice" in decision:
            await jobs.decide(DecisionMade(DecisionId(one), decision["choice"], "somebody"))


def question_of(name: DecisionId, job: JobRow, options: tuple[str, ...]) -> Decision:
    return Decision(id=name, job=job.job, run=job.run, subject="question", question="Which?", options=options)


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


@pytest.mark.anyio
@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['id']}-{row['why']}")
async def test_a_message_of_the_corpus_ends_as_its_contract_says(row: Row, tmp_path: Path) -> None:
    async with open_desk(tmp_path / "journal.sqlite", contract()) as desk:
        first, *others = [await desk.take(delivery_of(row)) for _ in range(row["deliveries"])]

        if row["kind"] == "max_deliveries":
            # A sound message whose job always fails: it is one job, begun a few times, and then given up.
            dead = await desk.fail_until_dead()
            assert first.action == "accept"
            assert {other.action for other in others} == {"ack_duplicate"}
            assert dead is not None
            assert (dead.state, dead.attempts) == ("dead", MOST_ATTEMPTS)
        else:
            assert first.action in row["actions"]
            assert first.kind == (row["kind"] if first.action != "accept" else None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "row", [row for row in rows() if row["kind"] in JUDGED_BY_STORE], ids=lambda row: row["id"]
)
async def test_what_has_no_effect_leaves_the_store_as_it_was(row: Row, tmp_path: Path) -> None:
    async with open_desk(tmp_path / "journal.sqlite", contract()) as desk:
        before = await everything(desk.stores)
        await desk.take(delivery_of(row))

        assert await everything(desk.stores) == before


async def everything(stores: Stores) -> list[object]:
    return [
        await stores.jobs.list_jobs(),
        await stores.jobs.list_decisions(is_open=True),
        await stores.jobs.list_decisions(is_open=False),
        await stores.jobs.pending(),
    ]


def test_the_corpus_is_complete() -> None:
    if not CASES.exists():
        pytest.skip("the shared cases are not beside the project")

    assert len(rows()) == 47
