"""Relations between named things, each with the row, the list item or the sentence that says it.

A relation is read from a row of an info box, a list under a heading that says what it lists, and a sentence in which
nothing but a verb phrase stands between two names. What is merely named side by side is no relation, and what is said
in quotation, asked or denied is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wavewright.tools.extraction.blocks import Block, PageStructure
from wavewright.tools.extraction.entities import EntityMention, Gazetteer, NamedEntity
from wavewright.tools.extraction.facts import subject_end
from wavewright.tools.extraction.kinds import FACTION, ITEM, LORE, ZONE
from wavewright.tools.extraction.relation_words import (
    KIND_PAIRS,
    PATH_SENTENCE,
    SIDE_SENTENCE,
    label_relation,
    points_elsewhere,
    verb_relation,
)

_AND: Final = re.compile(r"\s*(?:,\s*(?:and|or)?|and|or|&)\s+(?:(?:the|an?)\s+)?$")

_IMPERSONAL: Final = re.compile(r"(?:It|This) was\b|It is\b.* that\b")
_PERSON: Final = re.compile(r"(?:He|She)\b")
_THINGS: Final = frozenset({ZONE, ITEM, LORE, FACTION})


@dataclass(frozen=True, slots=True)
class FoundRelation:
    """What one thing is to another."""

    source: NamedEntity
    relation: str
    """A verb phrase in lower case with `_` between its words, such as `member_of`."""
    target: NamedEntity
    quote: str
    """The passage that says it, to the letter."""
    url: str


@dataclass(frozen=True, slots=True)
class _PlacedEntity:
    """A thing at a place of a sentence."""

    entity: NamedEntity
    start: int
    end: int


def relations(gazetteer: Gazetteer, pages: Sequence[PageStructure]) -> list[FoundRelation]:
    """Return what pages say of how things are related, each statement once.

    Args:
        gazetteer: The names; read from these pages or from more.
        pages: What is read: pages, or pieces of them under the address of the whole.
    """
    found = (one for page in pages for block in page.blocks for one in _of_block(gazetteer, page, block))
    return [*dict.fromkeys(one for one in found if one.source is not one.target)]


def _of_block(gazetteer: Gazetteer, page: PageStructure, block: Block) -> Iterator[FoundRelation]:
    if block.kind in {"quote", "heading"}:
        return
    subject = gazetteer.about(page)
    mentions = gazetteer.mentions(page, block, with_own=True)
    if block.kind == "row" and subject is not None:
        yield from _of_row(subject, page, block, mentions)
    elif block.kind == "item" and mentions and mentions[0].start == 0:
        yield from _of_item(subject, page, block, mentions)
    yield from _of_sentences(subject, page, block, mentions)


def _of_row(
    subject: NamedEntity, page: PageStructure, block: Block, mentions: Sequence[EntityMention]
) -> Iterator[FoundRelation]:
    named = [one for one in mentions if one.start >= len(block.label)]
    known = label_relation(block.label)
    for mention in named if known else _enumerated(block, named):
        relation, is_inverse = known or ("_".join(block.label.casefold().split()), False)
        yield _found(subject, relation, mention.entity, block.text, page.url, is_inverse=is_inverse)


def _enumerated(block: Block, mentions: Sequence[EntityMention]) -> list[EntityMention]:
    """Return the things that a row's value consists of: a label that is not known says nothing of other words."""
    rest = block.value
    for mention in mentions:
        rest = rest.replace(block.text[mention.start : mention.end], "", 1)
    return [] if re.search(r"\w", rest) else list(mentions)


def _of_item(
    subject: NamedEntity | None, page: PageStructure, block: Block, mentions: Sequence[EntityMention]
) -> Iterator[FoundRelation]:
    first = mentions[0].entity
    known = label_relation(block.heading)
    if subject is not None:
        pair = (
            KIND_PAIRS.get((subject.kind, first.kind))
            if block.heading and not points_elsewhere(block.heading)
            else None
        )
        if known is not None or pair is not None:
            # "Crew" on the page of a ship lists its members; on the page of a sailor it names the ship's.
            is_told_by_kinds = known is None or (pair is not None and pair[0] == known[0])
            relation, is_inverse = (pair if is_told_by_kinds else known) or ("", False)
            yield _found(subject, relation, first, block.text, page.url, is_inverse=is_inverse)
    for mention in mentions[1:]:
        if KIND_PAIRS.get((mention.entity.kind, first.kind)) == ("member_of", True):
            yield _found(first, "member_of", mention.entity, block.text, page.url)


def _of_sentences(
    subject: NamedEntity | None, page: PageStructure, block: Block, mentions: Sequence[EntityMention]
) -> Iterator[FoundRelation]:
    for sentence, start in block.sentence_places():
        if sentence.endswith("?"):
            continue
        named = [
            _PlacedEntity(one.entity, one.start - start, one.end - start)
            for one in mentions
            if start <= one.start and one.end <= start + len(sentence)
        ]
        if subject is not None and block.kind == "paragraph":
            end = subject_end(sentence, subject.name)
            if _IMPERSONAL.match(sentence) or (subject.kind in _THINGS and _PERSON.match(sentence)):
                end = 0
            if end and not any(one.start < end for one in named):
                named.insert(0, _PlacedEntity(subject, 0, end))
            yield from _of_place(subject, sentence, named, page.url)
        yield from _between(sentence, named, page.url)


def _of_place(
    subject: NamedEntity, sentence: str, named: Sequence[_PlacedEntity], url: str
) -> Iterator[FoundRelation]:
    """Yield what a sentence on the page of a place says of ways from it and of what lies to its sides."""
    for one in named:
        before = sentence[: one.start]
        if PATH_SENTENCE.fullmatch(before):
            yield _found(subject, "leads_to", one.entity, sentence, url)
        side = SIDE_SENTENCE.fullmatch(before)
        if side is not None:
            yield _found(one.entity, f"{side['side'].lower()}_of", subject, sentence, url)


def _between(sentence: str, named: Sequence[_PlacedEntity], url: str) -> Iterator[FoundRelation]:
    """Yield what the words between two names say; a verb holds for each name of an enumeration."""
    held: tuple[NamedEntity, str, bool] | None = None
    for first, second in pairwise(named):
        words = sentence[first.end : second.start]
        found = verb_relation(words, is_subject=first.start <= len("The "))
        if found is not None:
            held = (first.entity, *found)
        elif _AND.fullmatch(words) is None:
            held = None
        if held is not None:
            source, relation, is_inverse = held
            yield _found(source, relation, second.entity, sentence, url, is_inverse=is_inverse)


def _found(
    source: NamedEntity,
    relation: str,
    target: NamedEntity,
    quote: str,
    url: str,
    *,
    is_inverse: bool = False,
) -> FoundRelation:
    if is_inverse:
        source, target = target, source
    return FoundRelation(source, relation, target, quote, url)
