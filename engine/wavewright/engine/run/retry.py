"""The request to repeat a run that has ended, as a new run, and what that will do before it does it:
which steps it calls, which it takes over, which it leaves.

It follows from the runs that it repeats and from the present code of the tools, by the rules of
`docs/explanation/semantics.md`. Items of a list are counted, by how they ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.config import WavewrightError, exit_codes
from wavewright.engine.run.context import RetryRequest
from wavewright.engine.run.execute_plan import changed_tools
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.read_job import steps_called_again, steps_to_repeat
from wavewright.engine.run.target_waves import target_waves
from wavewright.executor import Event, ItemFinished, RunFinished, RunState, StepFinished, fold
from wavewright.executor.events.state import SUCCESSES, is_of_call, step_ids
from wavewright.executor.run.rules import RunSoFar, is_unclear
from wavewright.planner import (
    Goal,
    Json,
    Plan,
    PlanGraph,
    RunId,
    Step,
    StepId,
    as_object,
    suggest_name,
)
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.types import properties_of
from wavewright.tools import Tools


class RetryRefused(WavewrightError):
    """A run that cannot be repeated, or not in that way."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


def retry_of_run(
    run: RunId,
    events: Sequence[Event],
    *,
    start: str | None = None,
    again: Sequence[str] = (),
    inputs: InputOverrides | None = None,
    only_failed: bool = False,
) -> RetryRequest:
    """Return the request to repeat a run.

    Args:
        run: The run's id.
        events: All of its events.
        start: The step that is repeated with all that depend on it.
        again: Steps that are repeated although it is not known whether their writes took effect.
        inputs: They replace inputs of the run.
        only_failed: Whether only what failed is called, with what depends on it: what succeeded is
            kept also where the code of its tool has changed.

    Raises:
        RetryRefused: the run has not ended, it has several targets, it has no step or no input of
            that name, or only what failed is wanted and nothing did.
        DocumentError: an input has another type, or there is no place for it.
    """
    state = fold(events)
    # A run that is interrupted goes on by itself: what it has begun is its own to finish.
    if state.started is None or not isinstance(events[-1], RunFinished) or state.is_interrupted:
        raise RetryRefused(f"run {run!r} has not ended", f"continue with: wavewright resume {run}")
    # A root run calls no tool: what failed is in the runs of its targets.
    if target_waves(state) is not None:
        raise RetryRefused(
            f"run {run!r} has several targets",
            f"`wavewright show {run}` lists their runs: retry one of them",
        )
    if only_failed and state.plan is None:
        raise RetryRefused(
            f"run {run!r} ended before it had a plan, so no call of it has failed",
            "without `--failed` (`failed` in Python) it is repeated from its beginning",
        )
    if only_failed and not _has_failed(state):
        raise RetryRefused(
            f"nothing of run {run!r} has failed",
            "without `--failed` (`failed` in Python) it is repeated with tools whose code has changed",
        )
    for step in (*again, *(() if start is None else (start,))):
        _check_has_step(run, state, step)
    # The goal is the one of that run, whatever its job's file says by now.
    goal = Goal.model_validate(state.started.goal)
    _check_has_inputs(run, goal, state, inputs or InputOverrides())
    changed = dict[str, Json]()
    if inputs:
        of_plan = as_object((state.plan or {}).get("inputs"))
        changed = inputs.applied(goal.inputs, goal.inputs_schema, of_plan=of_plan)
    return RetryRequest(
        run,
        None if start is None else StepId(start),
        changed,
        tuple(map(StepId, again)),
        only_failed,
    )


_WITHOUT_OUTPUT: Final = frozenset({"failed", "blocked", "cancelled"})
"""Statuses of steps that have no output, and should have one."""


def _has_failed(state: RunState) -> bool:
    """Whether a step or an item has no output that it should have."""
    if any(ending.status in _WITHOUT_OUTPUT for ending in state.steps.values()):
        return True
    # A list may succeed although some of its items have failed.
    items = [item for of_step in state.items.values() for item in of_step.values()]
    return any(item.status == "failed" for item in items)


