"""What commands print: JSON, lines, files, and what they raise as a message with an exit code."""

from __future__ import annotations

import datetime as dt
import io
import os
import sys
import traceback
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from typer import Abort, Exit

from wavewright.config import WavewrightError, exit_codes, install_hint, is_installed
from wavewright.config.errors import describe
from wavewright.config.installation import EXTRAS, extra_of


class CommandError(WavewrightError):
    """A command that cannot be carried out as it was given."""

    exit_code = exit_codes.MISUSE


def require_extra(extra: str) -> None:
    """Refuse a command whose extra is not installed, before its code is imported: several extras
    bring the same libraries, so the first that is missing does not say which extra is meant.

    Raises:
        CommandError: it is not installed.
    """
    if not is_installed(extra):
        raise CommandError(*_missing_extra(extra))


def _missing_extra(extra: str) -> tuple[str, str]:
    message = f"the extra {extra!r} is not installed; it adds {EXTRAS[extra].purpose}"
    return message, install_hint(extra)


@dataclass(slots=True)
class CommandOutcome:
    """The exit code of the command."""

    code: int = exit_codes.OK


@contextmanager
def report_failures(*, as_json: bool = False) -> Generator[CommandOutcome]:
    """Turn what a command raises into a message on standard error and an exit code; as JSON, into
    diagnostics on standard output, too: a command that raises has written nothing there.
    """
    outcome = CommandOutcome()
    try:
        yield outcome
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does: no error.
        _discard_output()
    except SystemExit as ended:
        # The command line library ends the process itself after shell completion.
        outcome.code = ended.code if isinstance(ended.code, int) else exit_codes.OK
    except KeyboardInterrupt:
        print_error("interrupted")
        outcome.code = exit_codes.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user
        outcome.code = report_error(error)
        if as_json and not isinstance(error, Exit):
            # Imported here: most commands raise nothing.
            from wavewright.engine.interfaces.cli.common.error_text import error_json

            failure = {"diagnostics": error_json(error)}
            sys.stdout.write(without_secrets(_json_text(failure)))
    finally:
        _flush_output(outcome)


def print_json(value: object) -> None:
    """Print a value to standard output as indented JSON in which every character is printable."""
    sys.stdout.write(_json_text(value))


def _json_text(value: object) -> str:
    """Return a value as lines of indented JSON in which every character is printable."""
    from wavewright.planner.diagnostics.rendering import (
        printable_json,
    )  # not loaded for output as text

    return printable_json(value, indent=2) + "\n"


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to standard output; characters that could control a terminal are escaped."""
    # As above.
    from wavewright.planner.diagnostics.rendering import printable

    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def print_line(text: str) -> None:
    """Print a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_file(file: Path, text: str) -> None:
    """Write a text to a file that an option names.

    Raises:
        CommandError: the file cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error, "name a file in a folder that can be written to") from error


def unwritable(path: Path, error: OSError, hint: str) -> CommandError:
    """Return the error of a file or folder that cannot be written, to be raised."""
    message = f"{str(path)!r} cannot be written: {error.strerror}"
    return CommandError(message, hint=hint, exit_code=exit_codes.ENVIRONMENT)


def instant_text(seconds: float) -> str:
    """Return an instant, given in seconds since the epoch, as ISO 8601 in UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat()


def print_error(message: str, hint: str | None = None) -> None:
    """Print an error and its fix to standard error."""
    print_aside(f"error: {describe(message, hint)}")


def print_aside(text: str) -> None:
    """Print to standard error what is not the outcome, without secrets; where that cannot be
    written, it is lost, and the exit code alone says what is wrong.
    """
    try:
        sys.stderr.write(f"{without_secrets(text)}\n")
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123


def without_secrets(text: str) -> str:
    """Return a text with the environment's keys, and text that looks like a key, redacted."""
    # Most commands print no error.
    from wavewright.config import known_secrets_redactor

    return known_secrets_redactor(None).redact(text)


def _flush_output(outcome: CommandOutcome) -> None:
    """Flush standard output, however the command ended: at exit Python would use its own exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        outcome.code = _report_os_error(error)


def _discard_output() -> None:
    """Discard standard output from now on, also what is left in its buffer at exit."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123


def report_error(error: Exception) -> int:
    """Print an error to standard error and return the exit code of a command that ends so."""
    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, Abort):  # raised by the command line library on Ctrl-C
        print_error("interrupted")
        return exit_codes.INTERRUPTED
    show = getattr(error, "show", None)
    if callable(show) and hasattr(error, "exit_code"):  # a usage error of the command line itself
        if isinstance(message := getattr(error, "message", None), str):
            vars(error)["message"] = message.removeprefix("Value error, ")
        usage = io.StringIO()
        show(usage)
        print_aside(usage.getvalue().rstrip("\n"))
        return exit_codes.MISUSE
    if isinstance(error, ExceptionGroup):
        return _report_all(cast("ExceptionGroup[Exception]", error).exceptions)
    if isinstance(error, WavewrightError) and error.exit_code != exit_codes.INTERNAL:
        # Imported here: what quotes lines of documents is loaded where there is an error.
        from wavewright.engine.interfaces.cli.common.error_text import error_text

        print_aside(error_text(error))
        return error.exit_code
    if isinstance(error, OSError):
        return _report_os_error(error)
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name or "")) is not None:
        print_error(*_missing_extra(extra))
        return exit_codes.MISUSE
    return _report_internal_error(error)


def _report_all(errors: Sequence[Exception]) -> int:
    """Report all errors of a group; the exit code is that of misuse if any of them is misuse."""
    codes: list[int] = []
    for error in errors:
        if codes:
            print_aside("")
        codes.append(report_error(error))
    return exit_codes.MISUSE if exit_codes.MISUSE in codes else codes[0]


def _report_os_error(error: OSError) -> int:
    """Report an error of the system; without a file name the output could not be written."""
    if error.filename is None:
        _discard_output()
    subject = repr(str(error.filename)) if error.filename is not None else "the output"
    verb = "cannot be used" if error.filename is not None else "cannot be written"
    print_error(f"{subject} {verb}: {error.strerror or error}")
    return exit_codes.ENVIRONMENT


def _report_internal_error(error: Exception) -> int:
    if os.environ.get("WAVEWRIGHT_TRACEBACK"):
        print_aside("".join(traceback.format_exception(error)))
    print_error(
        f"wavewright failed: {type(error).__name__}: {error}",
        "this is a defect of wavewright; please report it with the output of the same command "
        "under WAVEWRIGHT_TRACEBACK=1",
    )
    return exit_codes.INTERNAL
