"""The rules of `docs/explanation/semantics.md`: what is called again, and what is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import anyio
import httpx
import pytest

from tests.executor.execution_harness import (
    NOW,
    RUN,
    ExecutionHarness,
    VirtualClock,
    answering,
    echo,
    output_of,
    outputs,
    plan_of,
    statuses,
)
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import PlanAccepted
from wavewright.executor.run.exceptions import describe_failure
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.failures import ReportedFailure
from wavewright.executor.run.ports import PersonReply, ReadyCalls
from wavewright.executor.run.rules import ReuseSource, RunSoFar
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json, JsonObject, PlanHash, RunId, StepId
from wavewright.reviewer.gates.verifier import make_verifier
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio

CHARGE: Mapping[str, Any] = {"effects": ["write"], "idempotent": False}
CHARGE_THEN_LOOK = plan_of({"id": "c"}, {"id": "f", "tool": "look", "depends_on": ["c"]})


class Shop:
    """A tool that charges, one that may fail, and runs that retry each other."""

    def __init__(self) -> None:
        self.is_failing = True
        self.runs: list[RunSoFar] = []
        self.bench = ExecutionHarness().add(echo, **CHARGE).add(self.look, "look")

    def look(self, call: ToolCall) -> Json:
        if self.is_failing:
            raise ToolError("not yet")
        return echo(call)

    async def run(self, plan: Plan, *anew: str, again: tuple[str, ...] = ()) -> RunState:
        """Run a plan, as a retry of the runs before."""
        donor = None
        if self.runs:
            named = frozenset(map(StepId, again))
            donor = ReuseSource(tuple(self.runs), frozenset(map(StepId, anew)), named)
        run = RunId(f"run_{len(self.runs)}")
        journal = MemoryJournal()
        await execute(
            Execution(plan, self.bench.tools, run, NOW, journal, donor=donor, clock=VirtualClock())
        )
        state = fold(await journal.load(run))
        self.runs.insert(0, RunSoFar(run, state))
        return state

    @property
    def charges(self) -> list[Json]:
        """What was charged, in order."""
        return [call.params for call in self.bench.calls if call.tool == "work"]


async def resumed(bench: ExecutionHarness, plan: Plan, journal: MemoryJournal) -> RunState:
    return await bench.run(plan, journal=journal, prior=fold(await journal.load(RUN)))


async def test_a_finished_step_is_not_called_again_by_other_code() -> None:
    journal = MemoryJournal()
    old = ExecutionHarness().add(echo, **CHARGE, version="1").add(echo, "look")
    await old.run(plan_of({"id": "c"}), journal=journal)
    changed = ExecutionHarness().add(
        echo, **CHARGE, version="2", description="another", output_schema={"type": "object"}
    )

    state = await resumed(changed.add(echo, "look"), CHARGE_THEN_LOOK, journal)

    assert changed.called == ["f"]
    assert statuses(state) == {"c": "ok", "f": "ok"}


async def test_an_output_that_other_code_cannot_read_ends_the_step() -> None:
    journal = MemoryJournal()
    await ExecutionHarness().add(echo, **CHARGE).run(plan_of({"id": "c"}), journal=journal)
    changed = ExecutionHarness().add(answering("text"), **CHARGE, output_schema={"type": "string"})

    state = await resumed(changed, plan_of({"id": "c"}), journal)

    error = state.steps[StepId("c")].error
    assert changed.calls == []
    assert error is not None
    assert "its output is not what the tool's present code promises" in error.message
    assert error.hint is not None


TEXTS: Mapping[str, Any] = {"output_schema": {"type": "string"}}


async def test_a_list_whose_outputs_other_code_cannot_read_ends_too() -> None:
    journal = MemoryJournal()
    plan = plan_of({"id": "c", "for_each": [1, 2], "params": {"by": "${item}"}})
    await ExecutionHarness().add(echo, **CHARGE).run(plan, journal=journal)
    changed = ExecutionHarness().add(answering("text"), **CHARGE, **TEXTS)

    state = await resumed(changed, plan, journal)

    assert changed.calls == []
    assert statuses(state) == {"c": "failed"}


async def test_an_equal_call_whose_output_other_code_cannot_read_is_made() -> None:
    journal = MemoryJournal()
    first, second = {"id": "c", "params": {"by": 1}}, {"id": "d", "params": {"by": 1}}
    old = ExecutionHarness().add(echo, deterministic=True)
    await old.run(plan_of(first), journal=journal)
    changed = ExecutionHarness().add(answering("text"), deterministic=True, **TEXTS)

    state = await resumed(changed, plan_of(first, second), journal)

    assert changed.called == ["d"]
    assert statuses(state) == {"c": "failed", "d": "ok"}


def computed(name: str, *before: str) -> Mapping[str, Any]:
    return {"id": name, "params": {"by": 1}, "depends_on": list(before)}


@pytest.mark.parametrize("is_resumed", [False, True], ids=["at once", "resumed"])
async def test_of_equal_calls_one_of_this_run_serves_before_one_of_a_run_before(
    *, is_resumed: bool
) -> None:
    old = ExecutionHarness().add(answering("old"), deterministic=True)
    donor = ReuseSource((RunSoFar(RUN, await old.run(plan_of(computed("c")))),))
    new = ExecutionHarness().add(answering("new"), deterministic=True)
    journal, begun = MemoryJournal(), [computed("d"), computed("c", "d")]
    if is_resumed:
        await new.run(plan_of(*begun), journal=journal, donor=donor)
    prior = fold(await journal.load(RUN))
    whole = plan_of(*begun, computed("e", "c"))

    state = await new.run(whole, journal=journal, prior=prior, donor=donor)

    assert new.called == ["d"]
    assert outputs(state) == {"d": "new", "c": "old", "e": "new"}


async def test_an_equal_call_in_progress_serves_before_one_of_a_run_before() -> None:
    clock = VirtualClock()

    async def slow(_: ToolCall) -> Json:
        await clock.sleep(5)
        return "new"

    old = ExecutionHarness().add(answering("old"), deterministic=True)
    donor = ReuseSource((RunSoFar(RUN, await old.run(plan_of(computed("c")))),))
    new = ExecutionHarness().add(slow, deterministic=True).add(echo, "look")
    # What most depends on is called first: `d`, before `c` is taken over.
    rest = [{"id": name, "tool": "look", "depends_on": [before]} for name, before in ("fd", "gf")]
    plan = plan_of(computed("d"), computed("c"), computed("e", "c"), *rest)

    state = await new.run(plan, donor=donor, clock=clock, schedule="dataflow")

    assert new.called == ["d", "f", "g"]
    assert [output_of(state, name) for name in "cde"] == ["old", "new", "new"]


async def test_a_write_of_a_retried_run_that_other_code_cannot_read_ends_the_step() -> None:
    shop = Shop()
    await shop.run(CHARGE_THEN_LOOK)
    shop.bench.add(answering("text"), **CHARGE, **TEXTS)

    state = await shop.run(CHARGE_THEN_LOOK)

    assert len(shop.charges) == 1
    assert statuses(state) == {"c": "failed", "f": "blocked"}


async def test_a_write_that_succeeded_in_any_run_of_a_chain_is_not_repeated() -> None:
    shop = Shop()
    await shop.run(CHARGE_THEN_LOOK)
    await shop.run(CHARGE_THEN_LOOK, "c", "f")
    shop.is_failing = False

    await shop.run(CHARGE_THEN_LOOK)
    await shop.run(CHARGE_THEN_LOOK)

    assert len(shop.charges) == 2  # the second was asked for by name


async def test_a_write_is_not_repeated_after_a_retry_that_did_not_come_to_it() -> None:
    shop = Shop()
    await shop.run(CHARGE_THEN_LOOK)
    shop.runs.insert(0, RunSoFar(RunId("run_x"), RunState()))

    await shop.run(CHARGE_THEN_LOOK)

    assert len(shop.charges) == 1


async def test_items_of_a_reordered_list_are_not_charged_twice() -> None:
    def plan(*who: str) -> Plan:
        fan = {"id": "c", "for_each": [*who], "params": {"who": "${item}"}}
        return plan_of(fan, {"id": "f", "tool": "look", "depends_on": ["c"]})

    shop = Shop()
    await shop.run(plan("a", "b", "b", "d"))

    state = await shop.run(plan("new", "b", "a", "b", "b", "d"))

    assert shop.charges[4:] == [{"who": "new"}, {"who": "b"}]
    assert [ending.status for _, ending in sorted(state.items[StepId("c")].items())] == [
        "ok",
        "reused",
        "reused",
        "reused",
        "ok",
        "reused",
    ]


async def late(clock: VirtualClock, call: ToolCall) -> Json:
    await clock.sleep(100)
    return echo(call)


async def test_a_late_write_is_not_tried_again() -> None:
    clock = VirtualClock()
    retry = {"attempts": 3, "on": ["timeout"], "wait_jitter": 0}
    bench = ExecutionHarness().add(lambda call: late(clock, call), timeout=1, **CHARGE)

    state = await bench.run(plan_of({"id": "c", "retry": retry}), clock=clock)

    assert bench.called == ["c"]
    assert statuses(state) == {"c": "failed"}


@dataclass
class Shaky:
    """A tool whose first calls fail, each with an exception of a kind."""

    errors: list[BaseException]

    def answer(self, call: ToolCall) -> Json:
        if self.errors:
            raise self.errors.pop(0)
        return echo(call)


UNKNOWN_OUTCOMES: Final[list[BaseException]] = [
    TimeoutError(),
    ConnectionResetError(),
    httpx.ReadTimeout("slow"),
    asyncio.CancelledError(),
    ToolError("no answer", transient=True, is_unclear=True),
    ExceptionGroup("two", [TimeoutError(), ValueError()]),
    # As a worker of a fleet reports it.
    ReportedFailure(describe_failure(TimeoutError(), 0.0)),
]
KNOWN_OUTCOMES: Final[list[BaseException]] = [
    ConnectionRefusedError(),
    httpx.ConnectTimeout("no route"),
    ToolError("busy", transient=True),
    ReportedFailure(describe_failure(ConnectionRefusedError(), 0.0)),
]
TRIES: Mapping[str, Any] = {"attempts": 3, "wait_jitter": 0, "on": ["transient", "any"]}


@pytest.mark.parametrize("error", UNKNOWN_OUTCOMES, ids=repr)
async def test_a_write_whose_outcome_is_unknown_is_repeated_only_where_it_is_named(
    error: BaseException,
) -> None:
    shop, shaky = Shop(), Shaky([error])
    plan = plan_of({"id": "c", "retry": TRIES})
    bench = ExecutionHarness().add(shaky.answer, **CHARGE)
    state = await bench.run(plan, clock=VirtualClock())
    resumed = await bench.run(plan, clock=VirtualClock(), prior=state, retry_failed=True)
    shop.runs.insert(0, RunSoFar(RUN, state))

    refused = await shop.run(plan)
    charged = list(shop.charges)
    named = await shop.run(plan, again=("c",))

    failure = state.steps[StepId("c")].error
    assert failure is not None
    assert failure.kind == "interrupted"
    assert "--again" in (failure.hint or "")
    assert bench.called == ["c"]
    assert statuses(resumed) == statuses(refused) == {"c": "failed"}
    assert charged == []
    assert (statuses(named), len(shop.charges)) == ({"c": "ok"}, 1)


@pytest.mark.parametrize("error", KNOWN_OUTCOMES, ids=repr)
async def test_a_write_that_is_known_to_have_had_no_effect_is_tried_again(
    error: BaseException,
) -> None:
    shaky = Shaky([error, error])
    bench = ExecutionHarness().add(shaky.answer, **CHARGE)

    state = await bench.run(plan_of({"id": "c", "retry": TRIES}), clock=VirtualClock())

    assert bench.called == ["c", "c", "c"]
    assert statuses(state) == {"c": "ok"}


@pytest.mark.parametrize("repeatable", [{}, {"effects": ["write"], "idempotent": True}])
@pytest.mark.parametrize("error", [TimeoutError(), httpx.ReadTimeout("slow")], ids=repr)
async def test_a_read_or_an_idempotent_write_is_tried_again_whatever_its_outcome(
    error: BaseException, repeatable: Mapping[str, Any]
) -> None:
    shaky = Shaky([error, error, error])
    bench = ExecutionHarness().add(shaky.answer, **repeatable)

    state = await bench.run(plan_of({"id": "c", "retry": TRIES}), clock=VirtualClock())

    failure = state.steps[StepId("c")].error
    assert failure is not None
    assert (failure.kind, failure.attempts) == ("transient", 3)


@pytest.mark.parametrize("output", [{"n": "three"}, object()])
async def test_a_write_that_returned_what_it_does_not_promise_is_not_repeated(
    output: object,
) -> None:
    shop = Shop()
    numbers: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}
    retry = {"attempts": 3, "on": ["any", "output"], "wait_jitter": 0}
    plan = plan_of({"id": "c", "retry": retry, "params": {"n": 3}})
    old = ExecutionHarness().add(lambda _: cast("Json", output), **CHARGE, output_schema=numbers)
    state = await old.run(plan)
    shop.runs.insert(0, RunSoFar(RUN, state))

    refused = await shop.run(plan)
    await shop.run(plan, again=("c",))

    assert old.called == ["c"]
    assert statuses(state) == statuses(refused) == {"c": "failed"}
    assert shop.charges == [{"n": 3}]


async def test_a_retry_repeats_an_unclear_write_only_where_it_is_named() -> None:
    shop = Shop()
    clock = VirtualClock()
    charge = shop.bench.tools["work"]
    slow = ExecutionHarness().add(lambda call: late(clock, call), timeout=1, **CHARGE)
    state = await slow.run(plan_of({"id": "c"}), clock=clock)
    shop.runs.insert(0, RunSoFar(RUN, state))
    shop.bench.tools["work"] = charge

    refused = await shop.run(plan_of({"id": "c"}))
    named = await shop.run(plan_of({"id": "c"}), again=("c",))

    error = refused.steps[StepId("c")].error
    assert error is not None
    assert error.kind == "interrupted"
    assert statuses(named) == {"c": "ok"}
    assert len(shop.charges) == 1


async def test_of_a_list_that_is_named_only_unclear_writes_are_repeated() -> None:
    shop = Shop()
    clock = VirtualClock()
    charge = shop.bench.tools["work"]
    plan = plan_of({"id": "c", "for_each": ["a", "b"], "min_ok": 1, "params": {"n": "${item}"}})

    async def slow_for_b(call: ToolCall) -> Json:
        return await late(clock, call) if call.params["n"] == "b" else echo(call)

    slow = ExecutionHarness().add(slow_for_b, timeout=1, **CHARGE)
    shop.runs.insert(0, RunSoFar(RUN, await slow.run(plan, clock=clock)))
    shop.bench.tools["work"] = charge

    await shop.run(plan, again=("c",))
    await shop.run(plan, again=("c",))

    assert shop.charges == [{"n": "b"}]


async def test_a_write_that_is_unclear_since_it_succeeded_is_repeated_where_it_is_named() -> None:
    shop = Shop()
    clock = VirtualClock()
    plan = plan_of({"id": "c"})
    await shop.run(plan)
    slow = ExecutionHarness().add(lambda call: late(clock, call), timeout=1, **CHARGE)
    shop.runs.insert(0, RunSoFar(RunId("run_1"), await slow.run(plan, clock=clock)))

    await shop.run(plan, again=("c",))

    assert len(shop.charges) == 2


async def test_a_call_that_blocks_the_loop_for_too_long_fails() -> None:
    clock = VirtualClock()

    def hog(_: ToolCall) -> Json:
        clock.now += 3  # without a turn of the loop
        return "done"

    state = await ExecutionHarness().add(hog, timeout=1).run(plan_of({"id": "a"}), clock=clock)
    error = state.steps[StepId("a")].error

    assert error is not None
    assert error.kind == "timeout"
    assert error.message == "it blocked the loop for 3.0 s, over its timeout of 1 s"


async def test_what_asks_a_person_is_equal_to_no_other_call() -> None:
    async def approve(_: ReadyCalls) -> PersonReply:
        await anyio.lowlevel.checkpoint()
        return PersonReply("approve")

    bench = ExecutionHarness().add(echo, deterministic=True, needs_approval=True)
    same = {"params": {"v": 1}}

    state = await bench.run(plan_of({"id": "a", **same}, {"id": "b", **same}), ask=approve)

    assert statuses(state) == {"a": "ok", "b": "ok"}
    assert output_of(state, "b") == {"v": 1}
    assert len(bench.calls) == 2


async def test_a_write_that_was_blocked_after_it_succeeded_is_not_repeated_by_a_retry() -> None:
    shop, journal = Shop(), MemoryJournal()
    shop.is_failing = False
    plan = plan_of({"id": "f", "tool": "look"}, {"id": "c", "depends_on": ["f"]})
    await shop.bench.run(plan, journal=journal)
    old, shop.bench = shop.bench, ExecutionHarness().add(echo, **CHARGE)
    shop.bench.add(answering("text"), "look", **TEXTS)
    blocked = await resumed(shop.bench, plan, journal)
    shop.runs.append(RunSoFar(RUN, blocked))
    shop.bench = old

    state = await shop.run(plan)

    assert statuses(blocked) == {"f": "failed", "c": "blocked"}
    assert len(shop.charges) == 1
    assert statuses(state) == {"f": "reused", "c": "reused"}


async def test_an_unclear_write_is_not_repeated_after_a_retry_that_a_person_refused() -> None:
    plan = plan_of({"id": "c", "needs_approval": True})
    bench = ExecutionHarness().add(echo, **CHARGE)
    runs = [RunSoFar(RunId("run_0"), await _begun(plan))]

    async def refuse(_: ReadyCalls) -> PersonReply:
        return PersonReply("refuse", is_refused=True)

    async def allow(_: ReadyCalls) -> PersonReply:
        return PersonReply("approve")

    donor = ReuseSource(tuple(runs))
    refused = await bench.run(plan, donor=donor, ask=refuse)
    runs.insert(0, RunSoFar(RunId("run_1"), refused))
    state = await bench.run(plan, donor=ReuseSource(tuple(runs)), ask=allow)

    assert bench.calls == []
    error = state.steps[StepId("c")].error
    assert error is not None
    assert error.kind == "interrupted"


async def _begun(plan: Plan) -> RunState:
    """Return the state of a run that was cut off after its write had begun."""
    journal, run = MemoryJournal(), RunId("run_0")

    async def cut_off(_: ToolCall) -> Json:
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    tools = ExecutionHarness().add(cut_off, **CHARGE).tools
    with anyio.CancelScope() as scope:
        await execute(Execution(plan, tools, run, NOW, journal))
    return fold(await journal.load(run))


async def test_an_unclear_write_that_was_blocked_since_is_not_repeated_by_a_retry() -> None:
    journal, clock = MemoryJournal(), VirtualClock()
    plan = plan_of({"id": "f", "tool": "look"}, {"id": "c", "depends_on": ["f"], "timeout": 1})

    async def slow(_: ToolCall) -> Json:
        await clock.sleep(60)
        return "late"

    shop = Shop()
    shop.is_failing = False
    shop.bench.add(slow, **CHARGE)
    await shop.bench.run(plan, journal=journal, clock=clock)
    unreadable = ExecutionHarness().add(slow, **CHARGE).add(answering("text"), "look", **TEXTS)
    shop.runs.append(RunSoFar(RUN, await resumed(unreadable, plan, journal)))
    shop.bench.add(echo, **CHARGE)

    state = await shop.run(plan)

    assert len(shop.charges) == 1
    assert statuses(state) == {"f": "reused", "c": "failed"}


@pytest.mark.parametrize("items", [None, [1, 2]], ids=["a call", "a list"])
async def test_a_write_that_other_code_could_not_read_is_not_repeated_by_a_retry(
    items: list[Json] | None,
) -> None:
    shop, journal = Shop(), MemoryJournal()
    params = {"by": "${item}"} if items else {"by": 1}
    plan = plan_of({"id": "c", "for_each": items, "params": params})
    await shop.bench.run(plan, journal=journal)
    old = shop.bench
    unreadable = ExecutionHarness().add(answering("text"), **CHARGE, **TEXTS)
    shop.runs.append(RunSoFar(RUN, await resumed(unreadable, plan, journal)))
    shop.bench = old

    state = await shop.run(plan)

    assert len(shop.charges) == len(items or [1])
    assert statuses(state) == {"c": "reused"}


# -- a step that a patch puts in the place of another

PAYING = plan_of({"id": "c", "params": {"to": "b"}})
PATCHED = plan_of(
    {"id": "c", "params": {"to": "b"}}, {"id": "c_2", "params": {"to": "b"}, "supersedes": "c"}
)


async def _patched(bench: ExecutionHarness, journal: MemoryJournal) -> RunState:
    """Return the state of a run whose write was superseded after it had ended."""
    await bench.run(PAYING, journal=journal)
    state = await resumed(bench, PATCHED, journal)
    return replace(
        state, plans=(PlanAccepted(1.0, PATCHED.model_dump(mode="json"), PlanHash("h"), "patch"),)
    )


def _declining_once() -> ExecutionHarness:
    answers: list[Exception | Json] = [ToolError("declined"), "charged"]

    def charge(_: ToolCall) -> Json:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ExecutionHarness().add(charge, **CHARGE)


async def test_a_write_that_a_step_of_a_patch_made_is_not_repeated_by_a_retry() -> None:
    bench = _declining_once()
    state = await _patched(bench, MemoryJournal())

    retried = await bench.run(PAYING, donor=ReuseSource((RunSoFar(RUN, state),)))

    assert bench.called == ["c", "c_2"]
    assert output_of(retried, "c") == "charged"


async def test_a_write_that_succeeded_is_not_made_again_by_the_step_that_supersedes_it() -> None:
    bench = ExecutionHarness().add(echo, **CHARGE)

    state = await _patched(bench, MemoryJournal())

    assert bench.called == ["c"]
    assert statuses(state) == {"c": "ok", "c_2": "reused"}


async def test_an_idempotent_write_is_made_again_by_the_step_that_supersedes_it() -> None:
    bench = ExecutionHarness().add(echo, effects=["write"], idempotent=True)

    await _patched(bench, MemoryJournal())

    assert bench.called == ["c", "c_2"]


async def test_an_unclear_write_is_not_made_again_by_the_step_that_supersedes_it() -> None:
    bench, journal = ExecutionHarness().add(echo, **CHARGE), MemoryJournal()
    begun = await _begun(PAYING)

    state = await execute(
        Execution(PATCHED, bench.tools, RunId("run_0"), NOW, journal, prior=begun)
    )

    assert bench.called == []
    assert statuses(state) == {"c": "failed", "c_2": "failed"}


async def test_a_write_whose_outcome_is_unknown_is_not_made_by_the_step_that_supersedes_it() -> (
    None
):
    bench, journal = ExecutionHarness(), MemoryJournal()
    bench.add(Shaky([ConnectionResetError()]).answer, **CHARGE)

    state = await _patched(bench, journal)

    assert bench.called == ["c"]
    assert statuses(state) == {"c": "failed", "c_2": "failed"}


# -- what a patch reads that a gate has stopped

STOPPED: Mapping[str, Any] = {"id": "c", "tool": "look"}
CORRECTED: Mapping[str, Any] = {"id": "d", "params": {"what": "${steps.c}"}}
SAID: Mapping[str, Any] = {"id": "e", "params": {"what": "${steps.d}"}}
GATES = [{"id": "g", "on": "c", "check": "false"}]


class Corrected:
    """A run whose gate stops a step, and whose patches read what it gave all the same."""

    def __init__(self, step: Mapping[str, Any]) -> None:
        self.plans = [plan_of(step, gates=GATES)]
        self.journal = MemoryJournal()
        self.bench = ExecutionHarness().add(echo, "look").add(echo)

    async def run(self) -> RunState:
        """Execute the plan in force, from where the run is."""
        plan = self.plans[-1]
        prior = fold(await self.journal.load(RUN))
        if len(prior.plans) < len(self.plans):
            document = plan.model_dump(mode="json")
            accepted = PlanAccepted(time.time(), document, PlanHash("h"), "patch")
            await self.journal.append(RUN, [accepted])
            prior = fold([accepted], prior)
        signatures = {name: tool.signature for name, tool in self.bench.tools.items()}
        verify = make_verifier(plan, signatures, None, NOW)
        return await self.bench.run(plan, journal=self.journal, prior=prior, verify=verify)

    def patch(self, *steps: Mapping[str, Any]) -> None:
        """Add steps to the plan."""
        before = [step.model_dump(exclude_defaults=True) for step in self.plans[-1].steps]
        self.plans.append(plan_of(*before, *steps, gates=GATES))


_OF_A_LIST: Mapping[str, Any] = {**STOPPED, "for_each": [1, 2], "params": {"by": "${item}"}}


@pytest.mark.parametrize(
    ("stopped", "ending"),
    [
        pytest.param(STOPPED, "blocked", id="a call"),
        pytest.param(_OF_A_LIST, "blocked", id="a list"),
        pytest.param({**STOPPED, "optional": True}, "failed", id="optional"),
    ],
)
async def test_a_patch_reads_no_output_that_other_code_cannot_read(
    stopped: Mapping[str, Any], ending: str
) -> None:
    corrected = Corrected(stopped)
    await corrected.run()
    corrected.patch(CORRECTED)
    corrected.bench = ExecutionHarness().add(answering("text"), "look", **TEXTS).add(echo)

    state = await corrected.run()
    resumed_state = await corrected.run()

    assert corrected.bench.called == []
    assert statuses(state) == statuses(resumed_state) == {"c": "failed", "d": ending}


async def test_a_step_of_an_earlier_patch_that_read_what_a_gate_has_stopped_stays_done() -> None:
    corrected = Corrected(STOPPED)
    await corrected.run()
    corrected.patch(CORRECTED)
    await corrected.run()
    corrected.patch(SAID)

    state = await corrected.run()

    assert corrected.bench.called == ["c", "d", "e"]
    assert statuses(state) == {"c": "ok", "d": "ok", "e": "ok"}
