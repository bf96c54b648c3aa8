"""Whether a tool had sent another request before the one that was refused.

"Connection refused" and HTTP 4xx are said of one request. A tool that pays and then sends a receipt
has paid, though the receipt was refused. Its source tells: whether what ran before the refused
request may have written. What cannot be known may have.

What is called is looked up in the frame that called it. Reads (`get`), builtins, most of the
standard library, logging, and what opens a connection or a client write nothing; a function or a
class of the tool's own writes where something does that it calls. All else may write: requests by
their names, other methods of libraries, and what a function does that is handed over, as to `map`
or to a pool. Statements of other branches, and what stood in a `try` whose handler sends the next
request, were not run.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import inspect
import linecache
import sys
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import lru_cache, partial
from types import CodeType, FunctionType, TracebackType
from typing import Any, Final, NamedTuple, TypeAlias, cast

from wavewright.tools.functions.failed_code import is_library_code

_WRITING: Final = frozenset(
    {"delete", "patch", "post", "publish", "put", "request", "send", "send_message", "sendmail"}
)
_READING: Final = frozenset({"get", "head", "options"})
_OF_ANSWERS: Final = frozenset({"raise_for_status"})
"""Names of methods that send nothing, and raise what was answered."""
_OF_REQUESTS: Final = _WRITING | _READING | _OF_ANSWERS
_CHANGING: Final = frozenset(
    {
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "remove",
        "setdefault",
        "update",
    }
)
"""Names of methods that change a list in memory, or a table of a database."""
_OF_PLAIN_VALUES: Final = frozenset(
    name
    for kind in (str, bytes, dict, list, set, tuple, int, float, dt.datetime, dt.timedelta)
    for name in dir(kind)
)
_HARMLESS: Final = (
    (_OF_PLAIN_VALUES - _CHANGING)
    | _READING
    | _OF_ANSWERS
    # What is read of an answer, of a file and of a model.
    | {
        "build_request",
        "exists",
        "json",
        "model_dump",
        "model_dump_json",
        "model_validate",
        "read",
        "read_bytes",
        "read_text",
    }
    # Logging.
    | {"critical", "debug", "error", "exception", "info", "log", "warning"}
    # What opens a client, a connection or a channel.
    | {"__aenter__", "__enter__", "client", "connect", "cursor", "from_url", "insecure_channel"}
    | {"login", "resource", "secure_channel", "session", "starttls"}
)
"""Names of methods that write nothing, whatever they are of."""
_PARTS_OF_REQUESTS: Final = frozenset({"cookies", "headers", "params"})
_WRITERS: Final = frozenset(
    {"dbm", "ftplib", "http", "imaplib", "multiprocessing", "nntplib", "poplib", "shelve", "shutil"}
    | {"smtplib", "socket", "sqlite3", "subprocess", "telnetlib", "xmlrpc"}
)
"""Modules of the standard library whose functions may write elsewhere; also with an underscore before
the name, where C defines a part of one.
"""
_HARMLESS_PACKAGES: Final = frozenset(
    {"anyio", "numpy", "pydantic", "stamina", "structlog", "tenacity", "wavewright"}
)
_WRITERS_BY_NAME: Final = frozenset(
    {
        "create_subprocess_exec",
        "create_subprocess_shell",
        "popen",
        "system",
        "urlopen",
        "urlretrieve",
    }
)
_RUNNING_ONCE: Final = frozenset(
    {"partial", "run_in_executor", "run_sync", "submit", "to_thread", "wait_for"}
)
"""What calls a function that it is given once; others may call it for each entry of a list."""
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Position: TypeAlias = tuple[int, int]
"""A line, and a column in bytes."""


class _Use(NamedTuple):
    """Something that is called, or that is named and may be called elsewhere."""

    path: tuple[str, ...]
    """As `("client", "post")`; of what is no name the first part is empty."""
    is_called: bool

    @property
    def name(self) -> str:
        """The name of the function or method, without what stands before it."""
        return self.path[-1]


class _RefusedCall(NamedTuple):
    """Where an exception came through a function, and what the function had called before."""

    inside: tuple[_Use, ...]
    """What was called, and after it what it was called with."""
    handed_over: tuple[_Use, ...]
    """What it may have called, and perhaps not only once."""
    before: tuple[_Use, ...]
    """What may have been called before, in that order."""
    is_repeated: bool
    """Whether it stands in a loop, or a comprehension, that ends with the first failure."""


class _Scope(NamedTuple):
    """What names stand for in a function."""

    names: ChainMap[str, Any]
    package: str
    """Whose modules are the tool's own."""
    seen: set[tuple[CodeType, int]]
    """Functions, and what they are methods of, that were looked into."""


