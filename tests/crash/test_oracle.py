"""The judge itself: what it has to find where nothing is wrong with a job, and what it may excuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import Called
from tests.crash.fleet_judge import FleetFindings, Hit, fleet_violations
from tests.crash.oracle import Findings, Message, Row, violations
from tests.crash.postgres_tables import read_tables
from tests.executor.event_examples import run_finished, run_started
from tests.support.postgres import PostgresServer
from wavewright.config.settings import load_settings
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.planner.types import RunId

JOB = "a-job"
TOLD = Message("m", "job_status", "", {"payload": {"job_id": JOB, "status": "JOB_FAILED"}})
RUN = RunId("20261121-231907-3f2a7c")


def called(tool: str, event: str = "start") -> Called:
    return Called(event, tool, JOB, "a-key", 1.0)


def judged(state: str, *ledger: Called, is_rationed: bool = False) -> Sequence[str]:
    rows = [Row(JOB, RUN, state, 5)]
    return violations(Findings([JOB], ledger, [TOLD], [JOB], rows, is_rationed=is_rationed))


@pytest.mark.parametrize("state", ["dead", "failed"])
def test_a_sound_job_that_was_given_up_is_a_violation(state: str) -> None:
    assert [found[:4] for found in judged(state, called("gather"))] == ["I10:"]
    assert judged("completed", called("gather")) == []


def test_a_job_that_ended_without_its_result_is_a_violation() -> None:
    ended = replace(run_finished(), status="not_achieved")
    found = Findings([JOB], [], [TOLD], [], [Row(JOB, RUN, "completed")], {JOB: [ended]})
    assert [broken[:4] for broken in violations(found)] == ["I10:"]
    assert violations(replace(found, events={JOB: [ended, run_finished()]})) == []


def test_a_job_that_does_harm_or_spends_too_much_may_be_given_up() -> None:
    assert judged("dead", called("poison")) == []
    assert judged("failed", called("gather"), is_rationed=True) == []


def test_a_call_in_doubt_may_fail_a_job_and_buries_none() -> None:
    assert judged("failed", called("post")) == []
    assert judged("dead", called("post")) != []


def test_a_request_that_was_laid_aside_before_it_was_a_job_is_a_violation() -> None:
    assert [found[:4] for found in violations(Findings([JOB], [], [], [JOB], []))] == ["I10:"]


def begun(process: int, at: float, tool: str = "gather") -> Called:
    return Called("start", tool, JOB, "a-key", at, process)


@pytest.mark.parametrize(
    ("ledger", "hits", "broken"),
    [
        pytest.param([begun(1, 1.0), begun(2, 3.0)], [Hit(1, 2.0, 2.5)], [], id="its worker died"),
        pytest.param(
            [begun(1, 1.0), begun(2, 3.0)], [Hit(2, 2.0, 2.5)], ["I4:"], id="another died"
        ),
        pytest.param(
            [begun(1, 1.0, "post"), begun(2, 3.0, "post")],
            [Hit(1, 2.0, 2.5)],
            ["I5:"],
            id="not idempotent",
        ),
        pytest.param([begun(3, 1.0)], [], ["I8:"], id="in the process of the run"),
    ],
)
def test_a_call_is_made_again_only_where_its_own_worker_was_hit(
    ledger: list[Called], hits: list[Hit], broken: list[str]
) -> None:
    found = Findings([JOB], ledger, [TOLD], [], [Row(JOB, RUN, "failed")])
    fleet = FleetFindings(replace(found, is_rationed=True), hits, workers=[1, 2])
    assert [one[:3] for one in fleet_violations(fleet) if not one.startswith("I10")] == broken


@pytest.mark.anyio
async def test_a_gap_and_a_row_that_its_events_do_not_say_are_seen_in_postgresql(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = await anyio.to_thread.run_sync(postgres.database)
    async with open_stores(load_settings(tmp_path, {"WAVEWRIGHT_PG_URL": url})) as stores:
        await stores.journal.open_run(RUN)
        await stores.journal.append(RUN, [run_started(RUN), run_finished()])
    sound = await read_tables(url)

    await anyio.to_thread.run_sync(
        postgres.run,
        "UPDATE wavewright.run SET ok = 7; ALTER TABLE wavewright.event DISABLE TRIGGER USER",
        url,
    )
    altered = await read_tables(url)
    await anyio.to_thread.run_sync(postgres.run, "DELETE FROM wavewright.event WHERE seq = 0", url)
    gaping = await read_tables(url)

    assert sound.faults == []
    assert [fault.partition(" is not ")[2] for fault in altered.faults] == ["what its events say"]
    assert any("has event 1 where event 0 belongs" in fault for fault in gaping.faults)
