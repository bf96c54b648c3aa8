"""References in text: where the `${…}` of a string stand.

A *reference* is an expression between `${` and its closing brace. Here text is split at its references, and values
are searched for them, without a look at what an expression says: this is all that a plan without expressions needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from wavewright.planner.cel_faults import ExpressionError
from wavewright.planner.types import Json


class EmbeddedExpression(NamedTuple):
    """A reference in text: `text[start:end]` is the whole of it, `${` and `}` included."""

    expression: str
    start: int
    end: int
    offset: int
    """Where the expression itself starts in the text."""


_OPENING = re.compile(r"\$\$\{|\$\{")
_SINGLE_PATH_REFERENCE = re.compile(r"\$\{[A-Za-z0-9_.\[\]]*\}")
"""Text that is one reference without quotes, braces and comments inside, as most are: it closes where it ends."""


@lru_cache(maxsize=8192)
def split_references(text: str) -> tuple[str | EmbeddedExpression, ...]:
    """Split text into literal pieces and references, in order; `$${` becomes a literal `${`.

    Raises:
        ExpressionFault: a reference is not closed.
    """
    if _SINGLE_PATH_REFERENCE.fullmatch(text) is not None:
        return (EmbeddedExpression(text[2:-1], 0, len(text), 2),)
    parts: list[str | EmbeddedExpression] = []
    literal = ""
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        literal += text[position : opening.start()]
        if opening[0] == "$${":
            literal += "${"
            position = opening.end()
            continue
        closing = _closing_brace(text, opening.end())
        if closing is None:
            raise ExpressionError(
                "unclosed_reference",
                "'${' is not closed by '}'",
                opening.start(),
                "close it, or write $${ for a literal ${",
            )
        if literal:
            parts.append(literal)
            literal = ""
        expression = text[opening.end() : closing]
        parts.append(EmbeddedExpression(expression, opening.start(), closing + 1, opening.end()))
        position = closing + 1
    literal += text[position:]
    if literal:
        parts.append(literal)
    return tuple(parts)


def _closing_brace(text: str, position: int) -> int | None:
    """Return where the brace that closes a reference stands, past strings, comments and maps."""
    depth = 0
    for token in _reference_body_pattern().finditer(text, position):
        brace = token["brace"]
        if brace == "{":
            depth += 1
        elif brace == "}":
            if depth == 0:
                return token.start()
            depth -= 1
    return None


@cache
def _reference_body_pattern() -> re.Pattern[str]:
    """Return the pattern of what may stand in a reference; it takes longer to compile than most plans to check."""
    from wavewright.planner.cel_tokens import STRING_PATTERN

    return re.compile(
        rf"//[^\n]*|(?:{STRING_PATTERN})|[A-Za-z_][A-Za-z0-9_]*|(?P<brace>[{{{{}}}}])|.", re.DOTALL
    )


def join_references(parts: tuple[str | EmbeddedExpression, ...]) -> str:
    """Return the text that `parse_text` splits into these parts."""
    return "".join(
        part.replace("${", "$${") if isinstance(part, str) else f"${{{part.expression}}}" for part in parts
    )


def bare_expression(text: str) -> EmbeddedExpression:
    """Return the expression of a field that holds nothing else: bare, or as one whole `${…}`.

    Raises:
        ExpressionFault: it begins as a reference that is not closed.
    """
    if text.lstrip().startswith("${"):
        parts = [part for part in split_references(text) if not isinstance(part, str) or part.strip()]
        if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
            return parts[0]
    return EmbeddedExpression(text, 0, len(text), 0)


def iterate_strings(value: Json, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a value with its JSON Pointer, in the value's order."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from iterate_strings(item, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from iterate_strings(item, f"{pointer}/{place}")
