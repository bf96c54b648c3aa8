"""The checks of each kind of gate.

A gate is prepared once (its expression compiled, its schema's validator built) to a check that is
applied to a *subject*: an output, with its item if the step runs once per item. The result is a
*finding*: a verdict, the subject with the values found, and the reason if it failed. A gate that
cannot be evaluated counts as failed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.config import Seconds
from wavewright.executor.events.json_values import is_empty
from wavewright.executor.run.ports import GateView
from wavewright.planner import (
    ExpressionError,
    Gate,
    InvalidSchemaError,
    Json,
    JsonObject,
    JsonSchema,
    StepId,
    validator_of,
)
from wavewright.planner.cel.embedded import reads
from wavewright.planner.cel.evaluator import compile_expression
from wavewright.planner.plans.uses import condition_use
from wavewright.planner.types import GateKind
from wavewright.reviewer.records import Action
from wavewright.reviewer.values import (
    ABSENT,
    brief,
    duration_text,
    iso,
    listing,
    look_up,
    misfit_texts,
    read_time,
    shorten,
)

_MAX_VALUES = 4
"""Maximum number of values of an expression that are shown."""


@dataclass(frozen=True, slots=True)
class GateSubject:
    """What a gate is applied to: the whole output of a step, or the output for one item."""

    step: StepId
    output: Json
    whole: Json
    """The step's output, of which `output` is an entry for a `for_each` step."""
    view: GateView
    item: Json = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class GateFinding:
    """The result of a gate on one subject."""

    verdict: Literal["pass", "fail", "error"]
    inspected: str
    message: str = ""


GateCheck: TypeAlias = Callable[[GateSubject], GateFinding]


@dataclass(frozen=True, slots=True)
class GateContext:
    """What a gate's check is made with, besides the gate."""

    now: dt.datetime
    leeway: float
    """Seconds by which data may be from after `now`."""
    tool: str
    """The tool whose output is checked."""
    freshness_field: str | None
    """Where that output says of when it is."""


def make_gate_check(gate: Gate, context: GateContext) -> GateCheck:
    """Return the check of a gate by its kind."""
    if gate.check is not None:
        return make_condition_check(gate.check, context.now)
    if gate.schema_ is not None:
        return make_schema_check(gate.schema_)
    if gate.fresh_within is not None:
        return make_freshness_check(gate.fresh_within, context)
    if gate.required is not None:
        return make_required_check(gate.required)
    assert gate.judge is not None
    return make_judge_check(gate.judge.rubric)


ACTION_AFTER_FAILURE: Final[Mapping[GateKind, tuple[Action, str]]] = {
    "check": ("replace_step", "correct the data that the condition reads, or the condition"),
    "schema": ("refetch", "fetch again, or correct the source whose output breaks the schema"),
    "fresh_within": (
        "refetch",
        "fetch newer data, or set the job's as_of to the day that the data is of",
    ),
    "required": ("refetch", "fetch again, or from a source that has the missing fields"),
    "judge": ("replace_step", "make the output anew, so that it passes the rubric"),
}
"""What is done about a failed gate of each kind without a recipe, and the hint of one without its
own.
"""


def make_condition_check(condition: str, now: dt.datetime) -> GateCheck:
    """Return the check that a CEL condition holds, which may stand in `${…}`."""
    expression = bare_condition(condition)
    try:
        evaluate = compile_expression(expression)
    except ExpressionError as fault:
        return make_unevaluable_check(condition, f"not an expression: {fault.message}")
    reads_of_check = reads(expression)
    names = frozenset(read.name for read in reads_of_check if read.root == "steps")
    roots = frozenset(read.root for read in reads_of_check)
    paths = tuple(_paths_of(expression))[:_MAX_VALUES]
    shown = shorten(expression, 160)

    def ask(call: GateSubject) -> GateFinding:
        variables = _variables(call, roots, names)
        values = _found_values(paths, variables)
        inspected = f"{shown} with {values}" if values else shown
        try:
            answer = evaluate(variables, now)
        except ExpressionError as fault:
            return GateFinding(
                "error", inspected, f"could not be evaluated: {shorten(fault.message, 200)}"
            )
        if not isinstance(answer, bool):
            return GateFinding("error", inspected, f"gave {brief(answer)} instead of true or false")
        if answer:
            return GateFinding("pass", inspected)
        return GateFinding("fail", inspected, f"{shown} is false{f' ({values})' if values else ''}")

    return ask


def make_schema_check(schema: JsonSchema) -> GateCheck:
    """Return the check that an output matches a JSON Schema; external references are never fetched."""
    try:
        validator = validator_of(schema)
    except InvalidSchemaError as error:
        return make_unevaluable_check(
            "the gate's schema", f"not a JSON Schema: {shorten(str(error), 200)}"
        )

    def ask(call: GateSubject) -> GateFinding:
        inspected = f"the output, {brief(call.output)}"
        misfits = validator.violations(call.output)
        if not misfits:
            return GateFinding("pass", inspected)
        return GateFinding("fail", inspected, "; ".join(misfit_texts(misfits, call.output)))

    return ask


