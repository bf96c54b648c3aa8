"""The root of all errors that this project raises.

The command line prints any of them in one place, and ends with the exit code that the error names.
"""

from __future__ import annotations

from collections.abc import Callable

from wavewright.config import exit_codes


class WavewrightError(Exception):
    """What cannot be done, where, and what fixes it."""

    exit_code: int = exit_codes.INTERNAL
    """What a command ends with where nobody handles the error: unless a class says otherwise, it is our own defect."""

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
        """A file, perhaps with its line, an address, or a name in the journal."""
        self._hint = hint
        if exit_code is not None:
            self.exit_code = exit_code

    @property
    def hint(self) -> str | None:
        """What fixes it; a hint given as a function is made when it is asked for."""
        return self._hint() if callable(self._hint) else self._hint

    def describe(self) -> str:
        """Return the message with the place and the hint, each on a line of its own."""
        return describe(self.message, self.hint, self.place)


def describe(message: str, hint: str | None = None, place: str | None = None) -> str:
    """Return a message with its place and its hint, each on a line of its own."""
    where = f"\n  --> {place}" if place else ""
    fix = f"\n  = help: {hint}" if hint else ""
    return f"{message}{where}{fix}"
