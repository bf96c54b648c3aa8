"""Sections of the report: documents with their graphs, gates in groups, costs of models, and the
times of the steps.

HTML and pictures in a document stay text (a page that opens from disk fetches nothing), and only
`http` and `https` links become links. Headings are set two levels lower, below those of the page.

A document asks for the picture of a graph by `content.graph`: `nodes` with `id`, `label` and
`kind`, and `edges` with `from`, `to` and `label`. Its things stand on rings around the first one.
Where nodes have an `origin` (how they were made), their colours show that in place of their kind; a
node with `evidence`, a list of `quote` and `source`, leads to its quotes. A graph of another shape
is not drawn; the package has it in any case.

Positions in the Gantt chart of the steps' times are percentages of its width, so that bars scale
with the page and text does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from wavewright.executor import GateRecord
from wavewright.planner import Json, JsonObject, StepId
from wavewright.planner.types import GateId, GateSeverity
from wavewright.reviewer.cost_records import NamedCost
from wavewright.reviewer.package.call_reports import cost_lines
from wavewright.reviewer.records import Package, StepReport
from wavewright.reviewer.report.charts import PlacedTick, Tick, linear_ticks
from wavewright.reviewer.values import grouped, shorten, visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


_MAX_CHARACTERS = 400_000

_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
"""Soft hyphens, zero-width spaces and joiners, byte order marks: common in web pages, removed from
documents.
"""


def markdown_to_html(text: str) -> Markup:
    """Return a document's text as safe HTML."""
    cut = text[:_MAX_CHARACTERS]
    if len(text) > _MAX_CHARACTERS:
        cut += f"\n\n(cut here: {len(text) - _MAX_CHARACTERS} more characters are in the package)"
    parser = _parser()
    tokens = parser.parse(visible(cut.translate(_INVISIBLE)))
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        alignment = token.attrs.pop("style", None)
        if isinstance(alignment, str) and alignment.startswith("text-align:"):
            # The content security policy allows no inline style; a class replaces it.
            token.attrSet("class", alignment.removeprefix("text-align:"))
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer nofollow")
    # The parser escapes all text, and its HTML rules are off, so all markup is its own.
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported here: few reports show Markdown.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.enable("table").disable(["image", "html_block", "html_inline"])
    setattr(parser, "validateLink", _is_web_link)  # noqa: B010 - the documented way to decide on links
    return parser


def _is_web_link(url: str) -> bool:
    return url.lower().startswith(("https://", "http://"))


_MAX_RECORDS = 60


@dataclass(frozen=True, slots=True)
class GateGroup:
    """The records of one gate on one step."""

    gate: GateId
    step: StepId
    kind: str
    severity: GateSeverity
    records: tuple[GateRecord, ...]
    """Failed ones first."""
    failed: int
    asked: int
    hidden: int
    is_replaced: bool

    @property
    def is_unevaluated(self) -> bool:
        """Whether there were no items to evaluate."""
        return any(record.verdict == "not_evaluated" for record in self.records)

    @property
    def colour(self) -> str:
        """The CSS class of its colour."""
        if not self.failed:
            return "s-ok"
        return "s-failed" if self.severity == "block" else "s-blocked"


def group_gates(
    records: Sequence[GateRecord], replaced: Mapping[StepId, StepId]
) -> list[GateGroup]:
    """Return the gates in groups: failed block gates, failed warn gates, passed ones, last those of
    replaced steps.
    """
    by_gate = grouped(records, lambda record: (record.gate, record.step))
    groups = [
        _group(gates, is_replaced=step in replaced) for (_gate, step), gates in by_gate.items()
    ]
    rank = {"s-failed": 0, "s-blocked": 1, "s-ok": 2}
    return sorted(groups, key=lambda group: (group.is_replaced, rank[group.colour]))


def _group(records: Sequence[GateRecord], *, is_replaced: bool) -> GateGroup:
    first = records[0]
    ordered = sorted(records, key=lambda record: not record.has_failed)
    return GateGroup(
        gate=first.gate,
        step=first.step,
        kind=first.kind,
        severity=first.severity,
        records=tuple(ordered[:_MAX_RECORDS]),
        failed=sum(1 for record in records if record.has_failed),
        asked=len(records),
        hidden=max(0, len(records) - _MAX_RECORDS),
        is_replaced=is_replaced,
    )


def failed_gate_steps(gates: Sequence[GateGroup]) -> dict[StepId, GateSeverity]:
    """Return the steps on which a gate failed, with the gravest severity."""
    failed: dict[StepId, GateSeverity] = {}
    for group in gates:
        if group.failed and failed.get(group.step) != "block":
            failed[group.step] = group.severity
    return failed


_MAX_ROWS = 100


@dataclass(frozen=True, slots=True)
class ModelCostSection:
    """The lines and tables of the section on models."""

    lines: tuple[str, ...]
    costs: tuple[tuple[str, tuple[NamedCost, ...]], ...]
    """Tables: titles with their rows."""


