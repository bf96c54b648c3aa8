"""The dependency graph of a plan, and what follows from it.

A step *depends* on every step that its expressions read and on those it names in `depends_on`; a
*wave* is every step whose dependencies are met by earlier waves. A step that a patch adds may
*supersede* a finished one; of steps that supersede each other in turn, the first is the *origin*.
Everything here is linear in the plan and total: a plan with a cycle has a graph as well, which
names the cycle and orders the steps outside of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.language.plan import SUB_PLAN, Plan, Step
from wavewright.planner.plans.uses import ExpressionText, gate_reads, step_reads, step_texts
from wavewright.planner.types import Json, StepId

if TYPE_CHECKING:
    from wavewright.planner.plans.digraph import DependencyDigraph


def superseded_by(plan: Plan) -> dict[StepId, StepId]:
    """Return which step stands for which, in the plan's order."""
    known = {step.id for step in plan.steps}
    return {
        step.supersedes: step.id
        for step in plan.steps
        if step.supersedes is not None and step.supersedes in known and step.supersedes != step.id
    }


def superseded_steps(plan: Plan) -> dict[StepId, StepId]:
    """Return, for each step that was superseded, the step that stands for it now."""
    return {old: new for new, line in superseded_before(plan).items() for old in line}


def last_steps(plan: Plan) -> StepIds:
    """Return the steps that no other step reads, without those that a patch replaced: their outputs
    are the result of a plan that names none.
    """
    replaced = superseded_by(plan)
    return tuple(name for name in PlanGraph.of(plan).terminal if name not in replaced)


def inputs_behind(plan: Plan) -> dict[StepId, frozenset[str]]:
    """Return the inputs that each step rests on, by way of other steps as well, and what of them:
    `region`, `accounts.first`, `accounts[0]`.
    """
    behind: dict[StepId, frozenset[str]] = {}
    graph = PlanGraph.of(plan)
    for step_id in graph.order():
        own = {path for text in step_texts(graph.steps[step_id], 0) for path in _input_paths(text)}
        before = (behind[name] for name in graph.dependencies[step_id])
        behind[step_id] = frozenset(own).union(*before)
    return behind


def input_paths(value: Json) -> Iterator[str]:
    """Yield what the expressions in a value read of the job's inputs: `region`, `accounts[0]`."""
    for pointer, text in iterate_strings(value):
        yield from _input_paths(ExpressionText(pointer, text, "params"))


def _input_paths(text: ExpressionText) -> Iterator[str]:
    for use, reads in text.sound_reads:
        for read in reads:
            if read.root == "inputs" and read.name is not None:
                path = _PATH.match(use.expression, read.offset)
                yield read.name if path is None else path[0]


_PATH: Final = re.compile(r"\w+(?:\.\w+\b(?!\()|\[[^\[\]]+\])*")
"""A name, and the fields and places below it; a method is none."""


def superseding_origins(plan: Plan) -> dict[StepId, StepId]:
    """Return, for each step that supersedes another, the first step of that line."""
    return {new: older[-1] for new, older in superseded_before(plan).items()}


def superseded_before(plan: Plan) -> dict[StepId, tuple[StepId, ...]]:
    """Return, for each step that supersedes another, the steps of its line before it, the newest
    first.
    """
    lines: dict[StepId, tuple[StepId, ...]] = {}
    for old, new in superseded_by(plan).items():
        lines[new] = (old, *lines.get(old, ()))
    return lines


Durations = Mapping[StepId, float] | Callable[[Step], float]
"""Expected seconds of each step; where `for_each` multiplies calls, the caller says by how much."""

StepIds = tuple[StepId, ...]
"""Steps in an order, each once; a set would weigh four times as much, and a large plan has one a
step.
"""


