"""Family W8: what is allowed and probably a mistake.

Lint runs only on a plan without errors. A warning never keeps a plan from running, and each names a
fix.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from wavewright.planner.cel.embedded import guarded_steps, iterate_strings, reads
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.fits import misfits_of_kind
from wavewright.planner.checks.tools import TEMPLATE_REFERENCE
from wavewright.planner.diagnostics.diagnostic import Diagnostic, make_diagnostic, suggest_name
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.language.plan import Gate, Step
from wavewright.planner.language.signatures import AGENT, RUN_INPUTS, ToolSignature
from wavewright.planner.plans.binding import mandatory_gates
from wavewright.planner.plans.expressions import evaluate
from wavewright.planner.plans.gate_questions import is_asked_per_call
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import (
    ExpressionText,
    condition_reads,
    condition_use,
    gate_reads,
    holds_expression,
    value_reads,
)
from wavewright.planner.types import Json, JsonSchema, StepId

_OVERALL = "overall"


def check_caps(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the plan's own caps on fields that nothing has; those of the goal are for many plans."""
    of_goal = subject.goal.caps if subject.goal is not None else ()
    own = [(number, cap) for number, cap in enumerate(subject.plan.caps) if cap not in of_goal]
    if all(cap.field == _OVERALL for _, cap in own):
        return
    known = _confidence_fields(subject)
    for number, cap in own if known is not None else ():
        names = _POSITION.sub("", cap.field).split(".")
        if known is not None and not {_OVERALL, *known}.issuperset(names):
            yield make_diagnostic(
                "W808",
                f"/caps/{number}/field",
                f"the cap on {cap.field!r} bounds nothing: neither the result nor a last step's output has that field",
                suggest_name(cap.field, sorted({_OVERALL, *known}), what="fields"),
            )


