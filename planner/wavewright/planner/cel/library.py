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

OBJECT_TAGS = 8
"""Kinds of object that one operator or call can tell apart."""
LIST_DEPTH = 3
"""Levels of lists in lists that the typed environment tells apart."""


class LibraryType(Protocol):
    """A type of the library."""

    def name(self) -> str:
        """Return the type as text, such as `LIST<INT>`."""
        ...


class LibraryTypes(Protocol):
    """The class of the library's types, with its constants and makers."""

    BOOL: LibraryType
    BYTES: LibraryType
    DOUBLE: LibraryType
    DURATION: LibraryType
    DYN: LibraryType
    ERROR: LibraryType
    INT: LibraryType
    NULL: LibraryType
    STRING: LibraryType
    TIMESTAMP: LibraryType
    UINT: LibraryType

    def __call__(self, signature: str) -> LibraryType: ...
    def List(self, element_type: LibraryType) -> LibraryType: ...  # noqa: N802
    def Map(self, key_type: LibraryType, element_type: LibraryType) -> LibraryType: ...  # noqa: N802
    def AbstractType(self, name: str, params: Sequence[LibraryType] = ...) -> LibraryType: ...  # noqa: N802


class LibraryValue(Protocol):
    """A result of the library."""

    def type(self) -> LibraryType: ...
    def plain_value(self) -> object: ...


class LibraryProgram(Protocol):
    """Compiled text."""

    def eval(self, *, data: Mapping[str, object]) -> LibraryValue: ...
    def return_type(self) -> LibraryType: ...


class LibraryEnvironment(Protocol):
    """What text is compiled in."""

    def compile(self, expression: str, *, disable_check: bool = ...) -> LibraryProgram: ...


class _Library(Protocol):
    Type: LibraryTypes

    def NewEnv(  # noqa: N802
        self, *, config: object, variables: Mapping[str, LibraryType], functions: Sequence[object]
    ) -> LibraryEnvironment: ...
    def NewEnvConfigFromYaml(self, yaml: str) -> object: ...  # noqa: N802
    def FunctionDecl(self, name: str, overloads: Sequence[object]) -> object: ...  # noqa: N802
    def Overload(  # noqa: N802
        self,
        id: str,  # noqa: A002
        return_type: LibraryType,
        parameters: Sequence[LibraryType],
        *,
        is_member: bool,
        impl: Callable[..., object] | None,
    ) -> object: ...


@cache
def load_library() -> _Library:
    """Import the library."""
    return cast("_Library", importlib.import_module("cel_expr_python.cel"))


_EXTENSIONS = "extensions:\n" + "".join(
    f"  - name: {name}\n" for name in ("strings", "lists", "math", "sets")
)
_REDECLARED = ("_+_", "_-_", "_*_", "_<_", "_<=_", "_>_", "_>=_")

Signature = tuple[tuple[LibraryType, ...], LibraryType]


class _Declarations:
    """Overloads in the making, with ids that do not collide."""

    def __init__(self, cel: _Library) -> None:
        self._cel = cel
        self._count = 0

    def declare(
        self,
        name: str,
        signatures: Sequence[Signature],
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
                        impl=None,
                    )
                )
        return self._cel.FunctionDecl(name, overloads)


@cache
def dynamic_environment() -> LibraryEnvironment:
    """Return the environment that evaluates: CEL's own functions and its extensions."""
    cel = load_library()
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(_EXTENSIONS), variables={}, functions=[])


@cache
def typed_environment() -> LibraryEnvironment:
    """Return the environment that answers types; nothing is evaluated in it."""
    cel = load_library()
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


def _typed_variables(cel: _Library) -> dict[str, LibraryType]:
    bases = {name: cel.Type(signature) for name, signature in BASES.items()}
    for tag in range(OBJECT_TAGS):
        # The abstract type in the place of the values keeps two kinds of object apart in a result's type, while
        # size(), `in` and == see an ordinary map.
        bases[f"obj{tag}"] = cel.Type.Map(cel.Type.STRING, cel.Type.AbstractType(f"tag{tag}"))
    bases["map"] = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    variables: dict[str, LibraryType] = {}
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
        make("_+_", joined),
        make("_-_", differences),
        make("_*_", mixed),
        *(make(name, ordered) for name in ("_<_", "_<=_", "_>_", "_>=_")),
        make("ww_div", [(pair, t.DOUBLE) for pair in pairs]),
        make("ww_time", [((t.STRING,), t.TIMESTAMP)]),
        make("ww_span", [((t.STRING,), t.DURATION)]),
        make("sum", numbers, as_method=None),
        make("avg", [(parameters, t.DOUBLE) for parameters, _ in numbers], as_method=None),
        make("min", comparables, as_method=None),
        make("max", comparables, as_method=None),
    ]
