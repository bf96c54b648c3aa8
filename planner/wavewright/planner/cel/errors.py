"""Errors of expressions, and the limits of one evaluation.

An *expression error* names what is wrong, where in the expression, and how to fix it, with the
author's own names.

A *cost tracker* counts the operations of one evaluation before they are done, so an expression that
is too expensive ends with an error. The counts depend only on the expression and its values: every
machine refuses the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from wavewright.config.errors import WavewrightError

ExpressionErrorKind: TypeAlias = Literal[
    "bad_expression",
    "expression_too_large",
    "item_outside_for_each",
    "no_overload",
    "unclosed_reference",
    "unknown_input",
    "unknown_name_or_field",
    "unknown_step",
    "evaluation_failed",
]
"""Kinds as the catalogue of diagnostics names them; `evaluation_failed` exists at run time only."""

MAX_KEY_LENGTH_SHOWN: Final = 80
"""Characters of a key that a fault shows."""
MAX_NAMES_LISTED: Final = 12
"""Names that a fault lists."""


class ExpressionError(WavewrightError):
    """Why an expression cannot be read, checked or evaluated."""

    def __init__(
        self,
        kind: ExpressionErrorKind,
        message: str,
        offset: int | None = None,
        hint: str | Callable[[], str | None] | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.kind: ExpressionErrorKind = kind
        self.offset = offset
        """Character of the expression that the error speaks of, counted from 0."""


def join_names(names: Iterable[str], count: int | None = None) -> str:
    """Return names as a readable list, cut where it would be long; `count` is how many there are if
    not all given.
    """
    shown = list(names)
    more = (len(shown) if count is None else count) - MAX_NAMES_LISTED
    return ", ".join(shown[:MAX_NAMES_LISTED]) + (f" and {more} more" if more > 0 else "")


MAX_ITERATIONS: Final = 100_000
"""Iterations of all macros of one evaluation."""
MAX_OPERATIONS: Final = 3_000_000
"""Operations of one evaluation: a node of the tree, an element that is compared, a stretch of text
that is searched, and `_BYTES_PER_OPERATION` of a value that is made.
"""
MAX_TEXT_LENGTH: Final = 2**22
"""Characters of a text that an expression makes."""
SUPPRESSED_ERROR_COST: Final = 16
"""Operations of a fault that `||`, `&&`, all() or exists() passes over."""

_BYTES_PER_OPERATION = 16
"""So all that an evaluation makes takes 48 MiB at most."""
_CHARACTERS_SCANNED = 512
"""Characters that one operation compares."""
NO_TYPES_HINT: Final = "types are no values of JSON: a tool's output schema says what a field is"
_HINT = "filter first, or leave the work to a tool"


class CostTracker:
    """What is left of the operations of one evaluation.

    Every method raises ExpressionError (`expression_too_large`) where nothing is left.
    """

    __slots__ = ("iterations", "operations", "patterns")

    def __init__(self) -> None:
        self.iterations = MAX_ITERATIONS
        self.operations = MAX_OPERATIONS
        self.patterns: set[str] = set()
        """Regular expressions that are compiled."""

    def count_iteration(self, operations: int) -> None:
        """Count one iteration of a macro whose body has so many nodes."""
        self.iterations -= 1
        if self.iterations < 0:
            raise too_large_error(f"the expression takes more than {MAX_ITERATIONS:,} iterations")
        self.count_operations(operations)

    def count_operations(self, operations: int) -> None:
        """Count operations."""
        self.operations -= operations
        if self.operations < 0:
            raise too_large_error(f"the expression takes more than {MAX_OPERATIONS:,} operations")

    def count_scan(self, text: str) -> None:
        """Count that a text is compared from end to end."""
        self.count_operations(len(text) // _CHARACTERS_SCANNED)

    def count_search(self, text: str, part: str) -> None:
        """Count that a text is searched for a part; a short text is searched in the naive way."""
        self.count_operations(len(text) * min(len(part) + 2, 100) // 700)

    def count_list(self, length: int) -> None:
        """Count that a list is made of so many elements that are there already."""
        self.count_operations((64 + 8 * length) // _BYTES_PER_OPERATION)

    def count_text(self, length: int, *sources: str) -> None:
        """Count that a text of so many characters is made, all of them from the sources."""
        if length > MAX_TEXT_LENGTH:
            raise too_large_error(
                f"the expression makes a text of more than {MAX_TEXT_LENGTH:,} characters"
            )
        width = 1 if all(map(str.isascii, sources)) else 4
        self.count_operations(length * width // _BYTES_PER_OPERATION)


def too_large_error(message: str) -> ExpressionError:
    """Return the fault of an expression that takes too much."""
    return ExpressionError("expression_too_large", message, None, _HINT)
