"""Perform a script: quickly, or with everything that a run has.

A *trial* is the real scheduler with the real gates, which is enough to see which branches a script takes; a search
makes hundreds. A *performance* is the whole pipeline: the plan is checked again, approvals are asked and answered
yes, the run is reviewed, recovered and packaged. Neither calls a tool, asks a model or writes a file.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace

from wavewright.config.settings import Settings
from wavewright.engine.context import ApprovalRequest, RunContext, RunRequest, keep_back
from wavewright.engine.jobs import PlanDraft
from wavewright.engine.recording import draft_note
from wavewright.engine.rehearsal.scripts import Script, stubs_of
from wavewright.engine.session import run_request
from wavewright.executor.events import RunStarted
from wavewright.executor.execution import execute
from wavewright.executor.journal import MemoryJournal
from wavewright.executor.state import RunState
from wavewright.planner.binding import bind_plan
from wavewright.planner.checker import check
from wavewright.planner.diagnostics import PlanError
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import JsonObject, RunId
from wavewright.reviewer.gates import make_verifier
from wavewright.tools.calls import Tool

_RUN = RunId("rehearsal")


@dataclass(frozen=True, slots=True)
class Performance:
    """What came of a run of the whole pipeline."""

    context: RunContext
    approvals: tuple[ApprovalRequest, ...]


class _SaysYes:
    """Approves of everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return True


@dataclass(frozen=True, slots=True)
class Stage:
    """What is rehearsed, and on what."""

    goal: Goal
    draft: PlanDraft
    plan: Plan
    """Bound to the goal."""
    tools: Mapping[str, Tool]
    settings: Settings
    """Without a model."""
    now: dt.datetime

    @property
    def signatures(self) -> dict[str, ToolSignature]:
        """What is known of the tools."""
        return {name: tool.signature for name, tool in self.tools.items()}

    def with_inputs(self, inputs: JsonObject | None) -> Stage | None:
        """Return the stage of a job with other inputs; none where the plan is not sound for them."""
        if inputs is None:
            return self
        goal = self.goal.model_copy(update={"inputs": inputs})
        plan = bind_plan(self.draft.plan, goal, self.signatures)
        if any(found.severity == "error" for found in check(plan, goal, self.signatures)):
            return None
        return replace(self, goal=goal, plan=plan)


async def make_trial(stage: Stage, script: Script) -> RunState:
    """Return how the steps of the stage's plan end."""
    goal, plan = stage.goal, stage.plan
    return await execute(
        plan,
        stubs_of(script)(stage.tools),
        run=_RUN,
        now=stage.now,
        verify=make_verifier(plan, stage.signatures, goal, stage.now),
        schedule=goal.schedule,
        limits=goal.limits,
        goal_tools=goal.tools,
    )


async def perform(stage: Stage, script: Script) -> Performance | None:
    """Return what comes of a run; none where its plan is refused."""
    journal, approver = MemoryJournal(), _SaysYes()
    at = stage.now.timestamp()
    started = RunStarted(
        run=_RUN,
        at=at,
        job=stage.goal.job,
        goal=stage.goal.model_dump(mode="json", by_alias=True),
        now=at,
    )
    # As a run that was stopped before its plan was accepted: so goal and instant are this rehearsal's own.
    await journal.append(_RUN, (started, draft_note(stage.draft, at)))
    await journal.close_run(_RUN)
    try:
        done = await run_request(
            RunRequest(run=_RUN),
            settings=stage.settings,
            journal=journal,
            approver=approver,
            tools_through=stubs_of(script),
            publish=keep_back,
        )
    except PlanError:
        return None
    return Performance(done.context, tuple(approver.asked))
