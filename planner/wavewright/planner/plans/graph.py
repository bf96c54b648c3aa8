"""Which step stands for which.

A step that a patch adds may *supersede* a finished one, and stands for it from then on; of steps that supersede each
other in turn the first is the *origin* of the line.

Find the cycles of a graph that cannot be ordered.

A *knot* is a set of nodes each of which reaches every other (a strongly connected component); one cycle of each
knot is named, a shortest one through its first node, because mending that one is what the author can do next.
Nothing here recurses, so a chain of any length is safe.

The dependency graph of a plan, and what follows from it.

A step *depends* on every step that its expressions read and on those it names in `depends_on`; a *wave* is every
step whose dependencies are met by earlier waves. Everything here is linear in the plan and total: a plan with
a cycle has a graph as well, which names the cycle and orders the steps outside of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from weakref import ref

from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.plans.uses import gate_reads, step_reads
from wavewright.planner.types import StepId

if TYPE_CHECKING:
    import networkx as nx


def superseded_by(plan: Plan) -> dict[StepId, StepId]:
    """Return which step stands for which, in the plan's order."""
    known = {step.id for step in plan.steps}
    return {
        step.supersedes: step.id
        for step in plan.steps
        if step.supersedes is not None and step.supersedes in known and step.supersedes != step.id
    }


def superseding_origins(plan: Plan) -> dict[StepId, StepId]:
    """Return, for each step that supersedes another, the first step of that line."""
    found: dict[StepId, StepId] = {}
    for old, new in superseded_by(plan).items():
        found[new] = found.get(old, old)
    return found


Node = TypeVar("Node", bound=str)


def find_cycles(edges: Mapping[Node, frozenset[Node]]) -> list[tuple[Node, ...]]:
    """Return one cycle of each knot, each node leading to the next and the last to the first.

    Cycles come in the order of their first nodes in `edges`, and each starts with that node. Edges to nodes that
    are no keys of `edges` are ignored.
    """
    place = {node: number for number, node in enumerate(edges)}
    knots = sorted(
        (
            sorted(knot, key=place.__getitem__)
            for knot in _strongly_connected_components(edges)
            if len(knot) > 1 or knot[0] in edges[knot[0]]
        ),
        key=lambda knot: place[knot[0]],
    )
    return [_shortest_cycle(knot[0], frozenset(knot), edges, place) for knot in knots]


def _strongly_connected_components(edges: Mapping[Node, frozenset[Node]]) -> Iterator[list[Node]]:
    """Yield the strongly connected components: Kosaraju's algorithm, with stacks instead of recursion."""
    reverse: dict[Node, list[Node]] = {node: [] for node in edges}
    for node, others in edges.items():
        for other in others:
            if other in reverse:
                reverse[other].append(node)
    seen: set[Node] = set()
    for root in reversed(_finish_order(edges)):
        if root in seen:
            continue
        seen.add(root)
        knot = [root]
        for node in knot:
            new = [other for other in reverse[node] if other not in seen]
            seen.update(new)
            knot.extend(new)
        yield knot


def _finish_order(edges: Mapping[Node, frozenset[Node]]) -> list[Node]:
    """Return the nodes in the order in which a depth-first walk leaves them."""
    seen: set[Node] = set()
    left: list[Node] = []
    for start in edges:
        if start in seen:
            continue
        seen.add(start)
        walk = [(start, iter(edges[start]))]
        while walk:
            node, successors = walk[-1]
            following = next((other for other in successors if other in edges and other not in seen), None)
            if following is None:
                walk.pop()
                left.append(node)
            else:
                seen.add(following)
                walk.append((following, iter(edges[following])))
    return left


def _shortest_cycle(
    start: Node, knot: frozenset[Node], edges: Mapping[Node, frozenset[Node]], place: Mapping[Node, int]
) -> tuple[Node, ...]:
    """Search breadth-first from `start` inside its knot for the nearest way back."""
    came_from: dict[Node, Node] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        if start in edges[node]:
            return _path(node, came_from)
        for other in sorted(edges[node] & knot, key=place.__getitem__):
            if other not in came_from and other != start:
                came_from[other] = node
                waiting.append(other)
    raise AssertionError(start)  # every node of a knot has a way back to it


def _path(node: Node, came_from: Mapping[Node, Node]) -> tuple[Node, ...]:
    path = [node]
    while path[-1] in came_from:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


Durations = Mapping[StepId, float] | Callable[[Step], float]
"""Expected seconds of each step; where `for_each` multiplies calls, the caller says by how much."""

