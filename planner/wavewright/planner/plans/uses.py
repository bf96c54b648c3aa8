"""Where a plan's expressions stand, and what they read.

A *use* is one expression at one place: the pointer of the author's node and where in that node's
text the expression begins. The graph, the checker and patches all go through here, so that they
cannot disagree on what a step reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    bare_expression,
    iterate_strings,
    reads,
    split_references,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.plain_paths import Read, is_plain_path, plain_read
from wavewright.planner.language.plan import Gate, Plan, Step
from wavewright.planner.types import Json, StepId

ExpressionRole: TypeAlias = Literal["params", "for_each", "when", "gate", "cap", "result"]

CALL_ROLES: frozenset[ExpressionRole] = frozenset({"params", "when", "gate"})
"""Where expressions may be asked once a call, so that a step with `for_each` has an `item` there.
"""


class ExpressionUse(NamedTuple):
    """One expression at one place."""

    pointer: str
    expression: str
    start: int
    """Where the expression begins in the text of its node."""
    is_whole: bool
    """Whether nothing else stands there, so that the value keeps its type."""
    role: ExpressionRole


@dataclass(frozen=True)
class ExpressionText:
    """One text that may hold expressions; what it reads is found out once."""

    pointer: str
    text: str
    role: ExpressionRole

    @cached_property
    def reads(self) -> dict[ExpressionUse, tuple[Read, ...] | ExpressionError]:
        """What each of its expressions reads, or why it cannot be read; nothing where a `${` is not
        closed.
        """
        try:
            uses = self.uses()
        except ExpressionError:
            return {}
        return {use: _reads_or_error(use.expression) for use in uses}

    @property
    def sound_reads(self) -> Iterator[tuple[ExpressionUse, tuple[Read, ...]]]:
        """Each of its expressions that can be read, with what that reads."""
        for use, reads_of_use in self.reads.items():
            if not isinstance(reads_of_use, ExpressionError):
                yield use, reads_of_use

    @property
    def all_reads(self) -> Iterator[Read]:
        """What its expressions read, those that can be read."""
        for _, reads_of_use in self.sound_reads:
            yield from reads_of_use

    def uses(self) -> list[ExpressionUse]:
        """Return its expressions.

        Raises:
            ExpressionError: a `${` is not closed; the offset of the error is one in the text.
        """
        if self.role in _BARE_ROLES:
            return [condition_use(self.text, self.pointer, self.role)]
        return embedded_uses(self.text, self.pointer, self.role)


_BARE_ROLES: frozenset[ExpressionRole] = frozenset({"when", "gate", "cap"})
"""Roles whose texts are expressions without `${…}`."""


def embedded_uses(text: str, pointer: str, role: ExpressionRole) -> list[ExpressionUse]:
    """Return the expressions that a text embeds as `${…}`.

    Raises:
        ExpressionError: a `${` is not closed.
    """
    if "${" not in text:
        return []
    parts = split_references(text)
    whole = len(parts) == 1
    return [
        ExpressionUse(pointer, part.expression, part.offset, whole, role)
        for part in parts
        if isinstance(part, EmbeddedExpression)
    ]


def condition_use(text: str, pointer: str, role: ExpressionRole) -> ExpressionUse:
    """Return the expression of a field that holds bare CEL; a `${…}` around all of it is taken off.

    Raises:
        ExpressionError: it begins as `${…}` and is not closed.
    """
    bare = bare_expression(text)
    return ExpressionUse(pointer, bare.expression, bare.offset, is_whole=True, role=role)


def step_texts(step: Step, number: int) -> tuple[ExpressionText, ...]:
    """Return every text of a plan's step that may hold an expression, in the order of its fields."""
    params = step.params if holds_expression(step.params) else None
    if params is None and step.for_each is None and step.when is None:
        return ()
    pointer = f"/steps/{number}"
    texts = [
        ExpressionText(place, text, "params")
        for place, text in iterate_strings(params, f"{pointer}/params")
        if "${" in text
    ]
    if step.for_each is not None:
        texts += [
            ExpressionText(place, text, "for_each")
            for place, text in iterate_strings(step.for_each, f"{pointer}/for_each")
        ]
    if step.when is not None:
        texts.append(ExpressionText(f"{pointer}/when", step.when, "when"))
    return tuple(texts)


def plan_texts(plan: Plan) -> Iterator[ExpressionText]:
    """Yield every text of a plan that may hold an expression: of its steps, and beside them."""
    for number, step in enumerate(plan.steps):
        yield from step_texts(step, number)
    yield from texts_beside_steps(plan)


def texts_beside_steps(plan: Plan) -> Iterator[ExpressionText]:
    """Yield the texts of a plan's gates, caps, stop and result that may hold an expression."""
    for number, gate in enumerate(plan.gates):
        if gate.check is not None:
            yield ExpressionText(f"/gates/{number}/check", gate.check, "gate")
    for number, cap in enumerate(plan.caps):
        yield ExpressionText(f"/caps/{number}/when", cap.when, "cap")
    if plan.stop is not None:
        yield ExpressionText("/stop/when", plan.stop.when, "cap")
        for pointer, text in iterate_strings(plan.stop.result, "/stop/result"):
            yield ExpressionText(pointer, text, "result")
    for pointer, text in iterate_strings(plan.result, "/result"):
        yield ExpressionText(pointer, text, "result")


