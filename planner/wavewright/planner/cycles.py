"""Find the cycles of a graph that cannot be ordered.

A *knot* is a set of nodes each of which reaches every other (a strongly connected component); one cycle of each
knot is named, a shortest one through its first node, because mending that one is what the author can do next.
Nothing here recurses, so a chain of any length is safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TypeVar

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
