"""Evaluate the fields and elements of what an expression made.

A *field* is asked of an object, an element of a list; paths from a root are walked by `cel_paths`.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.planner.cel_faults import SHOWN, ExpressionFault
from wavewright.planner.cel_operators import failed, is_key
from wavewright.planner.cel_paths import kind_of
from wavewright.planner.cel_scope import Evaluation, Scope
from wavewright.planner.types import Json


def selected(operand: Evaluation, name: str) -> Evaluation:
    """Return what evaluates `operand.name`."""

    def evaluate(scope: Scope) -> Json:
        owner = operand(scope)
        if not isinstance(owner, Mapping):
            raise no_object()
        if name not in owner:
            raise _no_field(name)
        return owner[name]

    return evaluate


def no_object() -> ExpressionFault:
    """Return the fault of asking for a field where there are none."""
    return ExpressionFault("no_overload", "a field is asked of a value that is no object")


def _no_field(key: object) -> ExpressionFault:
    shown = str(key)[:SHOWN]
    return ExpressionFault(
        "unknown_name_or_field", f"there is no field '{shown}'", None, f"guard with has(….{shown})"
    )


def indexed(operand: Evaluation, key: Evaluation) -> Evaluation:
    """Return what evaluates `operand[key]`."""

    def evaluate(scope: Scope) -> Json:
        owner, place = operand(scope), key(scope)
        if isinstance(owner, Mapping):
            if not is_key(place):
                raise ExpressionFault("no_overload", f"{kind_of(place)} is no name of a field")
            if place not in owner:
                raise _no_field(place)
            return owner[place]
        if not isinstance(owner, list):
            raise ExpressionFault("no_overload", f"{kind_of(owner)} has no elements and no fields")
        if isinstance(place, bool) or not (
            isinstance(place, int) or (isinstance(place, float) and place.is_integer())
        ):
            raise ExpressionFault("no_overload", "a place in a list is a whole number")
        if not 0 <= place < len(owner):
            raise failed(f"there is no element [{int(place)}] in a list of {len(owner)}")
        return owner[int(place)]

    return evaluate
