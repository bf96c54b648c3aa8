"""Faults of what was asked for or of the project: they are there the next time, too."""

from __future__ import annotations

from typing import Final

from wavewright.config.documents import DocumentError
from wavewright.engine.context import PackageNotPublished
from wavewright.engine.sealed_plan import SavedPlanError
from wavewright.planner.diagnostics import PlanError
from wavewright.planner.model_port import ModelError
from wavewright.prompts import PromptError
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.packs import PackError

PERMANENT_ERRORS: Final = (
    DocumentError,
    PlanError,
    SavedPlanError,
    ToolDefinitionError,
    PackError,
    PromptError,
    ModelError,
    PackageNotPublished,
)


def permanent_error_text(fault: Exception) -> str:
    """Return what a fault says of a job, without the place in the code."""
    if isinstance(fault, DocumentError):
        return "; ".join(one.message for one in fault.faults)
    if isinstance(fault, PlanError):
        found = (one for error in (fault, *fault.others) for one in error.diagnostics)
        return "; ".join(one.message for one in found if one.severity == "error")
    return str(fault)
