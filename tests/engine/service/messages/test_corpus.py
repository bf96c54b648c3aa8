"""The corpus, row by row, through the decoder and a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.service.messages.message_corpus import (
    CASES,
    Row,
    contract,
    delivery_of,
    furnished,
    open_receiver,
    rows,
)
from wavewright.engine.service.job_store.rules import MAX_FAILURES, project_nothing
from wavewright.engine.service.job_store.stores import Stores

JUDGED_BY_STORE = {
    "duplicate",
    "duplicate_job",
    "stale",
    "out_of_order",
    "unknown_correlation",
    "bad_payload",
}


@pytest.mark.anyio
@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['id']}-{row['why']}")
async def test_a_message_of_the_corpus_ends_as_its_contract_says(row: Row, tmp_path: Path) -> None:
    async with open_receiver(tmp_path / "journal.sqlite", contract()) as receiver:
        first, *others = [await receiver.take(delivery_of(row)) for _ in range(row["deliveries"])]

        if row["kind"] == "max_deliveries":
            # A sound message whose job always fails: it is one job, begun a few times, and then
            # given up.
            await receiver.fail_until_dead(project_nothing)
            assert first.action == "accept"
            assert {other.action for other in others} == {"ack_duplicate"}
            [dead] = await receiver.stores.jobs.list_jobs(["dead"])
            assert dead.failures == MAX_FAILURES
        else:
            assert first.action in row["actions"]
            assert first.kind == (row["kind"] if first.action != "accept" else None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "row", [row for row in rows() if row["kind"] in JUDGED_BY_STORE], ids=lambda row: row["id"]
)
async def test_what_has_no_effect_leaves_every_store_as_it_was(row: Row, stores: Stores) -> None:
    receiver = await furnished(stores, contract())
    before = await everything(stores)

    receipt = await receiver.take(delivery_of(row))

    assert (receipt.action in row["actions"], receipt.kind) == (True, row["kind"])
    assert await everything(stores) == before


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
