"""Whether a tool had sent another request before the one that was refused.

"Connection refused" and HTTP 4xx are said of one request. A tool that pays and then sends a receipt
has paid, though the receipt was refused. Its source tells: whether the statements that ran before
the refused request hold another one that writes.

A request is known by its name: `post`, `send` and their like, a function of the tool that calls one
of these, and whatever is called as the refused one was. Reads, statements of other branches, and
what stood in a `try` whose handler sends the next one are none.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from types import CodeType, FunctionType, TracebackType
from typing import Final, NamedTuple, TypeAlias

_WRITING: Final = frozenset(
    {"delete", "patch", "post", "publish", "put", "request", "send", "send_message", "sendmail"}
)
_READING: Final = frozenset({"get", "head", "options"})
_OF_ANSWERS: Final = frozenset({"raise_for_status"})
"""Names of methods that send nothing, and raise what was answered."""
_OF_REQUESTS: Final = _WRITING | _READING | _OF_ANSWERS
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Position: TypeAlias = tuple[int, int]
"""A line, and a column in bytes."""


class _RefusedCall(NamedTuple):
    """Where an exception came through a function, and what the function had called before."""

    inside: tuple[str, ...]
    """The names of what was called, and after it of what it was called with."""
    before: tuple[str, ...]
    """The names of what it may have called before, in that order."""
    is_repeated: bool
    """Whether it stands in a loop, or a comprehension, that ends with the first failure."""


def had_sent_before(frames: Sequence[TracebackType]) -> bool:
    """Whether the request that was refused may not have been the first that writes.

    Args:
        frames: The frames of the tool's own code that the exception came through, the innermost
            last.
    """
    is_found = False
    refused: Collection[str] = _OF_REQUESTS
    # What is raised again later, as `raise last` after a loop, was refused where it came from.
    innermost = {traceback.tb_frame: traceback for traceback in frames}
    for traceback in reversed(innermost.values()):
        names = traceback.tb_frame.f_globals
        call = _failed_call(traceback.tb_frame.f_code, traceback.tb_lasti)
        if call is None:
            return False
        inside = [*call.inside]
        # Of `wait_for(client.post(url), 9)` the inner one was refused.
        place = next((i for i, name in enumerate(inside) if name in refused), 0)
        refused = {traceback.tb_frame.f_code.co_name}
        failed = inside.pop(place) if inside else ""
        before = [*call.before, *reversed(inside)]
        if not is_found:
            is_found = traceback is frames[-1] and failed not in _OF_ANSWERS
            # What was answered was sent here, or in a function that has called this one.
            while before and not is_found:
                is_found = _is_request(before.pop(), names)
        if not is_found:
            continue
        as_refused = {failed} - _READING - _OF_ANSWERS
        if call.is_repeated or any(name in as_refused or _is_write(name, names) for name in before):
            return True
    return False


def _is_request(name: str, names: dict[str, object]) -> bool:
    return name in _READING or _is_write(name, names)


def _is_write(name: str, names: dict[str, object]) -> bool:
    """Whether a function of this name sends a request that writes, or calls one that does."""
    function = names.get(name)
    if isinstance(function, FunctionType):
        return not _WRITING.isdisjoint(function.__code__.co_names)
    return name in _WRITING


# -- what stands in the source


@lru_cache(maxsize=128)
def _failed_call(code: CodeType, instruction: int) -> _RefusedCall | None:
    """Return where an instruction stands in its function; None where there is no source."""
    positions = [*code.co_positions()]
    line, end_line, column, end_column = positions[instruction // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    try:
        module = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return None
    start, end = (line, column), (end_line, end_column)
    for function in _functions(module):
        # A comprehension is part of the function that it stands in.
        if code.co_name in {function.name, *_COMPREHENSIONS} and _contains(function, start):
            return _failed_call_in(function.body, start, end)
    return None


def _functions(module: ast.Module) -> list[_Function]:
    """Return all functions, inner ones before those around them."""
    functions = [node for node in ast.walk(module) if isinstance(node, _Function)]
    return functions[::-1]


def _failed_call_in(
    body: Sequence[ast.stmt], start: _Position, end: _Position
) -> _RefusedCall | None:
    before: list[str] = []
    is_repeated = False
    while True:
        at = next((i for i, statement in enumerate(body) if _contains(statement, start)), None)
        if at is None:
            return None
        before += [name for statement in body[:at] for name in _names_of_calls(statement)]
        statement = body[at]
        inner = next((part for part in _bodies(statement) if _holds(part, start)), None)
        if inner is None:
            break
        before += [
            name for part in _parts_before(statement, inner) for name in _names_of_calls(part)
        ]
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            is_repeated = True
        elif isinstance(statement, ast.Try) and inner is statement.body:
            # The exception of one turn does not end the others.
            is_repeated = is_repeated and not statement.handlers
        body = inner
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    choices = [node for node in ast.walk(statement) if isinstance(node, ast.IfExp)]
    before += [_name_of(call) for call in calls if _is_made_before(call, start, choices)]
    inside = [call for call in calls if start <= _start_of(call) and _end_of(call) <= end]
    entries = [entry for node in ast.walk(statement) for entry in _entries_made_by(node)]
    is_repeated = is_repeated or any(_contains(entry, start) for entry in entries)
    return _RefusedCall(tuple(map(_name_of, inside)), tuple(before), is_repeated)


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
    if isinstance(statement, ast.Try) and block in (statement.orelse, statement.finalbody):
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


def _names_of_calls(node: ast.AST) -> Iterator[str]:
    """Yield what a statement may have called before the one after it is reached."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return
    if isinstance(node, ast.If) and isinstance(node.body[-1], _LEAVING):
        # Who has come to the statement after it was not in its body.
        parts: Sequence[ast.AST] = [node.test, *node.orelse]
    else:
        parts = [*ast.iter_child_nodes(node)]
    for part in parts:
        yield from _names_of_calls(part)
    if isinstance(node, ast.Call):
        yield _name_of(node)


def _name_of(call: ast.Call) -> str:
    """Return the name of a function or a method without what stands before it; of a request by a
    method that is written out, as in `client.request("GET", …)`, that method.
    """
    name = str(getattr(call.func, "attr", getattr(call.func, "id", "")))
    first = call.args[0] if call.args else None
    if name == "request" and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value.lower()
    return name


def _contains(node: ast.stmt | ast.expr, position: _Position) -> bool:
    return _start_of(node) <= position < _end_of(node)


def _start_of(node: ast.stmt | ast.expr) -> _Position:
    return node.lineno, node.col_offset


def _end_of(node: ast.stmt | ast.expr) -> _Position:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
