"""What is wrong with a project's documents, as the message of a failed test.

No traceback is shown: the place and the mend are the project's own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from wavewright.config.documents import DocumentError
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.testing.claims import assertion_failure
from wavewright.executor.journal_errors import JournalError
from wavewright.planner.diagnostics import PlanError, diagnostic_from_fault
from wavewright.planner.model_port import ModelError
from wavewright.planner.rendering import render_text
from wavewright.planner.spending import BudgetExceeded
from wavewright.prompts import PromptError
from wavewright.reviewer.files import FileNotWrittenError
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.models.cassette_errors import CassetteError
from wavewright.tools.packs import PackError

USER_ERRORS = (
    CassetteError,
    CommandError,
    DocumentError,
    FileNotWrittenError,
    JournalError,
    ModelError,
    BudgetExceeded,
    PackError,
    PlanError,
    PromptError,
    ToolDefinitionError,
)
"""What the engine says to users."""


@contextmanager
def errors_as_failures() -> Generator[None]:
    """Turn the engine's word to its users into the message of a failed test."""
    __tracebackhide__ = True
    try:
        yield
    except USER_ERRORS as error:
        # From nothing: pytest would show what was caught, traceback and all, above the message.
        raise assertion_failure(message_of(error)) from None


def message_of(error: Exception) -> str:
    """Return what a user is told of an error."""
    match error:
        case PlanError():
            return "\n\n".join(render_text(one.diagnostics, one.source) for one in (error, *error.others))
        case DocumentError():
            found = (
                ([diagnostic_from_fault(fault) for fault in one.faults], one.source)
                for one in (error, *error.others)
            )
            return "\n\n".join(render_text(diagnostics, source) for diagnostics, source in found)
        case _:
            place, hint = getattr(error, "place", None), getattr(error, "hint", None)
            lines = [
                f"error: {getattr(error, 'message', error)}",
                f"  --> {place}" if place else "",
                f"  = help: {hint}" if hint else "",
            ]
            return "\n".join(line for line in lines if line)
