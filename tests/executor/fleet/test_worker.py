"""Workers and coordinators that die, stop, freeze or differ; each is a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.executor.fleet.fleet_site import (
    TOOLS,
    FleetSite,
    fleet_site,
    read_url,
    step,
    write_plan,
    write_project,
)
from tests.support.postgres import OwnServer, PostgresServer
from tests.support.trace_collector import TraceCollector
from wavewright.engine import Wavewright
from wavewright.planner.types import Json, JsonObject

pytestmark = pytest.mark.anyio


@pytest.fixture
def site(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FleetSite]:
    with fleet_site(tmp_path / "project", postgres) as made:
        monkeypatch.setenv("WAVEWRIGHT_PG_URL", made.url)
        monkeypatch.setenv("MARKS", str(made.marks))
        yield made


def call(tool: str, name: str, **fields: Json) -> JsonObject:
    return step(name, tool, {"name": name}, **fields)


def test_a_call_whose_worker_is_killed_is_made_by_another(site: FleetSite) -> None:
    first = site.start()
    write_plan(site.folder, call("held", "one"), result="${steps.one}")
    run = site.run("run", "test.plan.yaml")
    site.wait_for_mark("one began")
    first.send_signal(signal.SIGKILL)
    first.wait()
    site.start()
    site.wait_for_mark("one began", times=2)
    site.go("one")

    assert run.wait() == 0
    assert len(site.processes("one ended")) == 1


def test_a_write_whose_worker_is_killed_ends_as_interrupted(site: FleetSite) -> None:
    first = site.start()
    write_plan(site.folder, call("write", "one"), result="${steps.one}")
    run = site.run("run", "test.plan.yaml", "--json")
    site.wait_for_mark("one began")
    first.send_signal(signal.SIGKILL)
    site.start()

    assert run.wait() == 1
    assert len(site.processes("one began")) == 1
    assert (
        "its fleet worker died or was stopped, and the call may have taken effect" in site.printed()
    )


def test_what_ends_while_the_coordinator_is_dead_is_not_called_again(site: FleetSite) -> None:
    site.start()
    write_plan(
        site.folder,
        call("held", "ended"),
        call("held", "later"),
        call("write", "written"),
        result=["${steps.ended}", "${steps.later}", "${steps.written}"],
    )
    run = site.run("run", "test.plan.yaml")
    for name in ("ended", "later", "written"):
        site.wait_for_mark(f"{name} began")
    run.send_signal(signal.SIGKILL)
    run.wait()
    for name in ("ended", "written"):
        site.go(name)
        site.wait_for_mark(f"{name} ended")
    resumed = site.run("resume")
    site.go("later")

    assert resumed.wait() == 0
    assert [len(site.processes(f"{name} began")) for name in ("ended", "later", "written")] == [
        1,
        1,
        1,
    ]


def test_what_a_call_emits_is_journaled_once_though_the_coordinator_is_killed(
    site: FleetSite, postgres: PostgresServer
) -> None:
    site.start()
    write_plan(site.folder, call("telling", "one"), result="${steps.one}")
    run = site.run("run", "test.plan.yaml")
    site.wait_for_mark("one began")
    seen = "SELECT body::json -> 'body' -> 'fields' ->> 'number' FROM wavewright.event WHERE body LIKE '%number_seen%'"
    site.wait_until(lambda: postgres.fetch(seen, site.url), "the first event in the journal")
    run.send_signal(signal.SIGKILL)
    run.wait()
    site.go("one")
    resumed = site.run("resume")

    assert resumed.wait() == 0
    assert postgres.fetch(seen, site.url) == [("1",), ("2",)]
    assert postgres.fetch("SELECT count(*) FROM wavewright_fleet.emission", site.url) == [(0,)]


def test_what_a_call_prints_on_a_worker_is_followed_while_it_is_at_work(site: FleetSite) -> None:
    site.start()
    site.wait_for_start()
    write_plan(
        site.folder,
        step("told", "telling", {"name": "${item}"}, for_each=["one", "two"]),
        result="${steps.told}",
    )
    run = site.run("run", "test.plan.yaml", "--quiet")
    site.wait_for_mark("two began")
    following = site.run("logs", "--follow", "--format", "json")
    site.wait_until(lambda: len(followed_lines(site)) == 2, "the lines of both items")

    assert run.poll() is None
    for name in ("one", "two"):
        site.go(name)
    assert (run.wait(), following.wait()) == (0, 0)
    assert sorted((line["index"], line["text"]) for line in followed_lines(site)) == [
        (0, "one is told"),
        (1, "two is told"),
    ]


def followed_lines(site: FleetSite) -> list[JsonObject]:
    """Return the lines that `logs --follow --format json` has printed so far."""
    printed = (json.loads(line) for line in site.printed().splitlines() if line.startswith('{"'))
    return [line for line in printed if line.get("stream") == "stdout"]


async def test_a_time_limit_reaches_the_worker(site: FleetSite) -> None:
    site.start()
    site.wait_for_start()
    write_plan(site.folder, call("slow", "one", timeout=2))
    async with Wavewright.from_project(site.folder) as ww:
        run = await ww.run("test.plan.yaml")

    error = run.steps["one"].error
    assert error is not None
    assert error.kind == "timeout"
    site.wait_for_mark("one cancelled")


def test_a_stopped_run_cancels_its_calls_on_the_workers(site: FleetSite) -> None:
    site.start()
    write_plan(site.folder, call("slow", "one"))
    run = site.run("run", "test.plan.yaml")
    site.wait_for_mark("one began")
    run.send_signal(signal.SIGINT)
    site.wait_for_mark("one cancelled")

    assert run.wait() == 130


def test_a_frozen_worker_that_wakes_writes_no_answer(
    site: FleetSite, postgres: PostgresServer
) -> None:
    frozen = site.start()
    write_plan(
        site.folder,
        call("held", "one"),
        call("held", "two", depends_on=["one"]),
        result="${steps.one}",
    )
    run = site.run("run", "test.plan.yaml")
    [pid] = site.wait_for_mark("one began")
    frozen.send_signal(signal.SIGSTOP)
    site.start()
    other = site.wait_for_mark("one began", times=2)[1]
    site.go("one")
    site.wait_for_mark("two began")
    frozen.send_signal(signal.SIGCONT)
    site.wait_for_mark("one ended", times=2)
    site.go("two")

    assert run.wait() == 0
    assert pid != other
    assert postgres.fetch("SELECT count(*) FROM wavewright_fleet.call", site.url) == [(0,)]


def test_a_worker_that_is_stopped_lets_calls_end(site: FleetSite) -> None:
    worker = site.start()
    write_plan(site.folder, call("held", "one"), result="${steps.one}")
    run = site.run("run", "test.plan.yaml")
    site.wait_for_mark("one began")
    worker.send_signal(signal.SIGTERM)
    site.go("one")

    assert worker.wait() == 0
    assert run.wait() == 0
    assert site.log()[-1]["event"] == "worker_stopped"


def test_a_worker_with_other_tools_takes_no_call_and_says_so(
    site: FleetSite, tmp_path: Path
) -> None:
    write_project(
        tmp_path / "other",
        {"heartbeat": 1},
        TOOLS.replace('mark(f"{name} ended")', 'mark(f"{name} gone")'),
    )
    write_plan(site.folder, call("held", "one"), result="${steps.one}")
    run = site.run("run", "test.plan.yaml")
    site.wait_until(lambda: "no live fleet worker" in site.printed(), "the warning")
    site.start(folder=tmp_path / "other")
    site.wait_for_start()
    site.start()
    site.wait_for_mark("one began")
    site.go("one")

    assert run.wait() == 0
    assert len(site.processes("one ended")) == 1
    assert any("1 call waits for the tool held@" in str(line.get("message")) for line in site.log())


async def test_a_tool_with_needs_runs_where_they_are_met(site: FleetSite) -> None:
    site.start()
    labelled = site.start("--labels", "gpu,eu")
    write_plan(site.folder, {"id": "one", "tool": "needing", "params": {}}, result="${steps.one}")
    async with Wavewright.from_project(site.folder) as ww:
        run = await ww.run("test.plan.yaml")

    assert run.result == labelled.pid != os.getpid()


def test_calls_that_no_worker_makes_hold_up_no_others(site: FleetSite) -> None:
    site.start("--slots", "2")
    site.wait_for_start()
    many = step("many", "needing", {"number": "${item}"}, for_each="${inputs.numbers}")
    write_plan(
        site.folder,
        many,
        call("held", "other"),
        result="${steps.many}",
        inputs={"numbers": [*range(60)]},
    )
    run = site.run("run", "test.plan.yaml")
    site.wait_for_mark("other began")
    site.wait_until(
        lambda: "label 'gpu', which the tool 'needing' needs" in site.printed(), "the warning"
    )
    site.go("other")
    site.wait_for_mark("other ended")
    site.start("--slots", "4", "--labels", "gpu")

    assert run.wait() == 0, site.printed()
    assert "step 'many' waits" in site.printed()


async def test_a_call_that_ends_every_worker_fails(site: FleetSite) -> None:
    (site.folder / "tools.py").write_text(
        TOOLS.replace('raise KeyError(f"no number {number}")', "os._exit(1)"), encoding="utf-8"
    )
    workers = [site.start() for _ in range(3)]
    write_plan(site.folder, {"id": "one", "tool": "fail", "params": {"number": 1}})
    async with Wavewright.from_project(site.folder) as ww:
        run = await ww.run("test.plan.yaml")

    error = run.steps["one"].error
    assert error is not None
    assert error.message == "3 fleet workers died while they made the call"
    assert [worker.wait() for worker in workers] == [1, 1, 1]


def test_a_worker_serves_its_health_and_its_metrics(site: FleetSite) -> None:
    place = free_place()
    site.start("--health", place)
    write_plan(
        site.folder,
        call("flaky", "one", retry={"attempts": 2, "wait_initial": 0.01}),
        result="${steps.one}",
    )

    assert site.run("run", "test.plan.yaml").wait() == 0
    assert read_url(f"http://{place}/ready") == '{"ready":true,"parts":{"database":"ok"}}'
    metrics = read_url(f"http://{place}/metrics")
    assert 'wavewright_fleet_calls_total{ending="ok",tool="flaky"} 1.0' in metrics
    assert 'wavewright_fleet_calls_total{ending="failed",tool="flaky"} 1.0' in metrics
    assert "wavewright_fleet_slots 10.0" in metrics


def test_a_worker_without_a_database_and_one_that_stops_are_not_ready(
    site: FleetSite, own_postgres: OwnServer
) -> None:
    place = free_place()
    worker = site.start("--health", place)
    write_plan(site.folder, call("held", "one"))
    site.run("run", "test.plan.yaml")
    site.wait_for_mark("one began")

    own_postgres.stop()
    site.wait_until(lambda: "no heartbeat could be written" in ready(place), "the fault")
    own_postgres.start()
    site.wait_until(lambda: '"ready":true' in ready(place), "the end of the fault")
    worker.send_signal(signal.SIGTERM)
    site.wait_until(lambda: '"worker":"it is stopping: SIGTERM"' in ready(place), "the stop")
    site.go("one")

    assert worker.wait() == 0


def free_place() -> str:
    """Return an address on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def ready(place: str) -> str:
    """Return whether a worker says that it is ready, with the reasons."""
    try:
        return read_url(f"http://{place}/ready")
    except HTTPError as refused:
        return str(refused.read(), "utf-8")


def test_a_call_of_a_worker_is_part_of_the_runs_trace(
    site: FleetSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TraceCollector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        worker = site.start()
        write_plan(
            site.folder,
            {"id": "two", "tool": "double", "params": {"number": 1}},
            result="${steps.two}",
        )
        assert site.run("run", "test.plan.yaml").wait() == 0
        worker.send_signal(signal.SIGTERM)
        worker.wait()

    spans = {span.name: span for span in collector.spans}
    assert spans["call double"].parent_span_id == spans["run"].span_id
    assert spans["call double"].trace_id == spans["step two"].trace_id == spans["run"].trace_id
