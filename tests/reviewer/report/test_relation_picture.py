"""The picture of a document's graph."""

from __future__ import annotations

import pytest

from wavewright.planner.types import Json
from wavewright.reviewer.report.sections import MAX_LABELS, MAX_NODES, draw_relations


def test_things_stand_on_a_ring_around_the_first_with_a_line_for_each_relation() -> None:
    nodes: list[Json] = [
        {"id": name, "label": name.upper(), "kind": "zone"} for name in ("a", "b", "c", "d")
    ]
    edges: list[Json] = [
        {"from": "a", "to": "b", "label": "leads to"},
        {"from": "a", "to": "nowhere"},
        "no edge",
    ]

    picture = draw_relations({"graph": {"nodes": nodes, "edges": edges}})

    assert picture is not None
    [line] = picture.lines
    centre, *ring = picture.nodes
    assert line.title == "A leads to B"
    assert (line.x1, line.y1) == (centre.x, centre.y) == (picture.width / 2, picture.height / 2)
    assert len({(node.x, node.y) for node in ring}) == 3
    assert all(0 < node.x < picture.width and 0 < node.y < picture.height for node in picture.nodes)


def test_a_large_graph_is_cut_and_says_so() -> None:
    nodes: list[Json] = [
        {"id": str(number), "kind": str(number)} for number in range(MAX_NODES + 5)
    ]

    picture = draw_relations({"graph": {"nodes": nodes, "edges": []}})

    assert picture is not None
    assert (len(picture.nodes), picture.left_out) == (MAX_NODES, 5)


def test_colours_tell_how_things_were_won_and_only_the_outer_ring_has_labels() -> None:
    origins = ("agent", "generated", "forced")
    nodes: list[Json] = [
        {"id": str(number), "kind": "place", "origin": origins[number % 3]}
        for number in range(MAX_NODES)
    ]

    picture = draw_relations({"graph": {"nodes": nodes, "edges": []}})

    assert picture is not None
    assert picture.kinds == (("agent", 0), ("generated", 1), ("forced", 2))
    assert {node.kind: node.colour for node in picture.nodes} == {
        "place, agent": 0,
        "place, generated": 1,
        "place, forced": 2,
    }
    assert len({(node.x, node.y) for node in picture.nodes}) == MAX_NODES
    assert sum(bool(node.anchor) for node in picture.nodes) == MAX_LABELS


@pytest.mark.parametrize(
    "content", [None, "text", {}, {"graph": []}, {"graph": {"nodes": [{"label": "x"}]}}]
)
def test_what_is_no_graph_is_not_drawn(content: Json) -> None:
    assert draw_relations(content) is None