def had_sent_before(frames: Sequence[TracebackType]) -> bool:
    """Whether the request that was refused may not have been the first that writes.

    Args:
        frames: The frames of the tool's own code that the exception came through, the innermost
            last.
    """
    # Only what was called before the refused request counts, so that is looked for first.
    is_reached = False
    refused: Collection[str] = _OF_REQUESTS
    # What is raised again later, as `raise last` after a loop, was refused where it came from.
    innermost = {traceback.tb_frame: traceback for traceback in frames}
    for traceback in reversed(innermost.values()):
        frame = traceback.tb_frame
        call = _failed_call(frame.f_code, traceback.tb_lasti)
        if call is None:
            return True
        scope = _scope_of(frame.f_locals, frame.f_globals, set())
        inside = [*call.inside]
        # Of `wait_for(client.post(url), 9)` the inner one was refused.
        places = (
            i for i, use in enumerate(inside) if use.name in refused or _may_write(use, scope)
        )
        place = next(places, 0)
        refused = {frame.f_code.co_name}
        failed = inside.pop(place).name if inside else ""
        before = [*call.before, *reversed(inside)]
        if not is_reached:
            is_reached = traceback is frames[-1] and failed not in _OF_ANSWERS
            # What was answered was sent here, or in a function that has called this one.
            while before and not is_reached:
                sent = before.pop()
                is_reached = sent.name in _READING or _may_write(sent, scope)
        if not is_reached:
            continue
        as_refused = {failed} - _HARMLESS
        if call.is_repeated or any(_may_write(use, scope) for use in call.handed_over):
            return True
        if any(use.name in as_refused or _may_write(use, scope) for use in before):
            return True
    return False


# -- whether a call may write


def _scope_of(
    local: Mapping[str, Any], module: Mapping[str, Any], seen: set[tuple[CodeType, int]]
) -> _Scope:
    names = ChainMap({}, dict(local), dict(module), dict(vars(builtins)))
    return _Scope(names, str(module.get("__name__", "")).partition(".")[0], seen)


_UNKNOWN: Final = object()
"""What nobody knows without running code of the tool."""


def _may_write(use: _Use, scope: _Scope) -> bool:
    """Whether what is called may send a request that writes, as far as that can be known."""
    called = _held_by(use.path, scope)
    if not use.is_called and (isinstance(called, type) or not callable(called)):
        # What is only named is data, but for functions and for what is called like a request.
        return called is _UNKNOWN and use.name in _WRITING
    if use.name in _WRITING and not _is_own(called, scope):
        return True
    if use.name in _HARMLESS or _PARTS_OF_REQUESTS.intersection(use.path):
        return False
    return called is _UNKNOWN or _function_may_write(called, use, scope)


def _function_may_write(called: Any, use: _Use, scope: _Scope) -> bool:
    if inspect.isclass(called):
        methods = (_attribute_of(called, name) for name in _BEGINNING)
        return any(
            _calls_writer(method, called, scope)
            for method in methods
            if _is_own(method, scope) and not _is_generated(method, called)
        )
    if isinstance(called, partial):
        called = called.func
    if not inspect.isroutine(called):
        # An object that is called as a function is.
        called = _attribute_of(type(cast("object", called)), "__call__")
    function = inspect.unwrap(called)
    if isinstance(function, FunctionType) and _is_own(function, scope):
        return _calls_writer(function, _held_by(use.path[:-1], scope), scope)
    module = _module_of(function).partition(".")[0]
    if module in sys.stdlib_module_names:
        return module.removeprefix("_") in _WRITERS or use.name in _WRITERS_BY_NAME
    return module not in _HARMLESS_PACKAGES


_BEGINNING: Final = ("__init__", "__post_init__", "__enter__", "__aenter__")
"""Methods that run as an object is made, and as a `with` block of it begins."""


def _is_generated(method: FunctionType, owner: Any) -> bool:
    """Whether a dataclass has generated a method, which has no source and writes nothing itself."""
    return is_dataclass(owner) and method.__code__.co_filename == "<string>"


def _module_of(function: Any) -> str:
    """Return the module of a function or a method; of one that C defines perhaps its class's."""
    owner = getattr(function, "__objclass__", None)
    module = getattr(function, "__module__", None) or getattr(owner, "__module__", None)
    return module if isinstance(module, str) else ""


def _is_own(called: Any, scope: _Scope) -> bool:
    """Whether a function is the tool's own code, or of the package that the tool is of."""
    if not isinstance(called, FunctionType):
        return False
    package = str(called.__module__).partition(".")[0]
    return package == scope.package or not is_library_code(called.__code__.co_filename)


