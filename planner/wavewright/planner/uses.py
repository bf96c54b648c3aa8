"""Where a plan's expressions stand, and what they read.

A *use* is one expression at one place: the pointer of the author's node and where in that node's text the
expression begins. The graph, the checker and patches all go through here, so that they cannot disagree on what a
step reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from wavewright.planner.models import Gate, Step
from wavewright.planner.types import Json

_REFERENCE = re.compile(r"(?<!\$)\$\{((?:[^{}]|\{[^{}]*\})*)\}")
_STEP = re.compile(r"(?<![\w.\"'])steps\.([A-Za-z]\w*)")

Role: TypeAlias = Literal["params", "for_each", "when", "gate", "cap", "result"]

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Use:
    """One expression at one place."""

    pointer: str
    expression: str
    start: int
    """Where the expression begins in the text of its node."""
    whole: bool
    """Whether nothing else stands there, so that the value keeps its type."""
    role: Role


def text_uses(text: str, pointer: str, role: Role) -> list[Use]:
    """Return the expressions that a text embeds as `${…}`."""
    return [
        Use(pointer, found.group(1), found.start(1), whole=found.group() == text, role=role)
        for found in _REFERENCE.finditer(text)
    ]


def condition_use(text: str, pointer: str, role: Role) -> Use:
    """Return the expression of a field that holds bare CEL; a `${…}` around all of it is taken off."""
    if text.lstrip().startswith("${"):
        uses = text_uses(text.strip(), pointer, role)
        if len(uses) == 1 and uses[0].whole:
            return uses[0]
    return Use(pointer, text, 0, whole=True, role=role)


def step_uses(step: Step, pointer: str) -> Iterator[Use]:
    """Yield every expression of a step, in the order of its fields."""
    for place, text, role in _texts(step, pointer):
        yield from [condition_use(text, place, role)] if role == "when" else text_uses(text, place, role)


def step_reads(step: Step) -> frozenset[str]:
    """Return the ids of the steps that a step's expressions read; faulty expressions read nothing."""
    found: set[str] | None = None
    for use in step_uses(step, ""):
        found = (found or set()) | expression_reads(use.expression)
    return frozenset(found) if found else _NOTHING


def gate_reads(gate: Gate) -> frozenset[str]:
    """Return the ids of the steps that a gate's check reads."""
    return _NOTHING if gate.check is None else expression_reads(gate.check)


def expression_reads(expression: str) -> frozenset[str]:
    """Return the ids of the steps that an expression reads."""
    return frozenset(_STEP.findall(expression))


def holds_expression(value: Json) -> bool:
    """Return whether any text in a value holds a `${` (an escaped one counts too)."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, list):
        return any(map(holds_expression, value))
    if isinstance(value, dict):
        return any(map(holds_expression, value.values()))
    return False


def _texts(step: Step, pointer: str) -> Iterator[tuple[str, str, Role]]:
    """Yield pointer, text and role of every text of a step that may hold an expression."""
    if step.for_each is not None:
        for place, text in walk_params(step.for_each, f"{pointer}/for_each"):
            yield place, text, "for_each"
    if step.params and holds_expression(step.params):
        for place, text in walk_params(step.params, f"{pointer}/params"):
            if "${" in text:
                yield place, text, "params"
    if step.when is not None:
        yield f"{pointer}/when", step.when, "when"


def walk_params(value: Json, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield pointer and text of every string in a value."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from walk_params(item, f"{pointer}/{number}")
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from walk_params(member, f"{pointer}/{name}")
