"""Relations between named things that the form of a page tells, each with its row or list item.

A relation is read from a row of an info box and from a list under a heading that says what it
lists. The words by which relations are told are of no one subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from wavewright.packs.extraction.blocks import Block, PageStructure
from wavewright.packs.extraction.entities import EntityMention, Gazetteer, NamedEntity
from wavewright.packs.extraction.kinds import FACTION, FOE, ITEM, LABELS, NPC, ZONE

Told: TypeAlias = tuple[str, bool]
"""A relation, and whether it leads from what is named second to what is named first."""

_KIN: Final = (
    "father mother son daughter brother sister husband wife spouse parent child sibling uncle aunt nephew niece cousin "
    "grandfather grandmother mentor teacher master apprentice student pupil servant ally friend companion rival enemy "
    "nemesis lover"
)
KINSHIP: Final = tuple(_KIN.split())
KIN_LABELS: Final[Mapping[str, str]] = {
    **{label: name for name in KINSHIP for label in (name, f"{name}s")},
    "parents": "parent",
    "children": "child",
    "siblings": "sibling",
    "wives": "wife",
    "allies": "ally",
    "enemies": "enemy",
    "family": "family",
    "relatives": "family",
    "relations": "family",
    "partner": "spouse",
    "married to": "spouse",
}
"""Label of a row to what the person that it names is to the subject."""
_TOLD_BY: Final[Mapping[str, Told]] = {
    "ways_out": ("leads_to", False),
    "ways_in": ("leads_to", True),
    "neighbours": ("connects_to", False),
    "presences": ("located_in", False),
    "memberships": ("member_of", False),
    "members": ("member_of", True),
    "parents": ("part_of", False),
    "parts": ("part_of", True),
    "led": ("leads", False),
    "leaders": ("leads", True),
    "owners": ("owns", True),
    "owned": ("owns", False),
    "makers": ("made_by", False),
}
_LABELS: Final[Mapping[str, Told]] = {
    label: told for name, told in _TOLD_BY.items() for label in LABELS[name]
} | {
    label: (f"{kin}_of" if kin != "family" else "family_of", True)
    for label, kin in KIN_LABELS.items()
}
KIND_PAIRS: Final[Mapping[tuple[str, str], Told]] = {
    **{(ZONE, kind): ("located_in", True) for kind in (NPC, FOE, ITEM)},
    **{(kind, ZONE): ("located_in", False) for kind in (NPC, FOE, ITEM)},
    (FACTION, NPC): ("member_of", True),
    (NPC, FACTION): ("member_of", False),
}
"""What a list on a page about the first kind, of the second kind, says."""
_NO_RELATION: Final = re.compile(
    r"\b(?:see also|mention\w*|related|references?|trivia|notes?|gallery|links?|sources?|external|disambiguation)\b"
)
"""Headings of lists that only point elsewhere."""


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


def relations(gazetteer: Gazetteer, pages: Sequence[PageStructure]) -> list[FoundRelation]:
    """Return what rows and lists say of how things are related, each statement once.

    Args:
        gazetteer: The names; read from these pages or from more.
        pages: What is read: pages, or pieces of them under the address of the whole.
    """
    found = (
        one for page in pages for block in page.blocks for one in _of_block(gazetteer, page, block)
    )
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


def _of_row(
    subject: NamedEntity, page: PageStructure, block: Block, mentions: Sequence[EntityMention]
) -> Iterator[FoundRelation]:
    named = [one for one in mentions if one.start >= len(block.label)]
    known = label_relation(block.label)
    for mention in named if known else _enumerated(block, named):
        relation, is_inverse = known or ("_".join(block.label.casefold().split()), False)
        yield _found(subject, relation, mention.entity, block.text, page.url, is_inverse=is_inverse)


def _enumerated(block: Block, mentions: Sequence[EntityMention]) -> list[EntityMention]:
    """Return the things that a row's value consists of: a label that is not known says nothing of
    other words.
    """
    rest = block.value
    for mention in mentions:
        rest = rest.replace(block.text[mention.start : mention.end], "", 1)
    return [] if re.search(r"\w", rest) else list(mentions)


def _of_item(
    subject: NamedEntity | None,
    page: PageStructure,
    block: Block,
    mentions: Sequence[EntityMention],
) -> Iterator[FoundRelation]:
    first = mentions[0].entity
    known = label_relation(block.heading)
    if subject is not None:
        pair = (
            KIND_PAIRS.get((subject.kind, first.kind))
            if block.heading and _NO_RELATION.search(block.heading.casefold()) is None
            else None
        )
        if known is not None or pair is not None:
            # "Crew" on the page of a ship lists its members; on the page of a sailor it names the
            # ship's.
            is_told_by_kinds = known is None or (pair is not None and pair[0] == known[0])
            relation, is_inverse = (pair if is_told_by_kinds else known) or ("", False)
            # Nobody is a member of a person, whatever the page is about.
            is_inverse = is_inverse or (relation == "member_of" and first.kind == NPC)
            yield _found(subject, relation, first, block.text, page.url, is_inverse=is_inverse)
    for mention in mentions[1:]:
        if KIND_PAIRS.get((mention.entity.kind, first.kind)) == ("member_of", True):
            yield _found(first, "member_of", mention.entity, block.text, page.url)


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


def label_relation(label: str) -> Told | None:
    """Return what a row's label or a list's heading says of what it names."""
    return _LABELS.get(" ".join(label.casefold().split()))