def _idle_shares(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield the plan's own gates of which `blocks_from` decides nothing: it is a share of calls."""
    goal = subject.goal
    goal_gates = () if goal is None else mandatory_gates(subject.plan, goal)
    of_goal = {gate.id for gate in goal_gates}
    for number, gate in enumerate(subject.plan.gates):
        why = _why_not_shared(subject, gate)
        if gate.blocks_from > 0 and gate.id not in of_goal and why is not None:
            yield make_diagnostic(
                "W814",
                f"/gates/{number}/blocks_from",
                f"`blocks_from` of gate {gate.id!r} decides nothing: {why}",
                "leave it out, or ask the gate once a call: on a step with `for_each`, by a `check` that reads"
                " `output`",
            )


def _why_not_shared(subject: CheckContext, gate: Gate) -> str | None:
    """Return why a gate has no share of calls that could fail."""
    step = subject.steps.get(gate.on) if gate.on is not None else None
    if gate.severity == "warn":
        return "the gate only warns"
    if step is None or step.for_each is None:
        return "its step makes one call" if step is not None else "it is on no step"
    if not is_asked_per_call(gate):
        return "its check does not read `output`, so it is asked once"
    return None


_POSITION = re.compile(r"\[[^\]]*\]")


def _confidence_fields(subject: CheckContext) -> frozenset[str] | None:
    """Return the names of all fields of what may state a confidence; nothing where they are not all
    known.
    """
    names: set[str] = set()
    schemas: list[JsonSchema | None] = [
        subject.types.outputs[step] for step in subject.graph.terminal
    ]
    is_known = _add_result_fields(subject, subject.plan.result, names, schemas)
    for schema in schemas:
        is_known = is_known and schema is not None and _add_schema_fields(schema, names)
    return frozenset(names) if is_known else None


def _add_result_fields(
    subject: CheckContext, value: Json, names: set[str], schemas: list[JsonSchema | None]
) -> bool:
    """Add the fields that a result has as it is written, and the schemas of what it reads."""
    if isinstance(value, dict):
        names.update(value)
        return all(_add_result_fields(subject, inner, names, schemas) for inner in value.values())
    if isinstance(value, list):
        return all(_add_result_fields(subject, inner, names, schemas) for inner in value)
    if isinstance(value, str):
        schemas += [
            subject.types.result(use, None)
            for use in ExpressionText("/result", value, "result").uses()
            if use.is_whole
        ]
    return True


def _add_schema_fields(schema: JsonSchema, names: set[str]) -> bool:
    """Add the names of a schema's fields, at any depth; false where there may be others."""
    match schema:
        case {"anyOf": list(branches)}:
            return all(
                isinstance(branch, dict) and _add_schema_fields(branch, names)
                for branch in branches
            )
        case {"type": "array", "items": dict(items)}:
            return _add_schema_fields(items, names)
        case {"type": "object", "properties": dict(properties)} if not schema.get(
            "additionalProperties"
        ):
            names.update(properties)
            return all(
                isinstance(part, dict) and _add_schema_fields(part, names)
                for part in properties.values()
            )
        case _:
            return schema.get("type") in {"string", "number", "integer", "boolean", "null"}


_PACKAGED = frozenset({"document", "documents"})
"""Fields of an output that the package shows to people, whether or not a step reads them."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_MAX_STEPS_SEARCHED = 1000
"""Steps that are searched, about, for the dependencies of a step's dependencies: keeps lint linear.
"""

_MIN_BATCH = 3
"""Calls that differ in one literal, from this number on, are better written as one `for_each`."""


def lint(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what looks like a slip."""
    calls = _calls(subject)
    yield from _unread_outputs(subject)
    yield from _repeated_calls(subject, calls)
    yield from _redundant_dependencies(subject)
    yield from check_caps(subject)
    yield from _idle_shares(subject)
    yield from _batchable_calls(calls)
    yield from _unreachable_steps(subject)
    yield from _template_references(subject)
    yield from _unwritten_data(subject)
    yield from misfits_of_kind(subject)
    has_effects = any(not signature.only_reads for signature in subject.tools.values())
    has_agent = any(step.tool == AGENT for step in subject.plan.steps)
    if has_effects or has_agent:
        # Imported here: most plans only read, and have no agents.
        from wavewright.planner.checks.safety import safety_warnings

        yield from safety_warnings(subject, has_effects=has_effects)


def _unread_outputs(subject: CheckContext) -> Iterator[Diagnostic]:
    """Without a `result` the outputs of terminal steps are the result, so every output has a
    reader.
    """
    if subject.plan.result is None:
        return
    used = _used_steps(subject)
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        is_for_readers = (
            signature is not None
            and signature.effects <= {"read"}
            and not _brings_documents(signature)
        )
        if (
            is_for_readers
            and step.id not in used
            and step.id not in subject.superseded_by
            and step.tool not in subject.engine_params
        ):
            yield make_diagnostic(
                "W801",
                f"/steps/{number}",
                f"nothing reads the output of step {step.id!r}",
                f"read it with ${{steps.{step.id}}}, or remove the step",
            )


def _brings_documents(signature: ToolSignature) -> bool:
    fields = signature.output_schema.get("properties")
    return isinstance(fields, dict) and not _PACKAGED.isdisjoint(fields)


def _used_steps(subject: CheckContext) -> set[str]:
    """Return what is read, waited for or watched; a gate that the goal put there is no use of the
    author's.
    """
    plan = subject.plan
    used = set[str]().union(*subject.graph.reads.values())
    used.update(name for step in plan.steps for name in step.depends_on)
    used |= value_reads(plan.result)
    if plan.stop is not None:
        used |= condition_reads(plan.stop.when) | value_reads(plan.stop.result)
    for cap in plan.caps:
        used |= condition_reads(cap.when)
    imposed = frozenset(gate.id for gate in subject.mandatory_gates)
    for gate in plan.gates:
        used |= gate_reads(gate) - {gate.on}
        if gate.id not in imposed and gate.on is not None:
            used.add(gate.on)
    return used


def _unwritten_data(subject: CheckContext) -> Iterator[Diagnostic]:
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if (
            signature is None
            or not signature.reads_data
            or signature.reads_data & signature.writes_data
        ):
            continue
        needed = signature.reads_data - {RUN_INPUTS}
        if not needed:
            continue
        before = [
            subject.signature(subject.steps[name]) for name in subject.graph.ancestors(step.id)
        ]
        missing = needed.difference(*(one.writes_data for one in before if one is not None))
        if missing == needed and None not in before:
            yield make_diagnostic(
                "W810",
                f"/steps/{number}",
                f"step {step.id!r} reads the run data {', '.join(map(repr, sorted(missing)))}, which no step before "
                "it writes",
                "let it depend on the step that writes them: `depends_on: [...]`",
            )


class _CallArguments(NamedTuple):
    """What a step asks of its tool, as something to compare by."""

    number: int
    step: Step
    names: tuple[str, ...]
    values: tuple[str | bytes, ...]


def _calls(subject: CheckContext) -> list[_CallArguments]:
    calls: list[_CallArguments] = []
    in_order: dict[tuple[str, ...], tuple[str, ...]] = {}
    for number, step in enumerate(subject.plan.steps):
        if step.supersedes is None:
            params = step.params
            written = tuple(params)
            names = in_order.get(written) or in_order.setdefault(written, tuple(sorted(written)))
            calls.append(
                _CallArguments(
                    number, step, names, tuple([_comparison_key(params[name]) for name in names])
                )
            )
    return calls


def _comparison_key(value: Json) -> str | bytes:
    """Return a key that is equal for equal values."""
    return canonical_json(value) if isinstance(value, (dict, list)) else repr(value)


def _repeated_calls(subject: CheckContext, calls: list[_CallArguments]) -> Iterator[Diagnostic]:
    first: dict[tuple[object, ...], StepId] = {}
    for call in calls:
        step = call.step
        items = None if step.for_each is None else _comparison_key(step.for_each)
        same = first.setdefault((step.tool, call.names, call.values, items, step.when), step.id)
        if same != step.id and subject.tools[step.tool].is_made_once:
            yield make_diagnostic(
                "W802",
                f"/steps/{call.number}",
                f"step {step.id!r} makes the same call as step {same!r}",
                f"remove it and read `steps.{same}` instead",
            )


def _redundant_dependencies(subject: CheckContext) -> Iterator[Diagnostic]:
    graph = subject.graph
    wave = graph.wave_of()
    optional = frozenset(step.id for step in subject.plan.steps if step.optional)
    for number, step in enumerate(subject.plan.steps):
        if not step.depends_on:
            continue
        read = graph.reads[step.id]
        behind = _transitive_dependencies(graph, step.id, wave, optional)
        if not (read or behind) and len(set(step.depends_on)) == len(step.depends_on):
            continue
        named: set[StepId] = set()
        for place, name in enumerate(step.depends_on):
            why = _why_redundant(name, named, read, behind)
            named.add(name)
            if why is not None:
                yield make_diagnostic(
                    "W803",
                    f"/steps/{number}/depends_on/{place}",
                    f"step {step.id!r} waits for {name!r} anyway: {why}",
                    f"remove {name!r} from `depends_on`",
                )


def _why_redundant(
    name: StepId, named: Container[StepId], read: Container[StepId], behind: Mapping[StepId, StepId]
) -> str | None:
    if name in named:
        return "it is named twice"
    if name in read:
        return "an expression reads it"
    return f"{behind[name]!r} waits for it" if name in behind else None


def _transitive_dependencies(
    graph: PlanGraph, step_id: StepId, wave: Mapping[StepId, int], optional: frozenset[StepId]
) -> dict[StepId, StepId]:
    """Return which of a step's dependencies waits for what, as far as that is found soon.

    The failure of an optional step stops nothing: what is behind one alone may fail without
    stopping this step, so naming it changes something.
    """
    waited_for = graph.dependencies[step_id]
    if len(waited_for) < 2:
        return {}
    earliest = min([wave[name] for name in waited_for])
    reached_through: dict[StepId, StepId] = {}
    stopping = [name for name in waited_for if name not in optional]
    for name in sorted([name for name in stopping if wave[name] > earliest]):
        waiting = [name]
        while waiting and len(reached_through) < _MAX_STEPS_SEARCHED:
            before = [
                other
                for other in graph.dependencies[waiting.pop()]
                if other not in reached_through and wave[other] >= earliest
            ]
            reached_through.update(dict.fromkeys(before, name))
            waiting += [other for other in before if other not in optional]
    return reached_through


def _batchable_calls(calls: list[_CallArguments]) -> Iterator[Diagnostic]:
    alike: dict[tuple[object, ...], list[_CallArguments]] = {}
    for call in calls:
        step = call.step
        if step.for_each is None and step.when is None:
            policy = (step.optional, step.timeout, step.retry, step.budget)
            alike.setdefault((step.tool, call.names, step.depends_on, policy), []).append(call)
    for group in alike.values():
        if len(group) >= _MIN_BATCH:
            yield from _differing_in_one(group)


def _differing_in_one(group: list[_CallArguments]) -> Iterator[Diagnostic]:
    """Report calls of one tool, with the same parameters, that differ in the value of one of these
    only.
    """
    reported: set[int] = set()
    for place, name in enumerate(group[0].names):
        by_rest: dict[tuple[str | bytes, ...], list[_CallArguments]] = {}
        for call in group:
            by_rest.setdefault(call.values[:place] + call.values[place + 1 :], []).append(call)
        for same in by_rest.values():
            literal = [call for call in same if _is_literal(call.step.params[name])]
            if len(literal) >= _MIN_BATCH and reported.isdisjoint(call.number for call in literal):
                reported.update(call.number for call in literal)
                yield _batch_warning(literal, name)


def _is_literal(value: Json) -> bool:
    return isinstance(value, (str, int, float)) and not holds_expression(value)


def _batch_warning(calls: list[_CallArguments], name: str) -> Diagnostic:
    ids = [repr(call.step.id) for call in calls]
    named = ", ".join(ids[:4]) + (", …" if len(ids) > 4 else "")
    return make_diagnostic(
        "W804",
        f"/steps/{calls[0].number}",
        f"steps {named} call {calls[0].step.tool!r} with arguments that differ in {name!r} only",
        f"one step with `for_each` over the {len(ids)} values and {name}: ${{item}} does the same",
    )


def _template_references(subject: CheckContext) -> Iterator[Diagnostic]:
    for number, step in enumerate(subject.plan.steps):
        for pointer, text in iterate_strings(step.params, f"/steps/{number}/params"):
            reference = TEMPLATE_REFERENCE.search(text)
            if reference is not None:
                yield make_diagnostic(
                    "W807",
                    pointer,
                    f"{reference[0]!r} is not replaced: it reaches the tool as it stands",
                    f"did you mean ${{{reference[reference.lastindex or 0]}}}?",
                )


def _unreachable_steps(subject: CheckContext) -> Iterator[Diagnostic]:
    if all(step.when is None and step.for_each != [] for step in subject.plan.steps):
        return
    never: set[str] = set()
    for step_id in subject.graph.order():
        step = subject.steps[step_id]
        why, field = _why_never(step, never)
        if why is not None:
            never.add(step_id)
            yield make_diagnostic(
                "W805",
                f"/steps/{subject.numbers[step_id]}/{field}",
                f"step {step_id!r} can never run: {why}",
                "remove the step"
                + (", or fix the condition" if field == "when" else ", or give the list items"),
            )


def _why_never(step: Step, never: set[str]) -> tuple[str | None, str]:
    if step.for_each == []:
        return "its list is empty", "for_each"
    if step.when is None:
        return None, "when"
    condition = condition_use(step.when, "", "when").expression
    absent = sorted(guarded_steps(step.when) & never)
    if absent:
        return f"it asks for {absent[0]!r}, which never runs", "when"
    return ("its condition is always false" if _is_always_false(condition) else None), "when"


def _is_always_false(condition: str) -> bool:
    """Return whether a condition that reads nothing is false."""
    try:
        if reads(condition) or "now" in condition:
            return False
        return evaluate(condition, {}, _EPOCH) is False
    except ExpressionError:
        return False
