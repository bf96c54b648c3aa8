"""Runs a drawn case on the engine, part by part, and holds each part against the model."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio

from tests.executor.execution_harness import VirtualClock
from tests.model.interpreter import (
    TOOLS,
    Answer,
    Ending,
    Interpreter,
    MadeCall,
    ModelStep,
    NotAllowedError,
    Outcome,
    Part,
    Past,
    ToolRules,
)
from wavewright.executor.events.state import SUCCESSES, RunState, fold
from wavewright.executor.events.types import Event, ItemFinished, StepFinished
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.ports import PersonReply, ReadyCalls
from wavewright.executor.run.rules import RetriedRun, ReuseSource
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.journal import MemoryJournal
from wavewright.executor.store.transaction import Alongside
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, RunId, Schedule, StepId
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool, ToolCall

_NOW = dt.datetime(2010, 3, 1, tzinfo=dt.UTC)
_TIMEOUT = 5


@dataclass(frozen=True)
class DrawnPart:
    """One execution that is drawn: what it is, and what befalls it."""

    is_retry: bool = False
    """Whether it begins a new run that retries the last, or else resumes the last."""
    stop_after: int | None = None
    """Events after which it is stopped; None where it comes to its end."""
    is_killed: bool = False
    """Whether its process dies then, or else it is cancelled."""
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    version: int = 1
    """Of the code of all tools."""
    unreadable: frozenset[str] = frozenset()
    anew: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    items: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Of a retry: other lists of items."""


@dataclass(frozen=True)
class DrawnCase:
    """A plan, what its tools do in turn, and the parts in which it is executed."""

    steps: tuple[ModelStep, ...]
    outcomes: tuple[Outcome, ...]
    """Of all calls, in the order in which they are made; then all are well."""
    parts: tuple[DrawnPart, ...]
    schedule: Schedule = "waves"


@dataclass
class World:
    """The tools, and the log of what was called."""

    clock: VirtualClock
    outcomes: list[Outcome]
    made: list[MadeCall] = field(default_factory=list[MadeCall])
    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    async def call(self, request: ToolCall, *, has_new_form: bool) -> Json:
        """Do what is drawn for the next call."""
        x = request.params["x"]
        assert isinstance(x, int)
        outcome = self.outcomes.pop(0) if self.outcomes else "ok"
        made = MadeCall(request.step, request.index, request.tool, x, "cut")
        self.made.append(made)
        await self.clock.sleep(1)
        if outcome == "late":
            try:
                await self.clock.sleep(10 * _TIMEOUT)
            finally:
                made.outcome = "late"
        made.outcome = outcome
        if outcome != "ok":
            raise ToolError("as drawn", transient=outcome == "transient")
        self.counts[request.tool, x] += 1
        is_same = TOOLS[request.tool].deterministic
        number = x * 10 + (0 if is_same else self.counts[request.tool, x])
        made.output = {"v": number, "w": 0} if has_new_form else {"v": number}
        return made.output

    def tools(self, part: DrawnPart) -> dict[str, Tool]:
        """Return the tools with the code of a part."""
        found = dict[str, Tool]()
        for name, rules in TOOLS.items():
            lacking = ["v", "w"] if name in part.unreadable else ["v"]
            signature = ToolSignature(
                name=name,
                description=f"version {part.version}",
                effects=frozenset({"write"} if rules.writes else {"read"}),
                idempotent=rules.idempotent,
                deterministic=rules.deterministic,
                version=str(part.version),
                output_schema={"type": "object", "required": [*lacking]},
                timeout=_TIMEOUT,
            )
            call = partial(self.call, has_new_form=name in part.unreadable)
            found[name] = Tool(signature, call)
        return found


class Killed(Exception):
    """The process of a run has died."""


def plan_of(steps: Sequence[ModelStep]) -> Plan:
    """Return the plan of drawn steps."""
    return Plan.model_validate({"steps": [_step(step) for step in steps]})


def _step(step: ModelStep) -> dict[str, object]:
    said: dict[str, object] = {"id": step.id, "tool": step.tool, "optional": step.optional}
    if step.items is not None:
        said |= {"for_each": [*step.items], "params": {"x": "${item}"}, "min_ok": step.min_ok}
    else:
        x = step.x if isinstance(step.x, int) else f"${{steps.{step.x}.v}}"
        said |= {"params": {"x": x}, "needs_approval": step.approval}
    if step.when is not None:
        said["when"] = f"has(steps.{step.when}) && steps.{step.when}.v % 2 == 0"
    on = ["transient", "timeout"] if step.retries_late else ["transient"]
    said["retry"] = {"attempts": step.attempts, "on": on, "wait_jitter": 0}
    return said


class _MortalMemory(MemoryJournal):
    """A journal whose process dies after so many events."""

    left: int | None = None

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        if self.left is not None:
            self.left -= len(events)
            if self.left < 0:
                raise Killed
        return super().append(run, events, alongside)


class _MortalFile(SqliteJournal):
    """The same, in a file."""

    left: int | None = None

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        if self.left is not None:
            self.left -= len(events)
            if self.left < 0:
                raise Killed
        return super().append(run, events, alongside)


@dataclass
class _Run:
    """A run of the chain, as the engine and as the model know it."""

    id: RunId
    version: int
    past: Past
    state: RunState = field(default_factory=RunState)


