"""Steps that a person decides on: what runs meanwhile, and what an answer, a refusal or none leads
to.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from wavewright.executor.events.state import RunState
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.ports import PersonReply, ReadyCalls
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, RunId, Schedule, StepId
from wavewright.tools.functions.tool import Tool, ToolCall

pytestmark = pytest.mark.anyio

NOW = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)


@dataclass
class Person:
    """Gives each step the answer that is written down for it; none where there is none."""

    answers: Mapping[str, str]
    asked: list[tuple[str, tuple[JsonObject, ...]]] = field(
        default_factory=list[tuple[str, tuple[JsonObject, ...]]]
    )

    async def ask(self, ready: ReadyCalls) -> PersonReply:
        self.asked.append((ready.step.id, ready.calls))
        answer = self.answers.get(ready.step.id)
        return PersonReply(answer, is_refused=answer == "refuse")


@dataclass
class Bench:
    """A reading tool, a writing one that needs approval, and one that a person answers."""

    made: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])

    async def _call(self, call: ToolCall) -> Json:
        self.made.append((call.step, call.params.get("value")))
        return call.answer or call.params.get("value")

    async def run(
        self,
        steps: list[JsonObject],
        person: Person,
        schedule: Schedule = "dataflow",
        prior: RunState | None = None,
    ) -> RunState:
        read = Tool(ToolSignature(name="read"), self._call)
        write = Tool(
            ToolSignature(name="write", effects=frozenset({"write"}), needs_approval=True),
            self._call,
        )
        question = replace(Tool(ToolSignature(name="question"), self._call), asks_person=True)
        return await execute(
            Execution(
                Plan.model_validate({"steps": steps}),
                {"read": read, "write": write, "question": question},
                run=RunId("20261122-060000-abc123"),
                now=NOW,
                schedule=schedule,
                ask=person.ask,
                prior=prior or RunState(),
            )
        )


def step(name: str, tool: str, value: Json, **more: Json) -> JsonObject:
    return {"id": name, "tool": tool, "params": {"value": value}, **more}


STEPS = [
    step("first", "read", "text"),
    step("post", "write", "${steps.first}"),
    step("after", "read", "after ${steps.post}"),
    step("other", "read", 1),
    step("beside", "read", "beside ${steps.other}"),
]


def statuses(state: RunState) -> dict[str, str]:
    return {str(name): ended.status for name, ended in sorted(state.steps.items())}


async def test_a_person_is_shown_the_resolved_parameters_before_the_call() -> None:
    bench, person = Bench(), Person({"post": "approve"})

    state = await bench.run(STEPS, person)

    assert person.asked == [("post", ({"value": "text"},))]
    assert set(statuses(state).values()) == {"ok"}


@pytest.mark.parametrize(
    ("schedule", "made"),
    [("dataflow", {"first", "other", "beside"}), ("waves", {"first", "other", "beside"})],
)
async def test_what_does_not_depend_on_the_step_ends_while_it_waits(
    schedule: Schedule, made: set[str]
) -> None:
    bench, person = Bench(), Person({})

    state = await bench.run(STEPS, person, schedule)

    assert {name for name, _ in bench.made} == made
    assert set(statuses(state)) == made


async def test_with_waves_the_next_wave_waits_and_with_dataflow_it_does_not() -> None:
    steps = [step("post", "write", 1), step("a", "read", 2), step("b", "read", "b ${steps.a}")]

    ended = [
        statuses(await Bench().run(steps, Person({}), schedule))
        for schedule in ("waves", "dataflow")
    ]

    assert ended == [{"a": "ok"}, {"a": "ok", "b": "ok"}]


async def test_a_waiting_step_goes_on_with_the_answer_and_nothing_is_repeated() -> None:
    bench = Bench()
    waiting = await bench.run(STEPS, Person({}))

    state = await bench.run(STEPS, Person({"post": "approve"}), prior=waiting)

    assert sorted(name for name, _ in bench.made) == ["after", "beside", "first", "other", "post"]
    assert set(statuses(state).values()) == {"ok"}


async def test_a_refused_step_fails_and_blocks_what_depends_on_it() -> None:
    bench = Bench()

    state = await bench.run(STEPS, Person({"post": "refuse"}))

    error = state.steps[StepId("post")].error
    assert error is not None
    assert (error.kind, error.attempts) == ("refused", 0)
    assert statuses(state)["after"] == "blocked"
    assert statuses(state)["beside"] == "ok"
    assert "post" not in {name for name, _ in bench.made}


@pytest.mark.parametrize(("answer", "calls"), [("approve", 3), ("refuse", 0)])
async def test_all_calls_of_a_list_are_approved_or_refused_at_once(answer: str, calls: int) -> None:
    bench, person = Bench(), Person({"post": answer})

    await bench.run(
        [step("post", "write", "${item}", for_each="${[1, 2, 3]}", concurrency=1)], person
    )

    assert person.asked == [("post", ({"value": 1}, {"value": 2}, {"value": 3}))]
    assert len(bench.made) == calls


async def test_the_answer_to_a_question_is_the_output_and_each_item_has_its_own() -> None:
    bench, person = Bench(), Person({"which": "north", "each": "yes"})
    steps = [
        step("which", "question", "Where?"),
        step("each", "question", "${item}", for_each="${['a', 'b']}"),
    ]

    state = await bench.run(steps, person)

    assert state.steps[StepId("which")].output == "north"
    assert state.steps[StepId("each")].output == ["yes", "yes"]
    assert sorted(person.asked, key=str) == [
        ("each", ({"value": "a"},)),
        ("each", ({"value": "b"},)),
        ("which", ({"value": "Where?"},)),
    ]


async def test_two_steps_that_ask_the_same_have_each_their_own_answer() -> None:
    steps = [step("one", "question", "Go on?"), step("two", "question", "Go on?")]

    state = await Bench().run(steps, Person({"one": "yes", "two": "no"}), "waves")

    assert [state.steps[StepId(name)].output for name in ("one", "two")] == ["yes", "no"]
