"""The root of all errors that this project raises, what their hints suggest for an unknown name, and
how a text is cut to fit into a message.

The command line prints any of them in one place, and ends with the exit code that the error names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import ClassVar, cast

from wavewright.config import exit_codes


class WavewrightError(Exception):
    """An error with a message, a place and a fix."""

    exit_code: int = exit_codes.INTERNAL
    """Exit code of a command that the error ends; by default that of a defect of wavewright."""
    is_shown_whole: ClassVar[bool] = False
    """Whether `str` gives the hint, too: of errors that only programs see, and no command prints."""

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
        self._notes: list[str] | None = None
        if exit_code is not None:
            self.exit_code = exit_code

    @property
    def hint(self) -> str | None:
        """The fix; a hint given as a function is computed when it is read."""
        return self._hint() if callable(self._hint) else self._hint

    def __str__(self) -> str:
        """Return the message, with place and hint where the error is shown whole."""
        return self.describe() if self.is_shown_whole else super().__str__()

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # computed when read, as hints are
        """The place and the hint, which tracebacks of Python and of notebooks show below the
        message.
        """
        if self._notes is None:
            whole = describe("", self.hint, self.place)
            self._notes = [] if self.is_shown_whole else whole.split("\n")[1:]
        return self._notes

    def describe(self) -> str:
        """Return the message with the place and the hint, each on a line of its own."""
        return describe(self.message, self.hint, self.place)


def describe(message: str, hint: str | None = None, place: str | None = None) -> str:
    """Return a message with its place and its hint, each on a line of its own."""
    where = f"\n  --> {place}" if place else ""
    fix = f"\n  = help: {hint}" if hint else ""
    return f"{message}{where}{fix}"


_MAX_NAMES_COMPARED = 300
_MAX_LENGTH_COMPARED = 200
"""Limits of compared names, so that a document with many faults costs linear time."""


def similar_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return the known names most similar to `name`, the nearest first, ignoring case; callers only
    show them.
    """
    if len(name) > _MAX_LENGTH_COMPARED:
        return []
    folded = {
        other.casefold(): other
        for other in islice(known, _MAX_NAMES_COMPARED)
        if len(other) <= _MAX_LENGTH_COMPARED
    }
    # Imported here: who reads a document that is right asks for no similar name.
    from difflib import get_close_matches

    near = get_close_matches(name.casefold(), folded, n=count, cutoff=0.6)
    return [folded[other] for other in near if folded[other] != name]


class NameHint(str):
    """A hint that names one thing, which an editor can put in the place of what was written."""

    __slots__ = ("name",)

    name: str

    @classmethod
    def of(cls, text: str, name: str) -> NameHint:
        """Return a hint's text with the name that it speaks of."""
        hint = cls(text)
        hint.name = name
        return hint


def did_you_mean(name: str, known: Iterable[str], count: int = 1) -> str | None:
    """Return `did you mean 'x'?` with at most `count` known names, or None if none is near.

    >>> from wavewright.config import did_you_mean
    >>> did_you_mean("fetch_pirces", ["fetch_prices", "rank"])
    "did you mean 'fetch_prices'?"
    """
    near = similar_names(name, known, count)
    if not near:
        return None
    text = f"did you mean {' or '.join(map(repr, near))}?"
    return NameHint.of(text, near[0]) if len(near) == 1 else text


def cut_end(text: str, most: int) -> str:
    """Return a text of at most so many characters: of a longer one its beginning and `…`.

    >>> from wavewright.config.errors import cut_end
    >>> cut_end("the ferry to Tarn Quay", 10)
    'the ferry…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def single_exception(error: BaseException) -> BaseException:
    """Return the first exception of a group, however deep: the others of a task group are its
    consequences, and that one was used is internal.
    """
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
