"""The conformance suite on a fleet of two workers, on recordings and on stubs."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.executor.fleet.fleet_site import FleetSite
from tests.support.postgres import PostgresServer
from wavewright.config.sections import FleetSection
from wavewright.config.settings import Settings
from wavewright.engine.recordings.recorded_calls import recorded_calls
from wavewright.engine.recordings.recorded_tools import RecordedTools
from wavewright.engine.testing.conformance.cases import CASES, CaseRunner, opened_cases
from wavewright.engine.testing.doubles import CallRecorder
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import Json
from wavewright.tools.functions.runtime import Runtime
from wavewright.tools.functions.tool import Tool, ToolCall

Runners = tuple[CaseRunner, CaseRunner]


@pytest.fixture(scope="module")
def on_fleet(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
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
    with opened_cases(folder, lambda settings: replace(settings, runtime=replaced.opened)) as runners:
        yield runners


# A replay tells nothing of what calls print, of log events and of attempts that failed: these cases have none.
@pytest.mark.parametrize("case", ["approval", "cache", "gates", "long_output", "patch", "run_data"])
def test_a_recording_answers_as_the_tools_did(case: str, on_replaced: Runners, replaced: Replaced) -> None:
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
