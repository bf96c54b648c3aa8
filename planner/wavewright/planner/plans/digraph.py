"""What networkx finds in the dependencies of a plan's steps.

networkx takes 0.1 s to load, and most plans are checked and run without it: `PlanGraph` imports
this module when the first of them needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import networkx as nx

from wavewright.planner.types import StepId

_START: Final = StepId("")
"""Stands before all steps, where an algorithm needs one start; no step has this id."""


class DependencyDigraph:
    """An edge from each step to every step that depends on it; without attributes."""

    def __init__(self, dependencies: Mapping[StepId, Iterable[StepId]]) -> None:
        self._edges: nx.DiGraph[StepId] = nx.DiGraph()
        no_attributes = dict[str, object]()
        # Of this digraph alone: all its nodes and edges share one dictionary instead of having one
        # each.
        edges = self._edges
        edges.node_attr_dict_factory = edges.edge_attr_dict_factory = lambda: no_attributes  # type: ignore[method-assign, misc]
        self._edges.add_nodes_from(dependencies)
        for step, awaited in dependencies.items():
            self._edges.add_edges_from((before, step) for before in awaited)
        self._place = {step: number for number, step in enumerate(dependencies)}

    def generations(self) -> tuple[tuple[StepId, ...], ...]:
        """Return the topological generations, each in the order of the steps; without cycles and
        what follows them.
        """
        generations: list[tuple[StepId, ...]] = []
        with suppress(nx.NetworkXUnfeasible):
            for generation in nx.topological_generations(self._edges):
                generations.append(self._in_order(generation))  # noqa: PERF401 - kept if the next raises
        return tuple(generations)

    def shortest_cycles(self) -> tuple[tuple[StepId, ...], ...]:
        """Return one cycle of each strongly connected component, against the direction of the
        edges.

        It is a shortest one through the component's first step, with which it begins.
        """
        components = map(self._in_order, nx.strongly_connected_components(self._edges))
        cyclic = [steps for steps in components if len(steps) > 1]
        cyclic.sort(key=lambda steps: self._place[steps[0]])
        return tuple(self._shortest_cycle(steps) for steps in cyclic)

    def path(self, first: StepId, last: StepId) -> list[StepId] | None:
        """Return a shortest path from a step to one that waits for it; None where it does not."""
        try:
            return nx.bidirectional_shortest_path(self._edges, first, last)
        except nx.NetworkXNoPath:
            return None

    def longest_path(
        self, order: Iterable[StepId], seconds: Mapping[StepId, float]
    ) -> tuple[StepId, ...]:
        """Return the path of most seconds through steps given in topological order."""
        weighted: nx.DiGraph[StepId] = nx.DiGraph()
        ordered = [_START, *order]
        for step in ordered[1:]:
            for before in self._edges.pred[step] or (_START,):
                weighted.add_edge(before, step, weight=seconds[step])
        return tuple(nx.dag_longest_path(weighted, topo_order=ordered if weighted else None)[1:])

    def _shortest_cycle(self, component: tuple[StepId, ...]) -> tuple[StepId, ...]:
        """Return a shortest way from the component's first step back to it, by a copy in which it
        has split in two.
        """
        first, members = component[0], set(component)
        split: nx.DiGraph[StepId] = nx.DiGraph()
        for step in component:
            for before in self._edges.pred[step]:
                if before in members:
                    split.add_edge(step, _START if before == first else before)
        return tuple(nx.bidirectional_shortest_path(split, first, _START)[:-1])

    def _in_order(self, steps: Iterable[StepId]) -> tuple[StepId, ...]:
        return tuple(sorted(steps, key=self._place.__getitem__))
