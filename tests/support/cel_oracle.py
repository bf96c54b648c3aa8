"""Google's implementation of CEL, which the tests compare ours with; None where it is not
installed.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import pytest

from wavewright.planner.types import Json

_EXTENSIONS = ("strings", "lists", "math", "sets")


@cache
def _environment() -> Any:
    cel = pytest.importorskip("cel_expr_python.cel")
    config = "extensions:\n" + "".join(f"  - name: {name}\n" for name in _EXTENSIONS)
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(config), variables={}, functions=[])


def oracle_answer(expression: str, variables: dict[str, Json]) -> tuple[bool, object]:
    """Return whether an expression has a value, and the value as plain Python.

    Raises:
        RuntimeError: the expression cannot be read.
    """
    value = _environment().compile(expression, disable_check=True).eval(data=variables)
    errors = importlib.import_module("cel_expr_python.cel").Type.ERROR
    return value.type() != errors, value.plain_value()
