"""How well code reads prose: sixteen documents that were written for this test, against a list of what
each names and says.

Biographies, histories, a manual, notes of meetings, licences and man pages. The gold list was written
with the documents, before they were read.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tools.calling import call
from wavewright.packs.extraction.prose import (
    ProseReader,
    ProseSettings,
    prose_note,
    prose_reader,
)
from wavewright.packs.knowledge.chunking import TextDocument, defined_terms, known_names
from wavewright.packs.knowledge.documents import DocumentChunks
from wavewright.packs.knowledge.generation import generate_records
from wavewright.packs.knowledge.models import Chunk, ChunkRecords, KnownName
from wavewright.tools.packs import load_pack

spacy = pytest.importorskip("spacy")
pytest.importorskip("selectolax")

FOLDER: Final = Path(__file__).with_name("prose")
GOLD: Final[dict[str, Any]] = json.loads((FOLDER / "gold.json").read_text())
MODEL: Final = ProseSettings().model

Triple = tuple[str, str, str]


@cache
def read_prose() -> dict[str, list[ChunkRecords]]:
    """Return the records of each document."""
    tools = {
        tool.signature.name: tool
        for tool in load_pack("knowledge", {"documents": "."}, FOLDER).tools
    }
    listed = DocumentChunks.model_validate(call(tools["knowledge.read_documents"], {"folder": "."}))
    found: dict[str, list[ChunkRecords]] = {name: [] for name in GOLD}
    for chunk in listed.chunks:
        records = generate_records(chunk, prose_reader(MODEL))
        if records is not None:
            found[chunk.document].append(records)
    return found


def names(document: str) -> dict[str, str]:
    return {one.name: one.type for records in read_prose()[document] for one in records.entities}


def triples(document: str) -> set[Triple]:
    return {
        (one.source, one.relation, one.target)
        for records in read_prose()[document]
        for one in records.relations
    }


def said(text: str, *known: str, title: str = "Log") -> set[Triple]:
    """Return what a text says of names, without the rest of any document."""
    chunk = Chunk(
        id="a",
        document="a.txt",
        title=title,
        text=text,
        start=0,
        end=len(text),
        names=tuple(KnownName(name=name) for name in known),
    )
    found = generate_records(chunk, prose_reader(MODEL))
    relations = () if found is None else found.relations
    return {(one.source, one.relation, one.target) for one in relations}


def test_most_names_of_prose_are_found_and_few_others() -> None:
    found = {(document, name) for document in GOLD for name in names(document)}
    known = {(document, name) for document, gold in GOLD.items() for name in gold["entities"]}

    assert len(found & known) / len(known) >= 0.75
    assert len(found & known) / len(found) >= 0.8


def test_most_names_of_prose_have_their_types() -> None:
    typed = [
        (names(document)[name], kind)
        for document, gold in GOLD.items()
        for name, kind in gold["entities"].items()
        if name in names(document)
    ]

    assert sum(found == kind for found, kind in typed) / len(typed) >= 0.8


def test_what_prose_is_said_to_relate_it_relates() -> None:
    found = {(document, *triple) for document in GOLD for triple in triples(document)}
    known = {(document, *triple) for document, gold in GOLD.items() for triple in gold["relations"]}

    assert len(found & known) >= 30
    assert len(found & known) / len(found) >= 0.8


@pytest.mark.parametrize("document", ["licence1.txt", "licence2.md", "man1.txt", "man2.txt"])
def test_licences_and_man_pages_give_few_records(document: str) -> None:
    assert len(names(document)) <= len(GOLD[document]["entities"]) + 2
    assert len(triples(document)) <= 1


def test_every_relation_quotes_a_sentence_that_stands_in_the_document() -> None:
    for document, every in read_prose().items():
        text = (FOLDER / document).read_text()
        for relation in (one for records in every for one in records.relations):
            [evidence] = relation.evidence
            assert text[evidence.start : evidence.end] == evidence.quote
            assert relation.source.split()[-1] in text
            assert relation.target.split()[-1] in evidence.quote or relation.target in text


def test_a_pronoun_is_the_one_name_of_its_kind_in_the_two_sentences_before() -> None:
    assert said("Helen Carter sails the old ferry. She was born in Oslo.") == {
        ("Helen Carter", "born in", "Oslo")
    }


@pytest.mark.parametrize(
    "text",
    [
        "Helen Carter met Peter Brandt. She was born in Oslo.",
        "The boat was late. He was born in Oslo.",
        "Helen Carter sails the old ferry. It rained. It rained. It rained. She was born in Oslo.",
        "Helen Carter sails the old ferry. He met nobody. She was born in Oslo.",
        "She met Helen Carter. She was born in Oslo.",
        "Tom Carter raised Ned Carter. It rained. Ed Vane joined the Navy. Carter lived in Lima. He was born in Oslo.",
    ],
    ids=["two names", "no name", "too far away", "two persons", "somebody before", "short name"],
)
def test_a_pronoun_that_may_be_anybody_is_nobody(text: str) -> None:
    assert not {one for one in said(text, title="Karl Oster") if one[1] == "born in"}


@pytest.mark.parametrize(
    "text",
    [
        "Helen Carter never lived in Oslo.",
        "Helen Carter would have lived in Oslo.",
        "If Helen Carter lived in Oslo, she would tell us.",
        "Did Helen Carter live in Oslo?",
        "The clerk claims that Helen Carter lived in Oslo.",
        "The clerk wrote: “Helen Carter lived in Oslo.”",
    ],
)
def test_what_is_denied_supposed_asked_claimed_or_quoted_is_no_relation(text: str) -> None:
    assert said(text) == set()


def test_a_university_has_no_son() -> None:
    text = (
        "Ann Holt studied at Leeds University. Their son, Erik Holt, founded Delta Cable in 1911."
    )

    assert {one for one in said(text) if one[1] == "son of"} == set()


def test_a_prize_is_not_the_person_whose_name_it_has() -> None:
    text = "Ann Holt was born in Hull. The Ann Holt Prize is awarded by the University of Leeds."

    assert ("Ann Holt", "born in", "Hull") in said(text)


def test_a_sentence_that_the_model_takes_for_one_name_names_who_does_something() -> None:
    text = "Thomas attended Government College Umuahia and won a scholarship to Leeds."

    assert not [one for one in read_types(text) if "attended" in one]


def test_whom_a_sentence_calls_kin_is_a_person() -> None:
    text = "She shared it with her husband, Frédéric Joliot-Curie. Globex met its rival, Initech."
    chunk = Chunk(id="a", document="a.md", title="a", text=text, start=0, end=len(text))

    found = generate_records(chunk, prose_reader(MODEL))

    assert found is not None
    types = {one.name: one.type for one in found.entities}
    assert types["Frédéric Joliot-Curie"] == "person"
    assert types.get("Initech") != "person"


def test_whoever_has_one_initial_is_a_person_beside_terms() -> None:
    found = read_types("J. Tolkien met C. Lewis in Oxford every Sunday.", "Sunday")

    assert found == {"J. Tolkien": "person", "C. Lewis": "person", "Oxford": "place"}


def read_types(text: str, *terms: str) -> dict[str, str]:
    """Return the names that a text alone gives, with their types."""
    chunk = Chunk(
        id="a", document="a.txt", title="a", text=text, start=0, end=len(text), terms=terms
    )
    found = generate_records(chunk, prose_reader(MODEL))
    return {} if found is None else {one.name: one.type for one in found.entities}


@pytest.mark.parametrize(
    "text",
    [
        "Add Lentils, carrots and stock. Run Docker as root. Wait until the Red Light blinks.",
        "-s, --size=SIZE put SIZE bytes per part; SIZE may be followed by K, M or G",
        "Bill to:                    From:\nHarbour Inn                 Delta Linen Service GmbH",
        "Subject: Visit to Bergen\nDate: Tue, 5 Mar 2024\nFrom: Anna Lind",
        "Clara Wolf war Pianistin. Sie wurde 1819 in Leipzig geboren. Sie heiratete 1840 Robert Brandt.",
    ],
    ids=["orders", "an option", "columns", "the head of a mail", "another language"],
)
def test_what_is_no_prose_of_the_models_language_names_nothing(text: str) -> None:
    assert read_types(text) == {}


def test_an_office_is_held_by_a_person() -> None:
    assert read_types("Lars Eide, our head of sales, will meet you.") == {"Lars Eide": "person"}


def test_whom_one_is_born_to_is_a_person_and_where_one_is_born_a_place() -> None:
    text = "In 1901 Ada Holm was born to Wren. Ben Holm was born in Marble."

    assert read_types(text) == {
        "Ada Holm": "person",
        "Wren": "person",
        "Ben Holm": "person",
        "Marble": "place",
    }


def test_a_name_that_is_cut_at_the_end_of_a_line_is_whole() -> None:
    text = "The well-\nknown chemist Marie Dupont-\nLeroy worked in Oslo."

    assert "Marie Dupont-Leroy" in read_types(text)


def test_whom_a_noun_describes_does_what_the_clause_behind_it_says() -> None:
    text = (
        "Ada Holm was an engineer who designed the Severn Viaduct. Ada Holm was a captain of the "
        "Red Company and an old friend of Tom Becker. "
        "Tom Becker, a sailor who led the Reed Company, died in Bath. Orla is a town ruled directly "
        "from Castle Thorne. Ned Vane was not a captain who led the Red Company. "
        "Ned Vane no longer lives in Bath."
    )

    assert said(text) == {
        ("Ada Holm", "designed", "Severn Viaduct"),
        ("Ada Holm", "captain of", "Red Company"),
        ("Ada Holm", "friend of", "Tom Becker"),
        ("Tom Becker", "led", "Reed Company"),
        ("Tom Becker", "died in", "Bath"),
        ("Orla", "ruled from", "Castle Thorne"),
    }


def test_titles_and_what_somebody_is_named_tell_people() -> None:
    text = (
        "Sister Odile lived in Orla. A boy named Pip Harrow guards the Salt Gate. "
        "Brackfield is a fortress west of Orla."
    )

    assert said(text) == {
        ("Sister Odile", "lived in", "Orla"),
        ("Pip Harrow", "guards", "Salt Gate"),
        ("Brackfield", "west of", "Orla"),
    }


def test_who_is_bought_is_a_company_and_its_head_is_not_that_of_the_buyer() -> None:
    text = (
        "The vessel is operated by Caledonian Sealines.\n\nCaledonian Sealines was bought by Nordlink "
        "Group in 2019. Its chief executive, Peter Halvorsen, apologised."
    )

    assert said(text) == {("Caledonian Sealines", "bought by", "Nordlink Group")}


def test_minutes_name_who_is_present_and_actions_are_of_nobody_else() -> None:
    text = (
        "Present: Ada Holm (chair; minutes), Priya Nair\n\nPriya opened the meeting.\n\n"
        "Owner: Platform Team\nFigure: Annual Revenue\n\n"
        "# Actions\n\n- Priya: send the budget\n- Tom: call\n"
    )
    names = known_names([TextDocument(name="a.md", title="Minutes", text=text)])

    assert [(one.name, one.type) for one in names[1:]] == [
        ("Ada Holm", "person"),
        ("Priya Nair", "person"),
    ]


def test_short_names_are_those_of_the_only_person_who_has_them() -> None:
    text = "Helen Carter founded Carter Maps. Helen married Peter Brandt. Brandt lived in Oslo."

    assert {one for one in said(text) if one[1] != "founded"} == {
        ("Helen Carter", "married", "Peter Brandt"),
        ("Peter Brandt", "lived in", "Oslo"),
    }


def test_without_a_model_only_forms_are_read_and_the_commands_that_change_it_are_named() -> None:
    chunk = Chunk(
        id="a",
        document="a.md",
        title="Ash",
        text="Helen Carter was born in Oslo.\n\n**Harbour:** Bel\n",
        start=0,
        end=50,
    )

    found = generate_records(chunk, ProseReader(None))

    assert found is not None
    assert [one.name for one in found.entities] == ["Ash"]
    assert [one.text for one in found.observations] == ["Harbour: Bel"]
    note = prose_note("xx_no_such_model")
    assert "python -m spacy download xx_no_such_model" in note
    assert "no prose" in note
    assert prose_note(MODEL) == ""


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "Ahlers war ein Orgelbauer, und er lernte bei Arp Schnitger, der in Hamburg eine Werkstatt hatte.",
            "python -m spacy download de_core_news_sm",
        ),
        (
            "Le village se trouve dans une vallée, et il est gouverné par une reine qui habite dans un château.",
            "python -m spacy download fr_core_news_sm",
        ),
        ("Helen Carter was born in Oslo, and she sailed the old ferry for many years there.", ""),
        ("Valve 12 Pump 13 Impeller 14 Gasket Motor Seal Hose Filter Basket Knob Switch Ring", ""),
        ("Er lernte bei Arp Schnitger.", ""),
    ],
    ids=["German", "French", "English", "no prose", "too short to tell"],
)
def test_documents_in_another_language_are_named_with_its_model(text: str, command: str) -> None:
    note = prose_note(MODEL, {"a.md": text})

    assert command in note
    assert ("a.md" in note) == bool(command)


def test_an_english_document_is_named_to_a_model_of_another_language(tmp_path: Path) -> None:
    spacy.blank("de").to_disk(tmp_path / "german")
    text = "Helen Carter was born in Oslo, and she sailed the old ferry for many years there."

    note = prose_note(str(tmp_path / "german"), {"a.md": text})

    assert "a.md" in note
    assert "python -m spacy download en_core_web_sm" in note


def generated(text: str, document: str = "a.txt") -> ChunkRecords:
    chunk = Chunk(
        id="a",
        document=document,
        title="a",
        text=text,
        start=0,
        end=len(text),
        terms=tuple(defined_terms(text)),
    )
    found = generate_records(chunk, prose_reader(MODEL))
    assert found is not None
    return found


def test_a_surname_that_the_model_takes_for_a_company_leaves_the_pronoun_open() -> None:
    found = generated(
        "Lovelace translated an article by Luigi Menabrea in 1843. She died in Marylebone in 1852."
    )

    assert not [one for one in found.relations if one.source == "Luigi Menabrea"]


def test_who_stands_for_nobodys_country() -> None:
    found = generated("The League fought Valdemar of Denmark, who had taken Visby in 1361.")

    assert not [one for one in found.relations if one.source == "Denmark"]


def test_most_sentences_tell_what_a_name_is() -> None:
    found = generated(
        "Augusta King was the child of Lord Byron and Annabella Milbanke. Falkner GmbH made pumps."
    )

    types = {one.name: one.type for one in found.entities}
    assert types["Annabella Milbanke"] == "person"
    assert types["Falkner GmbH"] == "organization"


def test_terms_that_a_document_defines_are_no_names() -> None:
    text = (
        '"Legal Entity" shall mean the union of the acting entity and all others. '
        "Legal Entity and Marta Kowalska signed in Oslo. Each Licensor grants a licence. "
        "Licensor paid Marta Kowalska."
    )

    assert {one.name for one in generated(text).entities} == {"Marta Kowalska", "Oslo"}


def test_a_sentence_in_capitals_names_nothing() -> None:
    text = (
        "IN NO EVENT SHALL THE COPYRIGHT HOLDER BE LIABLE FOR ANY LOSS OF USE, DATA, OR PROFITS. "
        "Marta Kowalska lives in Oslo."
    )

    assert {one.name for one in generated(text).entities} == {"Marta Kowalska", "Oslo"}


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (
            "Elin Sandberg was a painter. Her daughter Astrid became a physician in Gothenburg.",
            "Astrid",
            "person",
        ),
        ("Nordwetter GmbH is a company in Kiel.", "Kiel", "place"),
    ],
    ids=["kin, before what she became", "where a company is"],
)
def test_what_a_sentence_says_decides_who_is_somebody(text: str, name: str, kind: str) -> None:
    chunk = Chunk(id="a", document="a.md", title="a", text=text, start=0, end=len(text))

    found = generate_records(chunk, prose_reader(MODEL))

    assert found is not None
    assert {one.name: one.type for one in found.entities}[name] == kind
