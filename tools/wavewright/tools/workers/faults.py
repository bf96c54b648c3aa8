"""What a step is told where a worker has no answer: a `ToolError` with what would mend it."""

from __future__ import annotations

from collections.abc import Sequence

from wavewright.planner.ladder import RungRecord
from wavewright.planner.model_port import ModelError
from wavewright.tools.calls import ToolError
from wavewright.tools.workers.services import MODEL_MEND

STRONGER = "ask for less in one call, or set 'model_preference' to a stronger model"


def no_model(name: str) -> ToolError:
    """Return the error of a worker that nobody can answer for."""
    return ToolError(f"{name!r} needs a model, and none is configured", hint=MODEL_MEND)


def of_model(error: ModelError, name: str, mend: str | None = None) -> ToolError:
    """Return a model's error as a tool's: what may pass stays passing, and the mend stays."""
    return ToolError(
        f"{name!r} has no answer from its model: {error}",
        transient=error.is_transient,
        hint=error.hint or _MENDS.get(error.kind, mend),
        retry_after=error.retry_after,
    )


def of_ladder(
    records: Sequence[RungRecord], name: str, error: ModelError | None, mend: str = STRONGER
) -> ToolError:
    """Return why no rung gave anything; the model's own error where there was one, `mend` where it names none."""
    if error is not None:
        return of_model(error, name, mend if error.kind in _OF_THE_WORK else None)
    if not records:
        return no_model(name)
    reasons = "; ".join(f"{record.rung}: {record.reason}" for record in records)
    return ToolError(f"{name!r} has no usable answer: {reasons}", hint=mend)


_OF_THE_WORK = frozenset({"bad_answer", "timeout"})
"""Kinds of errors behind which the work may stand, and not the provider alone."""
_MENDS = {
    "over_budget": "raise the budget under 'budgets', or the step's own",
    "over_context": "pass less, or lower 'max_input_chars' of the worker",
    "refused": "the model declined: change the text or the instructions, or ask another model",
    "denied": "look at the model's key, and at what it may be used for",
}
