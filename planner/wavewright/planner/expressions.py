"""The expression language of plans: CEL over JSON values.

An *expression* is checked against JSON Schemas before a run (`TypedEnvironment`) and evaluated over values during
it (`evaluate`, or `compile_dynamic` where one is called often). What the check accepts does not end in a type fault
at run time, as long as the values are what their schemas promise.
"""

from __future__ import annotations

import datetime as dt

from wavewright.planner.cel_faults import ExpressionError, ExpressionErrorKind
from wavewright.planner.cel_functions import FUNCTIONS
from wavewright.planner.cel_paths import Variables
from wavewright.planner.cel_tree import MAX_EXPRESSION_BYTES, MAX_EXPRESSION_DEPTH
from wavewright.planner.cel_types import TypedEnvironment
from wavewright.planner.cel_values import Evaluator, compile_expression
from wavewright.planner.types import Json

__all__ = [
    "FUNCTIONS",
    "MAX_EXPRESSION_BYTES",
    "MAX_EXPRESSION_DEPTH",
    "Evaluator",
    "ExpressionError",
    "ExpressionErrorKind",
    "TypedEnvironment",
    "Variables",
    "compile_expression",
    "evaluate",
]


def evaluate(expression: str, variables: Variables, now: dt.datetime) -> Json:
    """Return the value of an expression for variables by root, such as `{"steps": {…}, "inputs": {…}}`.

    Raises:
        ExpressionFault: it is no expression, or has no value for these variables.
    """
    return compile_expression(expression)(variables, now)
