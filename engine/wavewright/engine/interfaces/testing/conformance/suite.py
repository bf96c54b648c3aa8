"""The conformance suite: `pytest --wavewright-runtime module:function` runs it on a runtime.

Each plan of the project beside this module is a case, which is run without a runtime, and with the
one that is held against that. A case is run to its end; `cache` is run twice, and `resume` is
cancelled in the middle of a call and goes on afterwards.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from wavewright.config import Settings, load_settings
from wavewright.engine.interfaces.api.plan_run import PlanRun
from wavewright.engine.interfaces.api.wavewright import Wavewright
from wavewright.engine.interfaces.testing.normal_form import normal_form
from wavewright.engine.interfaces.testing.redactions import folder_redactions
from wavewright.engine.rehearsal.fake_model.replies import ApiError
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.executor import Event, Noted, RunStarted, StepFinished
from wavewright.executor.events.types import EMISSIONS_TAKEN, AttemptLogged
from wavewright.planner import Json, JsonObject, UserQuestion

# The models that it asks are scripted, in its own process.
pytestmark = pytest.mark.wavewright_live

_PROJECT = Path(__file__).with_name("project")
CASES = tuple(
    sorted(file.name.removesuffix(".plan.yaml") for file in _PROJECT.glob("plans/*.plan.yaml"))
)
_CASE_SECONDS = 60.0
_LOG_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{3}")
_REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "Done.",
    "missing_data": [],
    "recovery_actions": [],
}


@dataclass(frozen=True, slots=True)
class CaseRun:
    """What came of a case."""

    events: Sequence[Event]
    form: Json
    """Events, package, and what calls printed, logged and raised, without what differs from run to
    run.
    """


@dataclass(frozen=True, slots=True)
class CaseRunner:
    """Runs cases in one copy of the project."""

    ww: Wavewright
    portal: BlockingPortal

    def run(self, case: str) -> CaseRun:
        """Run a case; one that has not ended after a minute fails."""
        return self.portal.call(self._run, case)

    async def _run(self, case: str) -> CaseRun:
        root = self.ww.settings.root
        shutil.rmtree(root / "marks", ignore_errors=True)
        (root / "marks").mkdir()
        plan = self.ww.load(root / "plans" / f"{case}.plan.yaml")
        with anyio.fail_after(_CASE_SECONDS):
            if case == "cache":
                await self.ww.run(plan)
            ended = await (self._resumed(root / "marks") if case == "resume" else self.ww.run(plan))
        events = [event async for event in self.ww.stream(plan, run=ended.id, after=0)]
        return CaseRun(events, _form(ended, events, root))

    async def _resumed(self, marks: Path) -> PlanRun[Json]:
        """Cancel a run while a call waits, which is to be cancelled within five seconds, and let
        the run go on.
        """
        plan, run = self.ww.load(marks.parent / "plans" / "resume.plan.yaml"), None
        async for event in self.ww.stream(plan):
            if isinstance(event, RunStarted):
                run = event.run
            if isinstance(event, StepFinished) and event.step == "before":
                await _marked(marks / "held began", 30.0)
                break
        await _marked(marks / "held cancelled", 5.0)
        (marks / "go").touch()
        return await self.ww.run(plan, run=run)


async def _marked(mark: Path, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        while not mark.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
            await anyio.sleep(0.02)
        return
    pytest.fail(f"not within {seconds:g} s: {mark.name}", pytrace=False)


@contextmanager
def opened_cases(
    folder: Path, with_runtime: Callable[[Settings], Settings]
) -> Generator[tuple[CaseRunner, CaseRunner]]:
    """Open the project twice, without a runtime and with the one under test.

    Args:
        folder: For the two copies of the project.
        with_runtime: Returns the settings of the project with the runtime.
    """
    with ExitStack() as stack:
        server = stack.enter_context(FakeModelServer())
        server.answer(_REVIEW, when=asked_for("review"))
        server.answer("no object", when="boat")
        server.answer({"kind": "a note"}, when=asked_for("sort_note"))
        server.answer(ApiError(400, "no patch is made"))
        variables = stack.enter_context(pytest.MonkeyPatch.context())
        variables.delenv("WAVEWRIGHT_PG_URL", raising=False)
        for name, value in server.environment().items():
            variables.setenv(name, value)
        portal = stack.enter_context(start_blocking_portal())

        def opened(name: str, change: Callable[[Settings], Settings]) -> CaseRunner:
            settings = change(load_settings(Path(shutil.copytree(_PROJECT, folder / name))))
            ww = Wavewright.with_settings(settings, approve=_approve, ask=_answer)
            return CaseRunner(stack.enter_context(portal.wrap_async_context_manager(ww)), portal)

        yield opened("local", lambda settings: settings), opened("other", with_runtime)


def with_named_runtime(name: str) -> Callable[[Settings], Settings]:
    """Return what puts a runtime, as `module:function`, into settings."""
    return lambda settings: replace(settings, runtime=name)


async def _approve(request: ApprovalRequest) -> bool:
    return "refused" not in request.text


async def _answer(question: UserQuestion) -> str:
    return question.options[-1]


def _form(run: PlanRun[Json], events: Sequence[Event], root: Path) -> Json:
    machine = folder_redactions([root])
    # Marks of what came from another process are not what a run did.
    shown = [
        event
        for event in events
        if not (isinstance(event, Noted) and event.topic == EMISSIONS_TAKEN)
    ]
    logged: list[Json] = [
        [
            event.step,
            event.index,
            event.attempt,
            event.stdout,
            event.stderr,
            _LOG_TIME.sub("", event.log),
        ]
        for event in shown
        if isinstance(event, AttemptLogged)
    ]
    raised: list[Json] = [
        [
            event.step,
            event.index,
            event.attempt,
            event.traceback.rpartition("\n")[-1].replace(str(root), ""),
        ]
        for event in shown
        if isinstance(event, AttemptLogged)
    ]
    return {
        "status": run.status,
        "events": normal_form("events", shown, machine=machine),
        "package": normal_form("package", run.package, machine=machine),
        "logged": sorted(logged, key=repr),
        "raised": sorted(raised, key=repr),
    }


@pytest.fixture(scope="module")
def runners(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[CaseRunner, CaseRunner]]:
    """The cases without a runtime, and with the one of the command line."""
    name = request.config.getoption("--wavewright-runtime")
    if name is None:
        pytest.skip("no --wavewright-runtime names a runtime")
    with opened_cases(tmp_path_factory.mktemp("conformance"), with_named_runtime(name)) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES)
def test_a_plan_runs_as_without_a_runtime(
    case: str, runners: tuple[CaseRunner, CaseRunner]
) -> None:
    """Result, journal and package are equal up to times and names of runs."""
    without, with_runtime = (runner.run(case).form for runner in runners)

    assert with_runtime == without