def _held_by(path: Sequence[str], scope: _Scope) -> Any:
    """Return what a path of names stands for; `_UNKNOWN` where only running code would tell."""
    held: Any = scope.names.get(path[0], _UNKNOWN) if path else None
    for name in path[1:]:
        if held is _UNKNOWN:
            break
        held = _attribute_of(held, name)
    return held


def _attribute_of(held: Any, name: str) -> Any:
    value: Any = inspect.getattr_static(held, name, _UNKNOWN)
    is_slot = inspect.isgetsetdescriptor(value) or inspect.ismemberdescriptor(value)
    if is_slot or isinstance(value, property):
        return _UNKNOWN
    is_wrapped = isinstance(value, staticmethod | classmethod)
    return cast("Any", value).__func__ if is_wrapped else cast("Any", value)


def _calls_writer(function: FunctionType, owner: Any, scope: _Scope) -> bool:
    """Whether a function of the tool may write; its source tells, without running it."""
    node = _node_of(function.__code__)
    if node is None:
        return True
    looked_into = function.__code__, id(owner)
    if looked_into in scope.seen:
        return False
    scope.seen.add(looked_into)
    closure = inspect.getclosurevars(function).nonlocals
    inner = _scope_of(closure, function.__globals__, scope.seen)
    inner.names.update(_known_locals(node, owner))
    return any(
        _may_write(use, inner)
        for statement in node.body
        for use in _uses_of(statement, is_passed=False)
    )


def _known_locals(node: _Function, owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is known of the variables of a function that does not run: what a method is of,
    and lists and objects that are written out.
    """
    parameters = [*node.args.posonlyargs, *node.args.args]
    stored = [
        name.id
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    ]
    for name in (*(parameter.arg for parameter in parameters), *stored):
        yield name, _UNKNOWN
    for statement in ast.walk(node):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname is None and "." not in alias.name:
                    yield alias.name, sys.modules.get(alias.name, _UNKNOWN)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement is not node:
            # What it calls is looked at where it is defined.
            yield statement.name, dict
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        kind = _DISPLAYS.get(type(statement.value))
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if kind is not None and isinstance(target, ast.Name):
                yield target.id, kind
    if owner is not None and parameters:
        yield parameters[0].arg, owner


_DISPLAYS: Final[Mapping[type, type]] = {
    ast.Dict: dict,
    ast.DictComp: dict,
    ast.List: list,
    ast.ListComp: list,
    ast.Set: set,
    ast.SetComp: set,
}


# -- what stands in the source


def _functions_of(file: str) -> Sequence[_Function]:
    """Return all functions of a file, inner ones before those around them; none without source."""
    return _functions_in("".join(linecache.getlines(file)))


@lru_cache(maxsize=64)
def _functions_in(source: str) -> Sequence[_Function]:
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    functions = [node for node in ast.walk(module) if isinstance(node, _Function)]
    return functions[::-1]


def _node_of(code: CodeType) -> _Function | None:
    """Return the source of a function; None where there is none."""
    for function in _functions_of(code.co_filename):
        first = min(node.lineno for node in (function, *function.decorator_list))
        if function.name == code.co_name and first == code.co_firstlineno:
            return function
    return None


@lru_cache(maxsize=128)
def _failed_call(code: CodeType, instruction: int) -> _RefusedCall | None:
    """Return where an instruction stands in its function; None where there is no source."""
    positions = [*code.co_positions()]
    line, end_line, column, end_column = positions[instruction // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    start, end = (line, column), (end_line, end_column)
    for function in _functions_of(code.co_filename):
        # A comprehension is part of the function that it stands in.
        if code.co_name in {function.name, *_COMPREHENSIONS} and _contains(function, start):
            return _failed_call_in(function.body, start, end)
    return None


def _failed_call_in(
    body: Sequence[ast.stmt], start: _Position, end: _Position
) -> _RefusedCall | None:
    before: list[_Use] = []
    is_repeated = False
    while True:
        at = next((i for i, statement in enumerate(body) if _contains(statement, start)), None)
        if at is None:
            return None
        before += [use for statement in body[:at] for use in _uses_of(statement)]
        statement = body[at]
        inner = next((part for part in _bodies(statement) if _holds(part, start)), None)
        if inner is None:
            break
        before += [use for part in _parts_before(statement, inner) for use in _uses_of(part)]
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            is_repeated = True
        elif isinstance(statement, ast.Try | ast.TryStar) and inner is statement.body:
            # The exception of one turn does not end the others.
            is_repeated = is_repeated and not statement.handlers
        body = inner
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    choices = [node for node in ast.walk(statement) if isinstance(node, ast.IfExp)]
    before += [_use_of(call) for call in calls if _is_made_before(call, start, choices)]
    inside = [call for call in calls if start <= _start_of(call) and _end_of(call) <= end]
    entries = [entry for node in ast.walk(statement) for entry in _entries_made_by(node)]
    is_repeated = is_repeated or any(_contains(entry, start) for entry in entries)
    handed_over = [use for call in inside for use in _handed_over_by(call)]
    return _RefusedCall(tuple(map(_use_of, inside)), tuple(handed_over), tuple(before), is_repeated)


def _handed_over_by(call: ast.Call) -> Iterator[_Use]:
    """Yield what a call is given that it may call more than once."""
    named = [use for argument in call.args for use in _uses_of(argument) if not use.is_called]
    return iter(named[1:] if _use_of(call).name in _RUNNING_ONCE else named)


def _entries_made_by(node: ast.AST) -> tuple[ast.expr, ...]:
    """Return what a comprehension computes in each turn; nothing for any other node."""
    match node:
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return (node.elt,)
        case ast.DictComp():
            return (node.key, node.value)
        case _:
            return ()


def _is_made_before(call: ast.Call, start: _Position, choices: Sequence[ast.IfExp]) -> bool:
    """Whether a call of a statement is made before the one that begins at a position."""
    for choice in choices:
        # `a if c else b` asks for `c` first, and then makes one of the others alone.
        if _contains(choice.body, start) and _contains(choice.test, _start_of(call)):
            return True
        if _contains(choice.orelse, start) and _contains(choice.body, _start_of(call)):
            return False
    return _end_of(call) <= start


def _parts_before(statement: ast.stmt, block: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what runs of a statement before one of its blocks: what it asks, runs over or opens, and
    the body of a `try` before its `else` and its `finally`.
    """
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.expr | ast.withitem):
            yield part
    if isinstance(statement, ast.Try | ast.TryStar) and block in (
        statement.orelse,
        statement.finalbody,
    ):
        yield from statement.body