def step_reads(step: Step) -> tuple[StepId, ...]:
    """Return the ids of the steps that a step's expressions read, in the text's order; a faulty one
    reads nothing.
    """
    texts: list[tuple[str, ExpressionRole]] = [
        *((text, "params") for text in _texts_with_references(step.params)),
        *((text, "for_each") for text in _texts_with_references(step.for_each)),
    ]
    if step.when is not None:
        texts.append((step.when, "when"))
    return tuple(dict.fromkeys(name for text, role in texts for name in _step_ids_in(text, role)))


def asks_each_item(step: Step) -> bool:
    """Whether a step's condition reads `item` or `index`, and so says for which items the step
    runs.
    """
    if step.for_each is None or step.when is None or not _ITEM_WORD.search(step.when):
        return False
    when = ExpressionText("", step.when, "when")
    return any(read.root in ("item", "index") for read in when.all_reads)


_ITEM_WORD = re.compile(r"\b(?:item|index)\b")


def fields_read(reader: Step, step: StepId) -> frozenset[str] | None:
    """Return the fields of a step's output that another step's expressions read, or None where one
    reads all of it.
    """
    fields = set[str]()
    for text in step_texts(reader, 0):
        for use, reads_of_use in text.sound_reads:
            if all((read.root, read.name) != ("steps", step) for read in reads_of_use):
                continue
            path = use.expression.split(".") if is_plain_path(use.expression) else []
            if len(path) < _NAMES_TO_FIELD:
                return None
            fields.add(path[_NAMES_TO_FIELD - 1])
    return frozenset(fields)


_NAMES_TO_FIELD = 3
"""Names of a path, such as `steps.prices.close`, that reads a field of an output."""


def texts_read(texts: tuple[ExpressionText, ...]) -> tuple[StepId, ...]:
    """Return the ids of the steps that texts read, in their order; a faulty one reads nothing."""
    if not texts:
        return ()
    return tuple(dict.fromkeys(name for text in texts for name in _steps_read_by(text)))


def gate_reads(gate: Gate) -> frozenset[StepId]:
    """Return the ids of the steps that a gate's check reads."""
    if gate.check is None:
        return frozenset()
    return frozenset(_steps_read_by(ExpressionText("", gate.check, "gate")))


def condition_reads(condition: str) -> frozenset[StepId]:
    """Return the ids of the steps that a bare expression reads."""
    return frozenset(_steps_read_by(ExpressionText("", condition, "cap")))


def value_reads(value: Json) -> frozenset[StepId]:
    """Return the ids of the steps that the expressions in a value read."""
    step_ids: set[StepId] = set()
    for place, text in iterate_strings(value):
        step_ids.update(_steps_read_by(ExpressionText(place, text, "result")))
    return frozenset(step_ids)


def expressions_in(value: Json) -> Iterator[tuple[str, tuple[Read, ...]]]:
    """Yield the expressions in a value that can be read, each with what it reads."""
    for pointer, text in iterate_strings(value):
        for use, reads_of_use in ExpressionText(pointer, text, "params").sound_reads:
            yield use.expression.strip(), reads_of_use


def reads_root(value: Json, root: str) -> bool:
    """Return whether any expression in a value reads a root, such as `item`."""
    return any(read.root == root for _, found in expressions_in(value) for read in found)


def holds_expression(value: Json) -> bool:
    """Return whether any text in a value holds a `${` (an escaped one counts too)."""
    if isinstance(value, str):
        return "${" in value
    return isinstance(value, (dict, list)) and bool(_texts_with_references(value))


def _texts_with_references(value: Json) -> Sequence[str]:
    """Return the texts in a value that hold a `${`, in the value's order; asked of every step of
    every plan.
    """
    if isinstance(value, str):
        return (value,) if "${" in value else ()
    if isinstance(value, dict):
        value = [*value.values()]
    if not isinstance(value, list):
        return ()
    texts: list[str] = []
    for item in value:
        if isinstance(item, str):
            if "${" in item:
                texts.append(item)
        elif isinstance(item, (dict, list)):
            texts += _texts_with_references(item)
    return texts


def _step_ids_in(text: str, role: ExpressionRole) -> Iterable[StepId]:
    """Return the steps that a text reads; most texts are one plain path, which is not parsed."""
    if role not in _BARE_ROLES and text.startswith("${") and text.endswith("}"):
        plain = plain_read(text[2:-1])
        if plain is not None:
            return (StepId(plain.name),) if plain.root == "steps" and plain.name is not None else ()
    return _steps_read_by(ExpressionText("", text, role))


def _steps_read_by(text: ExpressionText) -> Iterator[StepId]:
    for read in text.all_reads:
        if read.root == "steps" and read.name is not None:
            yield StepId(read.name)


def _reads_or_error(expression: str) -> tuple[Read, ...] | ExpressionError:
    try:
        return reads(expression)
    except ExpressionError as error:
        return error
