"""Run data: what tools of one run share goes with the results of calls, through crashes, retries
and parallel items.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.executor.execution_harness import NOW, RUN, plan_of, statuses
from wavewright.executor.events.state import RunState, fold, written_data
from wavewright.executor.events.types import Event, PlanAccepted, RunStarted, StepFinished
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.rules import ReuseSource, RunSoFar
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.journal import Journal, MemoryJournal
from wavewright.planner.language.plan import Plan, Retry
from wavewright.planner.types import Json, PlanHash, RunId, Schedule, StepId
from wavewright.tools import Registry, ToolDefinitionError, make_tool
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import MemoryRunData, RunData

pytestmark = pytest.mark.anyio


class Library:
    """Tools that share pages; `texts` is what there is outside."""

    def __init__(self) -> None:
        self.texts = {"a": "alpha", "b": "beta", "c": "gamma"}
        self.called: list[str] = []
        self.failing: set[str] = set()
        self.stalled: set[str] = set()
        self.is_stalled = anyio.Event()

    async def store(self, page: str, *, data: RunData) -> str:
        """Store a page."""
        self.called.append(f"store {page}")
        data.write("pages", page, {"text": self.texts[page], "for": data.inputs["reader"]})
        if page in self.failing:
            self.failing.discard(page)
            raise ToolError("the shelf broke", transient=True)
        if page in self.stalled:
            self.is_stalled.set()
            await anyio.sleep_forever()
        return f"stored {page}"

    def count(self, *, data: RunData) -> list[str]:
        """Name the stored pages."""
        self.called.append("count")
        return [f"{key}: {page}" for key, page in data.read("pages").items()]

    def tools(self) -> Registry:
        again = Retry(attempts=2, wait_initial=0.001, wait_jitter=0.0)
        return Registry(
            [
                make_tool(
                    self.store,
                    writes_data={"pages"},
                    retry=again,
                    version="1",
                    deterministic=True,
                ),
                make_tool(self.count, reads_data={"pages"}, version="1"),
            ]
        )

    async def run(self, plan: Plan, journal: Journal | None = None, **options: Any) -> RunState:
        run = RunId(str(options.pop("run", RUN)))
        return await execute(
            Execution(plan, self.tools(), run=run, now=NOW, journal=journal, **options)
        )


def page(letter: str) -> Json:
    return {"text": {"a": "alpha", "b": "beta", "c": "gamma"}[letter], "for": "Ann"}


def stored(letter: str, *depends_on: str, step: str = "") -> dict[str, object]:
    params = {"page": letter}
    return {
        "id": step or f"store_{letter}",
        "tool": "store",
        "params": params,
        "depends_on": [*depends_on],
    }


def counted(*depends_on: str) -> dict[str, object]:
    return {"id": "counted", "tool": "count", "params": {}, "depends_on": [*depends_on]}


def a_plan(*steps: dict[str, object]) -> Plan:
    return plan_of(*steps, inputs={"reader": "Ann"})


CHAIN = a_plan(stored("a"), stored("b", "store_a"), counted("store_b"), stored("c", "counted"))


async def begun(journal: Journal, plan: Plan) -> None:
    started: list[Event] = [
        RunStarted(run=RUN, at=0.0, job="j", goal={"name": "g", "job": "j"}, now=NOW.timestamp()),
        PlanAccepted(
            at=0.0, plan=plan.model_dump(mode="json"), plan_hash=PlanHash("h"), rung="given"
        ),
    ]
    await journal.append(RUN, started)


@pytest.mark.parametrize("schedule", ["waves", "dataflow"])
async def test_a_step_sees_what_the_steps_before_it_wrote_in_their_order_and_nothing_from_beside_it(
    schedule: Schedule,
) -> None:
    plan = a_plan(stored("b"), stored("a", "store_b"), counted("store_a"), stored("c"))

    state = await Library().run(plan, schedule=schedule)

    assert state.steps[StepId("counted")].output == [f"b: {page('b')}", f"a: {page('a')}"]


async def test_values_are_kept_with_the_result_of_the_call_that_wrote_them() -> None:
    state = await Library().run(CHAIN)

    assert state.steps[StepId("store_a")].data == {"pages": {"a": page("a")}}
    assert state.steps[StepId("counted")].data is None


async def test_the_items_of_a_step_write_side_by_side_and_are_read_in_their_order() -> None:
    fan: dict[str, object] = {"id": "all", "tool": "store", "for_each": ["c", "a", "b"]}
    plan = a_plan({**fan, "params": {"page": "${item}"}}, counted("all"))

    state = await Library().run(plan)

    assert [*written_data(state, StepId("all"))] == [{"pages": {key: page(key)}} for key in "cab"]
    assert state.steps[StepId("counted")].output == [f"{key}: {page(key)}" for key in "cab"]


async def test_an_attempt_that_failed_has_written_nothing() -> None:
    library = Library()
    library.failing = {"a"}
    library.texts = {"a": "first"}
    plan = a_plan({**stored("a"), "optional": True, "retry": {"attempts": 1}}, counted("store_a"))

    state = await library.run(plan)

    assert state.steps[StepId("store_a")].data is None


async def test_an_attempt_after_a_failed_one_begins_without_what_that_wrote() -> None:
    library = Library()
    library.failing = {"a"}

    state = await library.run(a_plan(stored("a"), counted("store_a")))

    assert library.called == ["store a", "store a", "count"]
    assert state.steps[StepId("counted")].output == [f"a: {page('a')}"]


async def test_a_resumed_run_reads_what_was_written_before_the_crash_and_calls_nothing_twice(
    tmp_path: Path,
) -> None:
    library = Library()
    library.stalled = {"c"}
    async with SqliteJournal(tmp_path / "runs.sqlite") as journal:
        await begun(journal, CHAIN)
        async with anyio.create_task_group() as group:
            group.start_soon(library.run, CHAIN, journal)
            await library.is_stalled.wait()
            group.cancel_scope.cancel()
        prior = fold(await journal.load(RUN))
        assert written_of(prior) == {
            "store_a": {"pages": {"a": page("a")}},
            "store_b": {"pages": {"b": page("b")}},
        }
        library.stalled.clear()
        library.called.clear()

        state = await library.run(CHAIN, journal, prior=prior)

    assert library.called == ["store c"]
    assert statuses(state) == {"store_a": "ok", "store_b": "ok", "counted": "ok", "store_c": "ok"}


def written_of(state: RunState) -> dict[str, object]:
    return {name: ending.data for name, ending in state.steps.items() if ending.data is not None}


async def test_a_retried_run_takes_the_values_over_with_the_results() -> None:
    library = Library()
    first = await library.run(CHAIN)
    library.called.clear()

    state = await library.run(CHAIN, run="run_2", donor=ReuseSource((RunSoFar(RUN, first),)))

    assert library.called == []
    assert set(statuses(state).values()) == {"reused"}
    assert written_of(state) == written_of(first)


async def test_a_step_is_made_again_where_the_data_that_it_reads_is_another() -> None:
    library = Library()
    first = await library.run(CHAIN)
    library.called.clear()
    library.texts["b"] = "another text"

    state = await library.run(
        CHAIN,
        run="run_2",
        donor=ReuseSource((RunSoFar(RUN, first),), anew=frozenset({StepId("store_b")})),
    )

    assert library.called == ["store b", "count"]
    assert state.steps[StepId("store_a")].status == "reused"
    output = state.steps[StepId("counted")].output
    assert output == [f"a: {page('a')}", "b: {'text': 'another text', 'for': 'Ann'}"]


async def test_equal_calls_are_made_once_and_bring_their_data_to_each_step() -> None:
    library = Library()
    plan = a_plan(stored("a"), stored("a", step="again"), counted("again"))

    state = await library.run(plan)

    assert library.called == ["store a", "count"]
    assert state.steps[StepId("counted")].output == [f"a: {page('a')}"]


async def test_a_secret_in_run_data_is_neither_journaled_nor_read_later() -> None:
    library = Library()
    library.texts["a"] = "the key is AKIAIOSFODNN7EXAMPLE now"
    journal = MemoryJournal()

    state = await library.run(a_plan(stored("a"), counted("store_a")), journal)

    (ending,) = [
        one
        for one in await journal.load(RUN)
        if isinstance(one, StepFinished) and one.step == "store_a"
    ]
    assert "AKIAIOSFODNN7EXAMPLE" not in str(ending)
    assert state.steps[StepId("counted")].output == [
        "a: {'text': 'the key is [redacted] now', 'for': 'Ann'}"
    ]


async def test_what_is_read_can_be_changed_without_changing_what_others_read() -> None:
    def spoil(*, data: RunData) -> str:
        """Change what is read."""
        for stored_page in data.read("pages").values():
            assert isinstance(stored_page, dict)
            stored_page["text"] = "spoilt"
        return "done"

    library = Library()
    tools = Registry([*library.tools().values(), make_tool(spoil, reads_data={"pages"})])
    spoilt: dict[str, object] = {
        "id": "spoilt",
        "tool": "spoil",
        "params": {},
        "depends_on": ["store_a"],
    }

    state = await execute(
        Execution(a_plan(stored("a"), spoilt, counted("spoilt")), tools, run=RUN, now=NOW)
    )

    assert state.steps[StepId("counted")].output == [f"a: {page('a')}"]


async def test_a_tool_uses_only_the_names_that_it_declares() -> None:
    def pry(*, data: RunData) -> list[str]:
        """Read what is not declared."""
        return [*data.read("pages")]

    tools = Registry([make_tool(pry)])
    state = await execute(
        Execution(plan_of({"id": "pried", "tool": "pry", "params": {}}), tools, run=RUN, now=NOW)
    )

    error = state.steps[StepId("pried")].error
    assert error is not None
    assert error.message == "the tool reads run data 'pages' and does not declare it"
    assert error.hint == "declare it where the tool is made: reads_data={'pages'}"


async def test_values_that_are_no_json_fail_the_call() -> None:
    def store(*, data: RunData) -> str:
        """Store a thing that JSON has no form for."""
        data.write("pages", "a", {"size": float("nan")})
        return "stored"

    tools = Registry([make_tool(store, writes_data={"pages"})])
    state = await execute(
        Execution(plan_of({"id": "stored", "tool": "store", "params": {}}), tools, run=RUN, now=NOW)
    )

    error = state.steps[StepId("stored")].error
    assert error is not None
    assert error.kind == "output"
    assert "at /pages/a/size is nan, which is not a JSON number" in error.message


def test_a_tool_that_declares_run_data_takes_it_and_is_not_cached_for_other_runs() -> None:
    def plain() -> str:
        """Do nothing."""
        return ""

    def writing(*, data: RunData) -> str:
        """Write."""
        return data.scope

    with pytest.raises(ToolDefinitionError) as without:
        make_tool(plain, reads_data={"pages"})
    with pytest.raises(ToolDefinitionError) as cached:
        make_tool(writing, writes_data={"pages"}, cache_for="1h")
    with pytest.raises(ToolDefinitionError) as inputs:
        make_tool(writing, writes_data={"inputs"})

    assert "no keyword-only parameter 'data'" in str(without.value.hint)
    assert "leave 'cache_for' or 'writes_data' out" in str(cached.value.hint)
    assert "no tool writes 'inputs'" in str(inputs.value.hint)


def test_a_test_of_a_tool_gives_it_data_of_its_own() -> None:
    data = MemoryRunData({"reader": "Ann"}, {"pages": {"b": "beta"}}, scope="north")
    data.write("pages", "a", "alpha")
    data.write("pages", "b", "new")

    assert (data.inputs, data.scope) == ({"reader": "Ann"}, "north")
    assert [*data.read("pages").items()] == [("b", "new"), ("a", "alpha")]
    assert data.written == {"pages": {"a": "alpha", "b": "new"}}
