"""A second chance, as a patch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import StepResult, branch, go_on
from wavewright.engine.recording import found_json, note
from wavewright.executor.state import SUCCESSES
from wavewright.planner.patches import check_patch
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.recovery import propose_patch, view_for_recovery


def goal_not_achieved(context: RunContext) -> bool:
    """Whether the review said no; the rounds that are left are the recovery's to count."""
    return context.review is not None and not context.review.goal_achieved


@dataclass(frozen=True, slots=True)
class Recover:
    """Propose a patch from the goal's recipes and have the patched plan checked and executed."""

    ports: Ports
    name: str = "recover"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Branch to the checker with a patched plan, or go on where no recipe helps."""
        plan, goal, review = context.plan, context.goal, context.review
        assert plan is not None
        assert goal is not None
        assert review is not None
        if context.time_left == 0:
            return go_on(context, "the run's time limit was reached")
        tried = _tried(context)
        patch = propose_patch(plan, goal, context.state, review, tried)
        if patch is None:
            return go_on(context, "no recipe mends what is missing")
        checked = check_patch(
            plan,
            patch,
            finished=_finished(context),
            goal=goal,
            tools=context.signatures,
            round_number=context.state.round + 1,
            red_gates=[gate.gate for gate in view_for_recovery(plan, goal, context.state).red],
            tried=tried,
        )
        if checked.plan is None:
            body: JsonObject = {"diagnostics": [*found_json(checked.diagnostics)]}
            return go_on(
                await note(self.ports, context, "patch_refused", body), "the patch cannot be applied"
            )
        body = {
            "reason": patch.reason,
            "fingerprint": checked.fingerprint,
            "round": context.state.round + 1,
        }
        context = await note(self.ports, context, "recovery", body)
        context = replace(context, candidate=checked.plan, patch=patch, side_effects=checked.needs_approval)
        return branch(context, "check_plan", patch.reason)


def _finished(context: RunContext) -> frozenset[StepId]:
    """Return the steps that ran to an end; a patch may not touch them."""
    ran = SUCCESSES | {"failed"}
    return frozenset(step for step, ended in context.state.steps.items() if ended.status in ran)


def _tried(context: RunContext) -> frozenset[str]:
    """Return the fingerprints of the patches that this run has tried, before a resume as well.

    A patch was tried once its plan was accepted; one that a crash cut off before that is proposed again.
    """
    state = context.state
    return frozenset(
        fingerprint
        for noted in state.notes
        if noted.topic == "recovery"
        and isinstance(fingerprint := noted.body.get("fingerprint"), str)
        and isinstance(round_number := noted.body.get("round"), int)
        and round_number <= state.round
    )