StepIds = tuple[StepId, ...]
"""Steps in an order, each once; a set would weigh four times as much, and a large plan has one a step."""


class CriticalPath(NamedTuple):
    """The chain of dependencies that takes longest: no schedule ends sooner than this."""

    steps: tuple[StepId, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """Who waits for whom. Steps stand in the plan's order wherever order is free."""

    steps: Mapping[StepId, Step]
    reads: dict[StepId, StepIds]
    """What each step's expressions read, whether there is such a step or not."""
    dependencies: dict[StepId, StepIds]
    """What each step waits for: steps of this plan only, without itself; first what it reads."""
    dependants: dict[StepId, StepIds]
    """Who waits for each step."""
    waves: tuple[StepIds, ...]
    """Generations; without the steps of a cycle and those that wait for one."""
    terminal: StepIds
    """Steps that no other step reads, depends on or supersedes."""
    cycles: tuple[StepIds, ...]
    """One cycle of each knot: every step waits for the next and the last for the first; none in a sound plan."""

    @classmethod
    def of(cls, plan: Plan, *, reads: dict[StepId, StepIds] | None = None) -> PlanGraph:
        """Return the graph of a plan; unknown names and faulty expressions add no edge.

        Whoever has found out what each step's expressions read can say so, and saves reading them again. A plan has
        one graph: whoever asks again for as long as the plan is there is given the same one.
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
        own = {
            step_id: _combine_dependencies(step_id, reads[step_id], step.depends_on, steps)
            for step_id, step in steps.items()
        }
        read = set[StepId]().union(*own.values())
        read |= {step.supersedes for step in steps.values() if step.supersedes is not None}
        dependencies = _with_gate_reads(own, plan, steps)
        dependants = _dependants_of(dependencies)
        waves = _topological_generations(dependencies, dependants)
        ordered = sum(map(len, waves)) == len(steps)
        return cls(
            steps=steps,
            reads=reads,
            dependencies=dependencies,
            dependants=dependants,
            waves=waves,
            terminal=tuple(step_id for step_id in steps if step_id not in read),
            cycles=() if ordered else tuple(find_cycles(_unordered_steps(waves, dependencies))),
        )

    @property
    def width(self) -> int:
        """How many steps the widest wave has."""
        return max(map(len, self.waves), default=0)

    @property
    def depth(self) -> int:
        """How many waves there are."""
        return len(self.waves)

    @property
    def edges(self) -> tuple[tuple[StepId, StepId], ...]:
        """Pairs of a step and one that waits for it, in the plan's order of the one that waits."""
        place = {step_id: number for number, step_id in enumerate(self.steps)}
        return tuple(
            (before, after)
            for after, waited_for in self.dependencies.items()
            for before in sorted(waited_for, key=place.__getitem__)
        )

    def order(self) -> tuple[StepId, ...]:
        """Return the steps so that each stands after all that it waits for."""
        return tuple(step_id for wave in self.waves for step_id in wave)

    def wave_of(self) -> dict[StepId, int]:
        """Return the number, from 0, of each step's wave."""
        return {step_id: number for number, wave in enumerate(self.waves) for step_id in wave}

    def ancestors(self, step_id: StepId) -> frozenset[StepId]:
        """Return everything that a step waits for, directly or not."""
        return self._reach(step_id, self.dependencies)

    def descendants(self, step_id: StepId) -> frozenset[StepId]:
        """Return everything that waits for a step, directly or not."""
        return self._reach(step_id, self.dependants)

    def priorities(self, seconds: Durations) -> dict[StepId, float]:
        """Return for each step the longest way from its start to the end of the plan.

        Among steps that are ready the one with the highest figure should start first: starting it late would
        make the whole run late.
        """
        took = self._seconds(seconds)
        remaining: dict[StepId, float] = {}
        for wave in reversed(self.waves):
            for step_id in wave:
                after = (remaining[other] for other in self.dependants[step_id] if other in remaining)
                remaining[step_id] = took[step_id] + max(after, default=0.0)
        return remaining

    def critical_path(self, seconds: Durations) -> CriticalPath:
        """Return the longest chain; of equally long ones the first in the plan's order."""
        remaining = self.priorities(seconds)
        if not remaining:
            return CriticalPath((), 0.0)
        path = [self._first_longest(self.waves[0], remaining)]
        while later := [other for other in self.dependants[path[-1]] if other in remaining]:
            path.append(self._first_longest(later, remaining))
        return CriticalPath(tuple(path), remaining[path[0]])

    def to_networkx(self) -> nx.DiGraph[StepId]:
        """Return the graph for networkx, with each step's tool; imports networkx, which takes 0.3 s."""
        import networkx as nx

        graph: nx.DiGraph[StepId] = nx.DiGraph()
        for step_id, step in self.steps.items():
            graph.add_node(step_id, tool=step.tool)
        graph.add_edges_from(self.edges)
        return graph

    def _seconds(self, seconds: Durations) -> Mapping[StepId, float]:
        if callable(seconds):
            return {step_id: seconds(step) for step_id, step in self.steps.items()}
        return seconds

    @staticmethod
    def _first_longest(steps: Iterable[StepId], remaining: Mapping[StepId, float]) -> StepId:
        return max(steps, key=remaining.__getitem__)

    @staticmethod
    def _reach(start: StepId, edges: Mapping[StepId, Iterable[StepId]]) -> frozenset[StepId]:
        found: set[StepId] = set()
        waiting = list(edges[start])
        while waiting:
            step_id = waiting.pop()
            if step_id not in found:
                found.add(step_id)
                waiting.extend(edges[step_id])
        return frozenset(found - {start})


_GRAPH_CACHE: Final = dict[int, tuple[ref[Plan], PlanGraph]]()
"""By the identity of their plans, which have no other that is cheap to compare; gone when the plan is."""


def _interned(read: StepIds, steps: Mapping[StepId, Step]) -> StepIds:
    """Return the same names, as the very texts that the steps have for ids."""
    return tuple([steps[name].id if name in steps else name for name in read]) if read else ()


def _combine_dependencies(
    step_id: StepId, read: StepIds, named: StepIds, steps: Mapping[StepId, Step]
) -> StepIds:
    """Return the steps that are read or named; where the plan has just these in a tuple, that one."""
    if not read or not named:
        given = read or named
        names = set(given)
        if len(names) == len(given) and step_id not in names and steps.keys() >= names:
            return given
    return tuple({steps[name].id: None for name in (*read, *named) if name in steps and name != step_id})


def _with_gate_reads(
    own: dict[StepId, StepIds], plan: Plan, steps: Mapping[StepId, Step]
) -> dict[StepId, StepIds]:
    """Make a gated step wait for what its gates read: a gate runs as soon as its step has its output."""
    dependencies = own
    for gate in plan.gates:
        if gate.on is None or gate.on not in steps:
            continue
        waited_for = dependencies[gate.on]
        read = _combine_dependencies(gate.on, waited_for, tuple(sorted(gate_reads(gate))), steps)
        if len(read) > len(waited_for):
            if dependencies is own:
                dependencies = dict(own)
            dependencies[gate.on] = read
    return dependencies


def _dependants_of(dependencies: Mapping[StepId, StepIds]) -> dict[StepId, StepIds]:
    dependants: dict[StepId, list[StepId]] = {}
    for step_id, waited_for in dependencies.items():
        for other in waited_for:
            dependants.setdefault(other, []).append(step_id)
    return {
        step_id: tuple(dependants.pop(step_id)) if step_id in dependants else () for step_id in dependencies
    }


def _topological_generations(
    dependencies: Mapping[StepId, StepIds], dependants: Mapping[StepId, StepIds]
) -> tuple[StepIds, ...]:
    """Order by Kahn's way: what waits for nothing, then what waited for that alone, and so on."""
    place = {step_id: number for number, step_id in enumerate(dependencies)}
    missing = {step_id: len(waited_for) for step_id, waited_for in dependencies.items()}
    wave = [step_id for step_id, count in missing.items() if count == 0]
    waves: list[tuple[StepId, ...]] = []
    while wave:
        waves.append(tuple(wave))
        ready: list[StepId] = []
        for step_id in wave:
            for other in dependants[step_id]:
                missing[other] -= 1
                if missing[other] == 0:
                    ready.append(other)
        ready.sort(key=place.__getitem__)
        wave = ready
    return tuple(waves)


def _unordered_steps(
    waves: tuple[StepIds, ...], dependencies: Mapping[StepId, StepIds]
) -> dict[StepId, frozenset[StepId]]:
    """Return what could not be ordered: the steps of cycles, and those that wait for one."""
    ordered = {step_id for wave in waves for step_id in wave}
    return {
        step_id: frozenset(waited_for) - ordered
        for step_id, waited_for in dependencies.items()
        if step_id not in ordered
    }
