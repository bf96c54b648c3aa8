"""Put the CEL library's messages into our words.

The library answers with the names of its own operators, types and variables; an author knows none of them. Each of
its messages that an expression can bring about has a plain one here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from wavewright.planner.cel_faults import ExpressionFault

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


def runtime_fault(message: str, faults: Mapping[str, ExpressionFault]) -> ExpressionFault:
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


def compile_fault(message: str) -> ExpressionFault:
    """Return the library's refusal to compile in our words."""
    if "recursion" in message:
        return ExpressionFault(
            "expression_too_large", "the expression is nested too deep", 0, "split it over steps"
        )
    first = message.split("\n", 1)[0].split(": ", 3)[-1]
    return ExpressionFault("bad_expression", f"the expression cannot be read: {first}", 0)
