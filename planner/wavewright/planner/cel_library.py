"""The one door to the CEL library (`cel-expr-python`), typed, and opened at the first expression that needs it.

Two *environments* are built once a process. The dynamic one evaluates: it is given unchecked text over plain
values. The typed one answers what type an operator or a function gives for given types: its variables stand for
types, so one short text such as `d0 > i0` is asked once, however many expressions compare a number with an integer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol, cast

from wavewright.planner import cel_functions as functions

OBJECT_TAGS = 8
"""Kinds of object that one operator or call can tell apart."""
LIST_DEPTH = 3
"""Levels of lists in lists that the typed environment tells apart."""


class CelType(Protocol):
    """A type of the library."""

    def name(self) -> str:
        """Return the type as text, such as `LIST<INT>`."""
        ...


class CelTypes(Protocol):
    """The class of the library's types, with its constants and makers."""

    BOOL: CelType
    BYTES: CelType
    DOUBLE: CelType
    DURATION: CelType
    DYN: CelType
    ERROR: CelType
    INT: CelType
    NULL: CelType
    STRING: CelType
    TIMESTAMP: CelType
    UINT: CelType

    def __call__(self, signature: str) -> CelType: ...
    def List(self, element_type: CelType) -> CelType: ...  # noqa: N802
    def Map(self, key_type: CelType, element_type: CelType) -> CelType: ...  # noqa: N802
    def AbstractType(self, name: str, params: Sequence[CelType] = ...) -> CelType: ...  # noqa: N802


class CelValue(Protocol):
    """A result of the library."""

    def type(self) -> CelType: ...
    def plain_value(self) -> object: ...


class Program(Protocol):
    """Compiled text."""

    def eval(self, *, data: Mapping[str, object]) -> CelValue: ...
    def return_type(self) -> CelType: ...


class Environment(Protocol):
    """What text is compiled in."""

    def compile(self, expression: str, *, disable_check: bool = ...) -> Program: ...


class _Library(Protocol):
    Type: CelTypes

    def NewEnv(  # noqa: N802
        self, *, config: object, variables: Mapping[str, CelType], functions: Sequence[object]
    ) -> Environment: ...
    def NewEnvConfigFromYaml(self, yaml: str) -> object: ...  # noqa: N802
    def FunctionDecl(self, name: str, overloads: Sequence[object]) -> object: ...  # noqa: N802
    def Overload(  # noqa: N802
        self,
        id: str,  # noqa: A002
        return_type: CelType,
        parameters: Sequence[CelType],
        *,
        is_member: bool,
        impl: Callable[..., object] | None,
    ) -> object: ...


@cache
def library() -> _Library:
    """Import the library."""
    return cast("_Library", importlib.import_module("cel_expr_python.cel"))


_EXTENSIONS = "extensions:\n" + "".join(
    f"  - name: {name}\n" for name in ("strings", "lists", "math", "sets")
)
_REDECLARED = ("_+_", "_-_", "_*_", "_<_", "_<=_", "_>_", "_>=_")

Signature = tuple[tuple[CelType, ...], CelType]


class _Declarations:
    """Overloads in the making, with ids that do not collide."""

    def __init__(self, cel: _Library) -> None:
        self._cel = cel
        self._count = 0

    def declare(
        self,
        name: str,
        signatures: Sequence[Signature],
        implementation: Callable[..., object] | None,
        *,
        as_method: bool | None = False,
    ) -> object:
        """Declare a function; `as_method=None` makes it both a function and a method."""
        forms = (False, True) if as_method is None else (as_method,)
        overloads: list[object] = []
        for parameters, returned in signatures:
            for is_member in forms:
                self._count += 1
                overloads.append(
                    self._cel.Overload(
                        id=f"ww_{self._count}",
                        return_type=returned,
                        parameters=list(parameters),
                        is_member=is_member,
                        impl=implementation,
                    )
                )
        return self._cel.FunctionDecl(name, overloads)


@cache
def dynamic_environment() -> Environment:
    """Return the environment that evaluates.

    Its standard library cannot be replaced, only joined by overloads for types that it has none for; what must
    replace one of its functions is declared under a name of ours, and the text is written with that name.
    """
    cel = library()
    t = cel.Type
    any_list = t.List(t.DYN)
    number_pairs: list[tuple[CelType, ...]] = [(t.INT, t.DOUBLE), (t.DOUBLE, t.INT)]
    mixed: list[Signature] = [(pair, t.DOUBLE) for pair in number_pairs]
    quotients: list[Signature] = [
        ((left, right), t.DOUBLE) for left in (t.INT, t.DOUBLE, t.UINT) for right in (t.INT, t.DOUBLE, t.UINT)
    ]
    remainders: list[Signature] = [(pair, t.INT) for pair in [*number_pairs, (t.DOUBLE, t.DOUBLE)]]
    make = _Declarations(cel).declare
    overlay = [
        make("_+_", mixed, functions.add),
        make("_-_", mixed, functions.subtract),
        make("_*_", mixed, functions.multiply),
        make("_%_", remainders, functions.remainder),
        make("ww_div", quotients, functions.divide),
        make("ww_time", [((t.STRING,), t.TIMESTAMP)], functions.read_timestamp),
        make("ww_span", [((t.STRING,), t.DURATION)], functions.read_duration),
        make(
            "ww_replace",
            [((t.STRING,) * 3, t.STRING), ((*(t.STRING,) * 3, t.INT), t.STRING)],
            functions.replace,
        ),
        make("ww_join", [((any_list,), t.STRING), ((any_list, t.STRING), t.STRING)], functions.join),
        make("ww_upto", [((t.INT,), any_list)], functions.count_up),
        make("sum", [((any_list,), t.DYN)], functions.total, as_method=None),
        make("avg", [((any_list,), t.DOUBLE)], functions.mean, as_method=None),
        make("min", [((any_list,), t.DYN)], functions.least, as_method=None),
        make("max", [((any_list,), t.DYN)], functions.greatest, as_method=None),
    ]
    # Text is compiled unchecked here, so the type checker's quarrel with joined overloads never comes up; excluding
    # the names keeps the checker from refusing the environment itself.
    config = cel.NewEnvConfigFromYaml(_EXTENSIONS + _excluding(("_+_", "_-_", "_*_", "_%_")))
    return cel.NewEnv(config=config, variables={}, functions=overlay)


