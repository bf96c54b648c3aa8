"""The planner: from a goal to a plan that the checker has nothing against, or why there is none.

A model is asked for a plan; what it answers is read tolerantly and checked like any plan, and what is wrong with it
goes back to it, a few times at most. Where that fails, the *ladder* goes on: calls that the model suggested, the goal
template's own plan, the least that the rules ask for. Every answer and every rung is on record, and no plan comes out
of here that has an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wavewright.planner.ladder import Climb, Fallen, Ladder, Rung, RungRecord, descend
from wavewright.planner.planned import Answered, Attempt, Planned, UserQuestion

if TYPE_CHECKING:
    from wavewright.planner.allowance import Allowance
    from wavewright.planner.candidates import Bench, Candidate
    from wavewright.planner.goals import Goal
    from wavewright.planner.model_port import Models, OnUse
    from wavewright.planner.models import Plan
    from wavewright.planner.signatures import ToolSignature
    from wavewright.planner.spending import CallHistory
    from wavewright.planner.types import RunId
    from wavewright.prompts.loading import Prompts

__all__ = ["MOST_QUESTIONS", "Answered", "Attempt", "Planned", "UserQuestion", "make_plan"]

MOST_QUESTIONS = 3
"""Questions that one plan may cost the user; after these the planner decides itself."""


async def make_plan(  # noqa: PLR0913 - all that planning depends on, by name
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    *,
    models: Models | None,
    prompts: Prompts,
    ladder: Ladder,
    template_plan: Plan | None,
    run: RunId | None = None,
    answers: Sequence[Answered] = (),
    may_ask: bool = True,
    history: CallHistory | None = None,
    allowance: Allowance | None = None,
    on_use: OnUse | None = None,
    on_rung: Callable[[RungRecord], None] | None = None,
) -> Planned:
    """Return a sound plan for a goal, or a question for the user, or why there is no plan.

    Args:
        goal: What is asked for.
        tools: Signatures of the tools that are installed.
        models: Who answers; without it only the template's own plan is tried.
        prompts: The planner's templates.
        ladder: The rungs; one that is left out is not tried.
        template_plan: The goal template's own plan.
        run: The run that pays for the questions.
        answers: What the user said to earlier questions of this plan.
        may_ask: Whether somebody is there to answer a question.
        history: How long such questions took before, for the clocks.
        allowance: What is left to spend; a plan that is expected to cost more is not sound.
        on_use: Told of every question's cost.
        on_rung: Told of every rung that was tried.

    Raises:
        PromptError: one of the planner's templates is faulty.
    """
    # A run of a plan that is given passes here by, and does not pay for what planning takes.
    from wavewright.planner.candidates import Bench

    bench = Bench(goal, tools, allowance)
    ways: dict[str, Climb[Candidate]] = {}
    if template_plan is not None:
        ways["template"] = _template_rung(bench, template_plan)
    if models is None:
        landing = await descend(ladder, ways, on_rung=on_rung)
        return _planned(landing.value, landing.rung, bench, landing.records)
    from wavewright.planner.conversation import Conversation

    talk = Conversation(
        bench,
        models,
        prompts,
        run=run,
        answers=answers,
        may_ask=may_ask and len(answers) < MOST_QUESTIONS,
        history=history,
        on_use=on_use,
    )
    ways |= {
        "llm": talk.ask_first,
        "repaired": talk.repair,
        "suggested": talk.take_suggested,
        "minimal": _minimal_rung(bench),
    }
    landing = await descend(ladder, ways, on_rung=on_rung)
    planned = _planned(landing.value, landing.rung, bench, landing.records)
    return replace(planned, question=talk.question, cannot_plan=talk.cannot_plan)


def _template_rung(bench: Bench, plan: Plan) -> Climb[Candidate]:
    async def climb(_: Rung) -> Candidate | Fallen:
        return bench.weigh(plan)

    return climb


def _minimal_rung(bench: Bench) -> Climb[Candidate]:
    async def climb(_: Rung) -> Candidate | Fallen:
        from wavewright.planner.minimal_plan import minimal_plan

        return bench.weigh_made(minimal_plan(bench.goal, bench.tools), "<minimal>")

    return climb


def _planned(
    candidate: Candidate | None, rung: str | None, bench: Bench, records: tuple[RungRecord, ...]
) -> Planned:
    return Planned(
        plan=candidate.plan if candidate is not None else None,
        rung=rung,
        diagnostics=candidate.diagnostics if candidate is not None else bench.last_found,
        attempts=tuple(bench.attempts),
        rungs=records,
        document=candidate.document if candidate is not None else None,
    )
