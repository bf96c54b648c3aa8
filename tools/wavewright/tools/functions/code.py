"""What the code of a tool is: two tools with equal code give equal results for equal parameters, as
far as that can be seen.

Seen is what the function itself holds: its instructions and defaults, the values that it closes
over, and what it reads of its own module (constants, functions, classes), of these the same again.
Of a partial that is what it wraps and the arguments that it fixes, of a method and of an object
that is called their class and the object's attributes. Arrays of numpy and tables of pandas are
data, and so is what an object of the standard library would be copied with.

Not seen is what lies elsewhere: files, variables of the environment, and other modules, which count
by their names alone. An absolute path counts by its type alone, so that two machines agree, and
so does a generator of random numbers, and an object of another library. What the function itself
changes (a list that it appends to, a counter) is its state and not its code.
"""

from __future__ import annotations

import datetime as dt
import decimal
import dis
import enum
import functools
import hashlib
import numbers
import os
import re
import sys
import types
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from pathlib import PurePath
from types import CodeType
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel

_MAX_PARTS: Final = 20_000
"""Parts of one hash; a table with more counts by its first ones."""
_MAX_DEPTH: Final = 60
"""How far one value is looked for inside another."""
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type(...))
_WRITTEN_OUT: Final = (
    dt.date, dt.time, dt.timedelta, dt.tzinfo, decimal.Decimal, numbers.Number, uuid.UUID, range
)  # fmt: skip
_OF_ONE_PROCESS: Final = frozenset({"asyncio", "random", "tempfile", "threading", "weakref"})
"""Modules of the standard library whose objects differ from process to process."""
_CHANGING_METHODS: Final = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
        "popleft", "remove", "setdefault", "update",
    }
)  # fmt: skip


def code_hash(function: object) -> str:
    """Return a short hash of the code of a function, a partial, a method or an object that is
    called; empty where it has none that is written in Python.

    Comments, blank lines and the place in the file do not count. Another version of Python gives
    another hash.
    """
    if not _has_code(function):
        return ""
    return _digest(_CodeReader().parts(function, getattr(function, "__module__", None)))


def own_code_hash(function: object) -> str:
    """Return a short hash of a function's instructions alone: what it reads may differ between two
    machines that have the same program.
    """
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:
        function = wrapped
    code = getattr(function, "__code__", None)
    return _digest(_instructions(code)) if isinstance(code, CodeType) else ""


