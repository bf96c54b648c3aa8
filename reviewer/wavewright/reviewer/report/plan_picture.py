"""The layout of the plan's graph.

A *layer* is a wave; an edge that spans several layers takes a *slot* in each, so that no line runs
through a box; edges from the same step share their slots. An edge that others imply takes none and
is a plain curve. The order within a layer is found by barycentres and the positions by isotonic
regression, which keeps order and gaps and minimises the distance to each step's neighbours. The
layout is deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from wavewright.planner import StepId
from wavewright.reviewer.records import StepReport
from wavewright.reviewer.values import grouped

Direction = Literal["across", "down"]

_NODE_HEIGHT = 44.0
_SLOT = 10.0
"""Width, across the layer, of a slot for an edge."""
_PAD = 20.0
_TITLE = 26.0
"""Height above a layer for its name."""
_SWEEPS = 6
_MAX_SLOTS = 3000
MAX_DRAWN = 1000
"""Maximum steps of a plan that is drawn step by step; of a larger one, `fold_waves` gives the
waves.
"""


@dataclass(frozen=True, slots=True)
class StepNode:
    """A step's box, by its upper left corner."""

    step: StepReport
    x: float
    y: float
    width: float
    height: float = _NODE_HEIGHT

    @property
    def room(self) -> int:
        """Maximum characters of its name."""
        return int((self.width - 42) / 7.6)


@dataclass(frozen=True, slots=True)
class StepEdge:
    """An edge from a step to a dependent one, as an SVG path."""

    source: StepId
    target: StepId
    path: str
    is_implied: bool = False
    """Whether other edges lead from one step to the other, too."""


