"""Relations between named things, each with the row, the list item or the sentence that says it.

A relation is read from a row of an info box, a list under a heading that says what it lists, and a
sentence in which nothing but a verb phrase stands between two names. What is merely named side by
side is no relation, and what is said in quotation, asked or denied is none. The words by which
relations are told are of no one subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from wavewright.packs.extraction.blocks import Block, PageStructure, phrase_set, word_set
from wavewright.packs.extraction.entities import EntityMention, Gazetteer, NamedEntity
from wavewright.packs.extraction.facts import subject_end
from wavewright.packs.extraction.kinds import (
    FACTION,
    FOE,
    ITEM,
    LORE,
    NEIGHBOURS,
    NPC,
    PRESENCES,
    WAYS_IN,
    WAYS_OUT,
    ZONE,
)

_AND: Final = re.compile(r"\s*(?:,\s*(?:and|or)?|and|or|&)\s+(?:(?:the|an?)\s+)?$")

_IMPERSONAL: Final = re.compile(r"(?:It|This) was\b|It is\b.* that\b")
_PERSON: Final = re.compile(r"(?:He|She)\b")
_THINGS: Final = frozenset({ZONE, ITEM, LORE, FACTION})
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
MEMBERSHIPS: Final = phrase_set(
    "allegiance, allegiances, affiliation, affiliations, faction, factions, guild, order, member of, serves, "
    "organisation, organization, clan, sworn to, side, team, works for, employer, employed by, company, crew, union, "
    "corporation, memberships, group, groups, loyalty, loyal to"
)
PARENTS: Final = phrase_set(
    "part of, parent, parent faction, belongs to, subgroup of, branch of, under, answers to"
)
OWNERS: Final = phrase_set(
    "wielder, wielders, owner, owners, bearer, bearers, carried by, held by, wielded by, keeper, keepers, "
    "previous owners"
)
_LABELS: Final[Mapping[str, Told]] = {
    label: relation
    for relation, labels in (
        (("leads_to", False), WAYS_OUT),
        (("leads_to", True), WAYS_IN),
        (("connects_to", False), NEIGHBOURS),
        (("located_in", False), PRESENCES),
        (("member_of", False), MEMBERSHIPS),
        (
            ("member_of", True),
            phrase_set("members, known members, notable members, member, membership, ranks"),
        ),
        (("part_of", False), PARENTS),
        (
            ("part_of", True),
            phrase_set("contains, consists of, parts, subgroups, branches, chapters, includes"),
        ),
        (("leads", False), phrase_set("leader of, ruler of, commands, leads, rules, captain of")),
        (
            ("leads", True),
            phrase_set(
                "leader, leaders, led by, ruler, rulers, ruled by, governed by, head, chief, commander, captain, lord"
            ),
        ),
        (("owns", True), OWNERS),
        (
            ("owns", False),
            phrase_set("owns, carries, wields, possessions, belongings, carried items"),
        ),
        (
            ("made_by", False),
            phrase_set("maker, makers, made by, forged by, built by, creator, author, authors"),
        ),
    )
    for label in labels
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

_SIDES: Final = r"(?P<side>(?:north|south)-?(?:east|west)?|east|west)"
_DO: Final = r"(?:(?:now|still|also|only|always|openly|secretly|once|today|usually|often|directly|currently)\s+)?"
_PLACE: Final = r"(?:in|at|on|near|within|inside|beneath|below|under|above|outside|beside|by)"
_ARTICLE: Final = r"(?:\s+(?:the|an?|its|his|her|their))?\s*"
_HEADS: Final = (
    "leader|head|chief|captain|commander|ruler|king|queen|master|mistress|warden|boss|governor"
)
_MEMBERS: Final = "member|agent|servant|soldier|follower|officer|recruit|initiate|veteran"
_PARTS: Final = (
    "part|branch|chapter|wing|arm|division|section|district|quarter|component|subsystem|module"
)
_BE: Final = r"(?:is|are|was|were)"
_VERBS: Final[Mapping[str, Told]] = {
    rf"(?:lies?|stands?|sits?|lying|{_BE})\s+(?:\w+\s+)?(?:to\s+the\s+)?{_SIDES}\s+of": ("", False),
    r"(?:lives?|dwells?|stands?|lies?|sits?|rests?|resides?|works?|sleeps?|hides?|meets?|lived|dwelt|stood|lay)"
    rf"\s+{_PLACE}": ("located_in", False),
    rf"(?:{_BE}|(?:can|may)\s+be)\s+(?:located|situated|found|set|built|hidden|kept|buried|based|stored|met|seen|"
    rf"housed|moored|docked)\s+{_PLACE}": ("located_in", False),
    rf"(?:,|is|was)\s+(?:the|an?)\s+(?:[\w-]+\s+){{1,4}}?{_PLACE}": ("located_in", False),
    r"(?:leads?|opens?|runs?|climbs?|descends?|drops?|goes|winds?)\s+(?:\w+\s+)?(?:to|into|onto|towards?)": (
        "leads_to",
        False,
    ),
    rf"{_BE}\s+reached\s+(?:\w+\s+)?(?:from|by|through|via)": ("leads_to", True),
    rf"(?:borders?|adjoins?|neighbou?rs|(?:connects?|{_BE}\s+(?:connected|linked|joined))\s+(?:to|with)|"
    rf"(?:{_BE}|lies?)\s+(?:next|adjacent|close)\s+to)": ("connects_to", False),
    r"(?:leads|led|commands?|commanded|rules|ruled|heads|headed|governs|governed|runs)": (
        "leads",
        False,
    ),
    rf"{_BE}\s+(?:led|ruled|governed|commanded|headed|run)\s+by": ("leads", True),
    rf"(?:,|{_BE})\s+(?:the\s+|an?\s+)?(?:[\w-]+\s+){{0,2}}?(?:{_HEADS})\s+of": ("leads", False),
    rf"(?:belongs?\s+to|serves?(?:\s+(?:in|under|with))?|joined|(?:fights?|works?)\s+for|{_BE}\s+sworn\s+to)": (
        "member_of",
        False,
    ),
    rf"(?:,|{_BE})\s+(?:an?\s+|one\s+of\s+the\s+|the\s+)?(?:[\w-]+\s+){{0,2}}?(?:{_MEMBERS})s?\s+of": (
        "member_of",
        False,
    ),
    rf"{_BE}\s+(?:an?\s+|the\s+)?(?:[\w-]+\s+){{0,2}}?(?:{_PARTS})\s+of": ("part_of", False),
    r"(?:contains|includes|comprises)": ("part_of", True),
    r"(?:owns|owned|carries|carried|wields|wielded|holds|bears|keeps|wears)": ("owns", False),
    rf"{_BE}\s+(?:owned|carried|wielded|held|borne|kept|worn)\s+by": ("owns", True),
    rf"{_BE}\s+(?:made|forged|built|written|created|crafted|founded)\s+by": ("made_by", False),
    rf"(?:{_BE}\s+(?:allied\s+(?:with|to)|allies\s+of|friends\s+with)|fights?\s+beside|supports?)": (
        "ally_of",
        False,
    ),
    rf"(?:{_BE}\s+(?:at\s+war\s+with|hostile\s+to|(?:sworn\s+)?enemies\s+of)|hates?|opposes?|fights?(?:\s+against)?)": (
        "enemy_of",
        False,
    ),
}
"""What a verb phrase says; empty where its group `side` does."""
_PATTERNS: Final = tuple(
    (re.compile(f"{_DO}(?:{verb}){_ARTICLE}"), relation) for verb, relation in _VERBS.items()
)
_NOUN_OF: Final = re.compile(
    rf"(?:,|is|was|are|were)\s+(?:the\s+|an?\s+)?(?:[\w-]+\s+){{0,2}}?(?P<noun>[a-z][a-z-]{{2,}})\s+of{_ARTICLE}"
)
_PASSIVE: Final = re.compile(
    rf"(?:is|are|was|were)\s+{_DO}(?P<verb>[a-z]{{3,}}(?:ed|en|wn|lt|pt|ght|de))\s+(?P<with>by|to|with|from|for|in|on){_ARTICLE}"
)
_ACTIVE: Final = re.compile(
    rf"{_DO}(?P<verb>[a-z]{{2,}}[a-z](?:s|ed))(?:\s+(?P<with>to|with|from|for|into|on|upon|through|against|at|in|by))?"
    rf"{_ARTICLE}"
)
_NO_VERBS: Final = word_set(
    "is was has its his hers this thus as us yes does across towards afterwards besides perhaps always sometimes "
    "unless whereas versus plus minus less needed indeed red hundred theirs ours yours named called"
)
_NO_NOUNS: Final = word_set(
    "one some many most all any out because instead kind sort type name time"
)
MAX_VERB_PHRASE: Final = 90
"""Characters."""
_ASIDE: Final = re.compile(r"^\s*,[^,.;]{1,60},\s*")
PATH_SENTENCE: Final = re.compile(
    r"(?:From here,?\s+)?(?:The|A|An|Its|One)\s+(?:[\w-]+\s+){0,2}(?:road|path|way|bridge|tunnel|ferry|gate|stairs?|"
    r"door|trail|track|passage|corridor|lift|ladder|hatch|tram|shuttle)\s+(?:[\w-]+\s+){0,3}?(?:to|into|towards)\s+"
    r"(?:the\s+)?"
)
"""Of the beginning of a sentence about a place, up to where the way that it tells of leads."""
SIDE_SENTENCE: Final = re.compile(
    rf"(?:To|In|On|Towards)\s+the\s+{_SIDES},?\s+(?:is|are|lies?|stands?|rises?|across\s+\w+\s+\w+\s+is)\s+(?:the\s+)?",
    re.IGNORECASE,
)
"""Of the beginning of a sentence about a place, up to what lies on one side of it."""


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
            yield _found(subject, relation, first, block.text, page.url, is_inverse=is_inverse)
    for mention in mentions[1:]:
        if KIND_PAIRS.get((mention.entity.kind, first.kind)) == ("member_of", True):
            yield _found(first, "member_of", mention.entity, block.text, page.url)


def _of_sentences(
    subject: NamedEntity | None,
    page: PageStructure,
    block: Block,
    mentions: Sequence[EntityMention],
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
    """Yield what a sentence on the page of a place says of ways from it and of what lies to its
    sides.
    """
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
        between = sentence[first.end : second.start]
        found = verb_relation(between, is_subject=first.start <= len("The "))
        if found is not None:
            held = (first.entity, *found)
        elif _AND.fullmatch(between) is None:
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


def label_relation(label: str) -> Told | None:
    """Return what a row's label or a list's heading says of what it names."""
    return _LABELS.get(" ".join(label.casefold().split()))


def verb_relation(text: str, *, is_subject: bool) -> Told | None:
    """Return what the words between two names say, where they are a verb phrase and nothing else.

    Any verb counts where `is_subject`: where the sentence begins with the first name.
    """
    text = " ".join(_ASIDE.sub(" ", text, count=1).split())
    if not text or len(text) > MAX_VERB_PHRASE:
        return None
    for pattern, (relation, is_inverse) in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is not None:
            return relation or f"{match['side'].replace('-', '')}_of", is_inverse
    if not is_subject:
        return None
    noun = _NOUN_OF.fullmatch(text)
    if noun is not None and noun["noun"] not in _NO_NOUNS:
        return f"{noun['noun']}_of", False
    verb = _PASSIVE.fullmatch(text) or _ACTIVE.fullmatch(text)
    if verb is not None and verb["verb"] not in _NO_VERBS:
        return "_".join(filter(None, (verb["verb"], verb["with"]))), False
    return None
