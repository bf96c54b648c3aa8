"""Plain paths: the part of an expression that only walks down to a value.

A *path* is a root with fields and places below it, such as `steps.prices[0].close` or
`inputs.rows[index]`. Most expressions are nothing else, and are walked without a tree of closures.

A *scope* holds what one evaluation sees: the variables by root and the run's instant. The scopes of
macros share its cost tracker.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias, cast

from wavewright.config.errors import did_you_mean
from wavewright.planner.cel.errors import (
    MAX_KEY_LENGTH_SHOWN,
    MAX_NAMES_LISTED,
    NO_TYPES_HINT,
    CostTracker,
    ExpressionError,
    join_names,
)
from wavewright.planner.cel.nodes import (
    ExpressionNode,
    Identifier,
    Index,
    LiteralValue,
    Select,
)
from wavewright.planner.cel.operators import (
    KINDS,
    MembershipIndex,
    class_of,
    evaluation_error,
    is_key,
)
from wavewright.planner.types import Json

Variables: TypeAlias = Mapping[str, Json]
"""What an expression sees, by root."""


@dataclass(frozen=True, slots=True)
class Path:
    """A root, and the keys below it: a field, a place in a list, or a path whose value is either."""

    root: str
    keys: tuple[str | int | Path, ...]
    offsets: tuple[int, ...]
    """Where each key stands in the expression."""
    start: int

    def text(self, count: int | None = None) -> str:
        """Return the path as an author writes it, up to a number of keys."""
        written = self.root
        for key in self.keys[:count]:
            if isinstance(key, str):
                written += f".{key}" if key.isidentifier() else f'["{key}"]'
            else:
                written += f"[{key.text() if isinstance(key, Path) else key}]"
        return written


def plain_path(node: ExpressionNode, local_names: Mapping[str, object]) -> Path | None:
    """Return the path that a node is, or None where it is more than one or starts at a macro's
    name.
    """
    keys: list[str | int | Path] = []
    offsets: list[int] = []
    while not isinstance(node, Identifier):
        if isinstance(node, Select):
            keys.append(node.field)
            offsets.append(node.field_start)
        elif isinstance(node, Index):
            key = _key(node.key, local_names)
            if key is None:
                return None
            keys.append(key)
            offsets.append(node.key.start)
        else:
            return None
        node = node.operand
    if node.name in local_names:
        return None
    return Path(node.name, tuple(reversed(keys)), tuple(reversed(offsets)), node.start)


def _key(node: ExpressionNode, local_names: Mapping[str, object]) -> str | int | Path | None:
    if isinstance(node, LiteralValue):
        if isinstance(node.value, str):
            return node.value
        if node.kind == "int" and isinstance(node.value, int) and node.value >= 0:
            return node.value
        return None
    return plain_path(node, local_names)


def evaluate_path(path: Path, variables: Variables) -> Json:
    """Return the value at the end of a path.

    Raises:
        ExpressionError: something on the way is missing or has no parts.
    """
    return cast("Json", _walk(path, variables, is_asked=False))


def path_exists(path: Path, variables: Variables) -> bool:
    """Answer `has(path)`: false where the field, or anything on the way to it, is missing or null.

    Raises:
        ExpressionError: the way leads through something that cannot have fields.
    """
    return _walk(path, variables, is_asked=True) is not _ABSENT


_ABSENT: Final = object()


def _walk(path: Path, variables: Variables, *, is_asked: bool) -> object:
    """Return the value at the end of a path; where it is asked for, and missing, `_ABSENT`."""
    value = _root(path, variables)
    for place, written in enumerate(path.keys):
        key = _computed_key(written, variables) if isinstance(written, Path) else written
        if is_asked and value is None:
            return _ABSENT
        if isinstance(key, str):
            if not isinstance(value, (dict, Mapping)):
                raise _no_parts_error(path, place, value, key)
            if key not in value:
                if is_asked:
                    return _ABSENT
                raise _missing_error(path, place, value, key)
            value = value[key]
        else:
            if not isinstance(value, list):
                raise _no_parts_error(path, place, value, key)
            if not 0 <= key < len(value):
                if is_asked:
                    return _ABSENT
                raise _out_of_range_error(path, place, value, key)
            value = value[key]
    return value


def _root(path: Path, variables: Variables) -> Json:
    try:
        return variables[path.root]
    except KeyError:
        raise unknown_root_error(path.root, path.start, variables) from None


_TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)
"""Names that stand for types in CEL."""


def unknown_root_error(name: str, offset: int, known: Mapping[str, object]) -> ExpressionError:
    """Return the fault for a name that stands for nothing here."""
    if name in ("item", "index"):
        return ExpressionError(
            "item_outside_for_each",
            f"'{name}' exists only in a step that has for_each",
            offset,
            "give the step a for_each, or name the value: inputs.…, steps.…",
        )
    if name == "output":
        return ExpressionError(
            "unknown_name_or_field",
            "'output' exists only in the check of a gate",
            offset,
            "name the step: steps.…",
        )
    hint = did_you_mean(name, known) or f"there are: {join_names(known)}"
    if name in _TYPE_NAMES:
        hint = NO_TYPES_HINT
    if "steps" in known and isinstance(steps := known["steps"], Mapping) and name in steps:
        hint = f"did you mean 'steps.{name}'?"
    elif "inputs" in known and isinstance(inputs := known["inputs"], Mapping) and name in inputs:
        hint = f"did you mean 'inputs.{name}'?"
    return ExpressionError(
        "unknown_name_or_field", f"nothing is called '{name}' here", offset, hint
    )


def _computed_key(path: Path, variables: Variables) -> str | int:
    value = evaluate_path(path, variables)
    place = value if isinstance(value, str) else _place_in_list(value)
    if place is not None:
        return place
    raise ExpressionError(
        "no_overload",
        f"'{path.text()}' is {kind_name(value)} and cannot be a place in a list or the name of a field",
        path.start,
    )


def _place_in_list(value: object) -> int | None:
    """Return a whole number, which JSON also writes as `1.0`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _missing_error(path: Path, place: int, value: Mapping[str, Json], key: str) -> ExpressionError:
    offset = path.offsets[place]
    key = key[:MAX_KEY_LENGTH_SHOWN]
    if path.root == "steps" and place == 0:
        return ExpressionError(
            "unknown_step",
            f"step '{key}' has no output here",
            offset,
            f"it was skipped, blocked or failed; guard with has(steps.{key})",
        )
    if path.root == "previous" and place == 0:
        return ExpressionError(
            "unknown_name_or_field",
            f"the previous run has no '{key}': no run of this job has been achieved",
            offset,
            f"ask first: has(previous.{key}) ? … : …",
        )
    if path.root == "inputs" and place == 0:
        return ExpressionError(
            "unknown_input",
            f"no input is called '{key}'",
            offset,
            lambda: did_you_mean(key, value) or f"there are: {join_names(value)}",
        )
    kinds = (
        f"{str(name)[:MAX_KEY_LENGTH_SHOWN]}: {kind_name(part)}"
        for name, part in islice(value.items(), MAX_NAMES_LISTED)
    )
    fields = join_names(kinds, len(value))
    has = f"it has: {fields}" if fields else "it is empty"
    return ExpressionError(
        "unknown_name_or_field",
        f"{owner_name(path, place)} has no field '{key}'; {has}",
        offset,
        lambda: did_you_mean(key, map(str, value)),
    )


