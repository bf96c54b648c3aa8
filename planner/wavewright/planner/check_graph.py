"""Family E4: dependencies, cycles and the limits of size.

A *cycle* is named once for each knot of steps, with its path; where there is one, waves mean nothing and are not
counted. Every bound that a plan passes is reported, never applied silently.
"""

from __future__ import annotations

from collections.abc import Iterator

from wavewright.planner.check_subject import CheckContext
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.faults import make_diagnostic
from wavewright.planner.known_values import known_items
from wavewright.planner.models import Step
from wavewright.planner.suggestions import suggest_name
from wavewright.planner.types import StepId
from wavewright.planner.uses import gate_reads

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
            "shorten the list" + (", or raise the step's `max_items`" if own == limit else ""),
        )


def _check_cycles(subject: CheckContext) -> Iterator[Diagnostic]:
    numbers = {step.id: number for number, step in reversed(list(enumerate(subject.plan.steps)))}
    for cycle in subject.graph.cycles:
        yield make_diagnostic(
            "E401",
            f"/steps/{numbers[cycle[0]]}",
            f"these steps wait for each other: {path_text((*cycle, cycle[0]))}",
            _cycle_hint(subject, cycle),
        )


def _cycle_hint(subject: CheckContext, cycle: tuple[StepId, ...]) -> str:
    """Say how one of the steps comes to wait: a gate that reads, where there is one, is seen least easily."""
    pairs = list(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    ways = [(waiting, awaited, _waiting_reason(subject, waiting, awaited)) for waiting, awaited in pairs]
    waiting, awaited, way = next((each for each in ways if each[2].startswith("gate")), ways[-1])
    return f"each waits for the next; {waiting!r} waits for {awaited!r} through {way}, for example"


def _waiting_reason(subject: CheckContext, waiting: StepId, awaited: StepId) -> str:
    if awaited in subject.steps[waiting].depends_on:
        return "`depends_on`"
    if awaited in subject.graph.reads[waiting]:
        return "a reference"
    gates = (gate for gate in subject.plan.gates if gate.on == waiting and awaited in gate_reads(gate))
    return f"gate {next(gates).id!r}, which reads it"


def _check_size(subject: CheckContext) -> Iterator[Diagnostic]:
    count, limits, graph = len(subject.plan.steps), subject.limits, subject.graph
    if count > limits.max_steps:
        yield make_diagnostic(
            "E404",
            f"/steps/{limits.max_steps}",
            f"the plan has {count} steps, and {limits.max_steps} are allowed",
            "calls that differ only in an item are one step with `for_each`",
        )
    if not graph.cycles and graph.depth > limits.max_waves:
        chain = graph.critical_path(dict.fromkeys(graph.steps, 1.0)).steps
        numbers = {step.id: number for number, step in enumerate(subject.plan.steps)}
        yield make_diagnostic(
            "E405",
            f"/steps/{numbers[chain[limits.max_waves]]}",
            f"the plan takes {graph.depth} waves, one after the other, and {limits.max_waves} are allowed",
            f"the longest chain is {path_text(chain)}",
        )


def path_text(path: tuple[StepId, ...]) -> str:
    """Return `a -> b -> c`, with the middle left out where it is long."""
    if len(path) <= _MAX_PATH_SHOWN:
        return " -> ".join(path)
    ends = _MAX_PATH_SHOWN // 2
    left_out = len(path) - 2 * ends
    return " -> ".join((*path[:ends], f"… {left_out} more …", *path[-ends:]))
