"""The planner: from a goal to a valid plan, or to the reason why there is none.

A model is asked for a plan. Its answer is read tolerantly and checked, and its faults go back to
the model a limited number of times. After that the *ladder* continues with tool calls that the
model suggested, the goal template's own plan and a minimal plan. Every answer and rung is recorded,
and no plan with an error is returned.

An *attempt* is one answer of a model. Of the planner itself, this module imports nothing before it
is asked for a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.ports.fallback_ladder import (
    FallbackFailure,
    FallbackStrategy,
    Ladder,
    Rung,
    RungRecord,
    run_ladder,
)

if TYPE_CHECKING:
    from wavewright.config.documents import Document
    from wavewright.config.sources import Source
    from wavewright.planner.language.goals import Goal
    from wavewright.planner.language.plan import Plan
    from wavewright.planner.language.signatures import ToolSignature
    from wavewright.planner.planning.candidates import Candidate, PlanValidator
    from wavewright.planner.ports.budgets import Allowance, CallHistory
    from wavewright.planner.ports.model_port import ModelClient, OnText, OnUse
    from wavewright.planner.reading.repairs import Repair
    from wavewright.planner.types import RunId
    from wavewright.prompts.templates import Prompts

MAX_QUESTIONS = 3
"""Maximum number of questions to the user for one plan; after that the planner decides itself."""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question of the planner before it plans, or of a step before it ends."""

    question: str
    options: tuple[str, ...] = ()
    """Answers to choose from; other answers are accepted too."""
    default: str | None = None
    """The answer of an empty line."""
    asked_by: str = "the planner"


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question that the planner asked, and what the user said."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class PlanningAttempt:
    """One answer of a model, with what was found in it."""

    rung: str
    answer: str
    diagnostics: tuple[Diagnostic, ...]
    repairs: tuple[Repair, ...]
    """What was read otherwise than it is written."""
    source: Source
    """The answer as the text that the positions of diagnostics refer to."""


@dataclass(frozen=True, slots=True)
class PlanningResult:
    """The result of planning."""

    plan: Plan | None
    """As its author wrote it, unbound; bound to its goal it has no error."""
    rung: str | None
    """The rung that gave the plan."""
    diagnostics: tuple[Diagnostic, ...]
    """Warnings of the plan, or what is wrong with the last candidate where there is none."""
    attempts: tuple[PlanningAttempt, ...]
    """Every answer of a model, with what was found in it."""
    rungs: tuple[RungRecord, ...]
    """Every rung that was tried, and why it gave nothing."""
    question: UserQuestion | None = None
    """What the user has to answer first; nothing below the rung that asked was tried."""
    cannot_plan: str | None = None
    """Why the model said that there is no plan, whether or not another rung gave one."""
    document: Document | None = None
    """The text that the plan was read from, for places; the template's own plan has its place
    elsewhere.
    """
    kept_template: str | None = None
    """The goal template whose kept plan this is, if no planner was asked because of it."""


async def make_plan(  # noqa: PLR0913 - all that planning depends on, by name
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    *,
    models: ModelClient | None,
    prompts: Prompts,
    ladder: Ladder,
    template_plan: Plan | None,
    kept_plan: Plan | None = None,
    run: RunId | None = None,
    answers: Sequence[AnsweredQuestion] = (),
    may_ask: bool = True,
    history: CallHistory | None = None,
    allowance: Allowance | None = None,
    on_use: OnUse | None = None,
    on_text: OnText | None = None,
    on_rung: Callable[[RungRecord], None] | None = None,
) -> PlanningResult:
    """Return a valid plan for a goal, a question for the user, or why there is no plan.

    Args:
        goal: What is asked for.
        tools: Signatures of the tools that are installed.
        models: Who answers; without it only the template's own plan is tried.
        prompts: The planner's templates.
        ladder: The rungs; one that is left out is not tried.
        template_plan: The goal template's own plan.
        kept_plan: A plan for a similar goal: the model is shown it, and the rung `suggested` takes
            it where no answer suggests calls.
        run: The run that pays for the questions.
        answers: What the user said to earlier questions of this plan.
        may_ask: Whether a person can answer a question.
        history: How long such questions took before, for the clocks.
        allowance: What is left to spend; a plan with a higher estimate is not valid.
        on_use: Receives the cost of every question.
        on_text: Receives the model's answers as they arrive, and an empty text where one begins.
        on_rung: Receives every rung that was tried.

    Raises:
        PromptError: one of the planner's templates is faulty.
    """
    # A run of a plan that is given passes here by, and does not pay for what planning takes.
    from wavewright.planner.planning.candidates import PlanValidator

    validator = PlanValidator(goal, tools, allowance)
    ways: dict[str, FallbackStrategy[Candidate]] = {}
    if template_plan is not None:
        ways["template"] = _template_strategy(validator, template_plan)
    if models is None:
        result = await run_ladder(ladder, ways, on_rung=on_rung)
        return _planning_result(result.value, result.rung, validator, result.records)
    from wavewright.planner.planning.conversation import PlanningConversation

    talk = PlanningConversation(
        validator,
        models,
        prompts,
        run=run,
        answers=answers,
        may_ask=may_ask and len(answers) < MAX_QUESTIONS,
        kept_plan=kept_plan,
        history=history,
        on_use=on_use,
        on_text=on_text,
    )
    ways |= {
        "llm": talk.ask_for_plan,
        "repaired": talk.repair,
        "suggested": talk.use_suggestion,
        "minimal": _minimal_strategy(validator),
    }
    result = await run_ladder(ladder, ways, on_rung=on_rung)
    planned = _planning_result(result.value, result.rung, validator, result.records)
    return replace(planned, question=talk.question, cannot_plan=talk.cannot_plan)


def _template_strategy(validator: PlanValidator, plan: Plan) -> FallbackStrategy[Candidate]:
    async def climb(_: Rung) -> Candidate | FallbackFailure:
        return validator.validate(plan)

    return climb


def _minimal_strategy(validator: PlanValidator) -> FallbackStrategy[Candidate]:
    async def climb(_: Rung) -> Candidate | FallbackFailure:
        from wavewright.planner.planning.candidates import minimal_plan

        return validator.validate_built(minimal_plan(validator.goal, validator.tools), "<minimal>")

    return climb


def _planning_result(
    candidate: Candidate | None,
    rung: str | None,
    validator: PlanValidator,
    records: tuple[RungRecord, ...],
) -> PlanningResult:
    return PlanningResult(
        plan=candidate.plan if candidate is not None else None,
        rung=rung,
        diagnostics=candidate.diagnostics if candidate is not None else validator.last_diagnostics,
        attempts=tuple(validator.attempts),
        rungs=records,
        document=candidate.document if candidate is not None else None,
    )
