"""Find the references in text, and what plain expressions read.

A *reference* is an expression between `${` and its closing brace. A *read* is one mention of a
root: a step, an input, `item` and so on. Most expressions are a *plain path*, such as
`steps.prices.close`, and are read here; the parser is imported for the first one that is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from wavewright.config.sources import pointer_token
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.plain_paths import Read, plain_read
from wavewright.planner.cel.reads import conditions_in_tree, guarded_by_tree, reads_of_tree
from wavewright.planner.cel.tokens import STRING_PATTERN
from wavewright.planner.types import Json


@lru_cache(maxsize=8192)
def reads(expression: str) -> tuple[Read, ...]:
    """Return every read of an expression, in the order of the text.

    Raises:
        ExpressionError: it is no expression, or uses `steps` without naming the step.
    """
    plain = plain_read(expression)
    if plain is not None:
        return (plain,)
    return reads_of_tree(expression)


@lru_cache(maxsize=8192)
def guarded_steps(condition: str) -> frozenset[str]:
    """Return the steps, and the parts of the previous run, that are there for certain where a bare
    condition holds: it asks `has()` for each.
    """
    try:
        return guarded_by_tree(bare_expression(condition).expression)
    except ExpressionError:
        return frozenset()


@lru_cache(maxsize=8192)
def joined_conditions(condition: str) -> frozenset[str]:
    """Return the conditions that `&&` joins in a bare condition, as texts."""
    try:
        return conditions_in_tree(bare_expression(condition).expression)
    except ExpressionError:
        return frozenset({condition})


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def step_path(step: str) -> str:
    """Return the expression that reads a step: ``steps.prices``, or ``steps.`clean.prices` `` of a
    sub-plan.
    """
    return f"steps.{field_name(step)}"


def field_name(name: str) -> str:
    """Return a field's name as it follows a dot: in back quotes where it is no plain name."""
    return name if _NAME.fullmatch(name) else f"`{name}`"


class EmbeddedExpression(NamedTuple):
    """A reference in text: `text[start:end]` is the whole of it, `${` and `}` included."""

    expression: str
    start: int
    end: int
    offset: int
    """Where the expression itself starts in the text."""


_OPENING = re.compile(r"\$\$\{|\$\{")
_SINGLE_REFERENCE = re.compile(r"""\$\{[^{}"'/]*(?:/(?!/)[^{}"'/]*)*\}""")
"""Text that is one reference without quotes, braces and comments inside, as most are: it closes
where it ends.
"""


@lru_cache(maxsize=8192)
def split_references(text: str) -> tuple[str | EmbeddedExpression, ...]:
    """Split text into literal pieces and references, in order; `$${` becomes a literal `${`.

    Raises:
        ExpressionError: a reference is not closed.
    """
    if _SINGLE_REFERENCE.fullmatch(text) is not None:
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
    """Return the pattern of what may stand in a reference; it takes longer to compile than most
    plans to check.
    """
    return re.compile(
        rf"//[^\n]*|(?:{STRING_PATTERN})|[A-Za-z_][A-Za-z0-9_]*|(?P<brace>[{{{{}}}}])|.", re.DOTALL
    )


def join_references(parts: tuple[str | EmbeddedExpression, ...]) -> str:
    """Return the text that `split_references` splits into these parts."""
    return "".join(
        part.replace("${", "$${") if isinstance(part, str) else f"${{{part.expression}}}"
        for part in parts
    )


def bare_expression(text: str) -> EmbeddedExpression:
    """Return the expression of a field that holds nothing else: bare, or as one whole `${…}`.

    Raises:
        ExpressionError: it begins as a reference that is not closed.
    """
    if text.lstrip().startswith("${"):
        parts = [
            part for part in split_references(text) if not isinstance(part, str) or part.strip()
        ]
        if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
            return parts[0]
    return EmbeddedExpression(text, 0, len(text), 0)


def iterate_strings(value: Json, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a value with its JSON Pointer, in the value's order."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from iterate_strings(item, pointer + pointer_token(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from iterate_strings(item, f"{pointer}/{place}")