def _has_code(function: object) -> bool:
    if isinstance(function, functools.partial):
        return _has_code(cast("functools.partial[object]", function).func)
    if isinstance(getattr(function, "__code__", None), CodeType):
        return True
    if (wrapped := getattr(function, "__wrapped__", None)) is not None:
        return _has_code(wrapped)
    call = getattr(type(function), "__call__", None)  # noqa: B004 - its code is looked at
    return isinstance(getattr(call, "__code__", None), CodeType)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _instructions(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
        elif isinstance(constant, frozenset):
            # Its order changes from process to process.
            yield repr(sorted(map(repr, cast("frozenset[object]", constant))))
        else:
            yield repr(constant)


def _tells_its_class(value: object) -> bool:
    """Whether a value can be looked at: `__class__` may be a property of its author's that raises."""
    try:
        _ = value.__class__
    except Exception:  # noqa: BLE001 - whatever the property raises
        return False
    return True


class _CodeReader:
    """Reads the code of one function, each object once."""

    def __init__(self) -> None:
        self._read: dict[int, object] = {}
        """What was read, by identity; held, so that no identity is given twice."""
        self._parts = 0
        self._depth = 0

    def parts(self, value: object, home: str | None = None) -> Iterator[str]:
        """Yield a value part by part; `home` is the module that it is read in."""
        self._parts += 1
        if self._parts > _MAX_PARTS:
            return
        if not _tells_its_class(value):
            yield f"{type(value).__module__}.{type(value).__qualname__}"
            return
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
            return
        if id(value) in self._read:
            yield "again"
            return
        self._read[id(value)] = value
        self._depth += 1
        if self._depth <= _MAX_DEPTH:
            yield from self._object(value, home)
        self._depth -= 1

    def _object(self, value: object, home: str | None) -> Iterator[str]:
        if isinstance(value, types.FunctionType):
            yield from self._function(value, home)
        elif isinstance(value, types.MethodType):
            yield from self.parts(value.__func__, value.__func__.__module__)
            yield from self.parts(value.__self__, value.__func__.__module__)
        elif isinstance(value, functools.partial):
            wrapping = cast("functools.partial[object]", value)
            yield from self.parts(wrapping.func, getattr(wrapping.func, "__module__", None))
            yield from self.parts(wrapping.args, home)
            yield from self.parts(wrapping.keywords, home)
        elif isinstance(value, (staticmethod, classmethod)):
            yield from self.parts(cast("staticmethod[..., object]", value).__func__, home)
        elif isinstance(value, property):
            yield from self.parts((value.fget, value.fset), home)
        elif isinstance(value, functools.cached_property):
            yield from self.parts(cast("functools.cached_property[object]", value).func, home)
        elif isinstance(value, type):
            yield from self._class(cast("type[object]", value), home)
        else:
            yield from self._data(value, home)

    def _function(self, function: types.FunctionType, home: str | None) -> Iterator[str]:
        if home is not None and function.__module__ != home and not function.__closure__:
            # Of another module: who changes a library changes its version.
            yield f"function {function.__module__}.{function.__qualname__}"
            return
        if isinstance(registry := getattr(function, "registry", None), types.MappingProxyType):
            # Of `functools.singledispatch`: what it chooses from.
            yield from self._data(cast("object", registry), home)
        else:
            own = {name: part for name, part in vars(function).items() if name != "__wrapped__"}
            yield from self._data(own, home) if own else ()
        yield from _instructions(function.__code__)
        yield from self.parts(function.__defaults__, function.__module__)
        yield from self.parts(function.__kwdefaults__, function.__module__)
        names = _names_of(function.__code__)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            if name in names.changed:
                continue
            try:
                closed_over = cell.cell_contents
            except ValueError:  # a name that is set later
                continue
            # What a wrapper wraps is the code of the tool, wherever the wrapper comes from.
            is_code = callable(closed_over) and not isinstance(closed_over, type)
            of = getattr(closed_over, "__module__", None) if is_code else function.__module__
            yield from self.parts(closed_over, of)
        for name in sorted(names.read):
            if name in function.__globals__:
                yield name
                yield from self.parts(function.__globals__[name], function.__module__)

    def _class(self, kind: type[object], home: str | None) -> Iterator[str]:
        yield f"class {kind.__module__}.{kind.__qualname__}"
        if kind.__module__ != home:
            return
        for base in (*kind.__bases__, type(kind)):
            yield from self.parts(base, home)
        if issubclass(kind, enum.Enum):
            for name, choice in kind.__members__.items():
                yield name
                yield from self.parts(cast("object", choice.value), home)
        if issubclass(kind, BaseModel):
            for name, field in kind.model_fields.items():
                yield f"{name} {field.annotation!r} {field.metadata!r}"
                yield from self.parts((field.default, field.default_factory), home)
        for name, member in [*cast("Mapping[str, object]", kind.__dict__).items()]:
            # What Python and libraries add to a class differs from process to process.
            if isinstance(member, types.FunctionType) or not name.startswith(("__", "_abc_")):
                yield name
                yield from self.parts(member, home)

    def _data(self, value: object, home: str | None) -> Iterator[str]:
        kind = type(value)
        yield f"{kind.__module__}.{kind.__qualname__}"
        if value is os.environ:
            return
        if isinstance(value, Mapping):
            members = cast("Mapping[object, object]", value)
            yield from self.parts(getattr(members, "default_factory", None), home)
            for key, item in members.items():
                yield from self.parts(key, home)
                yield from self.parts(item, home)
        elif isinstance(value, AbstractSet):
            items = cast("AbstractSet[object]", value)
            yield from sorted("\n".join(self.parts(item, home)) for item in items)
        elif isinstance(value, Sequence):
            for item in cast("Sequence[object]", value):
                yield from self.parts(item, home)
        elif isinstance(value, enum.Enum):
            yield f"{value.name} {value.value!r}"
            yield from self.parts(kind, home)
        elif (text := _written_out(value)) is not None:
            yield text
        elif home is not None and kind.__module__ == home:
            yield from self._instance(value, home)
        elif (wrapped := getattr(value, "__wrapped__", None)) is not None:
            # Of `functools.lru_cache`.
            yield from self.parts(wrapped, home)
        else:
            yield from self._of_library(value, home)

    def _instance(self, value: object, home: str) -> Iterator[str]:
        yield from self.parts(type(value), home)
        slots = {name: getattr(value, name, None) for name in _slots(type(value))}
        attributes: dict[str, object] = {**slots, **getattr(value, "__dict__", {})}
        for name, attribute in sorted(attributes.items()):
            yield name
            yield from self.parts(attribute, home)

    def _of_library(self, value: object, home: str | None) -> Iterator[str]:
        """Yield what is seen of an object of another module: data, and nothing that it holds open."""
        library = type(value).__module__.partition(".")[0]
        # Neither library is imported here, so their values have no types.
        foreign = cast("Any", value)
        if library == "numpy" and hasattr(foreign, "mask"):
            yield from self.parts(foreign.mask, home)
            foreign = foreign.data
        if library == "numpy" and hasattr(foreign, "tobytes"):
            yield f"{foreign.dtype!r} {foreign.shape}"
            plain = foreign.dtype.hasobject
            content = foreign.tolist() if plain else hashlib.sha256(foreign.tobytes()).digest()
            yield from self.parts(content, home)
        elif library == "pandas" and hasattr(foreign, "to_numpy"):
            for labels in ("index", "columns"):
                yield from self.parts(list(getattr(foreign, labels, ())), home)
            yield from self.parts(foreign.to_numpy(), home)
        elif library == "pandas" and hasattr(foreign, "isoformat"):
            yield foreign.isoformat()
        elif library in sys.stdlib_module_names and library not in _OF_ONE_PROCESS:
            try:
                copied = value.__reduce_ex__(2)
            except (TypeError, ValueError, AttributeError):
                return  # a lock, a file, a connection
            parts = (copied,) if isinstance(copied, str) else copied
            for part in parts:
                is_list = isinstance(part, Iterator)
                items = list(cast("Iterator[object]", part)) if is_list else part
                yield from self.parts(items, home)


def _slots(kind: type[object]) -> Iterator[str]:
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        yield from [names] if isinstance(names, str) else names


def _written_out(value: object) -> str | None:
    """Return a value of the standard library as text, where it has one that is always the same."""
    if isinstance(value, _WRITTEN_OUT):
        return repr(value)
    if isinstance(value, re.Pattern):
        return repr((cast("re.Pattern[str]", value).pattern, value.flags))
    if isinstance(value, PurePath):
        return "" if value.is_absolute() else str(value)
    return value.__name__ if isinstance(value, types.ModuleType) else None


class _NamesOfCode(NamedTuple):
    """Names that are no locals of a function."""

    read: frozenset[str]
    """Names of its module that it reads and does not change itself."""
    changed: frozenset[str]
    """Names, also of variables that it closes over, that it changes itself."""


_LOADS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
_STORES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})


@functools.lru_cache(maxsize=4096)
def _names_of(code: CodeType) -> _NamesOfCode:
    """Return the names that a function reads, and of these what is its state.

    The tools of one module read the same helpers: each is taken apart once a process.
    """
    read, changed = set[str](), set[str]()
    at: dict[object, str] = {}
    """Names by the place where an expression begins with them."""
    before: str | None = None
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        positions = instruction.positions
        start = None if positions is None else (positions.lineno, positions.col_offset)
        if instruction.opname in _LOADS:
            if instruction.opname != "LOAD_DEREF":
                read.add(name)
            at[start] = before = name
            continue
        if instruction.opname in _STORES:
            changed.add(name)
        elif instruction.opname in {"STORE_SUBSCR", "DELETE_SUBSCR"} and start in at:
            changed.add(at[start])
        elif before is not None and name in _CHANGING_METHODS:
            changed.add(before)
        elif before is not None and instruction.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
            # What is changed is a part of an object, and not all of it.
            at.pop(start, None)
        before = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names_of(constant)
            read |= inner.read
            changed |= inner.changed & {*code.co_freevars}
    return _NamesOfCode(frozenset(read - changed), frozenset(changed - {*code.co_cellvars}))
