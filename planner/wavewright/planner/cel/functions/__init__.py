"""Functions and methods of expressions, and how they are declared.

A *function* is a Python function whose annotations are its signature. The evaluator chooses among
the functions of a name by the classes of the arguments, the type checker by their kinds; both read
the tables of this module. The first parameter is always the cost tracker, which a function asks
before it computes or makes anything large.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args

Result: TypeAlias = Literal["declared", "list", "scalar"]
"""What a call gives: the declared type, a list of the first argument's elements, or a scalar of the
first argument's kind (of its elements' kind, where it is a list).
"""
_Run = TypeVar("_Run", bound=Callable[..., object])


class ValueType(NamedTuple):
    """The classes that a value may have, and its elements where it is a list; `object` stands for
    any.
    """

    classes: tuple[type, ...]
    elements: tuple[type, ...] = (object,)


class Function(NamedTuple):
    """One signature of a name."""

    run: Callable[..., object]
    parameters: tuple[ValueType, ...]
    required: int
    """Parameters without a default."""
    returned: ValueType
    result: Result


class FunctionTable(dict[str, list[Function]]):
    """Functions by name."""

    def declare(self, *names: str, result: Result = "declared") -> Callable[[_Run], _Run]:
        """Return a decorator that declares a function under names."""

        def add(run: _Run) -> _Run:
            # Real objects, not strings: modules with declarations do not defer their annotations.
            annotations = dict(run.__annotations__)
            returned = _value_type(annotations.pop("return"))
            _tracker, *parameters = map(_value_type, annotations.values())
            required = len(parameters) - len(getattr(run, "__defaults__", None) or ())
            declared = Function(run, tuple(parameters), required, returned, result)
            for name in names:
                self.setdefault(name, []).append(declared)
            return run

        return add

    def overloads(self, name: str) -> Mapping[tuple[type, ...], Callable[..., object]]:
        """Return the Python functions of a name by the classes of their arguments."""
        return {
            classes: function.run
            for function in self.get(name, [])
            for count in range(function.required, len(function.parameters) + 1)
            for classes in product(
                *(parameter.classes for parameter in function.parameters[:count])
            )
        }


def _value_type(annotation: Any) -> ValueType:
    parts = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    classes: list[type] = []
    elements: tuple[type, ...] = (object,)
    for part in parts:
        if isinstance(part, types.GenericAlias):
            classes.append(cast("type", part.__origin__))
            if part.__origin__ is list:
                elements = _value_type(part.__args__[0]).classes
        elif part not in (None, types.NoneType):  # the default of a parameter, and no argument
            classes.append(part)
    return ValueType(tuple(classes), elements)


GLOBAL_FUNCTIONS: Final = FunctionTable()
"""Functions, `f(x)`; those of a namespace carry their full name."""
METHODS: Final = FunctionTable()
"""Methods, `x.f()`; the value they are asked of is the first parameter."""
