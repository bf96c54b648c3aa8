"""What a plan's expressions read: which steps and names, and the constants beside them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from wavewright.planner.cel.embedded import bare_expression, iterate_strings, reads
from wavewright.planner.cel.nodes import LiteralValue, children
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.language.plan import Gate, Plan, Step
from wavewright.planner.plans.uses import ExpressionText, embedded_uses, plan_texts, step_texts
from wavewright.planner.types import Json, StepId

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def step_expressions(step: Step) -> list[str]:
    """Return the expressions of a step."""
    return _expressions_of(step_texts(step, 0))


def plan_expressions(plan: Plan) -> list[str]:
    """Return the expressions of a plan."""
    return _expressions_of(plan_texts(plan))


def embedded_expressions(value: Json) -> list[str]:
    """Return the expressions that the texts of a value hold."""
    return [use.expression for _, text in iterate_strings(value) for use in embedded_uses(text, "", "result")]


def gate_expressions(gate: Gate) -> list[str]:
    """Return the expressions of a gate; a required path is one as well."""
    check = [] if gate.check is None else [bare_expression(gate.check).expression]
    return [*check, *(f"output.{path}" for path in gate.required or ())]


def _expressions_of(texts: Iterable[ExpressionText]) -> list[str]:
    return [use.expression for text in texts for use in text.uses()]


class Sources(NamedTuple):
    """What expressions read: the places where a search changes something."""

    steps: tuple[StepId, ...]
    names: frozenset[str]
    """Every name that stands in the expressions."""
    reads_inputs: bool


def sources_of(expressions: Iterable[str], also: tuple[StepId, ...] = ()) -> Sources:
    """Return what expressions read; the steps `also` come first."""
    texts = list(expressions)
    found = [read for text in texts for read in reads(text)]
    steps = [StepId(str(read.name)) for read in found if read.root == "steps"]
    return Sources(
        tuple(dict.fromkeys((*also, *steps))),
        frozenset(name for text in texts for name in _NAME.findall(text)),
        any(read.root == "inputs" for read in found),
    )


def sources_of_gates(gates: Iterable[Gate]) -> Sources:
    """Return what gates read: the outputs that they check come first."""
    checked = list(gates)
    found = sources_of(
        (text for gate in checked for text in gate_expressions(gate)),
        tuple(gate.on for gate in checked if gate.on is not None),
    )
    schemas = " ".join(str(gate.schema_) for gate in checked if gate.schema_ is not None)
    return found._replace(names=found.names | frozenset(_NAME.findall(schemas)))


# -- constants

_AGES = (3600.0, 2 * 86400.0, 40 * 86400.0, 400 * 86400.0, -2 * 86400.0)
_MAX_LIST_SIZE = 400
"""Entries that a list is given because an expression names the number."""


@dataclass(frozen=True, slots=True)
class PlanVocabulary:
    """Texts, numbers and ages that a plan's conditions may depend on."""

    now: dt.datetime
    texts: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()
    sizes: tuple[int, ...] = (3,)
    """Of lists, beside the small ones."""
    ages: tuple[float, ...] = _AGES
    """In seconds before `now`; below zero, after it."""


def vocabulary_of(plan: Plan, now: dt.datetime) -> PlanVocabulary:
    """Return the constants of a (bound) plan's expressions, and the ages that its gates allow."""
    constants = list(dict.fromkeys(value for text in plan_expressions(plan) for value in _constants(text)))
    numbers = [value for value in constants if isinstance(value, int | float) and not isinstance(value, bool)]
    around = dict.fromkeys(near for number in numbers for near in (number, number + 1, number - 1))
    sizes = [number for number in around if isinstance(number, int) and 0 <= number <= _MAX_LIST_SIZE]
    allowed = [gate.fresh_within for gate in plan.gates if gate.fresh_within is not None]
    return PlanVocabulary(
        now=now,
        texts=tuple(value for value in constants if isinstance(value, str)),
        numbers=tuple(around),
        sizes=tuple(dict.fromkeys((3, *sizes))),
        ages=(*_AGES, *(seconds * share for seconds in allowed for share in (0.5, 2.0))),
    )


def _constants(expression: str) -> Iterator[object]:
    nodes = [parse_expression(expression)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, LiteralValue):
            yield node.value
        nodes += children(node)
