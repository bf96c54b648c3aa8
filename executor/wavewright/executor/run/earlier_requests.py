"""Whether a tool may have written before the request that was refused.

"Connection refused" and HTTP 4xx are said of one request. A tool that pays and then sends a receipt
has paid, though the receipt was refused. So the source is read of each function of the tool that the
exception came through, and what may have written there is counted: all that stands before the
request, or with it in one statement. Another block of an `if` or a `match` was not run, nor was one
of an `if` that leaves the function; all blocks of a `try` may have been. What the turns of a loop
before have done nobody knows.

What is called is looked up in the frame; functions of the tool's own are read likewise, and those of
its classes that Python calls: as an object is made, where it is named (`shop[key] = 3`), and where an
attribute of it is changed. So are those in the place of a library's, where the library is called with
the object (`Thread.start`). Reads (`get`), builtins, most of the standard library, logging, and what
opens a client write nothing, a request by its name (`post`) once, and all that is not known as often
as it likes.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import inspect
import linecache
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard, cast

from wavewright.tools.functions.failed_code import is_library_code

_WRITING: Final = frozenset(
    {"delete", "patch", "post", "publish", "put", "request", "send", "send_message", "sendmail"}
)
"""Names of methods that send one request."""
_CHANGING: Final = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault"}
    | {"update"}
)
"""Names of methods that change a list in memory, or a table of a database."""
_OF_PLAIN_VALUES: Final = {
    name
    for kind in (str, bytes, dict, list, set, tuple, int, float, dt.datetime, dt.timedelta)
    for name in dir(kind)
} - {*_CHANGING, "__delitem__", "__setitem__"}
"""Names of methods of texts, numbers and lists."""
_ALSO_OF_STORES: Final = frozenset({"copy", "index"})
"""Those of them by which clients store."""
_READING: Final = (
    # Requests that read, and what is read of an answer, of a file and of a model.
    {"build_request", "exists", "get", "head", "json", "model_dump", "model_dump_json"}
    | {"model_validate", "options", "raise_for_status", "read", "read_bytes", "read_text"}
    # Logging.
    | {"critical", "debug", "error", "exception", "info", "log", "warning"}
    # What opens and closes a client, a connection or a channel.
    | {"__aenter__", "__aexit__", "__enter__", "__exit__", "__init__", "__new__", "aclose"}
    | {"add_handler", "add_header", "build_opener", "client", "close", "connect", "cursor"}
    | {"from_url", "insecure_channel", "install_opener", "login", "mount", "prepare_request"}
    | {"resource", "secure_channel", "session", "starttls"}
)
"""Names of functions of libraries that write nothing."""
_PARTS: Final = frozenset({"cookies", "headers", "params"})
"""Attributes of a client and of a request that are changed in memory."""
_WRITERS: Final = frozenset(
    {"ctypes", "dbm", "ftplib", "http", "imaplib", "multiprocessing", "nntplib", "poplib", "shelve"}
    | {"shutil", "smtplib", "socket", "sqlite3", "subprocess", "telnetlib", "urllib.request"}
    | {"xmlrpc"}
)
"""Modules of the standard library whose functions may write elsewhere; where C defines a part of one,
an underscore stands before its name.
"""
_WRITERS_BY_NAME: Final = frozenset(
    {"Popen", "create_connection", "create_datagram_endpoint", "create_subprocess_exec"}
    | {"create_subprocess_shell", "eval", "exec", "open_connection", "open_unix_connection"}
    | {"open_process", "popen", "posix_spawn", "run_process", "sendall", "submit_form", "system"}
    | {"sink_delta", "sink_iceberg", "to_gbq", "to_iceberg", "to_sql", "write_database"}
    | {"write_delta", "write_iceberg"}
)
"""Names of functions and classes that may write elsewhere, of the standard library and of packages
that else write nothing.
"""
_COMPUTING: Final = frozenset(
    {"bs4", "dateutil", "jinja2", "jwt", "lxml", "markdown", "numpy", "orjson", "pandas"}
    | {"polars", "pytz", "scipy", "yaml", "yarl"}
)
"""Packages whose functions write nothing, and give nothing that writes."""
_GIVING_PLAIN_VALUES: Final = _COMPUTING | frozenset(
    {"base64", "csv", "datetime", "decimal", "hashlib", "hmac", "json", "logging", "math", "re"}
    | {"pathlib", "string", "textwrap", "time", "uuid", "zoneinfo"}
)
"""These, and modules of the standard library that give nothing that writes."""
_HARMLESS_PACKAGES: Final = _COMPUTING | frozenset(
    {"anyio", "attr", "pydantic", "stamina", "structlog", "tenacity", "wavewright"}
)
"""These, and packages that give what they are given, or call it."""
_MAKING: Final = frozenset({"__init__", "__new__", "__post_init__", "model_post_init"})
"""Methods that run as an object is made."""
_READING_ATTRIBUTES: Final = frozenset({"__getattr__", "__getattribute__"})
_CHANGING_ATTRIBUTES: Final = frozenset({"__delattr__", "__setattr__"})
_NO_OPERATORS: Final = _MAKING | _READING_ATTRIBUTES | _CHANGING_ATTRIBUTES | {"__call__"}
"""Special methods that no operator calls."""
_CALLING_ONCE: Final = frozenset({"run_in_executor", "run_sync", "submit", "to_thread"})
"""What calls a function once that it is given; others may call it for each entry of a list."""
_REPEATING: Final = (
    *(ast.For, ast.AsyncFor, ast.While),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_MANY: Final = 2
"""More writes than one, or nobody knows how many."""
_UNKNOWN: Final = object()
"""What only running code of the tool would tell."""
_PLAIN: Final = object()
"""What the standard library has made of texts and numbers."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Use: TypeAlias = ast.Call | ast.Name | ast.Attribute | ast.Subscript
"""A call, a name or an attribute that is not called where it stands, or an item that is changed."""
_Place: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
"""Where something begins and ends, by lines and by columns in bytes."""


