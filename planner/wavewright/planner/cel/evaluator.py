"""Evaluate an expression over plain values.

An *evaluator* is an expression prepared once and called often: a plain path is a walk through
dictionaries, anything else a tree of closures under a cost tracker. Values go in as JSON and come
out as JSON; whatever is wrong is raised as an `ExpressionError`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias, cast

from wavewright.planner.cel.compiler import compile_node
from wavewright.planner.cel.errors import CostTracker, ExpressionError, too_large_error
from wavewright.planner.cel.functions.scalars import duration_text, timestamp_text
from wavewright.planner.cel.operators import MembershipIndex, evaluation_error
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.paths import EvaluationScope, Variables, evaluate_path, plain_path
from wavewright.planner.types import Json

Evaluator: TypeAlias = Callable[[Variables, dt.datetime], Json]
"""Gives the value of one expression for variables by root and the run's instant."""

_MAX_RESULT_PARTS = 2**20
"""Parts of one result, each as often as it is written."""
_CHARACTERS_A_PART = 32
"""Characters that count as one part."""
_COPIED_PART_COST = 4
_NOT_FINITE = ExpressionError(
    "evaluation_failed", "the result is no finite number", None, "guard against division by zero"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=8192)
def compile_expression(expression: str) -> Evaluator:
    """Return an evaluator of an expression.

    Raises:
        ExpressionError: it is no expression, is too large, or calls what does not exist.
    """
    tree = parse_expression(expression)
    path = plain_path(tree, {})
    if path is not None:
        return lambda variables, _now: evaluate_path(path, variables)
    evaluation = compile_node(tree)

    def evaluate(variables: Variables, now: dt.datetime) -> Json:
        cost = CostTracker()
        try:
            value = evaluation(
                EvaluationScope(cast("dict[str, Json]", variables), now, cost, MembershipIndex())
            )
            return _result(value, cost)
        except RecursionError:
            raise ExpressionError("evaluation_failed", "a value is nested too deep") from None
        except MemoryError:
            raise too_large_error("the expression takes more memory than there is") from None

    return evaluate


def _result(value: object, cost: CostTracker) -> Json:
    """Return a value as JSON: what is JSON already is passed on, and all of it is counted."""
    left, is_json = _left(value, _MAX_RESULT_PARTS, _CHARACTERS_A_PART)
    if left < 0:
        raise too_large_error(
            "the result of the expression is too large: it repeats what it is given"
        )
    cost.count_operations(_MAX_RESULT_PARTS - left)
    if is_json:
        return cast("Json", value)
    cost.count_operations((_MAX_RESULT_PARTS - left) * _COPIED_PART_COST)
    return _to_json(value)


def exceeds_length(value: Json, characters: int) -> bool:
    """Return whether a value takes more than so many characters as JSON, at a low estimate.

    Raises:
        ExpressionError: it holds a number that is not finite, or text that is no Unicode.
    """
    return _left(value, characters, 1)[0] < 0


def _left(value: object, left: int, characters: int) -> tuple[int, bool]:
    """Return what is left when a value's parts and characters are taken, and whether all of it is
    JSON.

    So many characters count as one; less than none ends the count.
    """
    is_json, waiting = True, [value]
    while waiting and left >= 0:
        item = waiting.pop()
        left -= 1
        kind = item.__class__
        if kind is str:
            left -= _length(cast("str", item)) // characters
        elif kind is float:
            if not math.isfinite(cast("float", item)):
                raise _NOT_FINITE
        elif kind is list:
            inner = cast("list[object]", item)
            if len(inner) > left:
                return -1, is_json
            waiting += inner
        elif kind is dict:
            fields = cast("dict[object, object]", item)
            if len(fields) > left:
                return -1, is_json
            for name in fields:
                if isinstance(name, str):
                    left -= len(name) // characters
                else:
                    is_json = False
            waiting += fields.values()
        elif kind is not int and kind is not bool and item is not None:
            is_json = False
    return left, is_json


def _length(text: str) -> int:
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise ExpressionError("evaluation_failed", "a value holds text that is no Unicode")
    return len(text)


def _to_json(value: object) -> Json:
    """Return a value with instants in ISO 8601 and durations in seconds, as the results of tools
    have them.

    Raises:
        ExpressionError: two keys are one text, so that one would be lost.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_to_json(item) for item in cast("list[object]", value)]
        case dict():
            fields = cast("dict[object, object]", value)
            written = {
                name if isinstance(name, str) else str(name).lower(): _to_json(item)
                for name, item in fields.items()
            }
            if len(written) < len(fields):
                raise evaluation_error("an object has two keys that are one text in JSON")
            return written
        case dt.datetime():
            return timestamp_text(value)
        case dt.timedelta():
            return duration_text(value)
        case _:
            return str(value)
