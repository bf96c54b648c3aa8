"""The graph algorithms of plans, all of them networkx's.

Importing this module imports networkx, which takes 0.1 s: `plans.graph` does so when an order is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import networkx as nx

from wavewright.planner.types import StepId

if TYPE_CHECKING:
    _StepDiGraph = nx.DiGraph[StepId]
else:
    _StepDiGraph = nx.DiGraph

_START = StepId("")
"""Stands before all steps, where an algorithm needs one start; no step has this id."""


_NO_ATTRIBUTES: Final[dict[str, object]] = {}


class ThinDiGraph(_StepDiGraph):
    """A digraph without attributes: all nodes and edges share one empty dictionary instead of having one each."""

    node_attr_dict_factory = staticmethod(lambda: _NO_ATTRIBUTES)
    edge_attr_dict_factory = staticmethod(lambda: _NO_ATTRIBUTES)


def thin_digraph(dependencies: Mapping[StepId, Iterable[StepId]]) -> ThinDiGraph:
    """Return a digraph with an edge from each step to every step that depends on it."""
    digraph = ThinDiGraph()
    digraph.add_nodes_from(dependencies)
    digraph.add_edges_from((before, step) for step, awaited in dependencies.items() for before in awaited)
    return digraph


def generations(digraph: ThinDiGraph) -> tuple[tuple[StepId, ...], ...]:
    """Return the topological generations, each in the order of the nodes; without cycles and what follows them."""
    place = {step_id: number for number, step_id in enumerate(digraph)}
    found: list[tuple[StepId, ...]] = []
    try:
        for generation in nx.topological_generations(digraph):
            found.append(tuple(sorted(generation, key=place.__getitem__)))  # noqa: PERF401 - kept if the next raises
    except nx.NetworkXUnfeasible:
        pass
    return tuple(found)


def shortest_cycles(digraph: ThinDiGraph) -> tuple[tuple[StepId, ...], ...]:
    """Return one cycle of each strongly connected component, against the direction of the edges.

    It is a shortest one through the component's first node, with which it begins.
    """
    place = {step_id: number for number, step_id in enumerate(digraph)}
    components = (sorted(found, key=place.__getitem__) for found in nx.strongly_connected_components(digraph))
    cyclic = sorted((found for found in components if len(found) > 1), key=lambda found: place[found[0]])
    return tuple(_shortest_cycle(digraph, component) for component in cyclic)


def _shortest_cycle(digraph: ThinDiGraph, component: list[StepId]) -> tuple[StepId, ...]:
    """Return a shortest way from the component's first node back to it, by a copy in which it has split in two."""
    first, members = component[0], set(component)
    split = ThinDiGraph()
    for step_id in component:
        for before in digraph.pred[step_id]:
            if before in members:
                split.add_edge(step_id, _START if before == first else before)
    return tuple(nx.bidirectional_shortest_path(split, first, _START)[:-1])


def longest_path(
    digraph: ThinDiGraph, order: Iterable[StepId], seconds: Mapping[StepId, float]
) -> tuple[StepId, ...]:
    """Return the path of most seconds through nodes given in topological order."""
    order = (_START, *order)
    weighted: nx.DiGraph[StepId] = nx.DiGraph()
    weighted.add_weighted_edges_from(
        (before, step_id, seconds[step_id])
        for step_id in order[1:]
        for before in digraph.pred[step_id] or (_START,)
    )
    return tuple(nx.dag_longest_path(weighted, topo_order=order if weighted else None)[1:])


def ancestors(digraph: ThinDiGraph, node: StepId) -> set[StepId]:
    """Return every node from which a path leads to this one."""
    return nx.ancestors(digraph, node)  # pyright: ignore[reportUnknownMemberType] - stub without the node's type


def descendants(digraph: ThinDiGraph, node: StepId) -> set[StepId]:
    """Return every node to which a path leads from this one."""
    return nx.descendants(digraph, node)  # pyright: ignore[reportUnknownMemberType] - stub without the node's type
