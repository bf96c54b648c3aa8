"""The picture of a document's graph: things on rings around the first one, with lines for their relations.

A document asks for it by `content.graph`: `nodes` with `id`, `label` and `kind`, and `edges` with `from`, `to` and
`label`. Where nodes have an `origin` (how they were made), their colours show that in place of their kind; a node
with `evidence`, a list of `quote` and `source`, leads to its quotes. A graph of another shape is not drawn; the package
has it in any case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.values import shorten

MAX_NODES = 200
"""Things that are drawn; further ones are left out."""
MAX_LABELS = 61
"""Things with a label: the centre and those on the outer ring, which are the first ones."""

_WIDTH = 760.0
_MARGIN = 60.0
_COLOURS = 8
_LABEL = 26
_RINGS = (0.78, 0.62, 0.46, 0.3)
"""Of things without a label, as parts of the outer ring."""
_GAP = 20.0
"""Between things of a ring that have no label."""


@dataclass(frozen=True, slots=True)
class NodeQuote:
    """A passage that tells of a thing."""

    quote: str
    source: str


@dataclass(frozen=True, slots=True)
class RelationNode:
    """A thing, with the place of its dot."""

    label: str
    kind: str
    """What it is, and how it was made."""
    colour: int
    x: float
    y: float
    anchor: str
    """Side of the dot on which the label stands, as in SVG; empty where it has none."""
    quotes: tuple[NodeQuote, ...] = ()


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
    """Origins of things with their colours, or their kinds where they have no origins."""
    left_out: int

    @property
    def has_quotes(self) -> bool:
        """Whether a thing leads to its quotes."""
        return any(node.quotes for node in self.nodes)


def draw_relations(content: Json) -> RelationPicture | None:
    """Return the picture of the graph in a document's content, or None where there is none."""
    graph = content.get("graph") if isinstance(content, dict) else None
    if not isinstance(graph, dict):
        return None
    named = {str(node["id"]): node for node in _objects(graph.get("nodes")) if node.get("id")}
    if not named:
        return None
    shown = dict([*named.items()][:MAX_NODES])
    of = "origin" if any(node.get("origin") for node in shown.values()) else "kind"
    groups = dict.fromkeys(_text(node, of) for node in shown.values())
    colours = {group: index % _COLOURS for index, group in enumerate(groups)}
    first, *others = shown
    # Things of one group stand side by side.
    ring = sorted(others[: MAX_LABELS - 1], key=lambda name: [*groups].index(_text(shown[name], of)))
    radius = max(130.0, 24.0 * len(ring) / math.tau)
    centre = (_WIDTH / 2, radius + _MARGIN)
    places = {first: centre, **_ring(ring, centre, radius)}
    rest = others[MAX_LABELS - 1 :]
    for part in _RINGS:
        places |= _ring(rest[: (size := int(math.tau * radius * part / _GAP))], centre, radius * part)
        rest = rest[size:]
    labelled = {first, *ring}
    nodes = [
        RelationNode(
            shorten(str(node.get("label") or name), _LABEL),
            ", ".join(filter(None, (_text(node, "kind"), _text(node, "origin")))),
            colours[_text(node, of)],
            *places[name],
            anchor="" if name not in labelled else _anchor(places[name][0], is_centre=name == first),
            quotes=tuple(
                NodeQuote(_text(one, "quote"), _text(one, "source")) for one in _objects(node.get("evidence"))
            ),
        )
        for name, node in shown.items()
    ]
    lines = [
        RelationLine(*places[start], *places[end], title=_title(edge, shown[start], shown[end]))
        for edge in _objects(graph.get("edges"))
        if (start := str(edge.get("from"))) in places and (end := str(edge.get("to"))) in places
    ]
    return RelationPicture(
        _WIDTH, 2 * centre[1], tuple(nodes), tuple(lines), tuple(colours.items()), len(named) - len(shown)
    )


def _objects(found: Json) -> list[JsonObject]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _ring(names: Sequence[str], centre: tuple[float, float], radius: float) -> dict[str, tuple[float, float]]:
    """Return a place for each name on an ellipse, the first one at the top."""
    angles = [math.tau * number / len(names) - math.pi / 2 for number in range(len(names))]
    return {
        name: (centre[0] + 1.25 * radius * math.cos(angle), centre[1] + radius * math.sin(angle))
        for name, angle in zip(names, angles, strict=True)
    }


def _anchor(x: float, *, is_centre: bool) -> str:
    return "middle" if is_centre else "end" if x < _WIDTH / 2 - 1 else "start"


def _text(node: JsonObject, field: str) -> str:
    return str(node.get(field) or "")


def _title(edge: JsonObject, start: JsonObject, end: JsonObject) -> str:
    return " ".join(str(one) for one in (start.get("label"), edge.get("label"), end.get("label")) if one)
