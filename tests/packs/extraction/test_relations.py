"""Relations that pages tell by rows and lists, each with its passage.

The scores are against the shared corpus, whose gold file only the test opens: pairs of characters
and factions, of characters and zones, and of zones in the direction that the data files give them.
"""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.repository.tree import ROOT
from wavewright.packs.extraction.entities import Gazetteer, NamedEntity
from wavewright.packs.extraction.kinds import FACTION, KINDS, NPC, ZONE
from wavewright.packs.extraction.prose import ProseSettings, prose_reader
from wavewright.packs.extraction.relations import FoundRelation, relations
from wavewright.packs.extraction.structure import SourcePage, read_structure
from wavewright.packs.text.cross_reference import normal_name

PROSE: Final = prose_reader(ProseSettings().model)

CORPUS: Final = ROOT.parent / "shared" / "corpus" / "wesnoth"


def told(*known: str, **texts: str) -> list[tuple[str, str, str]]:
    """Return the relations of Markdown pages, by name of page; `known` are names of other things."""
    pages = [
        read_structure(SourcePage(url=f"http://a.test/{name}", text=text))
        for name, text in texts.items()
    ]
    return [
        triple(one)
        for one in relations(
            Gazetteer(pages, KINDS, known=[NamedEntity(name, "thing") for name in known]), pages
        )
    ]


def triple(one: FoundRelation) -> tuple[str, str, str]:
    return (one.source.name, one.relation, one.target.name)


def test_rows_and_lists_relate_a_page_to_what_they_name_in_the_direction_of_their_words() -> None:
    ash = (
        "# Ash\n\nAsh is a town.\n\n**Leads to:** [Bel](bel)\n\n**Reached from:** [Tarn](tarn)\n\n"
        "## People\n\n- [Mara](mara), baker\n\n## See also\n\n- [Bok](bok)\n"
    )
    mara = "# Mara\n\nMara is a baker.\n\n**Brother:** [Bok](bok)\n\n**Motto:** Ash before all\n"
    bok = "# Bok\n\nBok is a smith.\n"

    assert told(
        ash=ash, bel="# Bel\n\nBel is a city.", tarn="# Tarn\n\nTarn is a lake.", mara=mara, bok=bok
    ) == [
        ("Ash", "leads_to", "Bel"),
        ("Tarn", "leads_to", "Ash"),
        ("Mara", "located_in", "Ash"),
        ("Bok", "brother_of", "Mara"),
    ]


def test_a_piece_of_a_page_is_read_with_names_that_are_known_from_the_rest() -> None:
    known = [NamedEntity("Mara Voss", NPC, "http://a.test/mara"), NamedEntity("Ash", ZONE)]
    piece = read_structure(
        SourcePage(url="http://a.test/mara", text="## Later years\n\n**Home:** Ash")
    )

    [found] = relations(Gazetteer([piece], KINDS, known=known), [piece])

    assert triple(found) == ("Mara Voss", "located_in", "Ash")
    assert (found.quote, found.url) == ("Home: Ash", "http://a.test/mara")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_relations_of_a_real_wiki_are_those_of_its_data_files() -> None:
    gold = json.loads((CORPUS / "gold" / "gold.json").read_text())
    places = {(name, zone) for name, npc in gold["npcs"].items() for zone in npc["zones"]}
    members = {(name, team) for name, npc in gold["npcs"].items() for team in npc["teams"]}
    ways = {(one["from"], one["to"]) for one in gold["connects_to"]}
    pages = [
        read_structure(
            SourcePage(url=f"http://a.test/{path.relative_to(CORPUS)}", html=path.read_text())
        )
        for folder in ("zones", "npcs", "factions", "lore", "items")
        for path in sorted((CORPUS / folder).iterdir())
    ]
    found = relations(Gazetteer(pages, KINDS, prose=PROSE), pages)
    for kinds, wanted in (((NPC, ZONE), places), ((NPC, FACTION), members), ((ZONE, ZONE), ways)):
        gold_pairs = {(normal_name(source), normal_name(target)) for source, target in wanted}
        pairs = {
            (normal_name(one.source.name), normal_name(one.target.name))
            for one in found
            if (one.source.kind, one.target.kind) == kinds
        }
        right = len(pairs & gold_pairs)
        print(kinds, {"precision": right / len(pairs), "recall": right / len(gold_pairs)})

        assert right / len(pairs) >= 0.8
        assert right / len(gold_pairs) >= 0.6


def test_names_of_a_row_of_several_are_known_and_whoever_a_sentence_calls_somebody_is_a_person() -> (
    None
):
    marsh = "# Marsh\n\nMarsh is a swamp.\n\n**Inhabitants:** Ann Quill, Bram Tolley and none\n\n**Allies:** Neutral\n"
    pages = [
        read_structure(SourcePage(url=f"http://a.test/{name}", text=text))
        for name, text in (
            ("marsh", marsh),
            ("hester", "# Hester\n\nHester is a recluse who lives alone.\n"),
        )
    ]

    found = {(one.name, one.kind) for one in Gazetteer(pages, KINDS, prose=PROSE).entities}

    assert found == {("Marsh", ZONE), ("Hester", NPC), ("Ann Quill", NPC), ("Bram Tolley", NPC)}
