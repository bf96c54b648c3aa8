"""Whether a tool may have written before the request that was refused.

"Connection refused" and HTTP 4xx are said of one request. A tool that pays and then sends a receipt
has paid, though the receipt was refused. That nothing was sent before is said only of a tool of plain
shape: of all that stands in it before the failing place, or with that in one statement, each call is
on the lists below, or makes a record, or is of a function of the tool's own of which all of this is
true; and one call alone sends a request, the refused one. All else may have written: nothing looks
into objects of the tool's own classes, or into what libraries do with what they are given.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import inspect
import linecache
import sys
from collections import ChainMap
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from types import (
    CodeType,
    FunctionType,
    MethodDescriptorType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any, Final, NamedTuple, TypeAlias, cast

from wavewright.tools.functions.failed_code import is_library_code

_SENDING: Final = frozenset(
    {"delete", "patch", "post", "publish", "put", "request", "send", "send_message", "sendmail"}
)
"""Names of functions that send one request."""
_READING: Final = (
    # Requests that read, what is read of an answer, of a file and of a record, and logging.
    {"exists", "get", "head", "json", "model_dump", "model_dump_json", "model_validate", "options"}
    | {"raise_for_status", "read", "read_bytes", "read_text"}
    | {"critical", "debug", "error", "exception", "info", "log", "warning"}
    # What opens, prepares and closes a client.
    | {"aclose", "add_header", "build_opener", "build_request", "client", "close", "mount"}
    | {"session"}
)
"""Names of functions of libraries that write nothing."""
_OF_PLAIN_VALUES: Final = {
    *dir(bytes) + dir(dict) + dir(list) + dir(set) + dir(str) + dir(dt.datetime) + dir(dt.timedelta)
} - (
    {"add", "append", "clear", "copy", "discard", "extend", "index", "insert", "pop", "popitem"}
    | {"remove", "setdefault", "update", "__delitem__", "__setitem__"}
)
"""Names of methods of plain values, but for those that clients of stores have as well."""
_PARTS: Final = frozenset({"auth", "cert", "cookies", "headers", "params", "proxies", "verify"})
"""Attributes of a client that are changed in memory."""
_WAITING: Final = frozenset(
    {"getenv", "run", "run_sync", "sleep", "timeout", "to_thread", "wait_for"}
)
"""Names of functions of `anyio`, `asyncio` and `os` that write nothing."""
_IN_THREAD: Final = frozenset({"run_sync", "to_thread"})
"""Names of functions that call once what they are given."""
_COMPUTING: Final = frozenset(
    {"base64", "bs4", "csv", "datetime", "dateutil", "decimal", "hashlib", "hmac", "jinja2", "json"}
    | {"jwt", "lxml", "markdown", "math", "numpy", "orjson", "pandas", "polars", "pytz", "re"}
    | {"scipy", "string", "textwrap", "time", "uuid", "yaml", "zoneinfo"}
)
"""Packages that write nothing, and give nothing that writes."""
_HARMLESS: Final = _COMPUTING | frozenset(
    {"attr", "builtins", "collections", "contextlib", "copy", "dataclasses", "enum", "html", "io"}
    | {"itertools", "logging", "ntpath", "pathlib", "posixpath", "pydantic", "random", "secrets"}
    | {"statistics", "struct", "structlog", "typing", "unicodedata", "urllib.parse", "wavewright"}
)
"""Packages and modules whose functions write nothing."""
_OPENING: Final = frozenset({"aiohttp", "httpx", "requests", "urllib", "urllib3"})
"""Packages whose classes write nothing as objects of them are made."""
_WRITING: Final = frozenset(
    {"__import__", "eval", "exec", "sink_delta", "sink_iceberg", "submit_form", "to_gbq"}
    | {"to_iceberg", "to_sql", "write_database", "write_delta", "write_iceberg"}
)
"""Names of functions of harmless packages that may write."""
_REPEATING: Final = (
    *(ast.For, ast.AsyncFor, ast.While, ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_MANY: Final = 2
"""More requests than one, or nobody knows how many."""
_UNKNOWN: Final = object()
_COMPUTED: Final = object()
"""What a computing package gives."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Place: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
"""Where something begins and ends, by lines and by columns in bytes."""


