"""The streaming start: steps that only read run while the rest of the plan arrives.

Each growth of the plan prefix that starts steps is journaled before they start, with its hash. The
endings are events of the run, so that the execution of the whole plan, or of a repaired one, takes
the results of equal calls over by their step keys. The first fault of the answer lets no further
step start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from wavewright.config import Settings, known_secrets_redactor
from wavewright.engine.run.context import RunContext
from wavewright.engine.run.permits import permitted_tools
from wavewright.engine.run.ports import Attempt
from wavewright.executor import (
    Event,
    Execution,
    ItemFinished,
    Noted,
    RunState,
    StepFinished,
    execute,
    fold,
)
from wavewright.planner import JsonObject, Plan, PlanGraph, Step, StepId, plan_hash
from wavewright.planner.planning.plan_stream import (
    PlanStream,
    PrefixFault,
    prefix_as_it_runs,
    startable_steps,
)
from wavewright.planner.ports.budgets import Allowance
from wavewright.reviewer import make_verifier
from wavewright.reviewer.review.results import run_instant

PREFIX_TOPIC: Final = "plan_prefix"
"""Topic of the note that steps of a plan prefix start."""
STREAMED_TOPIC: Final = "plan_streamed"
"""Topic of the note of what the whole plan has kept of its prefix."""


class CallSlots:
    """Slots for concurrent calls, of all early steps together and of each tool."""

    def __init__(self, total: int) -> None:
        self._free = {"": total}
        self._changed = anyio.Condition()

    async def take(self, tool: str, limit: int, most: int) -> int:
        """Wait for a free slot of the tool; return how many were taken, at most as many as `most`."""
        async with self._changed:
            self._free.setdefault(tool, limit)
            while min(self._free[""], self._free[tool]) < 1:
                await self._changed.wait()
            taken = min(most, self._free[""], self._free[tool])
            self._change(tool, -taken)
            return taken

    async def free(self, tool: str, taken: int) -> None:
        """Give slots back."""
        async with self._changed:
            self._change(tool, taken)
            self._changed.notify_all()

    def _change(self, tool: str, change: int) -> None:
        self._free[""] += change
        self._free[tool] += change


@dataclass(slots=True)
class _EarlyStep:
    step: Step
    ended: anyio.Event = field(default_factory=anyio.Event)


class EarlySteps:
    """Starts steps of one answer of the planner as they arrive; `receive` takes the answer part by
    part.
    """

    def __init__(
        self,
        attempt: Attempt,
        settings: Settings,
        context: RunContext,
        group: TaskGroup,
        allowance: Allowance | None,
        events: list[Event],
    ) -> None:
        """Take the list to which what happens is added, for the state of the run: outputs are as the
        tools gave them.
        """
        self._events = events
        self._attempt = attempt
        self._settings = settings
        self._context = context
        self._tools = permitted_tools(context)
        self._group = group
        self._allowance = allowance
        self._stream = PlanStream()
        self._started: dict[StepId, _EarlyStep] = {}
        self._prefix: Plan | None = None
        """The prefix as it runs, unbound, with the last step that was started."""
        self._has_fault = False
        self._state = context.state
        self._slots = CallSlots(context.goal.limits.concurrency)

    def receive(self, text: str) -> None:
        """Take the next part of an answer; an empty one says that an answer begins.

        Once steps were started, a further answer, which repairs the first or repeats it, starts
        none.
        """
        if not text:
            # The planner is asked again: what it answers now may be another plan.
            self._stream = PlanStream()
            self._has_fault |= bool(self._started)
        elif not self._has_fault:
            try:
                self._start(self._stream.add(text))
            except PrefixFault:
                self._has_fault = True

    def _start(self, arrived: Plan | None) -> None:
        if arrived is None:
            return
        # The plan that this is compared with in the end is one as it runs, too.
        prefix = prefix_as_it_runs(arrived, self._context.signatures)
        bound, startable = startable_steps(
            prefix,
            self._context.goal,
            self._context.signatures,
            allowance=self._allowance,
            passes_effects=self._settings.planner.stream == "on",
        )
        steps = {step.id: step for step in bound.steps}
        new = [name for name in startable if name not in self._started]
        if not new:
            return
        self._prefix = prefix
        self._started |= {name: _EarlyStep(steps[name]) for name in new}
        # No step starts before it is journaled which prefix it belongs to: a run that is killed
        # knows by that what it may take over.
        journaled = anyio.Event()
        note = self._note(PREFIX_TOPIC, _prefix_body(prefix, new))
        self._group.start_soon(self._journal, note, journaled)
        graph = PlanGraph.of(bound)
        for name in new:
            self._group.start_soon(self._run, self._started[name], bound, graph, journaled)

    def _note(self, topic: str, body: JsonObject) -> Noted:
        return Noted(self._attempt.now(), topic, body)

    async def _journal(self, note: Noted, journaled: anyio.Event) -> None:
        await self._attempt.journal.append(self._context.run, [note])
        self._attempt.on_event(note)
        self._events.append(note)
        journaled.set()

    async def _run(
        self, early: _EarlyStep, bound: Plan, graph: PlanGraph, journaled: anyio.Event
    ) -> None:
        """Run one step once what it waits for has ended well; otherwise the execution of the whole
        plan decides.
        """
        await journaled.wait()
        for name in graph.dependencies[early.step.id]:
            await self._started[name].ended.wait()
        try:
            needed = graph.dependencies[early.step.id]
            has_all = all(self._state.is_present(name) for name in needed)
            # A fault of the answer lets no further step start: the plan may come out otherwise.
            if has_all and not self._has_fault:
                await self._execute(early.step, bound, graph)
        finally:
            early.ended.set()

    async def _execute(self, step: Step, bound: Plan, graph: PlanGraph) -> None:
        context, limits = self._context, self._context.goal.limits
        needed = {step.id, *graph.ancestors(step.id)}
        part = bound.model_copy(
            update={
                "steps": tuple(other for other in bound.steps if other.id in needed),
                "gates": tuple(gate for gate in bound.gates if gate.on in needed),
                "caps": (),
            }
        )
        # Each early step is an execution of its own: the limits of all of them are kept here.
        tool = context.signatures[step.tool]
        ceilings = (tool.concurrency, limits.tool_concurrency.get(tool.name), limits.concurrency)
        limit = min(ceiling for ceiling in ceilings if ceiling is not None)
        slots = await self._slots.take(tool.name, limit, 1 if step.for_each is None else limit)
        events: list[Event] = []

        def listen(event: Event) -> None:
            self._attempt.on_event(event)
            events.append(event)

        try:
            now = run_instant(context.state)
            state = await execute(
                Execution(
                    part,
                    self._tools,
                    run=context.run,
                    now=now,
                    journal=self._attempt.journal,
                    verify=make_verifier(part, context.signatures, context.goal, now),
                    schedule="dataflow",
                    limits=limits.model_copy(update={"run_timeout": None, "concurrency": slots}),
                    goal_tools=context.goal.tools,
                    prior=self._state,
                    on_event=listen,
                    announces=self._attempt.announces_calls,
                    redactor=known_secrets_redactor(self._settings),
                    is_part=True,
                )
            )
        finally:
            with anyio.CancelScope(shield=True):
                await self._slots.free(tool.name, slots)
        known = [_as_given(event, state) for event in events]
        self._events += known
        self._state = fold(known, self._state)

    async def finish(self, plan: Plan | None) -> None:
        """Let no further step start, and journal what the whole plan has of the prefix."""
        if self._prefix is None:
            return
        prefix, steps = self._prefix, () if plan is None else plan.steps
        own = {step.id: step for step in prefix.steps if step.id in self._started}
        kept = [step.id for step in steps if _call(own.get(step.id)) == _call(step)]
        # Names of `let` in the steps that have not been started may have arrived behind these.
        begins = [step.id for step in steps[: len(prefix.steps)]]
        extends = begins == [step.id for step in prefix.steps] and len(kept) == len(own)
        self._has_fault |= not extends
        body: JsonObject = {"started": [*own], "kept": [*kept], "extends": extends}
        await self._journal(self._note(STREAMED_TOPIC, body), anyio.Event())


def _prefix_body(prefix: Plan, started: list[StepId]) -> JsonObject:
    tools: JsonObject = {step.id: step.tool for step in prefix.steps}
    return {"tools": tools, "started": [*started], "hash": _hash(prefix.steps)}


def _hash(steps: tuple[Step, ...]) -> str:
    """Return the hash of a plan that has these steps alone."""
    return plan_hash(Plan(steps=steps))


def _call(step: Step | None) -> Step | None:
    return None if step is None else step.model_copy(update={"why": None})


def _as_given(event: Event, state: RunState) -> Event:
    """Return an event as the state has it: a listener gets outputs without secrets."""
    match event:
        case StepFinished():
            return state.steps[event.step]
        case ItemFinished():
            return state.items[event.step][event.index]
        case _:
            return event