class _Scope(NamedTuple):
    """What names stand for in a function of the tool."""

    values: ChainMap[str, Any]
    package: str
    """Whose modules are the tool's own."""
    writes: dict[tuple[FunctionType, int], int]
    """How often functions write that were read, each with what it is a method of."""
    inside: frozenset[CodeType] = frozenset()
    """The functions that are being read."""


def had_sent_before(frames: Sequence[TracebackType], *, is_write_refused: bool) -> bool:
    """Whether a tool may have written otherwise than by the request that was refused.

    Args:
        frames: The frames of the tool's own code that the exception came through, the innermost
            last; of one that was raised from another, those of both.
        is_write_refused: Whether the exception names a request that would have written.
    """
    functions = [_source_of(traceback.tb_frame.f_code) for traceback in frames]
    # A function that handles an exception and raises another was left at two places.
    run = dict[tuple[FrameType, _Use], _Function]()
    left = set[tuple[FrameType, _Use]]()
    refused: _Use | None = None
    is_passed_on = False
    for traceback, inner, function in zip_longest(frames, frames[1:], functions):
        frame = traceback.tb_frame
        place = _place_left(traceback)
        if place is None or function is None or _is_repeated(function, place):
            return True
        uses = list(_uses_in(_parts_run(function.body, place)))
        is_passed_on = _is_passed_on(function, place)
        inner_name = "" if inner is None else inner.tb_frame.f_code.co_name
        refused = _use_left(function, uses, place, inner_name)
        if refused is not None and _is_repeated(function, _place_of(refused)):
            return True
        run.update(((frame, use), function) for use in uses)
        # What an answer is handed over to would have been called after the request.
        around = [use for use in uses if _contains(use, place) and _place_of(use) != place]
        left.update((frame, use) for use in (*around, refused) if use is not None)
        # A function within this one that the exception came through counts for itself.
        for part in ast.walk(function):
            if part is not function and part in functions and isinstance(part, _Function):
                left.update((frame, use) for use in _uses_in(part.body))
    scopes = {traceback.tb_frame: _scope_of_frame(traceback.tb_frame) for traceback in frames}
    writes = sum(
        _writes_inside(use, function, scopes[frame])
        for (frame, use), function in run.items()
        if (frame, use) not in left
    )
    if refused is not None:
        is_passed_on = not _may_send(refused, scopes[frames[-1].tb_frame])
    # `raise_for_status` sends nothing: what was refused is perhaps the write before it.
    return writes > int(is_write_refused and is_passed_on)


