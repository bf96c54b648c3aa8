"""Which names are of one entity."""

from __future__ import annotations

import pytest

from wavewright.packs.knowledge.graph.merging import find_merges
from wavewright.packs.knowledge.models import GraphEntity, QuotedEvidence


def named(name: str, kind: str = "thing", *aliases: str, document: str = "a.md") -> GraphEntity:
    quote = QuotedEvidence(quote=name, document=document, chunk=document, start=0, end=len(name))
    return GraphEntity(
        id=name.casefold(), name=name, type=kind, aliases=aliases, origin="agent", evidence=(quote,)
    )


@pytest.mark.parametrize(
    ("kept", "dropped"),
    [
        (named("The Iron Keep"), named("iron-keep")),
        (named("Élan Vey"), named("Elan Vey")),
        (named("Mira Fenn", "person", "Red Fenn"), named("Red Fenn")),
        (named("Captain Mira Fenn"), named("Mira Fenn", "person")),
        (named("Captain Mira Fenn"), named("Fenn")),
        (named("Captain Mira Fenn"), named("Captain Fenn")),
        (named("Mira Fenn"), named("M. Fenn")),
        (named("League of Salt Traders", "group"), named("LST")),
        (named("Fen Wardens"), named("Fen Warden")),
    ],
)
def test_names_of_one_entity_are_merged(kept: GraphEntity, dropped: GraphEntity) -> None:
    assert {(one.kept, one.dropped) for one in find_merges([dropped, kept])} == {
        (kept.id, dropped.id)
    }


@pytest.mark.parametrize(
    "entities",
    [
        [named("Mira Fenn"), named("Marek Fenn"), named("M. Fenn")],
        [named("Baron Aldo"), named("Baron Brann"), named("The Baron")],
        [named("Captain Mira Fenn"), named("Captain Marek Fenn"), named("Captain Fenn")],
        [named("Grey Landing"), named("Landing")],
        [named("Baron Aldo", document="a.md"), named("The Baron", document="b.md")],
        [named("Mercury", "planet"), named("mercury ", "metal")],
        [named("Mira Fenn", "person", "Red"), named("Old Tam", "person", "Red"), named("Red")],
        [named("Guide", "document"), named("guide", "document")],
    ],
)
def test_names_that_may_be_of_several_entities_are_left_apart(entities: list[GraphEntity]) -> None:
    assert find_merges(entities) == []


def test_entities_that_were_taken_apart_are_not_merged_by_a_detour() -> None:
    entities = [named("Captain Mira Fenn"), named("Mira Fenn"), named("M. Fenn")]

    apart = find_merges(entities, [("captain mira fenn", "mira fenn")])

    assert [(one.kept, one.dropped) for one in apart] == [("mira fenn", "m. fenn")]
