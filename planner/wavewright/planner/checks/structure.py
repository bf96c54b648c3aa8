"""Families E1 and E4: ids and gates; dependencies, cycles and limits of size.

Ids are unique without regard to case and are no words of the expression language. One cycle is
reported for each strongly connected component, with its path; a plan with a cycle is not held
against the limit of waves. The faults of E1 that concern the text are found while it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from wavewright.planner.checks.context import CheckContext
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    RelatedPlace,
    make_diagnostic,
    suggest_name,
)
from wavewright.planner.language.plan import SUB_PLAN, Gate, Step
from wavewright.planner.plans.estimates import known_items
from wavewright.planner.plans.uses import gate_reads
from wavewright.planner.schemas.validation import InvalidSchemaError, validator_of
from wavewright.planner.types import GATE_ID_PATTERN, RESERVED_IDS, STEP_ID_PATTERN, StepId

_STEP_ID = re.compile(STEP_ID_PATTERN)
_GATE_ID = re.compile(GATE_ID_PATTERN)


def check_document(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what is wrong with ids and gates."""
    if not subject.plan.steps:
        yield make_diagnostic(
            "E120",
            "/steps",
            "the plan has no steps",
            "add a step, or answer {'cannot_plan': reason} instead of a plan",
        )
    yield from _check_step_ids(subject)
    yield from _check_gate_ids(subject)
    for number, gate in enumerate(subject.plan.gates):
        yield from _check_gate(subject, gate, f"/gates/{number}")


def _check_step_ids(subject: CheckContext) -> Iterator[Diagnostic]:
    seen: dict[str, StepId] = {}
    for number, step in enumerate(subject.plan.steps):
        folded = step.id.lower()
        pointer = f"/steps/{number}/id"
        if folded in RESERVED_IDS:
            yield make_diagnostic(
                "E118",
                pointer,
                f"no step can be called {step.id!r}: expressions use the word themselves",
                f"call it {step.id + '_step'!r}, for example",
            )
        elif not _STEP_ID.fullmatch(step.id):
            yield make_diagnostic(
                "E118",
                pointer,
                f"{step.id!r} is no id",
                "an id is an ASCII letter, then letters, digits and underscores, 63 characters at most",
            )
        elif folded in seen:
            first = seen[folded]
            same = "" if first == step.id else f"; it differs from {first!r} in case only"
            yield make_diagnostic(
                "E119",
                pointer,
                f"a second step is called {step.id!r}{same}",
                "rename one of the two",
                related=(RelatedPlace(f"/steps/{subject.numbers[first]}/id", "the other one"),),
            )
        seen.setdefault(folded, step.id)


def _check_gate_ids(subject: CheckContext) -> Iterator[Diagnostic]:
    seen: dict[str, str] = {}
    for number, gate in enumerate(subject.plan.gates):
        pointer = f"/gates/{number}/id"
        folded = gate.id.lower()
        if not _GATE_ID.fullmatch(gate.id):
            yield make_diagnostic(
                "E123",
                pointer,
                f"{gate.id!r} is no id for a gate",
                "use an ASCII letter, then letters, digits and _",
            )
        elif folded in seen:
            yield make_diagnostic(
                "E122", pointer, f"a second gate is called {gate.id!r}", "rename one of the two"
            )
        seen.setdefault(folded, gate.id)


def _check_gate(subject: CheckContext, gate: Gate, pointer: str) -> Iterator[Diagnostic]:
    if gate.on_tool is not None:
        yield make_diagnostic(
            "E123",
            f"{pointer}/on_tool",
            f"gate {gate.id!r} is on a tool, which only a goal template's gate can be",
            f"write `on:` with the id of a step that calls {gate.on_tool!r}",
        )
    if gate.schema_ is not None:
        try:
            validator_of(gate.schema_)
        except InvalidSchemaError as error:
            message = f"the schema of gate {gate.id!r} is no JSON Schema: {error}"
            hint = None
            if "$ref" in json.dumps(gate.schema_):
                hint = "references inside a schema must stay inside it; nothing is fetched"
            yield make_diagnostic("E123", f"{pointer}/schema", message, hint)
    if gate.fresh_within is not None:
        yield from _check_freshness(subject, gate, pointer)


def _check_freshness(subject: CheckContext, gate: Gate, pointer: str) -> Iterator[Diagnostic]:
    step = subject.steps.get(gate.on) if gate.on is not None else None
    signature = None if step is None else subject.signature(step)
    if step is not None and signature is not None and signature.freshness_field is None:
        yield make_diagnostic(
            "E123",
            f"{pointer}/fresh_within",
            f"gate {gate.id!r} asks how fresh {gate.on!r} is, but {step.tool!r} does not say of when its output is",
            "compare a time in the output with a `check` instead, such as now() - timestamp(output.as_of)",
        )


_MAX_PATH_SHOWN = 12


