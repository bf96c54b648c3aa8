"""Models and traces of calls that workers make, and how many calls wait for them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.fleet.fleet_site import FleetSite, fleet_site, step, write_plan
from tests.support.postgres import PostgresServer
from tests.support.trace_collector import TraceCollector
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.planner.types import JsonObject

WORKER = """\
version: 1
name: sort_note
description: Say what kind of note a text is.
prompt: workers/sort_note
token_share: 0.5
input_schema:
  {type: object, required: [text], additionalProperties: false, properties: {text: {type: string}}}
output_schema:
  {type: object, required: [kind], additionalProperties: false, properties: {kind: {type: string}}}
"""
NOTES = ["buy milk", "it rained", "a boat"]
REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "Sorted.",
    "missing_data": [],
    "recovery_actions": [],
}


@pytest.fixture
def site(postgres: PostgresServer, tmp_path: Path) -> Iterator[FleetSite]:
    with fleet_site(tmp_path / "project", postgres) as made:
        yield made


def test_a_model_worker_asks_its_model_from_the_fleet_the_run_pays_and_a_replay_asks_nobody(
    site: FleetSite,
    postgres: PostgresServer,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    for name, text in (
        ("config/workers/sort_note.yaml", WORKER),
        ("prompts/workers/sort_note.md.j2", "What kind of note is this?\n\n{{ inputs.text }}\n"),
    ):
        file = site.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    model_server.answer(REVIEW, when=asked_for("review"))
    model_server.answer({"kind": "a task"}, when=asked_for("sort_note"))
    worker = site.start()
    site.wait_for_start()
    sort = step("kinds", "sort_note", {"text": "${item}"}, for_each="${inputs.notes}")
    write_plan(site.folder, sort, result="${steps.kinds}", inputs={"notes": [*NOTES]})

    assert site.run("run", "test.plan.yaml", "--json").wait() == 0, site.printed()
    settled = "SELECT count(*) FROM wavewright.model_call WHERE role = 'worker' AND settled AND run IS NOT NULL"
    assert postgres.fetch(settled, site.url) == [(len(NOTES),)]
    [file] = site.folder.glob("**/package.json")
    package = json.loads(file.read_text(encoding="utf-8"))
    [paid] = [one for one in package["model_uses"]["roles"] if one["name"] == "worker"]
    assert paid["cost"]["calls"] == len(NOTES)
    assert paid["cost"]["input_tokens"] > 0
    assert package["result"] == [{"kind": "a task"}] * len(NOTES)

    worker.send_signal(signal.SIGKILL)
    before, asked = len(site.printed()), len(model_server.requests)
    assert site.run("replay", "--format", "json").wait() == 0, site.printed()
    replayed = json.loads(site.printed()[before:])
    assert replayed["before"] == replayed["after"]
    assert (replayed["misses"], replayed["live"], len(model_server.requests)) == ([], [], asked)


def test_a_trace_goes_on_in_the_worker(site: FleetSite, monkeypatch: pytest.MonkeyPatch) -> None:
    with TraceCollector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        worker = site.start()
        site.wait_for_start()
        write_plan(
            site.folder,
            {"id": "two", "tool": "double", "params": {"number": 1}},
            result="${steps.two}",
        )
        assert site.run("run", "test.plan.yaml").wait() == 0
        worker.send_signal(15)
        worker.wait()

    [made] = [span for span in collector.spans if span.name == "call double"]
    [above] = [span for span in collector.spans if span.span_id == made.parent_span_id]
    assert (above.name, above.trace_id) == ("run", made.trace_id)
    written = {attribute.key: attribute.value.string_value for attribute in made.attributes}
    assert written["wavewright.worker"].split("/")[1] == str(worker.pid)


def test_no_more_than_twice_the_slots_wait_for_a_run(
    site: FleetSite, postgres: PostgresServer
) -> None:
    site.start("--slots", "4")
    site.wait_for_start()
    held = step("many", "held", {"name": "${item}"}, for_each="${inputs.names}", max_items=60)
    names = [f"n{number}" for number in range(60)]
    write_plan(site.folder, held, result="${steps.many}", inputs={"names": [*names]})
    run = site.run("run", "test.plan.yaml")
    site.wait_for_mark("n0 began")
    waiting = "SELECT count(*) FROM wavewright_fleet.call WHERE answer IS NULL"
    site.wait_until(lambda: postgres.fetch(waiting, site.url) == [(8,)], "twice the slots")
    most = 8
    for name in names:
        site.go(name)
        [(count,)] = postgres.fetch(waiting, site.url)
        most = max(most, int(str(count)))

    assert run.wait() == 0, site.printed()
    assert most == 8