def _check_has_inputs(run: RunId, goal: Goal, state: RunState, inputs: InputOverrides) -> None:
    """Refuse a name that is no input of the run: its plan stands, and reads no other."""
    of_goal = properties_of(goal.inputs_schema)
    known = {*goal.inputs, *of_goal, *as_object((state.plan or {}).get("inputs"))}
    for name in inputs.names:
        if name not in known:
            hint = suggest_name(name, known, what="its inputs") or "it has no inputs"
            raise RetryRefused(f"no input of run {run!r} is called {name!r}", hint)


def _check_has_step(run: RunId, state: RunState, start: str) -> None:
    names = step_ids(state.plan)
    if not any(name == start or name.startswith(f"{start}.") for name in names):
        raise RetryRefused(
            f"run {run!r} has no step {start!r}", suggest_name(start, names, what="its steps")
        )


Fate: TypeAlias = Literal["called", "reused", "left"]
_WORDS_OF_STATUS: Mapping[str, str] = {
    "failed": "it failed",
    "blocked": "it was not called",
    "cancelled": "it was cut off",
    "skipped": "its condition is asked again",
}


@dataclass(frozen=True, slots=True)
class RetriedStep:
    """What becomes of one step in a retry."""

    step: StepId
    tool: str
    fate: Fate
    reason: str


def retry_outlook(
    request: RetryRequest,
    donors: Sequence[RunState],
    tools: Tools,
    *,
    others: Sequence[RunState] = (),
) -> tuple[RetriedStep, ...]:
    """Return what becomes of each step, in the order of the plan: that of the run, or where its plan
    was refused, of the newest that it repeats; empty where none had one.

    Args:
        request: The retry.
        donors: The run that is repeated, then those that it repeats in its turn.
        tools: The present tools of the plan.
        others: Other retries of the first run that is repeated, whose writes are not repeated.
    """
    newest = donors[0]
    plan = first_plan(donors)
    if plan is None:
        return ()
    anew = frozenset(steps_to_repeat(newest, request.start))
    again = frozenset(steps_called_again(newest, request.again))
    read_anew = _steps_that_read(plan, _changed_inputs(request, newest))
    runs = [RunSoFar(state.run or request.run, state) for state in donors]
    beside = [RunSoFar(state.run, state) for state in others if state.run is not None]
    outlook = _Outlook(request, runs, [*beside, *runs], tools, anew, again)
    steps = list[RetriedStep]()
    called = set[StepId]()
    graph = PlanGraph.of(plan)
    for step in plan.steps:
        before = called.intersection(graph.dependencies[step.id])
        doubt = None
        if step.id in read_anew:
            doubt = "where a changed input makes it another call"
        elif before:
            doubt = f"where {', '.join(sorted(before))} gives something else"
        fate, reason = outlook.fate_of(step, doubt)
        if fate == "called":
            called.add(step.id)
        steps.append(RetriedStep(step.id, step.tool, fate, reason))
    return tuple(steps)


