"""Answers of a reviewing model, and what of them is accepted.

An *opinion* is read from an answer with strict types. Its recovery actions are accepted one by one: the action must be
in the vocabulary, its step in the plan, its tool in the goal. All others are refused, and the refusal is recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Final, get_args

from pydantic import Field

from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import JsonObject, JsonSchema, StepId
from wavewright.reviewer.model_answers import AnswerModel, read_answer
from wavewright.reviewer.records import Action, Opinion, RecoveryAction, RefusedAction
from wavewright.reviewer.values import shorten

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

_KEYS = ("goal_achieved",)
_MAX_LINES = 40
_MAX_LINE = 300
_MAX_SUMMARY = 1500


class ReviewAction(AnswerModel):
    """A recovery action as a model wrote it."""

    action: str
    step: str | None = None
    tool: str | None = None
    hint: str = ""


class ReviewAnswer(AnswerModel):
    """The answer of a reviewing model."""

    goal_achieved: bool
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    summary: Annotated[str, Field(min_length=1)]
    missing_data: Annotated[tuple[str, ...], Field(strict=False)] = ()
    recovery_actions: Annotated[tuple[ReviewAction, ...], Field(strict=False)] = ()


def read_review(text: str) -> ReviewAnswer:
    """Return the review that an answer holds.

    Raises:
        AnswerMisfit: it holds none, or one of other types or ranges.
    """
    return read_answer(text, ReviewAnswer, _KEYS)


def to_opinion(answer: ReviewAnswer, model: str) -> Opinion:
    """Return the opinion of a model, shortened for a report."""
    return Opinion(
        model=model,
        goal_achieved=answer.goal_achieved,
        confidence=answer.confidence,
        summary=shorten(answer.summary, _MAX_SUMMARY),
        missing_data=tuple(shorten(line, _MAX_LINE) for line in answer.missing_data[:_MAX_LINES] if line),
    )


def accept_actions(
    answer: ReviewAnswer, plan: Plan, goal: Goal
) -> tuple[tuple[RecoveryAction, ...], tuple[RefusedAction, ...]]:
    """Return the accepted actions, and the refused ones with the reason."""
    steps = {step.id for step in plan.steps}
    accepted: list[RecoveryAction] = []
    refused: list[RefusedAction] = []
    for wanted in answer.recovery_actions[:_MAX_LINES]:
        action: Action | None = next((known for known in ACTIONS if known == wanted.action), None)
        why = _refusal_reason(wanted, steps, goal.tool_names)
        if action is None or why is not None:
            refused.append(
                RefusedAction(
                    action=shorten(wanted.action, 60),
                    step=wanted.step and shorten(wanted.step, 80),
                    tool=wanted.tool and shorten(wanted.tool, 80),
                    why=why or f"there is no such action; there is {', '.join(ACTIONS)}",
                )
            )
            continue
        accepted.append(
            RecoveryAction(
                action=action,
                step=StepId(wanted.step) if wanted.step else None,
                tool=wanted.tool or None,
                hint=shorten(wanted.hint, _MAX_LINE) or f"{action.replace('_', ' ')}, as the model asks",
                origin="model",
            )
        )
    return tuple(dict.fromkeys(accepted)), tuple(dict.fromkeys(refused))


def review_schema(steps: Sequence[StepId], tools: Collection[str]) -> JsonSchema:
    """Return the JSON Schema of a reviewing model's answer for one plan and goal."""
    action: JsonObject = {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": [*ACTIONS]},
            "step": {"type": "string", "enum": [*steps], "description": "The step that it is about."},
            "tool": {
                "type": "string",
                "enum": [*sorted(tools)],
                "description": "Only where another tool of the goal should be called.",
            },
            "hint": {"type": "string", "description": "What to do, in one sentence."},
        },
        "required": ["action", "step", "hint"],
        "additionalProperties": False,
    }
    lines: JsonObject = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "properties": {
            "summary": {
                "type": "string",
                "description": "The verdict with its reasons, two to five sentences.",
            },
            "goal_achieved": {"type": "boolean"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "missing_data": {**lines, "description": "What the goal asks for and the outputs do not hold."},
            "recovery_actions": {"type": "array", "items": action},
        },
        "required": ["summary", "goal_achieved", "confidence", "missing_data", "recovery_actions"],
        "additionalProperties": False,
    }


def _refusal_reason(wanted: ReviewAction, steps: Collection[str], tools: Collection[str]) -> str | None:
    if wanted.step is not None and wanted.step not in steps:
        return "the plan has no such step"
    if wanted.tool and wanted.tool not in tools:
        return "the goal does not allow this tool"
    return None
