"""Nothing runs unchecked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from wavewright.config.documents import Source
from wavewright.engine.context import Ports, RunContext, keep_tools
from wavewright.engine.jobs import PlanDraft
from wavewright.engine.obstacles import find_obstacles
from wavewright.engine.pipeline import PhaseResult, branch, proceed
from wavewright.engine.recording import diagnostics_json, record, record_note
from wavewright.engine.services import remaining_allowance
from wavewright.engine.toolbox import signatures_to_check
from wavewright.executor.events import RunFinished
from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.allowance import Allowance
from wavewright.planner.check_readiness import check_readiness
from wavewright.planner.checker import check
from wavewright.planner.diagnostics import Diagnostic, PlanError
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import StepId
from wavewright.reviewer.replanning import finished_steps


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """Prove the plan sound, or stop with everything that is wrong with it."""

    ports: Ports
    name: str = "check_plan"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Report an author's faults at their places; drop a patch that makes some, and end with what there is."""
        assert context.goal is not None
        assert context.candidate is not None
        if context.draft is not None:
            return await self._check_draft(context, context.candidate, context.draft)
        found = check(
            context.candidate,
            context.goal,
            context.signatures,
            allowance=await _plan_allowance(self.ports, context, context.candidate),
            finished=finished_steps(context.state),
            items_done=_items_done(context.state),
        )
        if not _errors(found):
            return proceed(replace(context, diagnostics=tuple(found)))
        context = await record_note(
            self.ports, context, "patch_refused", {"diagnostics": [*diagnostics_json(found)]}
        )
        context = replace(context, candidate=None, patch=None, side_effects=())
        return branch(context, "build_package", f"the recovery patch makes {len(_errors(found))} faults")

    async def _check_draft(
        self, context: RunContext, candidate: Plan, draft: PlanDraft
    ) -> PhaseResult[RunContext]:
        assert context.goal is not None
        tools = context.signatures
        if not all(step.tool in tools for step in draft.plan.steps):
            # It names tools that are not allowed: whether there are such is to be told.
            tools = signatures_to_check(draft.plan, context.goal, self.ports.settings)
        allowance = await _plan_allowance(self.ports, context, candidate)
        found = draft.origin.place(
            [
                *check(candidate, context.goal, tools, allowance=allowance),
                *self._readiness_errors(candidate, tools),
            ]
        )
        if _errors(found):
            context = await record_note(
                self.ports, context, "plan_refused", {"diagnostics": [*diagnostics_json(found)]}
            )
            ended = RunFinished(self.ports.clock().timestamp(), "failed", "the plan is not sound")
            await record(self.ports, context, ended)
            raise PlanError(found, draft.origin.document.source)
        return proceed(replace(context, diagnostics=tuple(found)))

    def _readiness_errors(self, plan: Plan, tools: Mapping[str, ToolSignature]) -> Iterable[Diagnostic]:
        """Return which steps cannot work here; tools that others stand in for need nothing."""
        if self.ports.wrap_tools is not keep_tools:
            return ()
        return check_readiness(plan, find_obstacles(plan, tools, self.ports.settings), is_run=True)


@dataclass(frozen=True, slots=True)
class RecheckPlan:
    """Prove that the plan of a resumed run is still sound with the tools as they are now."""

    ports: Ports
    name: str = "recheck_plan"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Stop before anything is called where a tool has changed under the run."""
        assert context.plan is not None
        found = check(
            context.plan,
            context.goal,
            context.signatures,
            allowance=await _plan_allowance(self.ports, context, context.plan),
            finished=finished_steps(context.state),
            items_done=_items_done(context.state),
        )
        if _errors(found):
            raise PlanError(tuple(found), Source(f"the plan of run {context.run}", ""))
        return proceed(context)


async def _plan_allowance(ports: Ports, context: RunContext, plan: Plan) -> Allowance | None:
    assert context.goal is not None
    return await remaining_allowance(
        ports.budget_store, ports.services, ports.settings, context.goal, run=context.run, plan=plan
    )


def _items_done(state: RunState) -> dict[StepId, int]:
    """Return how many items have brought something, by step: a resumed run does not pay for them again."""
    return {
        step: sum(1 for item in items.values() if item.status in SUCCESSES)
        for step, items in state.items.items()
    }


def _errors(found: list[Diagnostic] | tuple[Diagnostic, ...]) -> list[Diagnostic]:
    return [diagnostic for diagnostic in found if diagnostic.severity == "error"]
