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
from wavewright.engine.context import ApprovalRequest, RunContext, RunRequest, withhold_package
from wavewright.engine.jobs import PlanDraft
from wavewright.engine.recording import draft_note
from wavewright.engine.rehearsal.scripts import Scenario, stub_tools
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

_RUN_ID = RunId("rehearsal")


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What came of a run of the whole pipeline."""

    context: RunContext
    approvals: tuple[ApprovalRequest, ...]


class _AutoApprover:
    """Approves of everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return True


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
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

    def with_inputs(self, inputs: JsonObject | None) -> SimulatedPlan | None:
        """Return the stage of a job with other inputs; none where the plan is not sound for them."""
        if inputs is None:
            return self
        goal = self.goal.model_copy(update={"inputs": inputs})
        plan = bind_plan(self.draft.plan, goal, self.signatures)
        if any(found.severity == "error" for found in check(plan, goal, self.signatures)):
            return None
        return replace(self, goal=goal, plan=plan)


async def run_steps(stage: SimulatedPlan, script: Scenario) -> RunState:
    """Return how the steps of the stage's plan end."""
    goal, plan = stage.goal, stage.plan
    return await execute(
        plan,
        stub_tools(script)(stage.tools),
        run=_RUN_ID,
        now=stage.now,
        verify=make_verifier(plan, stage.signatures, goal, stage.now),
        schedule=goal.schedule,
        limits=goal.limits,
        goal_tools=goal.tools,
    )


async def run_scenario(stage: SimulatedPlan, script: Scenario) -> SimulatedRun | None:
    """Return what comes of a run; none where its plan is refused."""
    journal, approver = MemoryJournal(), _AutoApprover()
    at = stage.now.timestamp()
    started = RunStarted(
        run=_RUN_ID,
        at=at,
        job=stage.goal.job,
        goal=stage.goal.model_dump(mode="json", by_alias=True),
        now=at,
    )
    # As a run that was stopped before its plan was accepted: so goal and instant are this rehearsal's own.
    await journal.append(_RUN_ID, (started, draft_note(stage.draft, at)))
    await journal.close_run(_RUN_ID)
    try:
        done = await run_request(
            RunRequest(run=_RUN_ID),
            settings=stage.settings,
            journal=journal,
            approver=approver,
            tools_through=stub_tools(script),
            publish=withhold_package,
        )
    except PlanError:
        return None
    return SimulatedRun(done.context, tuple(approver.asked))