@cache
def typed_environment() -> Environment:
    """Return the environment that answers types; nothing is evaluated in it."""
    cel = library()
    config = cel.NewEnvConfigFromYaml(_EXTENSIONS + _excluding(_REDECLARED))
    return cel.NewEnv(config=config, variables=_typed_variables(cel), functions=_typed_functions(cel))


def _excluding(names: Sequence[str]) -> str:
    return "stdlib:\n  exclude_functions:\n" + "".join(f'    - name: "{name}"\n' for name in names)


BASES = {
    "any": "dyn",
    "int": "int",
    "num": "double",
    "str": "string",
    "bit": "bool",
    "nul": "null",
    "raw": "bytes",
    "uns": "uint",
    "tim": "timestamp",
    "dur": "duration",
    "typ": "type<dyn>",
}
"""Placeholder of the typed environment → the library's name of the type."""


def _typed_variables(cel: _Library) -> dict[str, CelType]:
    bases = {name: cel.Type(signature) for name, signature in BASES.items()}
    for tag in range(OBJECT_TAGS):
        # The abstract type in the place of the values keeps two kinds of object apart in a result's type, while
        # size(), `in` and == see an ordinary map.
        bases[f"obj{tag}"] = cel.Type.Map(cel.Type.STRING, cel.Type.AbstractType(f"tag{tag}"))
    bases["map"] = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    variables: dict[str, CelType] = {}
    for name, base in bases.items():
        current = base
        for depth in range(LIST_DEPTH + 1):
            variables[f"{name}_{depth}"] = current
            current = cel.Type.List(current)
    return variables


def _typed_functions(cel: _Library) -> list[object]:
    t = cel.Type
    make = _Declarations(cel).declare
    numeric = (t.INT, t.DOUBLE, t.UINT)
    pairs = [(left, right) for left in numeric for right in numeric]
    mixed: list[Signature] = [
        ((t.INT, t.INT), t.INT),
        ((t.UINT, t.UINT), t.UINT),
        ((t.DOUBLE, t.DOUBLE), t.DOUBLE),
        ((t.INT, t.DOUBLE), t.DOUBLE),
        ((t.DOUBLE, t.INT), t.DOUBLE),
    ]
    joined: list[Signature] = [
        *mixed,
        ((t.STRING, t.STRING), t.STRING),
        ((t.BYTES, t.BYTES), t.BYTES),
        ((t.TIMESTAMP, t.DURATION), t.TIMESTAMP),
        ((t.DURATION, t.TIMESTAMP), t.TIMESTAMP),
        ((t.DURATION, t.DURATION), t.DURATION),
    ]
    differences: list[Signature] = [
        *mixed,
        ((t.TIMESTAMP, t.TIMESTAMP), t.DURATION),
        ((t.TIMESTAMP, t.DURATION), t.TIMESTAMP),
        ((t.DURATION, t.DURATION), t.DURATION),
    ]
    alike = [(one, one) for one in (t.STRING, t.BYTES, t.BOOL, t.TIMESTAMP, t.DURATION)]
    ordered: list[Signature] = [(pair, t.BOOL) for pair in [*pairs, *alike]]
    numbers: list[Signature] = [((t.List(t.INT),), t.INT), ((t.List(t.DOUBLE),), t.DOUBLE)]
    comparables: list[Signature] = [*numbers, ((t.List(t.STRING),), t.STRING)]
    return [
        make("_+_", joined, None),
        make("_-_", differences, None),
        make("_*_", mixed, None),
        *(make(name, ordered, None) for name in ("_<_", "_<=_", "_>_", "_>=_")),
        make("ww_div", [(pair, t.DOUBLE) for pair in pairs], None),
        make("ww_time", [((t.STRING,), t.TIMESTAMP)], None),
        make("ww_span", [((t.STRING,), t.DURATION)], None),
        make("sum", numbers, None, as_method=None),
        make("avg", [(parameters, t.DOUBLE) for parameters, _ in numbers], None, as_method=None),
        make("min", comparables, None, as_method=None),
        make("max", comparables, None, as_method=None),
    ]
