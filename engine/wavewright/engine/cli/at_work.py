"""Which model a phase waits for, as far as the events of a run and the settings tell.

A model's call is an event when it has ended; until then the settings say who is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavewright.planner.rendering import printable

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.executor.state import RunState
    from wavewright.planner.types import JsonObject

ModelPhase: TypeAlias = Literal["planner", "reviewer", "recovery"]
"""Roles of the phases above the executor."""

ModelLookup: TypeAlias = "Callable[[JsonObject, ModelPhase], str | None]"
"""Returns the model that such a phase asks for a goal; nothing where none is configured."""

_ACTIVITY_WORDS: dict[ModelPhase, str] = {
    "planner": "planning",
    "reviewer": "reviewing",
    "recovery": "recovering",
}


def model_lookup(settings: Settings) -> ModelLookup | None:
    """Return who tells which model a phase asks; nothing where no model is configured."""
    if settings.model is None:
        return None

    def model_of(goal: JsonObject, phase: ModelPhase) -> str | None:
        from wavewright.planner.model_port import ModelError
        from wavewright.tools.models import choose_model

        preference = goal.get("model_preference")
        try:
            wanted = preference if isinstance(preference, str) else "auto"
            return choose_model(settings, wanted, phase, os.environ).model
        except ModelError:
            return None  # the phase itself says what is wrong

    return model_of


def activity_text(state: RunState, at_work: ModelLookup | None, *, has_executed: bool) -> str | None:
    """Return what a phase above the executor does now, and with which model; nothing while steps run."""
    if state.started is None or state.finished is not None:
        return None
    if state.plan is None:
        drafts = [noted.body for noted in state.notes if noted.topic == "draft"]
        is_given = any(draft.get("rung") == "given" or draft.get("is_sealed") is True for draft in drafts)
        return None if is_given else _activity_with_model(state.started.goal, "planner", at_work)
    verdict = next((noted.body for noted in reversed(state.notes) if noted.topic == "review"), None)
    if verdict is not None and verdict.get("round") == state.round:
        return (
            None
            if verdict.get("goal_achieved")
            else _activity_with_model(state.started.goal, "recovery", at_work)
        )
    return _activity_with_model(state.started.goal, "reviewer", at_work) if has_executed else None


def _activity_with_model(goal: JsonObject, phase: ModelPhase, at_work: ModelLookup | None) -> str | None:
    model = at_work(goal, phase) if at_work is not None else None
    return f"{_ACTIVITY_WORDS[phase]} with {printable(model)}" if model is not None else None