# -- what has run of a function


def _place_left(traceback: TracebackType) -> _Place | None:
    """Return where an exception came out of a function; None where Python does not tell."""
    positions = list(traceback.tb_frame.f_code.co_positions())
    line, end_line, column, end_column = positions[traceback.tb_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return (line, column), (end_line, end_column)


def _place_of(node: ast.expr | ast.stmt) -> _Place:
    end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return (node.lineno, node.col_offset), end


def _contains(node: ast.expr | ast.stmt, place: _Place) -> bool:
    start, end = _place_of(node)
    return start <= place[0] and place[1] <= end


def _source_of(code: CodeType) -> _Function | None:
    """Return the source of a function; None where there is none, and of a lambda."""
    for function in _functions_in("".join(linecache.getlines(code.co_filename))):
        first = min(node.lineno for node in (function, *function.decorator_list))
        if function.name == code.co_name and first == code.co_firstlineno:
            return function
    return None


@lru_cache(maxsize=64)
def _functions_in(source: str) -> Sequence[_Function]:
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    return [node for node in ast.walk(module) if isinstance(node, _Function)]


def _is_repeated(function: _Function, place: _Place) -> bool:
    return any(
        isinstance(node, _REPEATING) and _contains(node, place) for node in ast.walk(function)
    )


def _parts_run(block: Sequence[ast.stmt], place: _Place) -> Iterator[ast.AST]:
    """Yield what may have run of a block when it was left."""
    for statement in block:
        if _place_of(statement)[0] > place[0]:
            return
        inner = next((inner for inner in _blocks_of(statement) if _is_in(inner, place)), None)
        if isinstance(statement, ast.If) and inner is None and _is_left_by(statement.body):
            # Who has come past it was not in its body.
            yield statement.test
            yield from _parts_run(statement.orelse, place)
        elif inner is None:
            # Which calls of one statement come first is not asked.
            yield statement
        else:
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.expr | ast.withitem):
                    yield part
                elif isinstance(part, ast.match_case) and part.guard is not None:
                    yield part.guard
            for other in _blocks_of(statement):
                if isinstance(statement, ast.Try | ast.TryStar) and other is not inner:
                    yield from other
            yield from _parts_run(inner, place)


