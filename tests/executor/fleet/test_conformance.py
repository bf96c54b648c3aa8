"""The conformance suite on a fleet of two workers, on recordings, on stubs, and on what a page
shows.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from tests.docs.blocks import blocks
from tests.executor.fleet.fleet_site import FleetSite
from tests.repository.tree import ROOT
from tests.support.postgres import PostgresServer
from wavewright.config.sections import FleetSection
from wavewright.config.settings import Settings
from wavewright.engine import open_tool_host
from wavewright.engine.interfaces.testing.conformance.suite import (
    CASES,
    CaseRun,
    CaseRunner,
    opened_cases,
    with_named_runtime,
)
from wavewright.engine.interfaces.testing.doubles import CallRecorder
from wavewright.engine.rehearsal.recordings.recorded_calls import recorded_calls
from wavewright.engine.rehearsal.recordings.recorded_tools import RecordedTools
from wavewright.executor import RemoteCall, StepFinished, ToolHost
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import Json
from wavewright.tools.functions.tool import Runtime, Tool, ToolCall

Runners = tuple[CaseRunner, CaseRunner]


@pytest.fixture(scope="module")
def on_fleet(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runners]:
    sites: list[FleetSite] = []

    def with_fleet(settings: Settings) -> Settings:
        site = FleetSite(settings.root, postgres.database())
        sites.append(site)
        site.start()
        site.start()
        return replace(settings, journal_url=site.url, fleet=FleetSection(tools=["*"]))

    try:
        with opened_cases(tmp_path_factory.mktemp("fleet"), with_fleet) as runners:
            yield runners
    finally:
        for site in sites:
            site.end()


@pytest.mark.parametrize("case", CASES)
def test_a_plan_runs_on_the_fleet_as_in_its_own_process(case: str, on_fleet: Runners) -> None:
    here, there = on_fleet

    assert there.run(case).form == here.run(case).form


def test_the_fleet_makes_the_calls(on_fleet: Runners) -> None:
    _, there = on_fleet
    there.run("retry")

    assert (there.ww.settings.root / "marks" / "flaky").read_text() != str(os.getpid())


class Replaced(Runtime):
    """Another runtime for each case."""

    now: Runtime

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        return self.now.routed(tool, goal)

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        return await self.now.call(tool, goal, call)

    @asynccontextmanager
    async def opened(self, settings: Settings) -> AsyncGenerator[Runtime]:
        yield self


@pytest.fixture(scope="module")
def replaced() -> Replaced:
    return Replaced()


@pytest.fixture(scope="module")
def on_replaced(replaced: Replaced, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    folder = tmp_path_factory.mktemp("replaced")
    with opened_cases(
        folder, lambda settings: replace(settings, runtime=replaced.opened)
    ) as runners:
        yield runners


# A replay tells nothing of what calls print, of log events and of attempts that failed: these cases
# have none.
@pytest.mark.parametrize("case", ["approval", "cache", "gates", "long_output", "patch", "run_data"])
def test_a_recording_answers_as_the_tools_did(
    case: str, on_replaced: Runners, replaced: Replaced
) -> None:
    here, there = on_replaced
    before = here.run(case)
    replaced.now = RecordedTools(recorded_calls(before.events))

    assert there.run(case).form == before.form


@pytest.mark.parametrize("case", CASES)
def test_stubs_that_have_the_tools_answer_change_nothing(
    case: str, on_replaced: Runners, replaced: Replaced
) -> None:
    here, there = on_replaced
    replaced.now = CallRecorder({}, real=["write", "sort_note"])

    assert there.run(case).form == here.run(case).form


@pytest.mark.parametrize("case", ["approval", "budget", "patch", "question", "resume", "retry"])
def test_no_form_of_a_run_depends_on_when_it_ran(case: str, on_replaced: Runners) -> None:
    here, _ = on_replaced
    form = here.run(case).form
    now = time.time()

    instants = [number for number in numbers(form) if abs(number - now) < _DAY_SECONDS]

    assert instants == []


_DAY_SECONDS = 86_400.0


def numbers(value: Json) -> Iterator[float]:
    match value:
        case dict():
            for part in value.values():
                yield from numbers(part)
        case list():
            for part in value:
                yield from numbers(part)
        case int() | float():
            yield float(value)
        case _:
            pass


@dataclass(frozen=True)
class OverBytes(Runtime):
    """Has a host make the calls, and passes nothing but bytes on."""

    host: ToolHost

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        remote = RemoteCall(tool, goal, call)
        async with aclosing(self.host.messages(remote.to_bytes())) as messages:
            return await remote.output(messages)


@pytest.mark.parametrize("case", CASES)
def test_a_host_makes_the_calls_of_requests_that_are_sent_whole(
    case: str, on_replaced: Runners, replaced: Replaced
) -> None:
    here, there = on_replaced
    expected = here.run(case).form
    with open_tool_host(there.ww.settings.root) as host:
        replaced.now = OverBytes(host)

        assert there.run(case).form == expected


class DeadWorker(Runtime):
    """A worker that dies with its first call."""

    def __init__(self) -> None:
        self.made = 0

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        self.made += 1
        if self.made == 1:
            return await RemoteCall(tool, goal, call).output(_nothing())
        return await tool.call(call)


async def _nothing() -> AsyncGenerator[bytes]:
    messages: list[bytes] = []
    for message in messages:
        yield message


def test_a_call_whose_worker_died_is_made_again_where_the_step_allows_it(
    on_replaced: Runners, replaced: Replaced
) -> None:
    replaced.now = worker = DeadWorker()
    _, there = on_replaced
    ended = ending(there.run("retry"), "again")

    assert ended.status == "ok"
    assert worker.made == 3  # and once more for the tool, which fails at first


def test_a_call_that_writes_is_interrupted_where_its_worker_died(
    on_replaced: Runners, replaced: Replaced
) -> None:
    replaced.now = worker = DeadWorker()
    _, there = on_replaced
    ended = ending(there.run("approval"), "allowed")

    assert ended.error is not None
    assert ended.error.kind == "interrupted"
    assert worker.made == 1


def ending(run: CaseRun, step: str) -> StepFinished:
    [ended] = (
        event for event in run.events if isinstance(event, StepFinished) and event.step == step
    )
    return ended


def test_the_example_with_ray_passes_the_suite(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    page = ROOT / "docs" / "how-to" / "run-on-another-runtime.md"
    [example] = (
        block.text
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.title == "on_ray.py"
    )
    assert len(example.splitlines()) <= 60
    folder = tmp_path_factory.mktemp("ray")
    (folder / "on_ray.py").write_text(example, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])

    with opened_cases(folder, with_named_runtime("on_ray:open_ray")) as (here, there):
        for case in CASES:
            assert there.run(case).form == here.run(case).form, case
