"""Faults of expressions, in the author's words.

An *expression fault* says what is wrong, where in the expression and what would mend it. Whatever the CEL library
or Python answers is turned into one of these, so no internal name and no traceback reaches an author.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Literal, TypeAlias

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
_MAX_NAMES_COMPARED = 2000
_MAX_LENGTH_COMPARED = 100


class ExpressionError(Exception):
    """Why an expression cannot be read, checked or evaluated."""

    def __init__(
        self,
        kind: ExpressionErrorKind,
        message: str,
        offset: int | None = None,
        hint: str | Callable[[], str | None] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ExpressionErrorKind = kind
        self.message = message
        self.offset = offset
        """Character of the expression that the fault speaks of, counted from 0."""
        self._hint = hint

    @property
    def hint(self) -> str | None:
        """What would mend it; made when it is asked for, as a loop may pass over many faults."""
        return self._hint() if callable(self._hint) else self._hint

    def moved(self, by: int) -> ExpressionError:
        """Return the same fault for an expression that starts `by` characters later."""
        if self.offset is None:
            return self
        return ExpressionError(self.kind, self.message, self.offset + by, self._hint)


def closest_name_hint(name: str, known: Iterable[str]) -> str | None:
    """Return "did you mean …?" for the known name most like `name`, if one is like it.

    Long names, and those after the first 2,000, are not compared: it would take seconds.
    """
    if len(name) > _MAX_LENGTH_COMPARED:
        return None
    names = [one for one in islice(known, _MAX_NAMES_COMPARED) if len(one) <= _MAX_LENGTH_COMPARED]
    lowered = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean '{lowered[found[0]]}'?" if found else None


def join_names(names: Iterable[str], count: int | None = None) -> str:
    """Return names as a readable list, cut where it would be long; `count` is how many there are if not all given."""
    shown = list(names)
    more = (len(shown) if count is None else count) - MAX_NAMES_LISTED
    return ", ".join(shown[:MAX_NAMES_LISTED]) + (f" and {more} more" if more > 0 else "")
