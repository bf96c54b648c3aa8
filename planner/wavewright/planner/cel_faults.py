"""Faults of expressions, in the author's words.

An *expression fault* says what is wrong, where in the expression and what would mend it. Whatever the CEL library
or Python answers is turned into one of these, so no internal name and no traceback reaches an author.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal, TypeAlias

FaultKind: TypeAlias = Literal[
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

_LISTED_NAMES = 12


class ExpressionFault(Exception):
    """Why an expression cannot be read, checked or evaluated."""

    def __init__(
        self, kind: FaultKind, message: str, offset: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.offset = offset
        """Character of the expression that the fault speaks of, counted from 0."""
        self.hint = hint

    def moved(self, by: int) -> ExpressionFault:
        """Return the same fault for an expression that starts `by` characters later."""
        if self.offset is None:
            return self
        return ExpressionFault(self.kind, self.message, self.offset + by, self.hint)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return "did you mean …?" for the known name most like `name`, if one is like it."""
    names = list(known)
    lowered = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean '{lowered[found[0]]}'?" if found else None


def listed(names: Iterable[str]) -> str:
    """Return names as a readable list, cut where it would be long."""
    shown = list(names)
    if len(shown) <= _LISTED_NAMES:
        return ", ".join(shown)
    return ", ".join(shown[:_LISTED_NAMES]) + f" and {len(shown) - _LISTED_NAMES} more"
