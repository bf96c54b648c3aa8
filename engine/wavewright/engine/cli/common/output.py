"""Output that several commands share: JSON, lines and files, with the forms of numbers and instants in texts."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

from wavewright.config import exit_codes
from wavewright.engine.cli.common.errors import CommandError


def print_json(value: object) -> None:
    """Print a value to standard output as indented JSON in which every character is printable."""
    from wavewright.planner.diagnostics.rendering import printable_json  # not loaded for output as text

    sys.stdout.write(printable_json(value, indent=2) + "\n")


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
