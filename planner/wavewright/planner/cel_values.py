"""Evaluate an expression over plain values.

An *evaluator* is an expression prepared once and called often: a plain path is a walk through dictionaries,
anything else a program of the CEL library over the few values that it reads. Values go in as JSON and come out as
JSON; a fault comes out as an `ExpressionFault` and as nothing else.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias, cast

from wavewright.planner import cel_library
from wavewright.planner.cel_faults import ExpressionFault
from wavewright.planner.cel_functions import Refused, check_weight
from wavewright.planner.cel_macros import Evaluation, charge, lift_macros, with_macros
from wavewright.planner.cel_paths import Path, Variables, compile_path, kind_of, plain_path
from wavewright.planner.cel_text import NOW, DynamicText, write_dynamic
from wavewright.planner.cel_tree import (
    TYPE_NAMES,
    ListOf,
    LiteralValue,
    MapOf,
    Node,
    Ternary,
    read_tree,
    without_parens,
)
from wavewright.planner.types import Json

Evaluator: TypeAlias = Callable[[Variables, dt.datetime], Json]
"""Gives the value of one expression for variables by root and the run's instant."""

_COPIED_A_TURN = 16
"""Elements of a value that cost as much, when the library copies them, as a turn of a loop."""
_LARGEST_RESULT = 2**24
"""Characters and values in one result."""
_CLOCKED = (dt.datetime, dt.timedelta)


@lru_cache(maxsize=8192)
def compile_dynamic(expression: str) -> Evaluator:
    """Return an evaluator of an expression.

    Raises:
        ExpressionFault: it is no expression, is too large, or calls what does not exist.
    """
    tree = read_tree(expression)
    path = plain_path(tree, {})
    if path is not None and not _is_type(path):
        walk = compile_path(path)
        return lambda variables, _now: walk(variables)
    evaluation = _prepare(tree, expression)

    def evaluate(variables: Variables, now: dt.datetime) -> Json:
        try:
            value = evaluation(variables, now)
            check_weight(value, _LARGEST_RESULT)
            return _to_json(value)
        except Refused as refused:
            raise ExpressionFault("evaluation_failed", str(refused)) from None
        except MemoryError:
            raise ExpressionFault("evaluation_failed", "the result is too large") from None

    return evaluate


def _is_type(path: Path) -> bool:
    return path.root in TYPE_NAMES and not path.keys


def _prepare(tree: Node, text: str) -> Evaluation:
    """Return what evaluates a tree: its macros run beside the rest."""
    lifted = lift_macros(tree, text)
    return with_macros(_without_macros(lifted.tree), lifted, text, _prepare)


def _without_macros(tree: Node) -> Evaluation:
    """Return what evaluates a tree without macros.

    Lists, objects and choices are put together here, so that what only passes through them is not copied into the
    library and back; the library evaluates what is below them.
    """
    tree = without_parens(tree)
    path = plain_path(tree, {})
    if path is not None and not _is_type(path):
        return _walk(path)
    match tree:
        case LiteralValue(kind="string" | "int" | "bool" | "null"):
            constant = _constant(tree)
            return lambda _variables, _now: constant
        case ListOf():
            items = [_without_macros(item) for item in tree.items]
            return lambda variables, now: [item(variables, now) for item in items]
        case MapOf():
            return _object(tree)
        case Ternary():
            return _choice(tree)
        case _:
            return _program(write_dynamic(tree))


def _constant(literal: LiteralValue) -> Json:
    match literal.kind:
        case "string":
            return literal.string
        case "int":
            return int(literal.text, 0 if "x" in literal.text else 10)
        case "bool":
            return literal.text == "true"
        case _:
            return None


def _object(tree: MapOf) -> Evaluation:
    entries = [(_without_macros(key), _without_macros(value)) for key, value in tree.entries]

    def evaluate(variables: Variables, now: dt.datetime) -> Json:
        made: dict[str, Json] = {}
        for key, value in entries:
            name = key(variables, now)
            if not isinstance(name, str | int):
                raise ExpressionFault("evaluation_failed", f"{kind_of(name)} cannot be a key", tree.start)
            text = name if isinstance(name, str) else str(name).lower()
            if text in made:
                raise ExpressionFault("evaluation_failed", f"the key '{text}' is given twice", tree.start)
            made[text] = value(variables, now)
        return made

    return evaluate


def _choice(tree: Ternary) -> Evaluation:
    condition, yes, no = map(_without_macros, (tree.condition, tree.yes, tree.no))

    def evaluate(variables: Variables, now: dt.datetime) -> Json:
        chosen = condition(variables, now)
        if not isinstance(chosen, bool):
            raise ExpressionFault(
                "no_overload",
                f"'?' follows a condition, and was given {kind_of(chosen)}",
                tree.condition.start,
            )
        return yes(variables, now) if chosen else no(variables, now)

    return evaluate


