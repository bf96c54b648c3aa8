"""The picture of a document's graph: things on a ring around the first one, with lines for their relations.

A document asks for it by `content.graph`: `nodes` with `id`, `label` and `kind`, and `edges` with `from`, `to` and
`label`. A graph of another shape is not drawn; the package has it in any case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.values import shorten

MAX_NODES = 60
"""Things that are drawn; further ones are left out."""

_WIDTH = 760.0
_MARGIN = 60.0
_COLOURS = 8
_LABEL = 26


@dataclass(frozen=True, slots=True)
class RelationNode:
    """A thing, with the place of its dot."""

    label: str
    kind: str
    colour: int
    x: float
    y: float
    anchor: str
    """Side of the dot on which the label stands, as in SVG."""


@dataclass(frozen=True, slots=True)
class RelationLine:
    """A relation between two things."""

    x1: float
    y1: float
    x2: float
    y2: float
    title: str


@dataclass(frozen=True, slots=True)
class RelationPicture:
    """A drawn graph."""

    width: float
    height: float
    nodes: tuple[RelationNode, ...]
    lines: tuple[RelationLine, ...]
    kinds: tuple[tuple[str, int], ...]
    """Kinds of things with their colours."""
    left_out: int


def draw_relations(content: Json) -> RelationPicture | None:
    """Return the picture of the graph in a document's content, or None where there is none."""
    graph = content.get("graph") if isinstance(content, dict) else None
    if not isinstance(graph, dict):
        return None
    named = {str(node["id"]): node for node in _objects(graph.get("nodes")) if node.get("id")}
    if not named:
        return None
    shown = dict([*named.items()][:MAX_NODES])
    kinds = {kind: index % _COLOURS for index, kind in enumerate(dict.fromkeys(map(_kind, shown.values())))}
    first, *others = shown
    # Things of one kind stand side by side.
    ring = sorted(others, key=lambda name: [*kinds].index(_kind(shown[name])))
    radius = max(130.0, 24.0 * len(ring) / math.tau)
    height = 2 * (radius + _MARGIN)
    places = {first: (_WIDTH / 2, height / 2)}
    for number, name in enumerate(ring):
        angle = math.tau * number / len(ring) - math.pi / 2
        places[name] = (_WIDTH / 2 + 1.25 * radius * math.cos(angle), height / 2 + radius * math.sin(angle))
    nodes = [
        RelationNode(
            shorten(str(node.get("label") or name), _LABEL),
            _kind(node),
            kinds[_kind(node)],
            *places[name],
            anchor="middle" if name == first else "end" if places[name][0] < _WIDTH / 2 - 1 else "start",
        )
        for name, node in shown.items()
    ]
    lines = [
        RelationLine(*places[start], *places[end], title=_title(edge, shown[start], shown[end]))
        for edge in _objects(graph.get("edges"))
        if (start := str(edge.get("from"))) in places and (end := str(edge.get("to"))) in places
    ]
    return RelationPicture(
        _WIDTH, height, tuple(nodes), tuple(lines), tuple(kinds.items()), len(named) - len(shown)
    )


def _objects(found: Json) -> list[JsonObject]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _kind(node: JsonObject) -> str:
    return str(node.get("kind") or "")


def _title(edge: JsonObject, start: JsonObject, end: JsonObject) -> str:
    return " ".join(str(one) for one in (start.get("label"), edge.get("label"), end.get("label")) if one)