def _no_parts_error(path: Path, place: int, value: Json, key: str | int) -> ExpressionError:
    wanted = f"field '{key[:MAX_KEY_LENGTH_SHOWN]}'" if isinstance(key, str) else f"element [{key}]"
    return ExpressionError(
        "unknown_name_or_field",
        f"{owner_name(path, place)} is {kind_name(value)} and has no {wanted}",
        path.offsets[place],
    )


def _out_of_range_error(path: Path, place: int, value: list[Json], key: int) -> ExpressionError:
    return ExpressionError(
        "evaluation_failed",
        f"{owner_name(path, place)} has {len(value)} element{'s' if len(value) != 1 else ''}, so there is no [{key}]",
        path.offsets[place],
    )


def owner_name(path: Path, place: int) -> str:
    """Return what an author would call the value that the key at `place` is asked of."""
    if path.root == "steps" and place == 1:
        return f"step '{path.keys[0]}'"
    if path.root == "inputs" and place == 1:
        return f"input '{path.keys[0]}'"
    return f"'{path.text(place)}'"


def kind_name(value: object) -> str:
    """Return the kind of a value in plain words."""
    return KINDS.get(class_of(value), "an object")


@dataclass(slots=True)
class EvaluationScope:
    """Variables, instant and cost tracker of one evaluation."""

    variables: dict[str, Json]
    now: dt.datetime
    cost: CostTracker
    membership: MembershipIndex

    def child(self) -> EvaluationScope:
        """Return the scope of a macro, which can be given further variables."""
        return EvaluationScope(dict(self.variables), self.now, self.cost, self.membership)


Evaluation: TypeAlias = Callable[[EvaluationScope], Json]
"""Gives a value that may hold instants and durations, which JSON has not."""


def compile_select(operand: Evaluation, name: str) -> Evaluation:
    """Return what evaluates `operand.name`."""

    def evaluate(scope: EvaluationScope) -> Json:
        owner = operand(scope)
        if not isinstance(owner, Mapping):
            raise not_an_object_error()
        if name not in owner:
            raise _no_field_error(name)
        return owner[name]

    return evaluate


def not_an_object_error() -> ExpressionError:
    """Return the fault of asking for a field where there are none."""
    return ExpressionError("no_overload", "a field is asked of a value that is no object")


def _no_field_error(key: object) -> ExpressionError:
    shown = str(key)[:MAX_KEY_LENGTH_SHOWN]
    return ExpressionError(
        "unknown_name_or_field", f"there is no field '{shown}'", None, f"guard with has(….{shown})"
    )


def compile_index(operand: Evaluation, key: Evaluation) -> Evaluation:
    """Return what evaluates `operand[key]`."""

    def evaluate(scope: EvaluationScope) -> Json:
        owner, asked = operand(scope), key(scope)
        if isinstance(owner, Mapping):
            if not is_key(asked):
                raise ExpressionError("no_overload", f"{kind_name(asked)} is no name of a field")
            if asked not in owner:
                raise _no_field_error(asked)
            return owner[asked]
        if not isinstance(owner, list):
            raise ExpressionError(
                "no_overload", f"{kind_name(owner)} has no elements and no fields"
            )
        place = _place_in_list(asked)
        if place is None:
            raise ExpressionError("no_overload", "a place in a list is a whole number")
        if not 0 <= place < len(owner):
            raise evaluation_error(f"there is no element [{place}] in a list of {len(owner)}")
        return owner[place]

    return evaluate