def first_plan(donors: Sequence[RunState]) -> Plan | None:
    """Return the plan that a retry begins with, as far as runs show it; patches are no part of it."""
    planned = next((state for state in donors if state.plans), None)
    return None if planned is None else Plan.model_validate(planned.plans[0].plan)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What is known of the runs that are repeated."""

    request: RetryRequest
    runs: Sequence[RunSoFar]
    family: Sequence[RunSoFar]
    """The other retries of the first of them, and these."""
    tools: Tools
    anew: frozenset[StepId]
    again: frozenset[StepId]

    def fate_of(self, step: Step, doubt: str | None) -> tuple[Fate, str]:
        """Return what becomes of a step, and why.

        Args:
            step: The step.
            doubt: When it makes other calls than before; None where it makes the same.
        """
        if step.id in self.anew:
            return "called", f"--from {self.request.start}"
        if any(name in self.anew for _, name in _places(step.id, self.runs)):
            return (
                "called",
                f"as {self.request.start}, where a patch replaces it: --from names that",
            )
        # See "Unclear, retried" and "Retried" in docs/explanation/semantics.md.
        tool = self.tools.get(step.tool)
        writes = tool is not None and tool.signature.writes
        takes_effect_again = writes and not (tool and tool.signature.idempotent)
        is_unclear_write = takes_effect_again and self._is_unclear(step.id)
        if step.id in self.again and is_unclear_write:
            return "called", "--again names it, whether or not its write took effect"
        if step.id in self.again and not takes_effect_again:
            return "called", "--again names it"
        if is_unclear_write:
            return "left", f"its write may have taken effect; --again {step.id} repeats it"
        succeeded = self._succeeded_in(step, writes=writes)
        if succeeded is not None:
            # Which items are reused is not known where the list may be another one.
            run, items = succeeded
            if doubt is not None:
                return "called", doubt
            return ("reused", f"run {run}") if items is None else ("called", items)
        if step.tool in self._changed_tools(self.runs[0].state) and not writes:
            return "called", f"the code of {step.tool} has changed"
        ended = self.runs[0].state.steps.get(step.id)
        return "called", _WORDS_OF_STATUS.get(ended.status if ended else "", "it was not called")

    def _changed_tools(self, state: RunState) -> frozenset[str]:
        """Return the tools whose code counts as changed since a run."""
        return frozenset() if self.request.only_failed else changed_tools(state, self.tools)

    def _is_unclear(self, step: StepId) -> bool:
        """Whether a call of the step was begun, and it is not known whether it took effect."""
        for state, name in _places(step, self.family):
            endings: list[StepFinished | ItemFinished] = [*state.items.get(name, {}).values()]
            endings += _endings_of(state, name)
            if any(begun == name for begun, _ in state.begun) or any(map(is_unclear, endings)):
                return True
            if any(ending.status in SUCCESSES for ending in endings):
                return False
        return False

    def _succeeded_in(self, step: Step, *, writes: bool) -> tuple[RunId | None, str | None] | None:
        """Return the run that a step succeeded in, with how many of its items did not; None where
        it did in none whose code it still has.
        """
        for state, name in _places(step.id, self.family if writes else self.runs):
            if not writes and step.tool in self._changed_tools(state):
                return None
            for ended in _endings_of(state, name):
                if ended.status in SUCCESSES:
                    return state.run, _failed_items(ended)
            items = state.items.get(name)
            done = 0 if items is None else sum(item.status in SUCCESSES for item in items.values())
            if done:
                return (
                    state.run,
                    f"its items that have not succeeded; {done} did in run {state.run}",
                )
        return None


def _places(step: StepId, runs: Iterable[RunSoFar]) -> Iterator[tuple[RunState, StepId]]:
    """Yield runs with a step, and with those that patches put in its place; the newest first."""
    for run in runs:
        for name in run.line_of(step):
            yield run.state, name


def _endings_of(state: RunState, step: StepId) -> list[StepFinished]:
    """Return how a step ended, and where nothing was called for that, how it had before."""
    now = [state.steps[step]] if step in state.steps else []
    if any(map(is_of_call, now)):
        return now
    undone = [ended for (name, _), ended in state.undone.items() if name == step]
    return now + [ended for ended in undone if isinstance(ended, StepFinished)]


def _failed_items(ended: StepFinished) -> str | None:
    if ended.items is None or ended.items[0] == ended.items[1]:
        return None
    good, all_items = ended.items
    failed = f"{all_items - good:,} of its {counted(all_items, 'item')} failed"
    return f"{failed}; {good:,} reused"


def _changed_inputs(request: RetryRequest, newest: RunState) -> frozenset[str]:
    assert newest.started is not None
    before = Goal.model_validate(newest.started.goal).inputs
    return frozenset(
        name
        for name, value in request.inputs.items()
        if name not in before or before[name] != value
    )


def _steps_that_read(plan: Plan, inputs: frozenset[str]) -> frozenset[StepId]:
    if not inputs:
        return frozenset()
    named = re.compile(rf"\binputs\.({'|'.join(map(re.escape, inputs))})\b")
    return frozenset(
        step.id
        for step in plan.steps
        if named.search(json.dumps(step.model_dump(mode="json", exclude_defaults=True)))
    )


def outlook_lines(run: RunId, steps: Sequence[RetriedStep]) -> list[str]:
    """Return the lines that tell a person what a retry will do."""
    if not steps:
        return [f"retry of run {run}, which had no plan: none of its results is reused"]
    width = max(len(step.step) for step in steps)
    tools = max(len(step.tool) for step in steps)
    return [
        f"retry of run {run}:",
        *(
            f"  {step.fate:<6}  {step.step:<{width}}  {step.tool:<{tools}}  {step.reason}"
            for step in steps
        ),
    ]
