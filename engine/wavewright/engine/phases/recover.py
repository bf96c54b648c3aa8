"""A second chance, as a patch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from wavewright.engine.context import Ports, RunContext
from wavewright.engine.model_phases import ModelEventRecorder, run_model_phase
from wavewright.engine.pipeline import PhaseResult, branch, halt, proceed
from wavewright.engine.recording import STOPPED_REASON, diagnostics_json, end_interrupted, record_note
from wavewright.planner.types import JsonObject
from wavewright.reviewer.replanning import ReplanResult, replan


def goal_not_achieved(context: RunContext) -> bool:
    """Whether the review said no; the rounds that are left are the recovery's to count."""
    return context.review is not None and not context.review.goal_achieved


@dataclass(frozen=True, slots=True)
class Recover:
    """Have a patch made, by a recipe of the goal or else by a model, and the patched plan checked and executed."""

    ports: Ports
    name: str = "recover"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Branch to the checker with a patched plan, or go on where nothing helps."""
        if context.time_left == 0:
            return proceed(context, "the run's time limit was reached")
        asked = await run_model_phase(self.ports, context, self._replan(context))
        context, replanned = asked.context, asked.value
        if asked.was_stopped:
            return halt(await end_interrupted(self.ports, context, STOPPED_REASON), "interrupted")
        if replanned is None:
            return proceed(context, "the run's time limit was reached")
        patch, checked = replanned.patch, replanned.checked
        if patch is None or checked is None:
            if replanned.diagnostics:
                body: JsonObject = {"diagnostics": [*diagnostics_json(replanned.diagnostics)]}
                context = await record_note(self.ports, context, "patch_refused", body)
            return proceed(context, "; ".join(replanned.reasons))
        body = {
            "reason": patch.reason,
            "fingerprint": checked.fingerprint,
            "round": context.state.round + 1,
            "rung": replanned.rung,
        }
        context = await record_note(self.ports, context, "recovery", body)
        context = replace(context, candidate=checked.plan, patch=patch, side_effects=checked.needs_approval)
        return branch(context, "check_plan", patch.reason)

    def _replan(self, context: RunContext) -> Callable[[ModelEventRecorder], Awaitable[ReplanResult]]:
        services, plan, goal, review = self.ports.services, context.plan, context.goal, context.review
        assert plan is not None
        assert goal is not None
        assert review is not None

        async def work(recorder: ModelEventRecorder) -> ReplanResult:
            return await replan(
                plan,
                goal,
                context.state,
                review,
                context.signatures,
                models=services.models,
                prompts=services.prompts,
                ladder=services.ladders["recovery"],
                history=services.history,
                seen=_tried_patches(context),
                on_use=recorder.record_use,
                # A recipe that stands alone is no fallback of anything.
                on_rung=recorder.record_rung if services.models is not None else None,
            )

        return work


def _tried_patches(context: RunContext) -> frozenset[str]:
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
