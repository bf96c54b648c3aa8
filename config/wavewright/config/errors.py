"""The root of all errors that this project raises.

The command line prints any of them in one place, and ends with the exit code that the error names.
"""

from __future__ import annotations

from collections.abc import Callable

from wavewright.config import exit_codes


class WavewrightError(Exception):
    """An error with a message, a place and a fix."""

    exit_code: int = exit_codes.INTERNAL
    """Exit code of a command that the error ends; by default that of a defect of wavewright."""

    def __init__(
        self,
        message: str = "",
        hint: str | Callable[[], str | None] | None = None,
        *,
        place: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        """A file with or without a line, an address, or a name in the journal."""
        self._hint = hint
        if exit_code is not None:
            self.exit_code = exit_code

    @property
    def hint(self) -> str | None:
        """The fix; a hint given as a function is computed when it is read."""
        return self._hint() if callable(self._hint) else self._hint

    def describe(self) -> str:
        """Return the message with the place and the hint, each on a line of its own."""
        return describe(self.message, self.hint, self.place)


def describe(message: str, hint: str | None = None, place: str | None = None) -> str:
    """Return a message with its place and its hint, each on a line of its own."""
    where = f"\n  --> {place}" if place else ""
    fix = f"\n  = help: {hint}" if hint else ""
    return f"{message}{where}{fix}"
