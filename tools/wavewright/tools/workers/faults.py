"""What a step is told where a worker has no answer: a `ToolError` with what would mend it."""

from __future__ import annotations

from collections.abc import Sequence

from wavewright.planner.ladder import RungRecord
from wavewright.planner.model_port import ModelError
from wavewright.tools.calls import ToolError
from wavewright.tools.workers.services import MODEL_HINT

STRONGER_MODEL_HINT = "ask for less in one call, or set 'model_preference' to a stronger model"


def no_model_error(name: str) -> ToolError:
    """Return the error of a worker that nobody can answer for."""
    return ToolError(f"{name!r} needs a model, and none is configured", hint=MODEL_HINT)


def model_tool_error(error: ModelError, name: str, mend: str | None = None) -> ToolError:
    """Return a model's error as a tool's: what may pass stays passing, and the mend stays."""
    return ToolError(
        f"{name!r} has no answer from its model: {error}",
        transient=error.is_transient,
        hint=error.hint or _HINTS.get(error.kind, mend),
        retry_after=error.retry_after,
    )


def ladder_tool_error(
    records: Sequence[RungRecord], name: str, error: ModelError | None, mend: str = STRONGER_MODEL_HINT
) -> ToolError:
    """Return why no rung gave anything; the model's own error where there was one, `mend` where it names none."""
    if error is not None:
        return model_tool_error(error, name, mend if error.kind in _TASK_ERROR_KINDS else None)
    if not records:
        return no_model_error(name)
    reasons = "; ".join(f"{record.rung}: {record.reason}" for record in records)
    return ToolError(f"{name!r} has no usable answer: {reasons}", hint=mend)


_TASK_ERROR_KINDS = frozenset({"bad_answer", "timeout"})
"""Kinds of errors behind which the work may stand, and not the provider alone."""
_HINTS = {
    "over_budget": "raise the budget under 'budgets', or the step's own",
    "over_context": "pass less, or lower 'max_input_chars' of the worker",
    "refused": "the model declined: change the text or the instructions, or ask another model",
    "denied": "look at the model's key, and at what it may be used for",
}
