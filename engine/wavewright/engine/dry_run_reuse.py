"""Which calls need not be made, because the journal has the answer.

A call is *reused* where its tool says for how long (`cache_for`), an earlier run journaled one with the same step
key, and that one is young enough. A key needs the call's parameters, so only calls whose parameters follow from the
inputs alone are looked up; the run itself may reuse more.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wavewright.executor.direct import compile_params
from wavewright.executor.keys import StepKeyBuilder
from wavewright.planner.expressions import ExpressionError
from wavewright.planner.goals import Goal
from wavewright.planner.known_values import known_items
from wavewright.planner.models import Plan, Step
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.planner.uses import step_texts

_NO_RUN_ID = RunId("")
"""No part of the keys that are looked up: what only its own run may reuse has none here."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call that some run has journaled."""

    run: RunId
    at: float
    """When it ended, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class StepReuse:
    """What the journal answers of one step."""

    calls: int
    runs: tuple[RunId, ...]
    """Whose outputs they are, each once."""
    oldest: float
    """When the oldest of them ended, in seconds since the epoch."""


FindStored = Callable[[set[StepKey]], Mapping[StepKey, StoredCall]]
"""Looks keys up in the journal."""


def find_reuse(
    plan: Plan,
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    *,
    now: dt.datetime,
    wall: float,
    find: FindStored,
) -> dict[StepId, StepReuse]:
    """Return what would be reused, by step.

    Args:
        plan: Bound to the goal.
        goal: What it says of its tools is part of the keys.
        tools: Signatures; whether and how long a result may be reused is theirs to say.
        now: What `now()` gives in the run.
        wall: The present, in seconds since the epoch: outputs age by it, whatever the run takes for now.
        find: Looks keys up.
    """
    keys = {
        step.id: list(_step_keys(step, plan, goal, tools[step.tool], now))
        for step in plan.steps
        if _may_reuse(step, tools.get(step.tool))
    }
    wanted = {key for found in keys.values() for key in found}
    stored = find(wanted) if wanted else dict[StepKey, StoredCall]()
    reused: dict[StepId, StepReuse] = {}
    for step in plan.steps:
        kept_for = tools[step.tool].cache_for if step.id in keys else None
        calls = [stored[key] for key in keys.get(step.id, ()) if key in stored]
        young = [call for call in calls if kept_for is not None and wall - call.at <= kept_for]
        if young:
            runs = tuple(dict.fromkeys(call.run for call in young))
            reused[step.id] = StepReuse(len(young), runs, min(call.at for call in young))
    return reused


def _may_reuse(step: Step, tool: ToolSignature | None) -> bool:
    # A step that stands for another one was added because the answer was not good enough.
    return tool is not None and tool.cache_for is not None and tool.only_reads and step.supersedes is None


def _step_keys(
    step: Step, plan: Plan, goal: Goal, tool: ToolSignature, now: dt.datetime
) -> Iterator[StepKey]:
    if not _has_known_params(step, goal):
        return
    items = [None] if step.for_each is None else known_items(plan, step)
    config = next((said.config for said in goal.tools if said.name == tool.name), None)
    maker = StepKeyBuilder(tool, config=config, now=now.timestamp(), run=_NO_RUN_ID)
    params_of = compile_params(step.params)
    for index, item in enumerate(items or ()):
        variables: JsonObject = {"inputs": plan.inputs, "steps": {}}
        if step.for_each is not None:
            variables |= {"item": item, "index": index}
        try:
            params: Json = params_of(variables, now)
            if isinstance(params, dict):
                yield maker.key(params, step.id, None if step.for_each is None else index)
        except (ExpressionError, ValueError):
            continue  # the run says what is wrong with it


def _has_known_params(step: Step, goal: Goal) -> bool:
    """Whether the parameters of a step follow from the inputs, and its items too."""
    for text in step_texts(step, 0):
        if text.role == "when":
            continue
        for use, read in text.reads.items():
            if isinstance(read, ExpressionError) or any(one.root == "steps" for one in read):
                return False
            if "now" in use.expression and goal.as_of is None:
                return False
    return True