def check_graph(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what keeps the plan from being ordered, and which limits it passes."""
    known = subject.steps.keys()
    for number, step in enumerate(subject.plan.steps):
        if step.depends_on and (step.id in step.depends_on or not known >= set(step.depends_on)):
            yield from _check_dependencies(subject, step, f"/steps/{number}")
        if step.supersedes is not None or subject.superseded_by:
            yield from _check_supersedes(subject, step, f"/steps/{number}")
        if step.for_each is not None:
            yield from _check_item_count(subject, step, f"/steps/{number}")
    yield from _check_cycles(subject)
    yield from _check_size(subject)
    for number, gate in enumerate(subject.plan.gates):
        if gate.on is not None and gate.on not in subject.steps:
            yield make_diagnostic(
                "E407",
                f"/gates/{number}/on",
                f"gate {gate.id!r} is on {gate.on!r}, which no step defines",
                suggest_name(gate.on, subject.steps, what="steps"),
            )


def _check_dependencies(subject: CheckContext, step: Step, pointer: str) -> Iterator[Diagnostic]:
    for number, name in enumerate(step.depends_on):
        place = f"{pointer}/depends_on/{number}"
        if name == step.id:
            yield make_diagnostic(
                "E402", place, f"step {step.id!r} depends on itself", "remove it from `depends_on`"
            )
        elif name not in subject.steps:
            yield make_diagnostic(
                "E403",
                place,
                f"step {step.id!r} depends on {name!r}, which no step defines",
                suggest_name(name, subject.steps, what="steps"),
            )


def _check_supersedes(subject: CheckContext, step: Step, pointer: str) -> Iterator[Diagnostic]:
    name = step.supersedes
    if name is not None and (name == step.id or name not in subject.steps):
        itself = "itself" if name == step.id else f"{name!r}, which no step defines"
        yield make_diagnostic(
            "E408",
            f"{pointer}/supersedes",
            f"step {step.id!r} supersedes {itself}",
            "`supersedes` names the finished step that a patch redoes",
        )
    if step.id in subject.superseded_by:
        return
    # Gates are no longer asked of a superseded step, so nothing that counts may rest on it.
    for old in sorted(subject.superseded_by.keys() & subject.graph.dependencies[step.id]):
        new = subject.superseded_by[old]
        yield make_diagnostic(
            "E408",
            pointer,
            f"step {step.id!r} reads {old!r}, which {new!r} supersedes",
            f"read {new!r} instead",
        )


def _check_item_count(subject: CheckContext, step: Step, pointer: str) -> Iterator[Diagnostic]:
    items = known_items(subject.plan, step)
    if items is None:
        return
    signature = subject.signature(step)
    own = step.max_items or (signature.max_items if signature else subject.limits.max_items)
    limit = min(own, subject.limits.max_items)
    if len(items) > limit:
        yield make_diagnostic(
            "E406",
            f"{pointer}/for_each",
            f"step {step.id!r} would run for {len(items)} items, and {limit} are allowed",
            "shorten the list, or raise "
            + (
                "the step's `max_items`"
                if own == limit
                else "`limits.max_items` of the goal template"
            ),
        )


def _check_cycles(subject: CheckContext) -> Iterator[Diagnostic]:
    for cycle in subject.graph.cycles:
        yield make_diagnostic(
            "E401",
            f"/steps/{subject.numbers[cycle[0]]}",
            f"these steps wait for each other: {path_text((*cycle, cycle[0]))}",
            _cycle_hint(subject, cycle),
        )


def _cycle_hint(subject: CheckContext, cycle: tuple[StepId, ...]) -> str:
    """Say how one of the steps comes to wait: a gate that reads, where there is one, is seen least
    easily.
    """
    pairs = list(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    for waiting, awaited in pairs:
        gate = _reading_gate(subject, waiting, awaited)
        if gate is not None:
            way = f"gate {gate.id!r}, which reads it"
            break
    else:
        waiting, awaited = pairs[-1]
        is_named = awaited in subject.steps[waiting].depends_on
        way = "`depends_on`" if is_named else "a reference"
    return f"each waits for the next; {waiting!r} waits for {awaited!r} through {way}, for example"


def _reading_gate(subject: CheckContext, waiting: StepId, awaited: StepId) -> Gate | None:
    """Return the gate that alone makes one step wait for another."""
    if awaited in subject.steps[waiting].depends_on or awaited in subject.graph.reads[waiting]:
        return None
    gates = (gate for gate in subject.plan.gates if gate.on == waiting)
    return next((gate for gate in gates if awaited in gate_reads(gate)), None)


def _check_size(subject: CheckContext) -> Iterator[Diagnostic]:
    limits, graph = subject.limits, subject.graph
    counted = [number for number, step in enumerate(subject.plan.steps) if step.tool != SUB_PLAN]
    count, depth = len(counted), graph.depth - graph.free_waves
    if count > limits.max_steps:
        yield make_diagnostic(
            "E404",
            f"/steps/{counted[limits.max_steps]}",
            f"the plan has {count} steps, and {limits.max_steps} are allowed",
            "calls that differ only in an item are one step with `for_each`; "
            "`limits.max_steps` of the goal template allows more",
        )
    if not graph.cycles and depth > limits.max_waves:
        chain = graph.critical_path(dict.fromkeys(graph.steps, 1.0)).steps
        yield make_diagnostic(
            "E405",
            f"/steps/{subject.numbers[chain[limits.max_waves]]}",
            f"the plan takes {depth} waves, one after the other, and {limits.max_waves} are allowed",
            f"the longest chain is {path_text(chain)}; "
            "`limits.max_waves` of the goal template allows more",
        )


def path_text(path: tuple[StepId, ...]) -> str:
    """Return `a -> b -> c`, with the middle left out where it is long."""
    if len(path) <= _MAX_PATH_SHOWN:
        return " -> ".join(path)
    ends = _MAX_PATH_SHOWN // 2
    left_out = len(path) - 2 * ends
    return " -> ".join((*path[:ends], f"… {left_out} more …", *path[-ends:]))
