"""Why a document's value does not fit a model, in terms of the document.

Pydantic's findings are translated: nodes by their own names, values as they were written, fields
that exist. There is one fault per place, also where a field may have one of several types.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Union, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import is_typeddict

from wavewright.config.errors import did_you_mean, similar_names
from wavewright.config.sources import (
    DocumentFault,
    describe_value,
    join_alternatives,
    path_text,
    pointer_token,
    type_hint,
)
from wavewright.config.value_types import JsonPath

_TYPES = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "datetime_type": "a date or date-time",
    "path_type": "a path",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LENGTHS = {
    "string_too_short": ("at least", "min_length", "characters"),
    "string_too_long": ("at most", "max_length", "characters"),
    "too_short": ("at least", "min_length", "items"),
    "too_long": ("at most", "max_length", "items"),
}
_PATTERNS = {
    r"^[A-Za-z][A-Za-z0-9_]{0,62}(?:\.[A-Za-z0-9_]{1,63}){0,8}$": (
        "begin with a letter and hold letters, digits and underscores only (ASCII, 63 at most)"
    ),
    r"^[A-Za-z][A-Za-z0-9_]{0,62}$": (
        "begin with a letter and hold letters, digits and underscores only (ASCII, 63 at most)"
    ),
    r"^[A-Za-z][A-Za-z0-9_]{0,62}(?:\.[A-Za-z][A-Za-z0-9_]{0,62}|\[(?:\*|[0-9]{1,9})\]){0,16}$": (
        "begin with a letter and hold letters, digits and underscores only (ASCII, 63 at most), or be a path "
        "of such names, as in 'returns[*].volatility'"
    ),
    r"^[A-Za-z][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})?$": (
        "begin with a letter and hold letters, digits, '_', '-' and at most one dot (ASCII, 63 on each side)"
    ),
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$": (
        "name a template, such as 'workers/sort_letters' for prompts/workers/sort_letters.md.j2"
    ),
}
_MAX_DETAILS = 400
"""Findings of pydantic that are read; several may tell of one place."""
_MAX_LISTED_FIELDS = 8
"""Maximum fields of an object that a hint lists."""
_MAX_LABEL_LENGTH = 100
"""Maximum characters of a name by which a node is called; with a longer one it is called by its
path.
"""


@dataclass(frozen=True, slots=True)
class _Finding:
    """A fault, with what decides whether another one makes it redundant."""

    fault: DocumentFault
    path: JsonPath
    expected: str | None
    """The expected type, if the type is wrong."""
    of_union: bool
    """Whether the type is one of several that the field may have."""
    missing: JsonPath | None = None
    """The path of the missing field, if one is missing."""


def model_faults(
    error: ValidationError, value: JsonValue, model: type[BaseModel]
) -> list[DocumentFault]:
    """Return pydantic's findings in terms of the document."""
    name = "the " + re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__.lstrip("_")).lower()
    details = error.errors(include_url=False)[:_MAX_DETAILS]
    findings = [
        _finding(detail, value, model, name)
        for detail in details
        if not _counts_valid_items(detail)
    ]
    misspelt = set(_misspelled_fields(findings, model))
    return list(
        _merge_findings(
            [finding for finding in findings if finding.missing not in misspelt],
            value,
            model,
            name,
        )
    )


def _counts_valid_items(detail: ErrorDetails) -> bool:
    """Return whether a list is called too short only because items of it are at fault, which is
    said of them: pydantic counts the valid ones.
    """
    items, bounds = detail["input"], detail.get("ctx", {})
    is_short = detail["type"] == "too_short" and isinstance(items, Sized)
    return is_short and len(items) >= bounds.get("min_length", 0)


def _misspelled_fields(findings: Sequence[_Finding], model: type[BaseModel]) -> Iterator[JsonPath]:
    """Yield the paths of missing fields that an unknown field beside them explains: one of a similar
    name, or of a name that other systems give it.
    """
    missing: dict[JsonPath, list[str]] = {}
    for finding in findings:
        if finding.missing is not None:
            missing.setdefault(finding.missing[:-1], []).append(str(finding.missing[-1]))
    for finding in findings if missing else ():
        if finding.fault.kind == "unknown_field":
            owner, name = finding.path[:-1], str(finding.path[-1])
            for near in similar_names(name, missing.get(owner, [])):
                yield (*owner, near)
            if (meant := _name_here(model, owner, name)) is not None:
                yield (*owner, meant)