def _bodies(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """Yield the blocks of a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body
    for case in getattr(statement, "cases", []):
        yield case.body


def _holds(body: Sequence[ast.stmt], position: _Position) -> bool:
    return any(_contains(statement, position) for statement in body)


def _uses_of(node: ast.AST, *, is_passed: bool = True) -> Iterator[_Use]:
    """Yield what is called, or named, in the order in which it is.

    Args:
        node: A statement or an expression.
        is_passed: Whether a statement after it is reached, and inner functions are looked at only
            where they are called.
    """
    if is_passed and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    parts: Sequence[ast.AST] = [*ast.iter_child_nodes(node)]
    if is_passed and isinstance(node, ast.If) and isinstance(node.body[-1], _LEAVING):
        # Who has come to the statement after it was not in its body.
        parts = [node.test, *node.orelse]
    elif isinstance(node, ast.Call):
        # What stands before the name of the function, and what the function is given.
        before = [] if _path_of(node.func)[0] else [*ast.iter_child_nodes(node.func)]
        parts = [*before, *node.args, *node.keywords]
    elif isinstance(node, ast.Attribute) and _path_of(node)[0]:
        parts = []
    # What a `partial` is of is called where that is.
    is_kept = isinstance(node, ast.Assign) and _path_of(_function_of(node.value))[-1] == "partial"
    for part in parts:
        yield from (
            use for use in _uses_of(part, is_passed=is_passed) if use.is_called or not is_kept
        )
    if isinstance(node, ast.Call):
        yield _use_of(node)
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield _Use(_path_of(node), is_called=False)


def _use_of(call: ast.Call) -> _Use:
    """Return what a call calls; of a request by a method that is written out, as in
    `client.request("GET", …)`, that method.
    """
    path = _path_of(call.func)
    first = call.args[0] if call.args else None
    if path[-1] == "request" and isinstance(first, ast.Constant) and isinstance(first.value, str):
        path = (*path[:-1], first.value.lower())
    return _Use(path, is_called=True)


def _function_of(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _path_of(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name():
            return (node.id,)
        case ast.Attribute():
            return (*_path_of(node.value), node.attr)
        case _:
            return ("",)


def _contains(node: ast.stmt | ast.expr, position: _Position) -> bool:
    return _start_of(node) <= position < _end_of(node)


def _start_of(node: ast.stmt | ast.expr) -> _Position:
    return node.lineno, node.col_offset


def _end_of(node: ast.stmt | ast.expr) -> _Position:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
