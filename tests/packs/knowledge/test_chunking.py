"""Chunks of documents: what they cover, where they are cut, and how they are known again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.packs.knowledge.chunking import (
    HEADING,
    TextDocument,
    chunks_of,
    defined_terms,
    sentence_spans,
)

GUIDE = """\
# Harbour guide

Boats come at dawn.

## Tides

The tide turns twice a day. Pilots know the hour. Nobody else does.

```
# no heading
low = 3. high = 9.
```

## Fees

| boat | fee |
|---|---|
| Petrel | 4 |
"""
LINES = st.lists(
    st.sampled_from(
        [
            "# Top",
            "## Part",
            "A short one. And another!",
            "- an item",
            "```",
            "",
            "| a | b |",
            "x" * 70,
        ]
    ),
    max_size=40,
)


def test_chunks_are_cut_at_headings_and_know_those_above() -> None:
    chunks = chunks_of(TextDocument("guide.md", "Harbour guide", GUIDE), chars=200, overlap=1)

    assert [chunk.headings for chunk in chunks] == [
        ("Harbour guide",),
        ("Harbour guide", "Tides"),
        ("Harbour guide", "Fees"),
    ]
    assert all(GUIDE[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert "# no heading" in chunks[1].text


def test_a_long_section_is_cut_between_sentences_and_the_parts_overlap_by_whole_ones() -> None:
    text = " ".join(f"Sentence number {number} is here." for number in range(60))

    first, second, *_ = chunks_of(TextDocument("long.md", "Long", text), chars=500, overlap=2)

    shared = text[second.start : first.end]
    assert len(first.text) <= 500
    assert shared.count("Sentence number") == 2
    assert shared.endswith("is here.")


@pytest.mark.parametrize("sentence_overlap", [0, 1])
def test_a_chunk_within_a_table_knows_the_headings_of_its_columns(sentence_overlap: int) -> None:
    head = "| Ship | Captain | Guns |\n|---|---|---|"
    rows = "\n".join(f"| Kestrel {number} | Ines Varga | {number} |" for number in range(60))
    text = f"# Ships\n\n{head}\n{rows}\n\n## After\n\n| is no table\n"

    chunks = chunks_of(TextDocument("a.md", "Ships", text), 500, sentence_overlap)

    assert len(chunks) > 4
    first, *within, last = chunks
    assert (first.table_head, last.table_head) == ("", "")
    assert {one.table_head for one in within} == {head}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        (
            '"Legal Entity" shall mean the union. Each Licensor grants it.',
            {"Legal Entity", "Licensor"},
        ),
        ('1.2. "Contributor Version"\n    means the combination of all.', {"Contributor Version"}),
        ("The “System Libraries” of a work include anything else.", {"System Libraries"}),
        ('Acme GmbH (the "Provider") and you (together the “Parties”).', {"Provider", "Parties"}),
        (
            "NAME\n  tally - counts\nDESCRIPTION\n  Tally reads FILE.",
            {"NAME", "DESCRIPTION", "FILE"},
        ),
        (
            '"Work" means it. "Use" means this. “The Site” means that. Show "Legal Notices" in HTML.',
            {"Work", "Use", "Site", "Legal Notices", "HTML"},
        ),
        (
            "“Work” means it, “Use” means this, “Site” means that.\n\n A. Use it.\n B. Include it.",
            {"Work", "Use", "Site", "A. Use", "B. Include"},
        ),
        (
            'Every Sunday and each Monday, any Friday and such Days, "Red Ada" sang at NASA.',
            {"Sunday", "Monday", "Friday", "Days"},
        ),
        ('The "Kestrel" sank off Kell. Ada ("Red Ada") wrote “Tides”.', set[str]()),
    ],
)
def test_terms_are_what_a_document_defines(text: str, terms: set[str]) -> None:
    assert {*defined_terms(text)} == terms


def test_an_unchanged_chunk_keeps_its_id_when_others_change() -> None:
    before = chunks_of(TextDocument("guide.md", "Harbour guide", GUIDE), chars=200, overlap=1)
    after = chunks_of(
        TextDocument("guide.md", "Harbour guide", GUIDE.replace("dawn", "noon")), 200, 1
    )

    assert [one.id for one in before][1:] == [one.id for one in after][1:]
    assert before[0].id != after[0].id
    assert before[0].id.startswith("guide-md-")


@given(LINES, st.integers(60, 300), st.integers(0, 3))
@settings(max_examples=volume(20, 60), deadline=None)
def test_every_word_is_in_a_chunk_no_chunk_is_too_long_and_ids_are_unique(
    lines: list[str], chars: int, overlap: int
) -> None:
    text = "\n".join(lines)

    chunks = chunks_of(TextDocument("any.md", "Any", text), chars, overlap)

    covered = {place for chunk in chunks for place in range(chunk.start, chunk.end)}
    assert all(place in covered or character.isspace() for place, character in enumerate(text))
    assert all(
        text[chunk.start : chunk.end] == chunk.text and len(chunk.text) <= chars for chunk in chunks
    )
    assert len({chunk.id for chunk in chunks}) == len(chunks)


def test_a_title_with_a_number_in_a_plain_text_is_no_part_of_the_sentence_below() -> None:
    text = "1. Crane\nOrtega reported that it was repaired.\n\n2.1 Budget\nDe Vries agreed.\n"
    item = "1. Write to the Port Authority of Rotterdam about\n   Pier Four\n"

    assert [text[one.start : one.end] for one in sentence_spans(text)] == [
        "1.",
        "Crane",
        "Ortega reported that it was repaired.",
        "2.1 Budget",
        "De Vries agreed.",
    ]
    *_, last = sentence_spans(item)
    assert item[last.start : last.end].rsplit(maxsplit=1)[-1] == "Four"
    assert item[last.start :].startswith("Write to")


def test_a_heading_with_a_long_run_of_blanks_is_read_in_one_pass() -> None:
    heading = HEADING.fullmatch("# a" + " " * 100_000 + "b ##")

    assert heading is not None
    assert heading["text"].split() == ["a", "b"]