def make_freshness_check(seconds: Seconds, context: GateContext) -> GateCheck:
    """Return the check that the time in a tool's freshness field is recent enough.

    A date counts from the end of its day, and is in the future only if its day has not begun. If
    the path to the field contains a list, the oldest entry decides.
    """
    now, field = context.now, context.freshness_field
    if field is None:
        return make_unevaluable_check(
            "no field", f"tool {context.tool!r} declares no freshness field, so no age can be found"
        )
    path = field.split(".")

    def ask(call: GateSubject) -> GateFinding:
        worst: GateFinding | None = None
        oldest = -1.0
        for place, value, is_there in look_up(call.output, path):
            inspected = f"{place} = {brief(value) if is_there else ABSENT}, now = {iso(now)}"
            span = read_time(value) if is_there else None
            if span is None:
                return GateFinding(
                    "fail", inspected, _no_time_message(place, value, found=is_there)
                )
            if span.is_after(now, context.leeway):
                ahead = duration_text((span.begin - now).total_seconds())
                return GateFinding(
                    "fail", inspected, f"{place} is from the future, {ahead} after now"
                )
            age = span.age(now)
            if age > oldest:
                oldest, worst = age, _age_finding(place, age, seconds, inspected)
        return worst or GateFinding(
            "fail", f"{field} = {ABSENT}", f"{field} is missing, so the age is unknown"
        )

    return ask


def make_required_check(fields: tuple[str, ...]) -> GateCheck:
    """Return the check that fields are present and neither null nor empty."""

    def ask(call: GateSubject) -> GateFinding:
        missing: list[str] = []
        shown: list[str] = []
        for field in fields:
            for place, value, is_there in look_up(call.output, field.split(".")):
                if is_there and not is_empty(value):
                    shown.append(f"{place} = {brief(value, 30)}")
                else:
                    missing.append(f"{place} ({brief(value) if is_there else ABSENT})")
        inspected = listing([*missing, *shown], _MAX_VALUES + 2)
        if missing:
            return GateFinding("fail", inspected, f"missing: {listing(missing, 6)}")
        return GateFinding("pass", inspected)

    return ask


def make_judge_check(rubric: str) -> GateCheck:
    """Return the check of a judge gate without a configured model, which cannot be evaluated."""
    return make_unevaluable_check(
        f"rubric: {shorten(rubric, 120)}",
        "needs a model and none is configured, so it was not judged",
    )


def make_unevaluable_check(inspected: str, message: str) -> GateCheck:
    """Return a check that cannot be evaluated and counts as failed."""
    finding = GateFinding("error", shorten(inspected, 160), message)
    return lambda _call: finding


def _variables(
    call: GateSubject, roots: frozenset[str], names: frozenset[str | None]
) -> JsonObject:
    """Return only the variables that an expression reads: a run may have ten thousand steps."""
    variables: JsonObject = {"inputs": call.view.inputs, "previous": call.view.previous}
    if "steps" in roots:
        present = call.view.steps
        needed = present if None in names else [name for name in names if name in present]
        steps: JsonObject = {name: present[name] for name in needed}
        steps[call.step] = call.whole
        variables["steps"] = steps
    else:
        variables["steps"] = {}
    variables["output"] = call.output
    if call.index is not None:
        variables["item"] = call.item
        variables["index"] = call.index
    return variables


def bare_condition(condition: str) -> str:
    """Return a condition without the `${…}` that an author may put around all of it."""
    return condition_use(condition, "", "gate").expression


_STRING_LITERAL = re.compile(
    r"""r?('''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")""", re.DOTALL
)
_DOTTED_PATH = re.compile(
    r"(?<![\w.])(?:inputs|previous|steps|output|item|index)\b(?:\.[A-Za-z_]\w*(?!\w*\s*\())*"
)


def _paths_of(expression: str) -> Iterator[str]:
    """Yield each dotted path that an expression reads, once, without the methods called on it."""
    seen: set[str] = set()
    for match in _DOTTED_PATH.finditer(_STRING_LITERAL.sub('""', expression)):
        path = match.group()
        if path not in seen and path not in {"steps", "inputs"}:
            seen.add(path)
            yield path


def _found_values(paths: tuple[str, ...], variables: Mapping[str, Json]) -> str:
    values: list[str] = []
    for path in paths:
        for _place, value, is_there in look_up(dict(variables), path.split(".")):
            values.append(f"{path} = {brief(value) if is_there else ABSENT}")
            break
    return ", ".join(values)


def _no_time_message(place: str, value: Json, *, found: bool) -> str:
    if not found or value is None:
        return f"{place} is missing, so the age is unknown"
    return f"{place} is {brief(value)}, which is no ISO 8601 date or date-time"


def _age_finding(place: str, age: float, allowed: Seconds, inspected: str) -> GateFinding:
    if age <= allowed:
        return GateFinding("pass", f"{inspected}, age {duration_text(age)}")
    return GateFinding(
        "fail",
        inspected,
        f"{place} is {duration_text(age)} old, and at most {duration_text(allowed)} is allowed",
    )