@dataclass(frozen=True, slots=True)
class WaveBand:
    """The area of a wave."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class PlanPicture:
    """The elements of the picture, in pixels."""

    width: float
    height: float
    direction: Direction
    nodes: tuple[StepNode, ...]
    edges: tuple[StepEdge, ...]
    bands: tuple[WaveBand, ...]

    @property
    def implied(self) -> int:
        """How many edges others imply."""
        return sum(edge.is_implied for edge in self.edges)


@dataclass(frozen=True, slots=True)
class FoldedWave:
    """A wave of a plan that is too large to be drawn step by step."""

    number: int
    steps: int
    statuses: Mapping[str, int]
    first: StepReport
    """The first step that did not end well, else the first one."""


@dataclass(eq=False, slots=True)
class _Slot:
    layer: int
    size: float
    """Its extent across the layer."""
    step: StepReport | None = None
    centre: float = 0.0
    before: list[_Slot] = field(default_factory=list["_Slot"])
    after: list[_Slot] = field(default_factory=list["_Slot"])


@dataclass(frozen=True, slots=True)
class _Chain:
    """The slots of an edge, both ends included."""

    source: StepId
    target: StepId
    slots: tuple[_Slot, ...]
    is_implied: bool


def draw_plan(log: Sequence[StepReport]) -> PlanPicture:
    """Return the picture of an execution log."""
    waves = sorted({entry.wave for entry in log})
    widest = max((sum(1 for entry in log if entry.wave == wave) for wave in waves), default=0)
    direction: Direction = "down" if len(waves) > 6 and widest <= 5 else "across"
    form = _layout_sizes(len(waves), direction)
    layers, chains = _layers(log, waves, form)
    _order(layers)
    _place(layers, gap=28.0 if form.down else 14.0)
    return _build_picture(layers, chains, waves, form)


@dataclass(frozen=True, slots=True)
class _LayoutSizes:
    """Sizes with which up to six layers fit side by side on a page of 1,280 pixels."""

    down: bool
    width: float
    """Width of a box."""
    gap: float
    """Distance between layers."""

    @property
    def size(self) -> float:
        """Size of a box across its layer."""
        return self.width if self.down else _NODE_HEIGHT

    @property
    def depth(self) -> float:
        """Size of a box along the edges."""
        return _NODE_HEIGHT if self.down else self.width


def _layout_sizes(layers: int, direction: Direction) -> _LayoutSizes:
    if direction == "down":
        return _LayoutSizes(down=True, width=176.0, gap=52.0)
    if layers <= 5:
        return _LayoutSizes(down=False, width=180.0, gap=56.0)
    if layers == 6:
        return _LayoutSizes(down=False, width=160.0, gap=36.0)
    return _LayoutSizes(down=False, width=168.0, gap=44.0)


def _layers(
    log: Sequence[StepReport], waves: Sequence[int], form: _LayoutSizes
) -> tuple[list[list[_Slot]], list[_Chain]]:
    layer_of = {wave: number for number, wave in enumerate(waves)}
    layers: list[list[_Slot]] = [[] for _ in waves]
    slots: dict[StepId, _Slot] = {}
    for entry in log:
        slot = _Slot(layer_of[entry.wave], form.size, entry)
        slots[entry.id] = slot
        layers[slot.layer].append(slot)
    chains: list[_Chain] = []
    passing: dict[tuple[StepId, int], _Slot] = {}
    implied = implied_edges(log)
    for entry in log:
        for source in entry.depends_on:
            if source not in slots or slots[source].layer >= slots[entry.id].layer:
                continue
            first, last = slots[source], slots[entry.id]
            is_implied = (source, entry.id) in implied
            chain = [first]
            if not is_implied and len(passing) < _MAX_SLOTS:
                for layer in range(first.layer + 1, last.layer):
                    if (source, layer) not in passing:
                        passing[source, layer] = _Slot(layer, _SLOT)
                        layers[layer].append(passing[source, layer])
                    chain.append(passing[source, layer])
            chain.append(last)
            _link_neighbours(chain)
            chains.append(_Chain(source, entry.id, tuple(chain), is_implied))
    return layers, chains


def _link_neighbours(chain: Sequence[_Slot]) -> None:
    for node, next_one in pairwise(chain):
        if next_one.layer == node.layer + 1 and next_one not in node.after:
            node.after.append(next_one)
            next_one.before.append(node)


def implied_edges(log: Sequence[StepReport]) -> set[tuple[StepId, StepId]]:
    """Return the edges between two steps that other edges connect, too: those that a transitive
    reduction leaves out.

    A step's ancestors are the bits of one integer, so that a thousand steps take milliseconds.
    """
    bits = {entry.id: 1 << number for number, entry in enumerate(log)}
    above: dict[StepId, int] = {}
    implied: set[tuple[StepId, StepId]] = set()
    for entry in sorted(log, key=lambda entry: entry.wave):
        sources = [source for source in entry.depends_on if source in above]
        reached = 0
        for source in sources:
            reached |= above[source]
        implied.update((source, entry.id) for source in sources if bits[source] & reached)
        above[entry.id] = reached | sum(bits[source] for source in sources)
    return implied


def _order(layers: list[list[_Slot]]) -> None:
    """Order every layer by the mean position of its neighbours, alternately down and up; ties keep
    the plan's order.
    """
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            layer.sort(key=_barycentres(layers, layer, down=down).__getitem__)


def _barycentres(
    layers: list[list[_Slot]], layer: list[_Slot], *, down: bool
) -> dict[_Slot, float]:
    if not layer:
        return {}
    other = layer[0].layer + (-1 if down else 1)
    neighbours = layers[other] if 0 <= other < len(layers) else []
    place = {slot: number / max(1, len(neighbours) - 1) for number, slot in enumerate(neighbours)}
    own = {slot: number / max(1, len(layer) - 1) for number, slot in enumerate(layer)}
    barycentres: dict[_Slot, float] = {}
    for slot in layer:
        linked = slot.before if down else slot.after
        barycentres[slot] = _mean([place[neighbour] for neighbour in linked], own[slot])
    return barycentres


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(layers: list[list[_Slot]], *, gap: float) -> None:
    """Set the centre of every slot across its layer: near its neighbours, in order, at least a gap
    apart.
    """
    for layer in layers:
        edge = 0.0
        for slot in layer:
            slot.centre = edge + slot.size / 2
            edge += slot.size + gap
        for slot in layer:
            slot.centre -= edge / 2
    for sweep in range(_SWEEPS + 2):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            requests = [
                _mean([neighbour.centre for neighbour in (*slot.before, *slot.after)], slot.centre)
                for slot in layer
            ]
            for slot, centre in zip(layer, _spread_centres(layer, requests, gap), strict=True):
                slot.centre = centre


def _spread_centres(layer: Sequence[_Slot], requests: Sequence[float], gap: float) -> list[float]:
    """Return the centres nearest to the requests, by least squares, that keep order and gaps."""
    offsets = [0.0]
    for node, next_one in pairwise(layer):
        tight = gap / 2 if node.step is None and next_one.step is None else gap
        offsets.append(offsets[-1] + (node.size + next_one.size) / 2 + tight)
    blocks: list[tuple[float, int]] = []
    for request, offset in zip(requests, offsets, strict=False):
        total, count = request - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            earlier_total, earlier_count = blocks.pop()
            total, count = total + earlier_total, count + earlier_count
        blocks.append((total, count))
    flat = [total / count for total, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(flat, offsets, strict=False)]


def _build_picture(
    layers: list[list[_Slot]], chains: Sequence[_Chain], waves: Sequence[int], form: _LayoutSizes
) -> PlanPicture:
    low = min((slot.centre - slot.size / 2 for layer in layers for slot in layer), default=0.0)
    high = max((slot.centre + slot.size / 2 for layer in layers for slot in layer), default=0.0)
    down, depth = form.down, form.depth
    stride = depth + form.gap
    main = [_PAD + (_TITLE if down else 0.0) + number * stride for number in range(len(layers))]
    across = _PAD - low + (0.0 if down else _TITLE)
    if down:
        across += 44.0

    def corner(slot: _Slot) -> tuple[float, float]:
        side = across + slot.centre - slot.size / 2
        return (side, main[slot.layer]) if down else (main[slot.layer], side)

    length = 2 * _PAD + max(0, len(layers) - 1) * stride + depth + (_TITLE / 2 if down else 0.0)
    breadth = across + high + _PAD
    width, height = (breadth, length) if down else (length, breadth)
    return PlanPicture(
        width=width,
        height=height,
        direction="down" if down else "across",
        nodes=tuple(
            StepNode(slot.step, *corner(slot), form.width)
            for layer in layers
            for slot in layer
            if slot.step is not None
        ),
        edges=tuple(
            StepEdge(
                chain.source,
                chain.target,
                _path(chain, main, across, depth, down=down),
                is_implied=chain.is_implied,
            )
            for chain in chains
        ),
        bands=tuple(_bands(waves, main, depth, width, height, down=down)),
    )


def _path(chain: _Chain, main: Sequence[float], across: float, depth: float, *, down: bool) -> str:
    points: list[tuple[float, float]] = []
    for number, slot in enumerate(chain.slots):
        side = across + slot.centre
        if number > 0:
            points.append((main[slot.layer], side))
        if number < len(chain.slots) - 1:
            points.append((main[slot.layer] + depth, side))

    def at(point: tuple[float, float]) -> str:
        first, second = (point[1], point[0]) if down else point
        return f"{first:.1f} {second:.1f}"

    parts = [f"M{at(points[0])}"]
    for one, next_one in pairwise(points):
        if one[1] == next_one[1]:
            parts.append(f"L{at(next_one)}")
            continue
        bend = (next_one[0] - one[0]) / 2
        parts.append(
            f"C{at((one[0] + bend, one[1]))} {at((next_one[0] - bend, next_one[1]))} {at(next_one)}"
        )
    return "".join(parts)


def _bands(
    waves: Sequence[int],
    main: Sequence[float],
    depth: float,
    width: float,
    height: float,
    *,
    down: bool,
) -> Iterator[WaveBand]:
    for wave, start in zip(waves, main, strict=True):
        if down:
            yield WaveBand(f"wave {wave}", 0.0, start - 14, width, depth + 28)
        else:
            yield WaveBand(f"wave {wave}", start - 14, 0.0, depth + 28, height)


def fold_waves(log: Sequence[StepReport]) -> list[FoldedWave]:
    """Return the waves of an execution log."""
    folded: list[FoldedWave] = []
    for number, steps in sorted(grouped(log, lambda entry: entry.wave).items()):
        wrong = [step for step in steps if step.status in {"failed", "blocked", "cancelled"}]
        # A wave leads to what went wrong in it.
        step = wrong[0] if wrong else steps[0]
        folded.append(FoldedWave(number, len(steps), statuses(steps), step))
    return folded


def statuses(log: Sequence[StepReport]) -> Mapping[str, int]:
    """Return how many steps ended in each status, in the order in which they first occur."""
    return Counter(entry.status for entry in log)