def _walk(path: Path) -> Evaluation:
    walk = compile_path(path)
    return lambda variables, _now: walk(variables)


def _program(dynamic: DynamicText) -> Evaluation:
    text = dynamic.text()
    if len(dynamic.bindings) == 1 and text == dynamic.bindings[0][0]:
        read_only = dynamic.bindings[0][1]
        return lambda variables, _now: read_only(variables)
    program = _compile(text)
    bindings, reads_now = dynamic.bindings, dynamic.reads_now

    def evaluate(variables: Variables, now: dt.datetime) -> Json:
        bound: dict[str, object] = {}
        faults: dict[str, ExpressionFault] = {}
        cost, clocked = 0, False
        for name, read in bindings:
            try:
                value: object = read(variables)
            except ExpressionFault as fault:
                if fault.kind == "expression_too_large":
                    raise
                # It counts only if the library comes to ask for it: `has(x.y) && x.y > 1` never does.
                faults[name] = fault
                continue
            bound[name] = value
            if isinstance(value, list | dict | str):
                cost += len(cast("str", value)) // _COPIED_A_TURN
            elif isinstance(value, _CLOCKED):
                clocked = True
        if cost:
            charge(variables, cost)
        chosen = program
        if clocked:
            chosen = _compile(dynamic.text(bound))
            bound = {name: _clock_text(value) for name, value in bound.items()}
        if reads_now:
            bound[NOW] = _instant_text(now)
        return _run(chosen, bound, faults)

    return evaluate


def _run(
    program: cel_library.Program, bound: dict[str, object], faults: Mapping[str, ExpressionFault]
) -> Json:
    try:
        value = program.eval(data=bound)
        if value.type() != cel_library.library().Type.ERROR:
            return cast("Json", value.plain_value())
        message = str(value.plain_value())
        if "out of range for" in message:
            again = program.eval(data={name: _without_giants(item) for name, item in bound.items()})
            if again.type() != cel_library.library().Type.ERROR:
                return cast("Json", again.plain_value())
            message = str(again.plain_value())
    except RuntimeError as failure:
        message = str(failure)
    except (ValueError, TypeError):
        # The library's binding answers so to text that is no Unicode, such as half a surrogate pair.
        raise ExpressionFault("evaluation_failed", "a value holds text that is no Unicode") from None
    raise _fault(message, faults)


def _clock_text(value: object) -> object:
    if isinstance(value, dt.datetime):
        return _instant_text(value)
    return _seconds_text(value) if isinstance(value, dt.timedelta) else value


@lru_cache(maxsize=8192)
def _compile(text: str) -> cel_library.Program:
    try:
        return cel_library.dynamic_environment().compile(text, disable_check=True)
    except RuntimeError as failure:
        raise _compile_fault(str(failure)) from None


def _compile_fault(message: str) -> ExpressionFault:
    if "recursion" in message:
        return ExpressionFault(
            "expression_too_large", "the expression is nested too deep", 0, "split it over steps"
        )
    first = message.split("\n", 1)[0].split(": ", 3)[-1]
    return ExpressionFault("bad_expression", f"the expression cannot be read: {first}", 0)


def _instant_text(now: dt.datetime) -> str:
    instant = now if now.tzinfo is not None else now.replace(tzinfo=dt.UTC)
    return instant.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def _without_giants(value: object) -> object:
    """Return a value with integers beyond 64 bits as numbers, which is all that the library can hold."""
    if isinstance(value, dict):
        return {key: _without_giants(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_without_giants(item) for item in cast("list[object]", value)]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value) if abs(value) < 10**308 else math.inf
    return value