def _blocks_of(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        yield part.body


def _is_left_by(block: Sequence[ast.stmt]) -> bool:
    return isinstance(block[-1], ast.Return | ast.Raise)


def _is_in(block: Sequence[ast.stmt], place: _Place) -> bool:
    return any(_contains(statement, place) for statement in block)


def _uses_in(parts: Iterable[ast.AST]) -> Iterator[_Use]:
    parts_of_uses = set[ast.expr]()
    for part in parts:
        for node in ast.walk(part):
            # What stands in it is walked over later.
            if isinstance(node, ast.Call):
                parts_of_uses.add(node.func)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                parts_of_uses.add(node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target
            if _is_use(node) and node not in parts_of_uses:
                yield node


def _is_use(node: ast.AST) -> TypeGuard[_Use]:
    """Whether a node is a use: a name to which a value is given is none, nor is an item that is read."""
    if isinstance(node, ast.Name):
        return not _is_target(node)
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Call | ast.Attribute)


def _call_at(function: _Function, place: _Place) -> ast.Call | None:
    for node in ast.walk(function):
        if not isinstance(node, ast.Call | ast.Await | ast.YieldFrom):
            continue
        call = node if isinstance(node, ast.Call) else node.value
        if isinstance(call, ast.Call) and place in {_place_of(node), _place_of_method(call)}:
            return call
    return None


def _place_of_method(call: ast.Call) -> _Place:
    """Return where a call begins and ends whose method stands on another line than its object."""
    start, end = _place_of(call)
    if isinstance(call.func, ast.Attribute):
        line, column = _place_of(call.func)[1]
        start = line, column - len(call.func.attr.encode())
    return start, end


def _is_passed_on(function: _Function, place: _Place) -> bool:
    """Whether an exception was raised again, or came of something that was waited for."""
    return any(
        isinstance(node, ast.Await | ast.Raise) and _place_of(node) == place
        for node in ast.walk(function)
    )


def _use_left(function: _Function, uses: Sequence[_Use], place: _Place, inner: str) -> _Use | None:
    """Return the use that an exception came out of: that of the inner function, called here or by
    what calls it once, or else the outermost call; None where no call is known to have failed.
    """
    failed = _call_at(function, place)
    if failed is None:
        # What was called has ended: its answer is raised, or an attribute of it is read.
        return None
    start, end = _place_of(failed)
    within = [use for use in uses if start <= _place_of(use)[0] and _place_of(use)[1] <= end]
    calls = [use for use in within if isinstance(use, ast.Call)]
    called = set[ast.expr](calls)
    for call in calls:
        if _name_of(call) in _CALLING_ONCE:
            called.update(call.args)
    for use in within:
        if inner and _name_of(use) == inner and use in called:
            return use
    # The end of a `with` block fails at the place of the call that has begun it.
    return None if inner in {"__exit__", "__aexit__"} else failed


# -- how often a use may write


def _writes_of(use: _Use, scope: _Scope) -> int:
    """Return how many writes there may be where something is called, named or changed."""
    if isinstance(use, ast.Subscript):
        return _writes_of_item(use, scope)
    name = _name_of(use)
    named = use.func if isinstance(use, ast.Call) else use
    owner = None
    if isinstance(named, ast.Attribute):
        owner = _value_of(named.value, scope)
        writes = _writes_of_attribute(named, owner, scope)
        if writes or not isinstance(named.ctx, ast.Load):
            return writes
    value = _value_of(named, scope)
    if value is _PLAIN:
        return _MANY if name in _WRITERS_BY_NAME else 0
    if callable(value):
        writes = _writes_of_callable(value, name, owner, scope)
        # What is handed over may be called for each entry of a list.
        return writes if isinstance(use, ast.Call) or writes == 0 else _MANY
    if isinstance(use, ast.Call):
        is_part = isinstance(named, ast.Attribute) and _name_of(named.value) in _PARTS
        return 0 if is_part and name not in _WRITING else _writes_by_name(name)
    if value is _UNKNOWN:
        # What is only named is data, but for what is called like a request.
        return _MANY if name in _WRITING else 0
    return _writes_of_operators(value, scope)


def _writes_of_item(changed: ast.Subscript, scope: _Scope) -> int:
    """Return how many writes there may be as an object of a library sets or removes an item; those of
    the tool's own count where they are named.
    """
    kind = _kind_of(_value_of(changed.value, scope))
    method = _attribute_of(_Made(kind), "__setitem__")
    is_in_memory = issubclass(kind, MutableMapping) and not _is_writer(method)
    is_in_memory = is_in_memory or _name_of(changed.value) in _PARTS
    if is_in_memory or not callable(method) or _is_own(method, scope):
        return 0
    return _writes_of_callable(method, "__setitem__", None, scope)


def _writes_of_attribute(named: ast.Attribute, owner: Any, scope: _Scope) -> int:
    """Return how many writes there may be as an attribute is changed, or read by a method for all of
    them.
    """
    if owner is _PLAIN or inspect.isclass(owner):
        return 0
    if isinstance(named.ctx, ast.Load):
        return _writes_by_using(owner, _READING_ATTRIBUTES, scope)
    changed: Any = inspect.getattr_static(_kind_of(owner), named.attr, None)
    accessors = (getattr(changed, name, None) for name in ("fget", "fset", "fdel"))
    return (
        sum(_writes_of_function(call, owner, scope) for call in accessors if _is_own(call, scope))
        + _writes_of_methods(changed, {"__get__", "__set__", "__delete__"}, scope)
        + _writes_by_using(owner, _CHANGING_ATTRIBUTES, scope)
    )


def _writes_of_callable(called: Any, name: str, owner: Any, scope: _Scope) -> int:
    if inspect.isclass(called):
        if called.__name__ in _WRITERS_BY_NAME:
            return _MANY
        made = _Made(called)
        return _writes_of_methods(made, _MAKING, scope) + _writes_of_operators(made, scope)
    if isinstance(called, partial):
        called = called.func
    if inspect.ismethod(called):
        owner, called = called.__self__, called.__func__
    wrapped = inspect.getattr_static(called, "__wrapped__", None)
    if not inspect.isroutine(called) and wrapped is None:
        owner, called = called, _attribute_of(called, "__call__")
    if _is_own(called, scope):
        return _writes_of_function(called, owner, scope)
    if wrapped is not None:
        # A library may call what it wraps more than once.
        return _MANY if _writes_of_callable(wrapped, name, owner, scope) else 0
    return _writes_of_library(called, name, owner, scope)


def _writes_of_library(called: Any, name: str, owner: Any, scope: _Scope) -> int:
    actual = getattr(called, "__name__", "")
    if actual != "request":
        # It may have been imported under another name.
        name = actual
    if name in _READING:
        return 0
    if _writes_of_methods(owner, _overridden_names(_kind_of(owner), scope), scope):
        return _MANY
    if _is_writer(called):
        return 0 if name in _OF_PLAIN_VALUES else _MANY
    # What is put into a queue, or sent into a stream, another task may send on.
    if _is_harmless(_package_of(called)) and name not in _WRITING | _WRITERS_BY_NAME:
        return 0
    # It is no method of a plain value, though it may have the name of one.
    return _writes_of_request(name)


def _writes_of_methods(owner: Any, names: Iterable[str], scope: _Scope) -> int:
    """Return how many writes there may be in those of some methods that are the tool's own."""
    methods = (_attribute_of(_Made(_kind_of(owner)), name) for name in names)
    # What a dataclass generates has no source, and writes nothing.
    own = (m for m in methods if _is_own(m, scope) and m.__code__.co_filename != "<string>")
    return sum(_writes_of_function(method, owner, scope) for method in own)


def _writes_of_operators(owner: Any, scope: _Scope) -> int:
    """Return how many writes there may be as an object is used: by operators, by `for`, in a text, or
    by a block that opens it, as `async with shop:`.
    """
    kinds = _kind_of(owner).__mro__
    names = {name for kind in kinds for name in vars(kind) if name.startswith("__")}
    return _writes_by_using(owner, names - _NO_OPERATORS, scope)


def _writes_by_using(owner: Any, names: Iterable[str], scope: _Scope) -> int:
    """Return how many writes there may be in methods by which Python uses an object. One that is being
    read names its own object, and does not call itself by that.
    """
    kind = _Made(_kind_of(owner))
    codes = {name: getattr(_attribute_of(kind, name), "__code__", None) for name in names}
    others = [name for name, code in codes.items() if code not in scope.inside]
    return _writes_of_methods(owner, others, scope)


def _overridden_names(kind: type, scope: _Scope) -> set[str]:
    """Return the names of a library's methods that a class of the tool's own has in their place."""
    own, others = set[str](), set[str]()
    for part in kind.__mro__:
        for name, value in vars(part).items():
            (own if _is_own(value, scope) else others).add(name)
    return {name for name in own & others if not name.startswith("__")}


def _writes_of_function(function: FunctionType, owner: Any, scope: _Scope) -> int:
    """Return how many writes there may be in a function of the tool's own."""
    node = _source_of(function.__code__)
    if isinstance(owner, _Made):
        owner = _Made(owner.kind)
    key = function, id(owner.kind if isinstance(owner, _Made) else owner)
    if node is None or key in scope.writes:
        return scope.writes.get(key, _MANY)
    # How often a function calls itself nobody knows.
    scope.writes[key] = _MANY
    inside = _scope_inside(function, node, owner, scope)
    writes = sum(_writes_inside(use, node, inside) for use in _uses_in(node.body))
    scope.writes[key] = writes
    return writes


def _writes_inside(use: _Use, function: _Function, scope: _Scope) -> int:
    """Return how many writes there may be by a use in a function, which a loop may repeat."""
    writes = _writes_of(use, scope)
    return _MANY if writes and _is_repeated(function, _place_of(use)) else writes


def _may_send(failed: _Use, scope: _Scope) -> bool:
    """Whether what has failed may have sent the request that was refused, if only to read, or to open
    or close a client; not where it raises what another has sent.
    """
    if _writes_of(failed, scope) > 0:
        return True
    named = failed.func if isinstance(failed, ast.Call) else failed
    is_harmless = _is_harmless(_package_of(_value_of(named, scope)))
    return not is_harmless and _name_of(failed) != "raise_for_status"


def _writes_by_name(name: str) -> int:
    """Return how many writes there may be in a method of an object of which nothing is known."""
    is_harmless = name in _READING | _OF_PLAIN_VALUES - _ALSO_OF_STORES
    return 0 if is_harmless else _writes_of_request(name)


def _writes_of_request(name: str) -> int:
    return 1 if name in _WRITING else _MANY


# -- what names stand for


class _Made(NamedTuple):
    """An object that will be, of which only the class is known."""

    kind: type
    after: type | None = None
    """Of `super()`: the class after which a method is looked for."""


_PLAIN_KINDS: Final = {kind.__name__: kind for kind in (str, bytes, dict, list, set, tuple)}
"""Types of parameters whose methods are known."""
_DISPLAYS: Final[Mapping[type, _Made]] = {
    ast.Dict: _Made(dict),
    ast.List: _Made(list),
    ast.Set: _Made(set),
}


def _scope_of_frame(frame: FrameType) -> _Scope:
    values = ChainMap(dict(frame.f_locals), frame.f_globals, builtins.__dict__)
    return _Scope(values, str(frame.f_globals.get("__name__", "")).partition(".")[0], {})


def _scope_inside(function: FunctionType, node: _Function, owner: Any, scope: _Scope) -> _Scope:
    """Return what is known in a function that does not run: what it is a method of, and what is
    made in it.
    """
    code = function.__code__
    local: dict[str, Any] = dict.fromkeys((*code.co_varnames, *code.co_cellvars), _UNKNOWN)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # what has no value yet
            local[name] = cell.cell_contents
    for name, annotation in function.__annotations__.items():
        kind = _PLAIN_KINDS.get(str(getattr(annotation, "__name__", annotation)).partition("[")[0])
        if kind is not None:
            local[name] = _Made(kind)
    if code.co_varnames[:1] in {("self",), ("cls",)}:
        local[code.co_varnames[0]] = owner
    inside = scope._replace(
        values=ChainMap(local, function.__globals__, builtins.__dict__),
        inside=scope.inside | {code},
    )
    parts = list(ast.walk(node))
    targets = [part.id for part in parts if isinstance(part, ast.Name) and _is_target(part)]
    for part in parts:
        if isinstance(part, ast.Import):
            local.update(_imported_by(part))
        elif isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
            for target in ast.iter_child_nodes(part):
                if isinstance(target, ast.Name) and targets.count(target.id) == 1:
                    local[target.id] = _value_of(part.value, inside)
    return inside


def _imported_by(statement: ast.Import) -> Iterator[tuple[str, Any]]:
    for alias in statement.names:
        package = alias.name.partition(".")[0]
        module = alias.name if alias.asname else package
        yield alias.asname or package, sys.modules.get(module, _UNKNOWN)


def _is_target(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _value_of(node: ast.expr, scope: _Scope) -> Any:
    """Return what an expression stands for; `_UNKNOWN` where only running code would tell."""
    match node:
        case ast.Name():
            return scope.values.get(node.id, _UNKNOWN)
        case ast.Attribute():
            return _attribute_of(_value_of(node.value, scope), node.attr)
        case ast.Call(func=ast.Name(id="super")):
            return _super_of(node, scope)
        case ast.Call():
            called = _value_of(node.func, scope)
            if inspect.isclass(called):
                return _Made(called)
            package = _package_of(called).removeprefix("_")
            is_plain = called is _PLAIN or package in _GIVING_PLAIN_VALUES
            return _PLAIN if is_plain else _UNKNOWN
        case ast.Subscript(slice=ast.Constant(value=key)):
            held = _value_of(node.value, scope)
            is_known = type(held) in (dict, list, tuple)
            try:
                return held[key] if is_known else _UNKNOWN
            except (LookupError, TypeError):
                return _UNKNOWN
        case _:
            return _DISPLAYS.get(type(node), _UNKNOWN)


def _super_of(call: ast.Call, scope: _Scope) -> Any:
    """Return what `super()` is an object of; `_UNKNOWN` outside of methods."""
    after: Any = _value_of(call.args[0], scope) if call.args else scope.values.get("__class__")
    owner = scope.values.get("self", scope.values.get("cls"))
    kind = owner if inspect.isclass(owner) else _kind_of(owner)
    return _Made(kind, after) if after in kind.__mro__ else _UNKNOWN


def _kind_of(value: Any) -> type[object]:
    return value.kind if isinstance(value, _Made) else type(value)


def _attribute_of(held: Any, name: str) -> Any:
    """Return an attribute without running code: of what is computed, what computes it."""
    if held is _PLAIN:
        return _PLAIN
    kind = _kind_of(held)
    value: Any = inspect.getattr_static(kind, name, _UNKNOWN)
    if isinstance(held, _Made) and held.after is not None:
        bases = kind.__mro__[kind.__mro__.index(held.after) + 1 :]
        value = next((vars(base)[name] for base in bases if name in vars(base)), _UNKNOWN)
    # A `cached_property` puts its value in its own place.
    if isinstance(value, property | cached_property):
        getter: Any = value.fget if isinstance(value, property) else value.func
        code = getattr(getter, "__code__", None)
        return _UNKNOWN if code is None or is_library_code(code.co_filename) else getter
    if not isinstance(held, _Made):
        value = inspect.getattr_static(held, name, _UNKNOWN)
    is_wrapped = isinstance(value, staticmethod | classmethod)
    return cast("Any", value).__func__ if is_wrapped else value


def _name_of(node: ast.expr) -> str:
    """Return the last name of what is called or named; of a request by a method that is written
    out, as in `client.request("GET", …)`, that method.
    """
    match node:
        case ast.Call(
            func=ast.Attribute(attr="request"), args=[ast.Constant(value=str(method)), *_]
        ):
            return method.lower()
        case ast.Call():
            return _name_of(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case _:
            return ""


def _is_own(called: Any, scope: _Scope) -> TypeGuard[FunctionType]:
    """Whether a function is the tool's own code, or of the package that the tool is of."""
    if not isinstance(called, FunctionType):
        return False
    package = str(called.__globals__.get("__name__", "")).partition(".")[0]
    return package == scope.package or not is_library_code(called.__code__.co_filename)


def _is_writer(called: Any) -> bool:
    return not _WRITERS.isdisjoint({_package_of(called).removeprefix("_"), _module_of(called)})


def _is_harmless(package: str) -> bool:
    return package in sys.stdlib_module_names or package in _HARMLESS_PACKAGES


def _package_of(called: Any) -> str:
    return _module_of(called).partition(".")[0]


def _module_of(called: Any) -> str:
    """Return the module of a function; of one that C defines perhaps that of its class."""
    owner = getattr(called, "__objclass__", _kind_of(getattr(called, "__self__", None)))
    module = getattr(called, "__module__", None) or getattr(owner, "__module__", None)
    return module if isinstance(module, str) else ""
