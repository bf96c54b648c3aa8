"""From an exception to a message and an exit code: the one place where failures leave the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from wavewright.engine.cli.common import exit_codes


class CommandError(Exception):
    """A command cannot go on; the text says what is wrong, with its place, and `hint` what would mend it."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        place: str | None = None,
        code: int = exit_codes.MISUSE,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.place = place
        self.code = code


class SeveralErrors(Exception):
    """Everything that was found wrong at once; it is misuse where any of it is."""

    def __init__(self, faults: Sequence[Exception]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = tuple(faults)


_EXIT_CODES = {"denied": exit_codes.MISUSE, "over_budget": exit_codes.NEGATIVE}
"""Exit codes by why a model gave no answer: settings that cannot work, a no, and else the surroundings."""


@dataclass(slots=True)
class CommandOutcome:
    """The exit code that a command is about to end with."""

    code: int = exit_codes.OK


def print_error(message: str, hint: str | None = None, *, place: str | None = None) -> None:
    """Print an error, where it is and what would mend it, to standard error."""
    where = f"  --> {place}\n" if place else ""
    mend = f"  = help: {hint}\n" if hint else ""
    sys.stderr.write(without_secrets(f"error: {message}\n{where}{mend}"))


def without_secrets(text: str) -> str:
    """Return a text without the keys that the environment holds, and without whatever looks like one."""
    from wavewright.config.redaction import Redactor, known_secrets

    return Redactor(known_secrets(None, os.environ)).redact(text)


@contextmanager
def report_failures() -> Generator[CommandOutcome]:
    """Turn what a command raises into a message on standard error and an exit code."""
    outcome = CommandOutcome()
    try:
        yield outcome
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: not worth a word.
        _discard_output()
    except SystemExit as ended:
        # The command line library ends the process itself after it has answered a shell.
        outcome.code = ended.code if isinstance(ended.code, int) else exit_codes.OK
    except KeyboardInterrupt:
        print_error("interrupted")
        outcome.code = exit_codes.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user
        outcome.code = _report(error)
    finally:
        _flush_output(outcome)


def _flush_output(outcome: CommandOutcome) -> None:
    """Write what is left in the buffer, however the command ended: Python itself would end with a code of its own."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        outcome.code = _report_os_error(error)


def _discard_output() -> None:
    """Write nothing more to standard output, not even what is left in its buffer when the program ends."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123


def _report(error: Exception) -> int:
    from typer import Abort, Exit

    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, Abort):  # what the command line library makes of Ctrl-C
        print_error("interrupted")
        return exit_codes.INTERRUPTED
    show = getattr(error, "show", None)
    if callable(show) and hasattr(error, "exit_code"):  # a usage error of the command line itself
        if isinstance(message := getattr(error, "message", None), str):
            vars(error)["message"] = message.removeprefix("Value error, ")
        show()
        return exit_codes.MISUSE
    if isinstance(error, CommandError):
        print_error(str(error), error.hint, place=error.place)
        return error.code
    if isinstance(error, SeveralErrors):
        return _report_all(error.faults)
    return _report_known(error)


def _report_all(faults: Sequence[Exception]) -> int:
    codes: list[int] = []
    for fault in faults:
        if codes:
            sys.stderr.write("\n")
        codes.append(_report(fault))
    return exit_codes.MISUSE if exit_codes.MISUSE in codes else codes[0]


def _report_known(error: Exception) -> int:
    from wavewright.config.documents import DocumentError
    from wavewright.config.installation import EXTRAS, extra_of, install_hint
    from wavewright.engine.jobs.saved_plan import SavedPlanError
    from wavewright.executor.store.errors import JournalError, RunNotFound
    from wavewright.planner.diagnostics.diagnostic import PlanError, diagnostic_from_fault
    from wavewright.planner.diagnostics.rendering import render_text
    from wavewright.tools.functions.contracts import ToolDefinitionError
    from wavewright.tools.packs import PackError

    if isinstance(error, DocumentError):
        for one in (error, *error.others):
            found = tuple(diagnostic_from_fault(fault) for fault in one.faults)
            sys.stderr.write(without_secrets(render_text(found, one.source)) + "\n")
        return exit_codes.MISUSE
    if isinstance(error, PlanError):
        shown = [render_text(one.diagnostics, one.source) for one in (error, *error.others)]
        sys.stderr.write(without_secrets("\n\n".join(shown)) + "\n")
        return exit_codes.NEGATIVE
    if isinstance(error, SavedPlanError):
        print_error(str(error), error.hint, place=error.place)
        return exit_codes.NEGATIVE
    if isinstance(error, JournalError):
        sys.stderr.write(without_secrets(f"error: {error}\n"))
        return exit_codes.MISUSE if isinstance(error, RunNotFound) else exit_codes.ENVIRONMENT
    if isinstance(error, ToolDefinitionError):
        print_error(str(error), error.hint)
        return exit_codes.MISUSE
    if isinstance(error, PackError):
        print_error(str(error), error.hint, place=error.place)
        return exit_codes.MISUSE
    if isinstance(error, OSError):
        return _report_os_error(error)
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name or "")) is not None:
        print_error(
            f"the extra {extra!r} is not installed; it adds {EXTRAS[extra].purpose}", install_hint(extra)
        )
        return exit_codes.MISUSE
    code = _report_model_error(error)
    return code if code is not None else _report_internal_error(error)


def _report_model_error(error: Exception) -> int | None:
    """Report what keeps a language model from being asked; nothing where the error is of another kind."""
    from wavewright.planner.ports.budgets import BudgetExceeded
    from wavewright.planner.ports.model_port import ModelError
    from wavewright.prompts import PromptError
    from wavewright.tools.models.cassette.errors import CassetteError

    if isinstance(error, CassetteError):
        print_error(error.message, error.hint)
        return exit_codes.MISUSE
    if isinstance(error, PromptError):
        where = None if error.file is None else str(error.file)
        place = where if where is None or error.line is None else f"{where}:{error.line}"
        print_error(error.message, error.hint, place=place)
        return exit_codes.MISUSE
    if isinstance(error, BudgetExceeded):
        print_error(str(error), error.hint)
        return exit_codes.NEGATIVE
    if isinstance(error, ModelError):
        print_error(str(error), error.hint)
        return _EXIT_CODES.get(error.kind, exit_codes.ENVIRONMENT)
    return None


def _report_os_error(error: OSError) -> int:
    """Report what the system refused; without a file's name it was the output that could not be written."""
    if error.filename is None:
        _discard_output()
    subject = repr(str(error.filename)) if error.filename is not None else "the output"
    verb = "cannot be used" if error.filename is not None else "cannot be written"
    print_error(f"{subject} {verb}: {error.strerror or error}")
    return exit_codes.ENVIRONMENT


def _report_internal_error(error: Exception) -> int:
    if os.environ.get("WAVEWRIGHT_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    print_error(
        f"wavewright failed: {type(error).__name__}: {error}",
        "this is a fault of wavewright; please report it with the output of the same command "
        "under WAVEWRIGHT_TRACEBACK=1",
    )
    return exit_codes.INTERNAL
