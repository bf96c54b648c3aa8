"""The streaming start: steps that only read run while the plan arrives, with the same result as
without.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import anyio
import pytest

from wavewright.config.sections import PlannerSection
from wavewright.config.settings import Settings, settings_without_file
from wavewright.engine.interfaces.api.plan_run import CallbackApprover
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.early_steps import PREFIX_TOPIC, STREAMED_TOPIC
from wavewright.engine.run.jobs.goal_in_words import job_in_words
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.permits import PermitsExceeded
from wavewright.engine.run.ports import Attempt, Means, People, Ports, withhold_package
from wavewright.engine.run.run_job import run_job
from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import Event, Noted, PlanAccepted, StepFinished
from wavewright.executor.store.journal import Journal, MemoryJournal
from wavewright.planner.checks.permits import Permits, ToolPermit
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    ModelAnswer,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelUse,
    OnText,
    OnUse,
    Role,
)
from wavewright.planner.types import JsonObject, RunId, StepId
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Tool
from wavewright.tools.workers.services import make_services

pytestmark = pytest.mark.anyio

PLAN: JsonObject = {
    "reasoning": "Look up both, then add.",
    "steps": [
        {"id": "a", "tool": "look_up", "params": {"number": 1}},
        {"id": "b", "tool": "look_up", "params": {"number": 2}},
        {"id": "many", "tool": "look_up", "for_each": [5, 6], "params": {"number": "${item}"}},
        {"id": "again", "tool": "look_up", "params": {"number": 1}},
        {"id": "sum", "tool": "add", "params": {"numbers": "${[steps.a, steps.b] + steps.many}"}},
        {"id": "saved", "tool": "save", "params": {"number": "${steps.sum}"}},
        {"id": "late", "tool": "look_up", "params": {"number": 9}},
    ],
    "gates": [
        {"id": "small", "on": "a", "check": "output < 100"},
        {"id": "each", "on": "many", "check": "output > 50", "severity": "warn"},
    ],
    "result": "${steps.sum}",
}
ANSWER = json.dumps(PLAN)
EARLY = ["a", "b", "many", "sum"]
"""Steps that may start: `again` is an equal call, `saved` writes, and `late` stands behind it."""

Pause = Callable[[], Awaitable[None]]


@dataclass
class Streamer:
    """A model that streams answers part by part, and lets other tasks run to a condition between
    two parts.
    """

    answers: list[Sequence[str | Pause]]
    questions: list[ModelCall] = field(default_factory=list[ModelCall])

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        if call.schema_name != "plan":
            raise ModelError("refused", "only plans are made here")
        self.questions.append(call)
        text = ""
        if on_text is not None:
            on_text("")
        for part in self.answers.pop(0):
            if isinstance(part, str):
                text += part
                if on_text is not None:
                    on_text(part)
                await anyio.lowlevel.checkpoint()
            elif on_text is not None:
                with anyio.fail_after(20):
                    await part()
        use = ModelUse("planner", "planner", "openai:scripted", "answered", 10, 10)
        if on_use is not None:
            on_use(use)
        return ModelAnswer(text, use)

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        raise AssertionError((call, tools, limits, on_use, on_text))

    def choose(self, preference: str, role: Role) -> ModelChoice:
        return ModelChoice("openai:scripted", f"{preference} {role}")


@dataclass
class Project:
    """Tools that record their calls, and runs of a goal over them."""

    settings: Settings
    calls: list[str] = field(default_factory=list[str])
    journal: Journal = field(default_factory=MemoryJournal)

    def tools(self) -> tuple[Tool, ...]:
        def look_up(number: int) -> int:
            """Look a number up."""
            self.calls.append(f"look_up {number}")
            return number * 10

        def add(numbers: list[int]) -> int:
            """Add numbers."""
            self.calls.append("add")
            return sum(numbers)

        def save(number: int) -> int:
            """Save a number."""
            self.calls.append("save")
            return number

        return (
            make_tool(look_up, deterministic=True),
            make_tool(add),
            make_tool(save, effects=["write"]),
        )

    async def called(self, *wanted: str) -> None:
        while not set(wanted) <= set(self.calls):  # noqa: ASYNC110 - tools are plain functions
            await anyio.sleep(0.001)

    async def run(
        self,
        *answers: Sequence[str | Pause],
        stream: Literal["auto", "off", "on"] = "auto",
        run: RunId | None = None,
        permits: Permits | None = None,
    ) -> RunContext:
        settings = replace(
            self.settings,
            functions=self.tools(),
            planner=PlannerSection(stream=stream),
            model="openai:x",
        )
        job = None if run else job_in_words("Add what is looked up", settings, InputOverrides())
        ports = Ports(
            attempt=Attempt(journal=self.journal),
            means=Means(settings=settings, services=make_services(settings, Streamer([*answers]))),
            people=People(approver=CallbackApprover(None)),
            publish=withhold_package,
        )
        ended = await run_job(RunRequest(resolved_job=job, run=run, permits=permits), ports)
        return ended.context

    async def events(self, context: RunContext) -> list[Event]:
        return await self.journal.load(context.run)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(settings_without_file(tmp_path, tmp_path))


def outcome(state: RunState) -> tuple[object, ...]:
    """Return what a run came to, without its times and the ways of its calls."""
    endings = sorted(state.steps.values(), key=lambda ending: ending.step)
    return (
        state.plan_hash,
        *(
            (
                one.step,
                one.status,
                one.output,
                one.key is not None,
                [(gate.gate, gate.verdict) for gate in one.gates],
            )
            for one in endings
        ),
    )


def note(events: Sequence[Event], topic: str) -> JsonObject:
    return next(event.body for event in events if isinstance(event, Noted) and event.topic == topic)


def finished_before_plan(events: Sequence[Event]) -> list[str]:
    accepted = next(place for place, event in enumerate(events) if isinstance(event, PlanAccepted))
    return [event.step for event in events[:accepted] if isinstance(event, StepFinished)]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ANSWER, id="as it is written"),
        pytest.param(
            json.dumps({"let": {"both": "${[steps.a, steps.b]}"}, **PLAN}).replace(
                "${[steps.a, steps.b] +", "${both +"
            ),
            id="a name of let",
        ),
        pytest.param(
            json.dumps({"stop": {"when": "steps.a > 99", "result": "${steps.a}"}, **PLAN}),
            id="stop before the steps",
        ),
    ],
)
async def test_reading_steps_end_before_the_plan_is_whole_and_are_not_called_again(
    project: Project, answer: str
) -> None:
    end = answer.index('{"id": "saved"')

    async def all_called() -> None:
        await project.called("look_up 1", "look_up 2", "look_up 5", "look_up 6", "add")

    context = await project.run([answer[:end], all_called, answer[end:]])
    events = await project.events(context)

    assert sorted(finished_before_plan(events)) == sorted(EARLY)
    assert sorted(project.calls) == sorted(
        ["look_up 1", "look_up 2", "look_up 5", "look_up 6", "add", "save", "look_up 9"]
    )
    assert note(events, STREAMED_TOPIC) == {
        "started": EARLY,
        "kept": EARLY,
        "extends": True,
    }
    assert str(note(events, PREFIX_TOPIC)["hash"]).startswith("sha256:")


async def test_no_step_is_called_early_that_the_permits_of_the_run_do_not_name(
    project: Project,
) -> None:
    end = ANSWER.index('{"id": "saved"')

    async def some_called() -> None:
        await project.called("look_up 1", "look_up 2", "look_up 5", "look_up 6")

    with pytest.raises(PermitsExceeded):
        await project.run(
            [ANSWER[:end], some_called, ANSWER[end:]],
            permits=Permits(tools={"look_up": ToolPermit(effects=("read",))}),
        )

    assert not {"add", "save"} & set(project.calls)


async def test_the_result_is_that_of_a_run_without_wherever_the_stream_is_cut(
    project: Project,
) -> None:
    expected = await project.run([ANSWER], stream="off")
    steps_end = [place + 1 for place in range(len(ANSWER)) if ANSWER.startswith("}}", place)]

    for cut in (0, *steps_end[1:5]):

        async def idle() -> None:
            for _ in range(20):
                await anyio.lowlevel.checkpoint()

        context = await project.run([ANSWER[:cut], idle, ANSWER[cut:]])

        assert outcome(context.state) == outcome(expected.state), cut
        assert context.package is not None
        assert expected.package is not None
        assert context.package.status == expected.package.status


async def test_the_first_fault_stops_further_starts_and_the_repair_keeps_what_is_done(
    project: Project,
) -> None:
    faulty = ANSWER.replace('"tool": "look_up", "params": {"number": 2}', '"tool": "look_down"')
    end = faulty.index('{"id": "b"')

    async def first_called() -> None:
        await project.called("look_up 1")

    context = await project.run([faulty[:end], first_called, faulty[end:]], [ANSWER])
    events = await project.events(context)

    assert finished_before_plan(events) == ["a"]
    assert note(events, STREAMED_TOPIC) == {"started": ["a"], "kept": ["a"], "extends": True}
    assert project.calls.count("look_up 1") == 1
    assert context.state.steps[StepId("a")].status == "ok"


async def test_a_step_that_the_repaired_plan_has_not_leaves_no_trace_in_the_state(
    project: Project,
) -> None:
    other: JsonObject = {
        **PLAN,
        "steps": [{"id": "x", "tool": "look_up", "params": {"number": 1}}],
        "gates": [],
    }
    other["result"] = "${steps.x}"
    end = ANSWER.index('{"id": "b"')

    async def first_called() -> None:
        await project.called("look_up 1")

    context = await project.run([ANSWER[:end], first_called, "nonsense"], [json.dumps(other)])

    assert sorted(context.state.steps) == ["x"]
    print(context.state.steps[StepId("x")])
    assert context.state.status(StepId("x")) == "ok"


async def test_a_gate_that_arrives_later_stops_what_depends_on_an_early_step(
    project: Project,
) -> None:
    blocking = ANSWER.replace("output < 100", "output > 100")
    end = blocking.index('{"id": "saved"')

    async def added() -> None:
        await project.called("add")

    context = await project.run([blocking[:end], added, blocking[end:]])

    assert context.state.status(StepId("a")) == "ok"
    assert [gate.verdict for gate in context.state.steps[StepId("a")].gates] == ["fail"]
    assert context.state.status(StepId("sum")) == "blocked"
    assert context.state.status(StepId("saved")) == "blocked"
    assert "save" not in project.calls


async def test_off_starts_nothing_and_on_passes_a_writing_step(project: Project) -> None:
    async def late_called() -> None:
        await project.called("look_up 9")

    end = ANSWER.index('"gates"')
    passed = await project.run([ANSWER[:end], late_called, ANSWER[end:]], stream="on")
    off = await project.run([ANSWER], stream="off")

    assert "late" in finished_before_plan(await project.events(passed))
    assert "saved" not in finished_before_plan(await project.events(passed))
    assert finished_before_plan(await project.events(off)) == []
    assert outcome(passed.state) == outcome(off.state)