def _to_json(value: object) -> Json:
    """Return a result as JSON: objects with sorted keys, instants in ISO 8601, durations in seconds."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return value
            raise ExpressionFault(
                "evaluation_failed", "the result is no finite number", None, "guard against division by zero"
            )
        case list():
            return [_to_json(item) for item in cast("list[object]", value)]
        case dict():
            items = _text_keys(cast("dict[object, object]", value))
            return {key: _to_json(item) for key, item in sorted(items.items())}
        case dt.datetime():
            return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
        case dt.timedelta():
            return _seconds_text(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case _:
            return str(value).lower()


def _text_keys(value: dict[object, object]) -> dict[str, object]:
    return {key if isinstance(key, str) else str(_to_json(key)).lower(): item for key, item in value.items()}


def _seconds_text(value: dt.timedelta) -> str:
    whole, rest = divmod(value // dt.timedelta(microseconds=1), 1_000_000)
    if rest == 0:
        return f"{whole}s"
    if whole < 0:
        whole, rest = whole + 1, 1_000_000 - rest
        return f"{'-' if whole == 0 else ''}{whole}.{rest:06d}".rstrip("0") + "s"
    return f"{whole}.{rest:06d}".rstrip("0") + "s"


_OVERLOAD = re.compile(r"No matching overloads found : (.*?)(?: \[[A-Z_]+\])?$", re.DOTALL)
_MISSING_KEY = re.compile(r"Key not found in map : (.*?)(?: \[[A-Z_]+\])?$", re.DOTALL)
_UNBOUND = re.compile(r'No value with name "(\w+)" found')
_PLACE = re.compile(r"Index error: index=(-?\d+) size=(\d+)")
_CONTAINER = re.compile(r"Invalid container type: '(\w+)'")
_SIGNATURE = re.compile(r"(?:\((\w+)\)\.)?([^()]+)\((.*)\)", re.DOTALL)
_KINDS = {
    "int": "an integer", "uint": "an unsigned integer",
    "int64": "an integer", "uint64": "an unsigned integer", "double": "a number", "string": "a string",
    "bool": "true or false", "list": "a list", "map": "an object", "null_type": "null",
    "timestamp": "a timestamp", "duration": "a duration", "bytes": "bytes", "type": "a type",
}  # fmt: skip
_OUR_NAMES = {
    "ww_div": "/",
    "ww_time": "timestamp()",
    "ww_span": "duration()",
    "ww_upto": "lists.range()",
    "ww_replace": "replace()",
    "ww_join": "join()",
}


def _fault(message: str, faults: Mapping[str, ExpressionFault]) -> ExpressionFault:
    """Return the library's run-time message in our words."""
    if (unbound := _UNBOUND.search(message)) is not None and unbound[1] in faults:
        return faults[unbound[1]]
    if "basic_string" in message:
        return ExpressionFault("evaluation_failed", "a value holds text that is no Unicode")
    if (overload := _OVERLOAD.search(message)) is not None:
        return _overload_fault(overload[1])
    if (missing := _MISSING_KEY.search(message)) is not None:
        key = missing[1].strip('"')
        return ExpressionFault(
            "unknown_name_or_field", f"there is no field '{key}'", None, f"guard with has(….{key})"
        )
    if (place := _PLACE.search(message)) is not None:
        return ExpressionFault(
            "evaluation_failed", f"there is no element [{place[1]}] in a list of {place[2]}"
        )
    if "Non-CEL value type" in message:
        return ExpressionFault(
            "no_overload",
            "a list of timestamps or durations can only be gone over by map(), sort() and their like",
        )
    if "SELECT to non-message" in message:
        return ExpressionFault("no_overload", "a field is asked of a value that is no object")
    if (container := _CONTAINER.search(message)) is not None:
        kind = _KINDS.get(container[1], container[1])
        return ExpressionFault("no_overload", f"{kind} has no elements and no fields")
    if "expected integer type" in message:
        return ExpressionFault("no_overload", "a place in a list is a whole number")
    plain = re.sub(r"^[A-Z_]+: ", "", re.sub(r" \[[A-Z_]+\]$", "", message))
    return ExpressionFault("evaluation_failed", plain)


_SAID: dict[str, str] = {
    "<jump_condition>": "a condition is neither true nor false",
    "_&&_": "'&&' joins conditions, and one of its sides is neither true nor false",
    "_||_": "'||' joins conditions, and one of its sides is neither true nor false",
    "!_": "'!' turns a condition round, and was given none",
    "@in": "'in' asks a list for an element, or an object for a field, and was given neither",
}


def _overload_fault(signature: str) -> ExpressionFault:
    name, given, target = signature, None, None
    if (shape := _SIGNATURE.fullmatch(signature)) is not None:
        target, name, given = shape[1], shape[2], shape[3]
    if name in _SAID:
        return ExpressionFault("no_overload", _SAID[name])
    kinds = [_KINDS.get(kind.strip(), kind.strip()) for kind in (given or "").split(",") if kind.strip()]
    if name.startswith("_") or name in ("ww_div", "-_"):
        symbol = _OUR_NAMES.get(name, name.replace("_", ""))
        return ExpressionFault("no_overload", f"'{symbol}' does not take {' and '.join(kinds)}")
    called = _OUR_NAMES.get(name, f"{name}()")
    if given is None:
        return ExpressionFault("no_overload", f"{called} does not take what it was given")
    if target is not None:
        of = _KINDS.get(target, target)
        arguments = f" with {' and '.join(kinds)}" if kinds else ""
        return ExpressionFault("no_overload", f"{called} cannot be asked of {of}{arguments}")
    return ExpressionFault("no_overload", f"{called} does not take {' and '.join(kinds) or 'nothing'}")