async def hold_against_model(case: DrawnCase, folder: Path | None) -> None:
    """Execute a case and hold it against the model; in memory where there is no folder.

    Raises:
        NotAllowedError: the engine did what the model does not allow.
    """
    world = World(VirtualClock(), list(case.outcomes))
    memory = _MortalMemory()
    steps = case.steps
    runs = [_Run(RunId("run_0"), case.parts[0].version, Past())]
    begun_by = case.parts[0]
    for drawn in case.parts:
        if drawn.is_retry:
            runs.insert(0, _Run(RunId(f"run_{len(runs)}"), drawn.version, Past()))
            begun_by = drawn
            steps = tuple(_with_items(step, drawn) for step in steps)
        run, *chain = runs
        anew, again = begun_by.anew | begun_by.again, begun_by.again
        donor = None
        if chain:
            retried = [
                RetriedRun(of.id, of.state, _changed(of.version, drawn.version)) for of in chain
            ]
            donor = ReuseSource(
                tuple(retried), frozenset(map(StepId, anew)), frozenset(map(StepId, again))
            )
        before = len(world.made)
        execution = partial(
            Execution,
            plan_of(steps),
            world.tools(drawn),
            run.id,
            _NOW,
            ask=partial(_reply, drawn),
            schedule=case.schedule,
            prior=run.state,
            donor=donor,
            clock=world.clock,
        )
        if folder is None:
            memory.left = None
            is_stopped = await _executed(execution, memory, drawn)
            run.state = fold(await memory.load(run.id))
        else:
            async with _MortalFile(folder / "journal.db") as journal:
                await journal.open_run(run.id)
                is_stopped = await _executed(execution, journal, drawn)
                # What was appended is on the disk; the next part opens the file anew.
                run.state = fold(await journal.load(run.id))
        part = Part(
            made=world.made[before:],
            is_complete=not is_stopped and not _is_held_up(case, drawn),
            answers=drawn.answers,
            unreadable=drawn.unreadable,
            chain=tuple((of.past, of.version != drawn.version) for of in chain),
            anew=anew,
            again=again,
        )
        run.past = _compared(steps, run, part)


async def _executed(
    execution: Callable[..., Execution],
    journal: _MortalMemory | _MortalFile,
    drawn: DrawnPart,
) -> bool:
    """Execute a part; return whether it was stopped before its end."""
    if drawn.stop_after is None:
        await execute(execution(journal=journal))
        return False
    if drawn.is_killed:
        journal.left = drawn.stop_after
        try:
            await execute(execution(journal=journal))
        except Killed:
            return True
        return False
    events = itertools.count(1)
    with anyio.CancelScope() as scope:

        def listen(_event: Event) -> None:
            if next(events) == drawn.stop_after:
                scope.cancel()

        await execute(execution(journal=journal, on_event=listen))
    return scope.cancelled_caught


async def _reply(drawn: DrawnPart, ready: ReadyCalls) -> PersonReply:
    answer = drawn.answers.get(ready.step.id, "approve")
    return PersonReply(None if answer == "wait" else answer, is_refused=answer == "refuse")


def _is_held_up(case: DrawnCase, drawn: DrawnPart) -> bool:
    """Whether a wave may wait for a person, and all later waves with it."""
    asking = [step.id for step in case.steps if step.approval]
    waits = any(drawn.answers.get(name) == "wait" for name in asking)
    return case.schedule == "waves" and waits


def _changed(before: int, now: int) -> frozenset[str]:
    return frozenset(TOOLS) if before != now else frozenset()


def _with_items(step: ModelStep, drawn: DrawnPart) -> ModelStep:
    items = drawn.items.get(step.id)
    return step if items is None or step.items is None else replace(step, items=items)


def _compared(steps: Sequence[ModelStep], run: _Run, part: Part) -> Past:
    """Hold endings in the journal against those of the model; return what is known now.

    Raises:
        NotAllowedError: they differ.
    """
    model = Interpreter(steps, run.past, part)
    expected = model.run()
    tools = {step.id: TOOLS[step.tool] for step in steps}
    for step in steps:
        ended = run.state.steps.get(StepId(step.id))
        real = None if ended is None else _ending(ended, tools[step.id])
        if step.items is not None and real == Ending("unclear"):
            real = Ending("failed")
        _hold(step.id, real, expected.get(step.id), part)
    known = Past(dict(run.past.calls), dict(run.past.lists), set(run.past.begun))
    for call, index in model.places.items():
        items = run.state.items.get(StepId(call.step))
        record: StepFinished | ItemFinished | None = None
        if index is None:
            record = run.state.steps.get(StepId(call.step))
        elif items is not None:
            record = items.get(index)
        real = None if record is None else _ending(record, tools[call.step])
        _hold(str(call), real, model.calls.get(call), part)
        was_made = any((one.step, one.item) == (call.step, index) for one in part.made)
        if real is not None:
            known.calls[call] = real
            known.begun.discard(call)
        elif was_made:
            known.begun.add(call)
    for step in steps:
        ended = run.state.steps.get(StepId(step.id))
        real = None if ended is None else _ending(ended, tools[step.id])
        if step.items is None or real is None:
            continue
        if real.kind == "success":
            known.lists[step.id] = real
        elif real.kind in ("failed", "unclear"):
            known.lists[step.id] = Ending("failed")
    return known


def _hold(what: str, real: Ending | None, expected: Ending | None, part: Part) -> None:
    if real is not None and real != expected:
        raise NotAllowedError(f"{what} is {real}, but should be {expected}")
    if real is None and expected is not None and part.is_complete:
        raise NotAllowedError(f"{what} has not ended, but should be {expected}")


def _ending(record: StepFinished | ItemFinished, tool: ToolRules) -> Ending | None:
    if record.status in SUCCESSES:
        return Ending("success", record.output)
    if record.status == "failed":
        error = record.error
        is_unclear = error is not None and error.kind in ("interrupted", "timeout")
        return Ending("unclear" if is_unclear and not tool.is_repeatable else "failed")
    if record.status == "skipped":
        return Ending("skipped")
    return Ending("blocked") if record.status == "blocked" else None
