"""Errors of a run that another attempt would have, too."""

from __future__ import annotations

from typing import Final

from wavewright.config import DocumentError
from wavewright.engine.run.jobs.saved_plan import SavedPlanError
from wavewright.engine.run.ports import PackageNotPublished
from wavewright.planner import PlanError
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import RunIdRefused
from wavewright.prompts import PromptError
from wavewright.tools import PackError, ToolDefinitionError

PERMANENT_ERRORS: Final = (
    DocumentError,
    PlanError,
    SavedPlanError,
    ToolDefinitionError,
    PackError,
    PromptError,
    ModelError,
    PackageNotPublished,
    RunIdRefused,
)


def permanent_error_text(fault: Exception) -> str:
    """Return the message of a permanent error, without the place in a document."""
    if isinstance(fault, DocumentError):
        return "; ".join(problem.message for problem in fault.faults)
    if isinstance(fault, PlanError):
        diagnostics = [
            diagnostic for error in (fault, *fault.others) for diagnostic in error.diagnostics
        ]
        return "; ".join(diagnostic.message for diagnostic in error_diagnostics(diagnostics))
    return str(fault)
