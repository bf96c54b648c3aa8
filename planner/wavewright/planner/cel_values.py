"""Evaluate an expression over plain values.

An *evaluator* is an expression prepared once and called often: a plain path is a walk through dictionaries,
anything else a program of the CEL library over the few values that it reads. Values go in as JSON and come out as
JSON; a fault comes out as an `ExpressionFault` and as nothing else.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias, cast

from wavewright.planner import cel_library
from wavewright.planner.cel_faults import ExpressionFault
from wavewright.planner.cel_functions import Refused, check_weight
from wavewright.planner.cel_macros import Evaluation, charge, lift_macros, turns_of, with_macros
from wavewright.planner.cel_messages import compile_fault, runtime_fault
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

_LARGEST_RESULT = 2**21
"""Parts of one result."""
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
            cost += turns_of(value)
            clocked = clocked or isinstance(value, _CLOCKED)
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
    raise runtime_fault(message, faults)


def _clock_text(value: object) -> object:
    if isinstance(value, dt.datetime):
        return _instant_text(value)
    return _seconds_text(value) if isinstance(value, dt.timedelta) else value


@lru_cache(maxsize=8192)
def _compile(text: str) -> cel_library.Program:
    try:
        return cel_library.dynamic_environment().compile(text, disable_check=True)
    except RuntimeError as failure:
        raise compile_fault(str(failure)) from None


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