class _Scope(NamedTuple):
    """What names stand for in a function of the tool."""

    values: ChainMap[str, Any]
    package: str
    """Whose modules are the tool's own."""
    failed: ast.Call
    inside: frozenset[CodeType] = frozenset()
    """The functions that are being read."""


def had_sent_before(frames: Sequence[TracebackType], *, is_write_refused: bool) -> bool:
    """Whether a tool may have written otherwise than by the request that was refused.

    Args:
        frames: The frames of the tool's own code that the exception came through, the innermost
            last; of one that was raised from another, those of both.
        is_write_refused: Whether the exception names a request that would have written.
    """
    function, place = _place_left(frames[0])
    failed = _call_at(*_place_left(frames[-1]))
    if function is None or failed is None or _is_repeated(function, place):
        return True
    frame = frames[0].tb_frame
    values = ChainMap(dict(frame.f_locals), frame.f_globals, builtins.__dict__)
    scope = _Scope(values, str(frame.f_globals.get("__name__", "")).partition(".")[0], failed)
    # `raise_for_status` sends nothing: what was refused is the request before it.
    refused = int(is_write_refused or _name_of(failed) != "raise_for_status")
    return _sent_by_all(_nodes_run(function, place), function, scope) != refused


# -- what has run of a function


def _place_left(traceback: TracebackType) -> tuple[_Function | None, _Place]:
    """Return where an exception came out of a function; no function where that is not known."""
    code = traceback.tb_frame.f_code
    line, end_line, column, end_column = list(code.co_positions())[traceback.tb_lasti // 2]
    place = ((line or 0, column or 0), (end_line or 0, end_column or 0))
    return (None if end_column is None else _source_of(code)), place


@lru_cache(maxsize=64)
def _source_of(code: CodeType) -> _Function | None:
    """Return the source of a function; None where there is none, and of a lambda."""
    try:
        nodes = ast.walk(ast.parse("".join(linecache.getlines(code.co_filename))))
    except (SyntaxError, ValueError):
        return None
    for node in nodes:
        if isinstance(node, _Function) and node.name == code.co_name:
            first = min(part.lineno for part in (node, *node.decorator_list))
            if first == code.co_firstlineno:
                return node
    return None


def _place_of(node: Any) -> _Place:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _contains(node: ast.AST, place: _Place) -> bool:
    start, end = _place_of(node)
    return start <= place[0] and place[1] <= end


def _nodes_in(function: _Function) -> list[ast.AST]:
    return [node for statement in function.body for node in ast.walk(statement)]


def _is_repeated(function: _Function, place: _Place) -> bool:
    """Whether a place is in a loop, or in a function within this one."""
    nodes = _nodes_in(function)
    return any(isinstance(node, _REPEATING) and _contains(node, place) for node in nodes)


def _call_at(function: _Function | None, place: _Place) -> ast.Call | None:
    for node in _nodes_in(function) if function is not None else ():
        call = node.value if isinstance(node, ast.Await) else node
        if not isinstance(call, ast.Call):
            continue
        # A method on another line than its object is called where its name begins.
        held = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_named_there = held is not None and _place_of(held)[1] < place[0]
        if place == _place_of(node) or (is_named_there and place[1] == _place_of(call)[1]):
            return call
    return None


def _nodes_run(function: _Function, place: _Place) -> list[ast.AST]:
    """Return what may have run when a function was left: all before the end of the statement that
    failed, all of a `try` around it, and nothing of another block of an `if` or a `match`.
    """
    around = [n for n in _nodes_in(function) if isinstance(n, ast.stmt) and _contains(n, place)]
    tries = [statement for statement in around if isinstance(statement, ast.Try | ast.TryStar)]
    end = max(_place_of(statement)[1] for statement in (around[-1], *tries))
    skipped = set[ast.AST]()
    for statement in around:
        blocks = [case.body for case in getattr(statement, "cases", [])]
        if isinstance(statement, ast.If):
            blocks = [statement.body, statement.orelse]
        others = (block for block in blocks if not any(_contains(part, place) for part in block))
        skipped.update(n for block in others for part in block for n in ast.walk(part))
    nodes = (node for node in _nodes_in(function) if isinstance(node, ast.expr))
    return [node for node in nodes if node not in skipped and _place_of(node)[0] < end]


# -- how many requests are sent


def _sent_by_all(nodes: Sequence[ast.AST], function: _Function, scope: _Scope) -> int:
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {call.func for call in calls}
    # Others may call what they are given for each entry of a list.
    in_threads = (call.args[:1] for call in calls if _name_of(call) in _IN_THREAD)
    once = {*calls, *chain.from_iterable(in_threads)}
    sent = 0
    for node in nodes:
        by_node = 0 if node in called else _sent_by(node, scope)
        is_once = node in once and not (by_node and _is_repeated(function, _place_of(node)))
        sent += by_node if is_once else _MANY * by_node
    return sent


def _sent_by(node: ast.AST, scope: _Scope) -> int:
    """Return how many requests may be sent where something is called, named or changed."""
    name = _name_of(node)
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        is_item = isinstance(node, ast.Subscript)
        is_in_memory = is_item and type(_value_of(node.value, scope)) in (dict, list)
        return 0 if is_in_memory or _PARTS & {name, _name_of(node.value)} else _MANY
    if isinstance(node, ast.Call):
        is_refused = node is scope.failed and name != "raise_for_status"
        return 1 if is_refused else _sent_by_call(node, name, scope)
    if not isinstance(node, ast.Name | ast.Attribute):
        return 0
    value = _value_of(node, scope)
    if callable(value):
        return _sent_by_callable(value, name, scope)
    return int(_holds_own(value, scope) or (value is _UNKNOWN and name in _SENDING))


def _sent_by_call(call: ast.Call, name: str, scope: _Scope) -> int:
    value = _value_of(call.func, scope)
    if callable(value):
        return _sent_by_callable(value, name, scope)
    if value is _COMPUTED:
        return 0 if name not in _WRITING else _MANY
    if value is not _UNKNOWN or not isinstance(call.func, ast.Attribute):
        return _MANY
    # Of an object of which nothing is known the name tells.
    is_harmless = name in _READING | _OF_PLAIN_VALUES or _name_of(call.func.value) in _PARTS
    return int(name in _SENDING) or (0 if is_harmless else _MANY)


def _sent_by_callable(called: Any, name: str, scope: _Scope) -> int:
    """Return how many requests may be sent by a function or a class that is called."""
    if not inspect.isroutine(called) and not inspect.isclass(called):
        return 0 if _package_of(type(called)) in _COMPUTING else _MANY
    if _is_own(called, scope):
        return _sent_by_function(called, scope) if isinstance(called, FunctionType) else _MANY
    is_known, package = _is_harmless(called, scope), _package_of(called)
    if inspect.isclass(called):
        is_opening = package in _OPENING or issubclass(called, BaseException)
        return 0 if is_known or is_opening or _is_record(called, scope) else _MANY
    # A library may call what it wraps more than once.
    if hasattr(called, "__wrapped__") and not is_known:
        return _MANY
    # It may have been imported under another name.
    actual = getattr(called, "__name__", "")
    name = name if actual == "request" else actual
    is_waiting = name in _WAITING and package in {"anyio", "asyncio", "os"}
    if name in _SENDING:
        return 1
    return 0 if name in _READING or is_waiting or (is_known and name not in _WRITING) else _MANY


def _sent_by_function(function: FunctionType, scope: _Scope) -> int:
    """Return how many requests may be sent by a function of the tool's own."""
    code, node = function.__code__, _source_of(function.__code__)
    # How often a function calls itself nobody knows.
    if node is None or code in scope.inside or function.__closure__:
        return _MANY
    nodes = list(ast.walk(node))
    names = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    names += [n.arg for n in nodes if isinstance(n, ast.arg)]
    local = dict[str, Any].fromkeys((*names, *code.co_varnames, *code.co_cellvars), _UNKNOWN)
    values = ChainMap(local, function.__globals__, builtins.__dict__)
    inside = scope._replace(values=values, inside=scope.inside | {code})
    for part in nodes:
        match part:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                if value is not None and names.count(name) == 1:
                    local[name] = _value_of(value, inside)
            case _:
                pass
    return _sent_by_all(_nodes_in(node), node, inside)


# -- what names stand for, and whose it is


def _value_of(node: ast.expr, scope: _Scope) -> Any:
    """Return what an expression stands for, without running code of the tool."""
    match node:
        case ast.Name(name):
            return scope.values.get(name, _UNKNOWN)
        case ast.Attribute(held, name):
            owner = _value_of(held, scope)
            if owner is _COMPUTED:
                return _COMPUTED
            value: Any = inspect.getattr_static(owner, name, _UNKNOWN)
            is_wrapped = isinstance(value, staticmethod | classmethod)
            return cast("Any", value).__func__ if is_wrapped else value
        case ast.Call(called):
            value = _value_of(called, scope)
            if value is dict or value is list:
                return [] if value is list else {}
            is_known = inspect.isroutine(value) or inspect.isclass(value)
            is_computed = value is _COMPUTED or (is_known and _package_of(value) in _COMPUTING)
            return _COMPUTED if is_computed else _UNKNOWN
        case ast.Dict() | ast.DictComp():
            return {}
        case ast.List() | ast.ListComp():
            return []
        case _:
            return _UNKNOWN


def _name_of(node: ast.AST) -> str:
    """Return the last name of what is called or named; of a request by a method that is written
    out, as in `client.request("GET", …)`, that method.
    """
    match node:
        case ast.Call(ast.Attribute(attr="request"), [ast.Constant(value=str(method)), *_]):
            return method.lower()
        case ast.Call(called):
            return _name_of(called)
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_own(thing: Any, scope: _Scope) -> bool:
    """Whether a function or a class is the tool's own, and no class that has fields alone."""
    if inspect.ismethod(thing) and _is_own(type(thing.__self__), scope):
        return True
    if isinstance(thing, FunctionType):
        file = thing.__code__.co_filename
    else:
        file = getattr(sys.modules.get(_module_of(thing)), "__file__", None) or ""
    package = _package_of(thing)
    is_library = package in sys.stdlib_module_names or is_library_code(file)
    is_own = package == scope.package or not is_library
    return is_own and not (inspect.isclass(thing) and _is_record(thing, scope))


def _is_record(kind: type, scope: _Scope) -> bool:
    others = (part for part in kind.__mro__ if not _is_harmless(part, scope))
    return not any(_is_method(value) for part in others for value in vars(part).values())


def _is_method(value: Any) -> bool:
    """Whether what a class holds is code, and none that was generated with the class."""
    function = getattr(value, "__func__", value)
    if isinstance(function, FunctionType):
        package = str(function.__globals__.get("__name__")).partition(".")[0]
        is_generated = function.__code__.co_filename.startswith(("<string>", "<attrs generated"))
        return not is_generated and package not in _HARMLESS
    kind = cast("type[object]", type(value))
    is_descriptor = hasattr(kind, "__get__") or hasattr(kind, "__set__")
    is_code = kind in (property, MethodDescriptorType, WrapperDescriptorType)
    return is_code or (is_descriptor and _package_of(kind) not in _HARMLESS)


def _holds_own(value: Any, scope: _Scope, depth: int = 8) -> bool:
    """Whether a value is, or holds, an object of a class of the tool's own that is no record."""
    kind = cast("type[object]", type(value))
    is_container = issubclass(kind, dict | list | tuple | set | frozenset)
    entries = value.values() if issubclass(kind, dict) else value
    if is_container and any(not depth or _holds_own(part, scope, depth - 1) for part in entries):
        return True
    return _is_own(kind, scope)


def _is_harmless(called: Any, scope: _Scope) -> bool:
    package = _package_of(called)
    return package != scope.package and not _HARMLESS.isdisjoint({package, _module_of(called)})


def _package_of(called: Any) -> str:
    return _module_of(called).partition(".")[0]


def _module_of(called: Any) -> str:
    """Return the module of a function; of one that C defines perhaps that of its class."""
    held_by: object = getattr(called, "__self__", None)
    owner = getattr(called, "__objclass__", held_by.__class__)
    module = getattr(called, "__module__", None)
    if module is None and not isinstance(called, FunctionType):
        module = owner.__module__
    return str(module or "").removeprefix("_")
