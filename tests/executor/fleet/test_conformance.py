"""One set of plans, run in the process of the run, by a fleet of two workers, and again from a recording."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.executor.fleet.fleet_site import FleetSite, fleet_site, step, write_plan, write_project
from tests.support.postgres import PostgresServer
from wavewright.engine import Wavewright
from wavewright.executor.events.codec import encode
from wavewright.executor.events.types import Event, RunStarted
from wavewright.planner.types import Json, JsonObject

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class PlanCase:
    name: str
    steps: tuple[JsonObject, ...]
    result: Json = None
    fields: JsonObject | None = None

    def __str__(self) -> str:
        return self.name


CASES = [
    PlanCase(
        "items",
        (
            step("doubles", "double", {"number": "${item}"}, for_each="${[1, 2, 3]}"),
            step("sum", "add", {"numbers": "${steps.doubles}"}),
        ),
        "${steps.sum}",
    ),
    PlanCase(
        "failures",
        (
            step("bad", "fail", {"number": 1}, optional=True),
            step("after", "double", {"number": "${steps.bad}"}, when="has(steps.bad)"),
            step("gone", "leave", optional=True),
            step("nan", "no_number", optional=True),
            step("empty", "no_words"),
            step("skipped", "double", {"number": 1}, when="1 > 2"),
        ),
        "${steps.empty}",
    ),
    PlanCase(
        "some items fail",
        (step("odd", "odd_only", {"number": "${item}"}, for_each="${[1, 2, 3]}", min_ok=2),),
        "${steps.odd}",
    ),
    PlanCase(
        "retry",
        (
            step(
                "again",
                "flaky",
                {"name": "CASE"},
                retry={"attempts": 3, "wait_initial": 0.01, "wait_max": 0.01},
            ),
        ),
        "${steps.again}",
    ),
    PlanCase(
        "gates",
        (step("first", "double", {"number": 4}), step("second", "double", {"number": "${steps.first}"})),
        "${steps.second}",
        {
            "gates": [
                {"id": "high", "on": "first", "check": "steps.first > 5", "severity": "block"},
                {"id": "low", "on": "second", "check": "steps.second < 5", "severity": "warn"},
            ],
            "caps": [{"field": "overall", "when": "steps.second > 5", "max": 0.4, "because": "it is high"}],
        },
    ),
    PlanCase(
        "timeout",
        (
            step("long", "slow", {"name": "CASE"}, timeout=0.3, optional=True),
            step("one", "double", {"number": 1}),
        ),
    ),
    PlanCase(
        "run data",
        (
            step("kept", "keep", {"number": "${item}"}, for_each="${[1, 2, 3]}"),
            step("sum", "kept", depends_on=["kept"]),
        ),
        "${steps.sum}",
    ),
    PlanCase("log events", (step("seen", "seen", {"number": 5}),), "${steps.seen}"),
    PlanCase("long outputs", (step("text", "long_text", {"chars": 400_000}),), "${steps.text}"),
]


@pytest.fixture(scope="module")
def site(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetSite]:
    with fleet_site(tmp_path_factory.mktemp("fleet") / "project", postgres) as made:
        made.start()
        made.start()
        yield made


@pytest.fixture
async def local(tmp_path: Path) -> AsyncGenerator[Wavewright]:
    write_project(tmp_path / "local", None)
    async with Wavewright.from_project(tmp_path / "local") as ww:
        yield ww


@pytest.fixture
async def fleet(site: FleetSite, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Wavewright]:
    monkeypatch.setenv("WAVEWRIGHT_PG_URL", site.url)
    async with Wavewright.from_project(site.folder) as ww:
        yield ww


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_plan_runs_on_the_fleet_as_in_its_own_process(
    case: PlanCase, site: FleetSite, local: Wavewright, fleet: Wavewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKS", str(site.marks))
    here = await events_of(local, case, "here")
    there = await events_of(fleet, case, "there")

    assert comparable(there) == comparable(here)
    assert str(os.getpid()) not in site.processes("flaky there")


async def test_a_run_on_the_fleet_is_replayed_without_it(
    site: FleetSite, fleet: Wavewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKS", str(site.marks))
    events = await events_of(fleet, CASES[0], "there")
    run = next(event.run for event in events if isinstance(event, RunStarted))

    assert site.run("replay", run).wait() == 0


async def events_of(ww: Wavewright, case: PlanCase, name: str) -> list[Event]:
    steps = [
        {**one, "params": {**params(one), **({"name": name} if "CASE" in params(one).values() else {})}}
        for one in case.steps
    ]
    plan = ww.load(write_plan(ww.settings.root, *steps, result=case.result, **(case.fields or {})))
    return [event async for event in ww.stream(plan)]


def params(one: JsonObject) -> JsonObject:
    given = one["params"]
    assert isinstance(given, dict)
    return given


VARIES = frozenset(
    {"at", "started", "seconds", "key", "run", "took", "executed", "versions", "now", "tool_code", "files"}
)


def comparable(events: list[Event]) -> list[tuple[str, Json]]:
    """Return events without times and keys; those of one wave may come in any order."""
    found = [
        (kind, cleaned(body))
        for kind, body in map(encoded, events)
        if kind not in {"run_started", "plan_accepted"} and not is_mark(kind, body)
    ]
    return sorted(found, key=repr)


def is_mark(kind: str, body: Json) -> bool:
    """Return whether an event only says what was taken from workers."""
    return kind == "noted" and isinstance(body, dict) and body["topic"] == "emissions_taken"


def encoded(event: Event) -> tuple[str, Json]:
    kind, body = encode(event)
    return kind, json.loads(body)


def cleaned(value: Json) -> Json:
    match value:
        case dict():
            return {
                name: cleaned(last_line(one) if name == "traceback" else one)
                for name, one in value.items()
                if name not in VARIES
            }
        case list():
            return [cleaned(one) for one in value]
        case str():
            if "tools.py" in value:
                value = re.sub(r'[^" (]*tools\.py', "tools.py", value)
            return re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "TIME", value.replace("there", "here"))
        case _:
            return value


def last_line(traceback: Json) -> Json:
    """Return the error; the engine's own frames, shown where there are none of the tool, are others."""
    return str(traceback).rpartition("\n")[-1]