def _merge_findings(
    findings: Sequence[_Finding], value: JsonValue, model: type[BaseModel], name: str
) -> Iterator[DocumentFault]:
    """Yield one fault per place, without those that follow from another finding."""
    by_path: dict[JsonPath, list[_Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    inner = {path[:length] for path in by_path for length in range(len(path))}
    for path, group in by_path.items():
        others = [finding for finding in group if finding.expected is None or not finding.of_union]
        if others:
            yield from (finding.fault for finding in others)
        elif path not in inner:
            # Of several types that the field may have, the branch that was validated furthest is
            # reported.
            expected = dict.fromkeys(
                fault.expected for fault in group if fault.expected is not None
            )
            yield _wrong_type(path, value, model, name, [*expected])


def _finding(detail: ErrorDetails, value: JsonValue, model: type[BaseModel], name: str) -> _Finding:
    kind = detail["type"]
    path, node, of_union = _follow_location(detail["loc"], value, missing=kind == "missing")
    expected = _TYPES.get(kind)
    if expected is not None:
        fault = _wrong_type(path, value, model, name, [expected])
    elif kind == "missing":
        fault = _missing(path, value, name)
    elif kind == "extra_forbidden":
        fault = _unknown(path, value, model, name)
    elif kind in {"union_tag_invalid", "union_tag_not_found"}:
        fault, path = _bad_tag(detail, path, value, name)
    else:
        fault = _bad_value(detail, path, node, value, name)
    return _Finding(
        fault, path, expected, of_union, path if fault.kind == "missing_field" else None
    )


def _follow_location(
    location: JsonPath, value: JsonValue, *, missing: bool
) -> tuple[JsonPath, JsonValue, bool]:
    """Follow pydantic's location through the value; a part that is no key there names a branch of a
    union.
    """
    path: list[str | int] = []
    node: JsonValue = value
    of_union = False
    for depth, key in enumerate(location):
        if missing and depth == len(location) - 1:
            path.append(key)
        elif _has(node, key):
            node = _child(node, key)
            path.append(key)
        elif key == "[key]":  # the fault is in the name itself
            node = path[-1]
        else:
            of_union = True
    return tuple(path), node, of_union


# --- the kinds of faults
# ------------------------------------------------------------------------------------


def _wrong_type(
    path: JsonPath,
    value: JsonValue,
    model: type[BaseModel],
    name: str,
    expected: Sequence[str],
) -> DocumentFault:
    node = _node_at(value, path)
    message = f"{node_name(path, value, name)} should be {join_alternatives(expected)}, and is {describe_value(node)}"
    # In a whole document that is of another type there is more to mend than that.
    hint = type_hint(node, expected) if path else None
    fields = _fields_at(model, path) if hint is None and "an object" in expected else ()
    if 0 < len(fields) <= _MAX_LISTED_FIELDS:
        written = ", ".join(f"{field}: …" for field in sorted(fields))
        hint = f"write an object, of such fields: {{{written}}}"
    return DocumentFault("wrong_type", message, pointer=_pointer(path), hint=hint)


def _missing(path: JsonPath, value: JsonValue, name: str) -> DocumentFault:
    message = f"{node_name(path[:-1], value, name)} has no {str(path[-1])!r}, which is required"
    return DocumentFault(
        "missing_field", message, pointer=_pointer(path[:-1]), hint=f"add {str(path[-1])!r}"
    )


def _unknown(path: JsonPath, value: JsonValue, model: type[BaseModel], name: str) -> DocumentFault:
    known = sorted(_fields_at(model, path[:-1]))
    field = str(path[-1])
    message = f"{field!r} is no field of {node_name(path[:-1], value, name)}"
    meant = _name_here(model, path[:-1], field)
    hint = suggest_nearest(field, known) if meant is None else f"it is called {meant!r} here"
    for length in reversed(range(len(path) - 1)):
        # It is written too deep, as the gates of a plan are in one of its steps.
        if field in _fields_at(model, path[:length]):
            owner = node_name(path[:length], value, name)
            hint = f"it is a field of {owner}: write it there, beside {str(path[length])!r}"
            break
    return DocumentFault("unknown_field", message, pointer=_pointer(path), hint=hint)


def _bad_tag(
    detail: ErrorDetails, path: JsonPath, value: JsonValue, name: str
) -> tuple[DocumentFault, JsonPath]:
    context = detail.get("ctx", {})
    field = str(context.get("discriminator", "")).strip("'")
    if detail["type"] == "union_tag_not_found":
        return _missing((*path, field), value, name), (*path, field)
    expected = str(context.get("expected_tags", ""))
    message = f"{node_name((*path, field), value, name)} should be one of {expected}"
    hint = suggest_nearest(str(context.get("tag", "")), re.findall(r"'([^']*)'", expected))
    return DocumentFault("bad_value", message, pointer=_pointer((*path, field)), hint=hint), (
        *path,
        field,
    )


def _bad_value(
    detail: ErrorDetails, path: JsonPath, node: JsonValue, value: JsonValue, name: str
) -> DocumentFault:
    kind, context = detail["type"], detail.get("ctx", {})
    what = node_name(path, value, name)
    hint: str | None = None
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        message = (
            f"{what} should be {words} {_number(context.get(bound))}, and is {describe_value(node)}"
        )
    elif kind in _LENGTHS:
        words, bound, unit = _LENGTHS[kind]
        limit, count = context.get(bound), len(node) if isinstance(node, (str, list)) else 0
        is_empty = (limit, count) == (1, 0)
        demand = "not be empty" if is_empty else f"have {words} {limit} {unit}, and has {count}"
        message = f"{what} should {demand}"
    elif kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern", ""))
        message = f"{what} should {_PATTERNS.get(pattern, f'match {pattern}')}, and is {describe_value(node)}"
    elif kind == "literal_error":
        expected = str(context.get("expected", ""))
        message = f"{what} should be {expected}, and is {describe_value(node)}"
        hint = (
            suggest_nearest(node, re.findall(r"'([^']*)'", expected))
            if isinstance(node, str)
            else None
        )
    elif kind == "value_error":
        reason = str(context.get("error", detail["msg"]))
        message = f"{what}: {reason}" if path else reason
    else:
        message = f"{what}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"
    return DocumentFault("bad_value", message, pointer=_pointer(path), hint=hint)


def _number(bound: object) -> str:
    return str(int(bound)) if isinstance(bound, float) and bound.is_integer() else str(bound)


def suggest_nearest(name: str, known: Sequence[str]) -> str | None:
    """Suggest the nearest of the names that exist, or list them."""
    if (near := did_you_mean(name, known)) is not None or not known:
        return near
    verb = "is" if len(known) == 1 else "are"
    return f"there {verb} {', '.join(map(repr, known))}"


# --- names
# --------------------------------------------------------------------------------------------------


def node_name(path: Sequence[str | int], value: JsonValue, name: str) -> str:
    """Return the name of a node in messages: `'retry.attempts' of step 'prices'`."""
    node: JsonValue = value
    owner, rest = name, list[str | int]()
    for position, key in enumerate(path):
        rest.append(key)
        node = _child(node, key)
        if isinstance(key, int) and isinstance(node, dict):
            label = node.get("id", node.get("name"))
            before = path[position - 1] if position else "items"
            if isinstance(label, str) and len(label) <= _MAX_LABEL_LENGTH:
                owner, rest = f"{str(before).removesuffix('s')} {label!r}", []
            else:
                owner, rest = f"{before}[{key}]", []
    if not rest:
        return owner
    field = path_text(rest)
    return f"{field!r} of {owner}" if owner != name else repr(field)


def _has(node: JsonValue, key: str | int) -> bool:
    if isinstance(key, str):
        return isinstance(node, dict) and key in node
    return isinstance(node, list) and key < len(node)


def _child(node: JsonValue, key: str | int) -> JsonValue:
    if isinstance(node, dict) and isinstance(key, str):
        return node.get(key)
    if isinstance(node, list) and isinstance(key, int) and key < len(node):
        return node[key]
    return None


def _node_at(value: JsonValue, path: Iterable[str | int]) -> JsonValue:
    return reduce(_child, path, value)


def _pointer(path: Iterable[str | int]) -> str:
    return "".join(pointer_token(key) for key in path)


def _fields_at(model: type[BaseModel], path: Sequence[str | int]) -> set[str]:
    """Return the names of the fields of all models that are valid at a path."""
    names: set[str] = set()
    for branch in _types_at(model, path):
        if is_typeddict(branch):
            names |= branch.__annotations__.keys()
        elif isinstance(branch, type) and issubclass(branch, BaseModel):
            names |= {field.alias or name for name, field in branch.model_fields.items()}
    return names


def _name_here(model: type[BaseModel], path: JsonPath, name: str) -> str | None:
    """Return what the models that are valid at a path call a field to which other systems give a
    name.
    """
    for branch in _types_at(model, path):
        other_names: Mapping[str, str] = getattr(branch, "other_names", {})
        if name.lower() in other_names:
            return other_names[name.lower()]
    return None


def _types_at(model: type[BaseModel], path: Sequence[str | int]) -> Iterator[object]:
    annotations: list[object] = [model]
    for key in path:
        annotations = [inner for annotation in annotations for inner in _inside(annotation, key)]
    for annotation in annotations:
        yield from _branches(annotation)


def _inside(annotation: object, key: str | int) -> Iterator[object]:
    for branch in _branches(annotation):
        origin = get_origin(branch)
        if isinstance(branch, type) and origin is None and issubclass(branch, BaseModel):
            yield from (
                f.annotation for name, f in branch.model_fields.items() if key in {f.alias, name}
            )
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            yield get_args(branch)[1]
        elif isinstance(origin, type) and isinstance(key, int):
            yield get_args(branch)[0]


def _branches(annotation: object) -> Iterator[object]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _branches(get_args(annotation)[0])
    elif origin is Union or isinstance(annotation, types.UnionType):
        for branch in get_args(annotation):
            yield from _branches(cast("object", branch))
    else:
        yield annotation