def model_cost_section(package: Package) -> ModelCostSection | None:
    """Return the section; None if no model was asked."""
    uses = package.model_uses
    if not uses.total.calls:
        return None
    groups = (
        ("By model", uses.models),
        ("By role", uses.roles),
        ("By rung", uses.rungs),
        ("By step", uses.steps),
        ("All together", (NamedCost(name="the run", cost=uses.total),)),
    )
    lines = tuple(cost_lines(uses, package.orchestrator_tokens, package.worker_tokens))
    return ModelCostSection(
        lines, tuple((title, rows[:_MAX_ROWS]) for title, rows in groups if rows)
    )


_MIN_BAR_PERCENT = 0.35
"""Minimum width of a bar in percent, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One step's time, in percent of the axis."""

    step: StepReport
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Gantt:
    """Bars in the order in which the steps began."""

    bars: tuple[Bar, ...]
    marks: tuple[PlacedTick, ...]
    """In percent of the axis, as the bars."""
    seconds: float = 0.0
    """Length of the axis."""


def draw_gantt(log: Sequence[StepReport]) -> Gantt:
    """Return the bars of the steps that ran; the axis begins with the first of them."""
    at_work = [(entry.started, entry) for entry in log if entry.started is not None]
    if not at_work:
        return Gantt((), ())
    at_work.sort(key=lambda pair: pair[0])
    begin = at_work[0][0]
    whole = max(started + entry.seconds for started, entry in at_work) - begin or 1e-6
    bars: list[Bar] = []
    for started, entry in at_work:
        width = max(_MIN_BAR_PERCENT, entry.seconds / whole * 100)
        bars.append(Bar(entry, min((started - begin) / whole * 100, 100 - width), width))
    marks = tuple(
        PlacedTick(tick.value / whole * 100, tick.label) for tick in duration_ticks(whole, 6)
    )
    return Gantt(tuple(bars), marks, whole)


def duration_ticks(seconds: float, most: int) -> list[Tick]:
    """Return marks at round durations from 0."""
    if seconds <= 0:
        return [Tick(0.0, "0")]
    units = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))
    fitting = [(size, name) for size, name in units if seconds >= 2 * size]
    unit, name = fitting[0] if fitting else (0.001, "ms")
    ticks = linear_ticks(0.0, seconds / unit, most)
    return [
        Tick(tick.value * unit, f"{tick.label} {name}" if tick.value else "0") for tick in ticks
    ]


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
    grouping = "origin" if any(node.get("origin") for node in shown.values()) else "kind"
    group_of = {name: _text(node, grouping) for name, node in shown.items()}
    groups = [*dict.fromkeys(group_of.values())]
    colours = {group: index % _COLOURS for index, group in enumerate(groups)}
    first, *others = shown
    # Things of one group stand side by side.
    ring = sorted(others[: MAX_LABELS - 1], key=lambda name: groups.index(group_of[name]))
    radius = max(130.0, 24.0 * len(ring) / math.tau)
    centre = (_WIDTH / 2, radius + _MARGIN)
    places = {first: centre, **_ring(ring, centre, radius)}
    rest = others[MAX_LABELS - 1 :]
    for part in _RINGS:
        size = int(math.tau * radius * part / _GAP)
        places |= _ring(rest[:size], centre, radius * part)
        rest = rest[size:]
    labelled = {first, *ring}
    nodes: list[RelationNode] = []
    for name, node in shown.items():
        quotes = [
            NodeQuote(_text(entry, "quote"), _text(entry, "source"))
            for entry in _objects(node.get("evidence"))
        ]
        anchor = _anchor(places[name][0], is_centre=name == first) if name in labelled else ""
        nodes.append(
            RelationNode(
                shorten(str(node.get("label") or name), _LABEL),
                ", ".join(filter(None, (_text(node, "kind"), _text(node, "origin")))),
                colours[group_of[name]],
                *places[name],
                anchor=anchor,
                quotes=tuple(quotes),
            )
        )
    lines: list[RelationLine] = []
    for edge in _objects(graph.get("edges")):
        start, end = str(edge.get("from")), str(edge.get("to"))
        if start in places and end in places:
            title = _title(edge, shown[start], shown[end])
            lines.append(RelationLine(*places[start], *places[end], title=title))
    return RelationPicture(
        _WIDTH,
        2 * centre[1],
        tuple(nodes),
        tuple(lines),
        tuple(colours.items()),
        len(named) - len(shown),
    )


def _objects(values: Json) -> list[JsonObject]:
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]


def _ring(
    names: Sequence[str], centre: tuple[float, float], radius: float
) -> dict[str, tuple[float, float]]:
    """Return a place for each name on an ellipse, the first one at the top."""
    angles = [math.tau * number / len(names) - math.pi / 2 for number in range(len(names))]
    return {
        name: (centre[0] + 1.25 * radius * math.cos(angle), centre[1] + radius * math.sin(angle))
        for name, angle in zip(names, angles, strict=True)
    }


def _anchor(x: float, *, is_centre: bool) -> str:
    if is_centre:
        return "middle"
    # The label of a dot on the left ends at it, so that it stands outside the ring.
    return "end" if x < _WIDTH / 2 - 1 else "start"


def _text(node: JsonObject, field: str) -> str:
    return str(node.get(field) or "")


def _title(edge: JsonObject, start: JsonObject, end: JsonObject) -> str:
    return " ".join(
        str(label) for label in (start.get("label"), edge.get("label"), end.get("label")) if label
    )
