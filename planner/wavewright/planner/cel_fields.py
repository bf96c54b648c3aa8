"""Evaluate the fields and elements of what an expression made.

A *field* is asked of an object, an element of a list; paths from a root are walked by `cel_paths`.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.planner.cel_faults import MAX_KEY_LENGTH_SHOWN, ExpressionError
from wavewright.planner.cel_operators import evaluation_error, is_key
from wavewright.planner.cel_paths import kind_name
from wavewright.planner.cel_scope import Evaluation, EvaluationScope
from wavewright.planner.types import Json


def compile_select(operand: Evaluation, name: str) -> Evaluation:
    """Return what evaluates `operand.name`."""

    def evaluate(scope: EvaluationScope) -> Json:
        owner = operand(scope)
        if not isinstance(owner, Mapping):
            raise not_an_object_error()
        if name not in owner:
            raise _no_field_error(name)
        return owner[name]

    return evaluate


def not_an_object_error() -> ExpressionError:
    """Return the fault of asking for a field where there are none."""
    return ExpressionError("no_overload", "a field is asked of a value that is no object")


def _no_field_error(key: object) -> ExpressionError:
    shown = str(key)[:MAX_KEY_LENGTH_SHOWN]
    return ExpressionError(
        "unknown_name_or_field", f"there is no field '{shown}'", None, f"guard with has(….{shown})"
    )


def compile_index(operand: Evaluation, key: Evaluation) -> Evaluation:
    """Return what evaluates `operand[key]`."""

    def evaluate(scope: EvaluationScope) -> Json:
        owner, place = operand(scope), key(scope)
        if isinstance(owner, Mapping):
            if not is_key(place):
                raise ExpressionError("no_overload", f"{kind_name(place)} is no name of a field")
            if place not in owner:
                raise _no_field_error(place)
            return owner[place]
        if not isinstance(owner, list):
            raise ExpressionError("no_overload", f"{kind_name(owner)} has no elements and no fields")
        if isinstance(place, bool) or not (
            isinstance(place, int) or (isinstance(place, float) and place.is_integer())
        ):
            raise ExpressionError("no_overload", "a place in a list is a whole number")
        if not 0 <= place < len(owner):
            raise evaluation_error(f"there is no element [{int(place)}] in a list of {len(owner)}")
        return owner[int(place)]

    return evaluate