class CriticalPath(NamedTuple):
    """The chain of dependencies that takes longest: no schedule ends sooner than this."""

    steps: tuple[StepId, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class PlanGraph:
    """Which step depends on which. Steps keep the plan's order wherever the order is free.

    networkx finds cycles and critical paths, and orders a plan that lists a step before one
    that it depends on: see `digraph`.

    >>> from wavewright.planner import Plan, PlanGraph, Step
    >>> plan = Plan(steps=(Step(id="a", tool="x"), Step(id="b", tool="x", depends_on=("a",))))
    >>> PlanGraph.of(plan).waves
    (('a',), ('b',))
    """

    steps: Mapping[StepId, Step]
    reads: dict[StepId, StepIds]
    """What each step's expressions read, whether there is such a step or not."""
    dependencies: Mapping[StepId, StepIds]
    """The steps of this plan that each step depends on; what it reads comes first."""
    dependants: Mapping[StepId, StepIds]
    """The steps that depend on each step."""
    terminal: StepIds
    """Steps that no other step reads, depends on or supersedes."""

    @classmethod
    def of(cls, plan: Plan, *, reads: dict[StepId, StepIds] | None = None) -> PlanGraph:
        """Return the graph of a plan, built once for as long as the plan exists.

        Unknown names and faulty expressions add no edge. A caller that knows what each step's
        expressions read passes it as `reads`, which saves parsing them again.
        """
        known = _GRAPH_CACHE.get(id(plan))
        if known is not None and known[0]() is plan:
            return known[1]
        graph = cls._build(plan, reads)
        number = id(plan)
        _GRAPH_CACHE[number] = ref(plan, lambda _: _GRAPH_CACHE.pop(number, None)), graph
        return graph

    @classmethod
    def _build(cls, plan: Plan, reads: dict[StepId, StepIds] | None) -> PlanGraph:
        steps: dict[StepId, Step] = {}
        for step in plan.steps:
            steps.setdefault(step.id, step)
        if reads is None:
            reads = {step_id: step_reads(step) for step_id, step in steps.items()}
        reads = {step_id: _interned(read, steps) for step_id, read in reads.items()}
        dependencies: dict[StepId, StepIds] = {}
        for step_id, step in steps.items():
            read = reads[step_id]
            awaited = _known_others((*read, *step.depends_on), step_id, steps)
            # One tuple where both are equal: of a large plan, that is 5 MB for 100,000 steps.
            dependencies[step_id] = read if awaited == read else awaited
        resting = {step.supersedes for step in steps.values()}.union(*dependencies.values())
        for gate in plan.gates:
            # A gate runs as soon as its step has its output, so the step waits for what the gate
            # reads.
            if gate.on is not None and gate.on in steps:
                awaited = (*dependencies[gate.on], *sorted(gate_reads(gate)))
                dependencies[gate.on] = _known_others(awaited, gate.on, steps)
        dependants: dict[StepId, list[StepId]] = {step_id: [] for step_id in steps}
        for step_id, awaited in dependencies.items():
            for before in awaited:
                dependants[before].append(step_id)
        return cls(
            steps=steps,
            reads=reads,
            dependencies=dependencies,
            dependants={step_id: tuple(waiting) for step_id, waiting in dependants.items()},
            terminal=tuple(step_id for step_id in steps if step_id not in resting),
        )

    @cached_property
    def digraph(self) -> DependencyDigraph:
        """An edge from each step to every step that depends on it."""
        return _digraph_of(self.dependencies)

    @cached_property
    def waves(self) -> tuple[StepIds, ...]:
        """Topological generations; without the steps of a cycle and those that depend on one."""
        if (numbers := self._listed_waves()) is not None:
            waves: list[list[StepId]] = [[] for _ in range(max(numbers.values(), default=-1) + 1)]
            for step_id, number in numbers.items():
                waves[number].append(step_id)
            return tuple(tuple(wave) for wave in waves)
        # Not `self.digraph`, which would take 0.5 kB a step for as long as the run lasts.
        return _digraph_of(self.dependencies).generations()

    @cached_property
    def cycles(self) -> tuple[StepIds, ...]:
        """One cycle of each strongly connected component: every step depends on the next, and the
        last on the first.
        """
        if sum(map(len, self.waves)) == len(self.steps):
            return ()
        return self.digraph.shortest_cycles()

    @property
    def width(self) -> int:
        """How many steps the widest wave has."""
        return max(map(len, self.waves), default=0)

    @property
    def depth(self) -> int:
        """How many waves there are."""
        return len(self.waves)

    @cached_property
    def free_waves(self) -> int:
        """How many waves only give results of sub-plans: they take no time, and no limit counts
        them.
        """
        if all(step.tool != SUB_PLAN for step in self.steps.values()):
            return 0
        return sum(all(self.steps[name].tool == SUB_PLAN for name in wave) for wave in self.waves)

    @property
    def edges(self) -> tuple[tuple[StepId, StepId], ...]:
        """Pairs of a step and one that depends on it, in the plan's order of the latter."""
        place = {step_id: number for number, step_id in enumerate(self.steps)}
        return tuple(
            (before, after)
            for after, awaited in self.dependencies.items()
            for before in sorted(awaited, key=place.__getitem__)
        )

    def order(self) -> tuple[StepId, ...]:
        """Return the steps in a topological order, wave after wave."""
        return tuple(chain.from_iterable(self.waves))

    def wave_of(self) -> dict[StepId, int]:
        """Return the number, from 0, of each step's wave."""
        return {step_id: number for number, wave in enumerate(self.waves) for step_id in wave}

    def _listed_waves(self) -> dict[StepId, int] | None:
        """Return the number of each step's wave, or None if one is listed before a step that it
        depends on.
        """
        wave_of: dict[StepId, int] = {}
        for step_id, awaited in self.dependencies.items():
            try:
                wave_of[step_id] = 1 + max([wave_of[before] for before in awaited], default=-1)
            except KeyError:
                return None
        return wave_of

    def ancestors(self, step_id: StepId) -> set[StepId]:
        """Return everything that a step depends on, directly or not."""
        return reached_from([step_id], self.dependencies) - {step_id}

    def descendants(self, step_id: StepId) -> set[StepId]:
        """Return everything that depends on a step, directly or not."""
        return reached_from([step_id], self.dependants) - {step_id}

    def priorities(self, seconds: Durations) -> dict[StepId, float]:
        """Return for each step the longest way from its start to the end of the plan.

        Among steps that are ready the one with the highest figure should start first: starting it
        late would make the whole run late.
        """
        took = self._seconds(seconds)
        remaining: dict[StepId, float] = {}
        for wave in reversed(self.waves):
            for step_id in wave:
                after = (
                    remaining[other] for other in self.dependants[step_id] if other in remaining
                )
                remaining[step_id] = took[step_id] + max(after, default=0.0)
        return remaining

    def critical_path(self, seconds: Durations) -> CriticalPath:
        """Return the longest chain of steps outside cycles."""
        took = self._seconds(seconds)
        steps = self.digraph.longest_path(self.order(), took)
        return CriticalPath(steps, sum(took[step_id] for step_id in steps))

    def _seconds(self, seconds: Durations) -> Mapping[StepId, float]:
        if callable(seconds):
            return {step_id: seconds(step) for step_id, step in self.steps.items()}
        return seconds


def reached_from(
    starts: Iterable[StepId], neighbours: Mapping[StepId, Iterable[StepId]]
) -> set[StepId]:
    """Return the steps that neighbours of some lead to, and theirs; in a cycle a start, too."""
    reached = set[StepId]()
    waiting = [*starts]
    while waiting:
        new = set(neighbours[waiting.pop()]) - reached
        reached |= new
        waiting += new
    return reached


_GRAPH_CACHE: Final = dict[int, tuple[ref[Plan], PlanGraph]]()
"""By the identity of their plans, which have no other that is cheap to compare; gone when the plan
is.
"""


def _interned(read: StepIds, steps: Mapping[StepId, Step]) -> StepIds:
    """Return the same names as the very strings that are the ids of steps, which saves memory."""
    return tuple([steps[name].id if name in steps else name for name in read]) if read else ()


def _known_others(
    names: Iterable[StepId], step_id: StepId, steps: Mapping[StepId, Step]
) -> StepIds:
    """Return the names, each once, of steps of the plan other than this one."""
    return tuple(dict.fromkeys([name for name in names if name in steps and name != step_id]))


def _digraph_of(dependencies: Mapping[StepId, StepIds]) -> DependencyDigraph:
    # Imported here: networkx takes 0.1 s to load, and most plans are checked and run without it.
    from wavewright.planner.plans.digraph import DependencyDigraph

    return DependencyDigraph(dependencies)
