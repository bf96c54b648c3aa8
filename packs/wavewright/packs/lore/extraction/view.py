"""The pages of a world as seen from one zone: what is in it, what its pages name, and where it
leads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, TypeAlias

from wavewright.packs.extraction import kinds
from wavewright.packs.extraction.blocks import PageStructure, clean_title, word_set
from wavewright.packs.extraction.entities import EntityMention, Gazetteer, NamedEntity
from wavewright.packs.extraction.facts import Fact, FactReader
from wavewright.packs.extraction.prose import Clause
from wavewright.packs.extraction.relations import KINSHIP
from wavewright.packs.lore.extraction import cues
from wavewright.packs.lore.models import Evidence, slug

_CONNECTION: Final = re.compile(
    r"(?:map |all |known )?(?:exits?|leads?|reached|connect\w*|neighbou?r\w*|adjacent|border\w*|ways? (?:in|out|on|to)|"
    r"paths?|roads?|routes?|passages?|portals?|travel\w*|links? to|entrances?|gates?|doors?|stairs?|teleports?|warps?|"
    r"how to (?:get|come)|getting (?:here|there)|onward|nearby|next to|beside|from here)\b"
)
_NO_CONNECTION: Final = re.compile(
    r"\b(?:see also|part|other|all|list|index|mention\w*|quests?|history|related|references?|contents?|contain\w*|"
    r"within|inside|sub\w*|places?|landmarks?|locations?|chapters?|story|lore|notes?)\b"
)
"""Headings of lists of zones that need not lead there."""
_WAY_IN: Final = re.compile(r"\b(?:from|reached|entered|ways? in)\b")
_BESIDE: Final = re.compile(
    r"(?:all |known )?(?:connect\w*|neighbou?r\w*|adjacent|border\w*|next to|nearby|beside|entrances?)\b"
)
_ENTERED: Final = re.compile(
    r"\b(?:reached|entered|accessed|approached) (?:\w+ )?(?:from|at|by|through|via|over|across|only)\b|"
    r"\b(?:reaches|enters) (?:it|here)\b"
)
"""Of sentences that say how one comes to the zone that they are about."""
_FROM: Final = re.compile(r"\b[Ff]rom\s+(?:the\s+)?$")
_TO: Final = re.compile(r"\b(?:to|into|onto|towards?)\s+(?:the\s+)?$")
_ROAD: Final = re.compile(
    r"\b(?:road|path|pass|bridge|trail|track|street|tunnel|causeway|river|canal)\b"
)
"""What can be gone both ways."""
_NOT_THERE: Final = word_set(
    "arrive be become belong come die disappear fear flee go hail hat hate have kill leave move need plan "
    "return seek vanish"
)
"""Verbs that do not say that who does it is in the zone whose page says so; the small English model
reads `hates` as one of `hat`.
"""
_HEARD: Final = word_set("ask hope know say tell want")
"""Verbs of sentences that tell what somebody knows or wants."""
_LEFT_THERE: Final = word_set("bury drop find hide leave lock lose place post seal station store")
"""Verbs after which a thing is still where they were done to it."""
_BEING: Final = re.compile(
    r"\b(?:in|at|on|near|within|beneath|below|above|outside|inside|aboard|beside|under)\s"
    r"(?:(?:\w+\s){1,4}of\s)?(?:the\s)?$",
    re.IGNORECASE,
)
_BELONGING: Final = re.compile(r"\b(?:of|from)\s(?:the\s)?$")
"""Of what stands right before a zone's name."""
_LABEL: Final = re.compile(
    r"(?!Born|Died|Drowned|Killed|Raised|Former|Once)(?:"
    r"[A-Z][a-z]+(?:(?:\s[a-z]+){0,3}\s(?:of|from)|\s(?:in|at|on|near))|"
    rf"(?!(?i:{'|'.join(KINSHIP)})\b)"
    r"[A-Z][a-z]+(?:\s[a-z]+)?\sof\s(?:the|an?)(?:\s[a-z]+){1,2}\s(?:in|at|on|near)"
    r")\s(?:the\s)?"
)
"""What stands before a zone's name in a label: `Innkeeper of`, `Lives in`, `Owner of the inn in`; the
wife of somebody there may be elsewhere.
"""


@dataclass(eq=False, slots=True)
class Subject:
    """A thing as one zone's research sees it: all that pages name by one name and kind."""

    name: str
    kind: str
    entities: list[NamedEntity] = field(default_factory=list[NamedEntity])
    located: list[Evidence] = field(default_factory=list[Evidence])
    """What says that it is in the zone."""
    mentioned: list[Evidence] = field(default_factory=list[Evidence])
    """What names it together with the zone."""

    @property
    def pages(self) -> list[PageStructure]:
        """The pages about it that were read."""
        return [entity.page for entity in self.entities if entity.page is not None]


class ZoneView:
    """What pages say of one zone."""

    def __init__(self, gazetteer: Gazetteer, zone: str) -> None:
        """Read nothing yet; `zone` is the zone's name or slug."""
        self.gazetteer = gazetteer
        self.zone_id = slug(zone)
        named = [entity for entity in gazetteer.entities if slug(entity.name) == self.zone_id]
        zones = [entity for entity in named if entity.kind == kinds.ZONE]
        own = [page for page in gazetteer.pages if slug(clean_title(page.title)) == self.zone_id]
        typed = {entity.page for entity in named if entity.kind != kinds.ZONE}
        self.pages = [entity.page for entity in zones if entity.page is not None] or [
            page for page in own if page not in typed
        ]
        spelled = [clean_title(page.title) for page in self.pages] + [
            entity.name for entity in zones
        ]
        self.name = spelled[0] if spelled else zone.replace("_", " ")
        self._zones = zones
        self.entity = (
            zones[0]
            if zones
            else NamedEntity(self.name, kinds.ZONE, page=next(iter(self.pages), None))
        )

    def subjects(self, *wanted: str) -> list[Subject]:
        """Return the things of some kinds that are in the zone, then those that its pages name,
        most often first.
        """
        found = [
            one for one in self._subjects if one.kind in wanted and (one.located or one.mentioned)
        ]
        return sorted(
            found,
            key=lambda one: (
                wanted.index(one.kind),
                not one.located,
                0 if one.located else -len(one.mentioned),
            ),
        )

    def connections(self) -> dict[str, list[Evidence]]:
        """Return the names of the zones that can be reached, each with what says so."""
        found: dict[str, list[Evidence]] = {}
        for name, evidence in self._connections():
            if slug(name) != self.zone_id:
                known = next((one for one in found if slug(one) == slug(name)), name)
                found.setdefault(known, []).append(evidence)
        return found

    @cached_property
    def _subjects(self) -> list[Subject]:
        by_name: dict[tuple[str, str], Subject] = {}
        subject_of: dict[NamedEntity, Subject] = {}
        for entity in self.gazetteer.entities:
            if entity.kind == kinds.ZONE and slug(entity.name) == self.zone_id:
                continue
            subject = by_name.setdefault(
                (entity.kind, slug(entity.name)), Subject(entity.name, entity.kind)
            )
            subject.entities.append(entity)
            subject_of[entity] = subject
        for page in self.pages:
            for block in page.blocks:
                for mention in self.gazetteer.mentions(page, block):
                    if mention.entity in subject_of and not _is_hearsay(mention):
                        subject = subject_of[mention.entity]
                        is_there = self._is_present(mention)
                        where = subject.located if is_there else subject.mentioned
                        where.append(evidence_of(mention))
        for subject in by_name.values():
            self._read_pages_of(subject)
        present = [one for one in by_name.values() if one.kind == kinds.NPC and one.located]
        for fact in (fact for one in present for fact in self._memberships(one)):
            subject_of[fact.target or self.entity].mentioned.append(
                Evidence(quote=fact.quote, url=fact.url)
            )
        return list(by_name.values())

    def _memberships(self, subject: Subject) -> Iterator[Fact]:
        """Yield what a character's own pages say of the factions that it belongs to."""
        for entity in subject.entities:
            for fact in FactReader(self.gazetteer, entity).facts([cues.MEMBERSHIP]):
                if any(fact.url == page.url for page in subject.pages):
                    yield fact

    def _read_pages_of(self, subject: Subject) -> None:
        """Add what a thing's own pages say of the zone."""
        for page in subject.pages:
            entity = next(entity for entity in subject.entities if entity.page is page)
            reader = FactReader(self.gazetteer, entity)
            for fact in reader.facts([cues.PRESENCE]):
                if slug(fact.value) == self.zone_id and subject.kind != kinds.ZONE:
                    subject.located.append(Evidence(quote=fact.quote, url=fact.url))
            for mention in self.zone_mentions:
                if mention.page is page:
                    is_in = subject.kind != kinds.LORE and (
                        _is_linked_item(mention) or self._stands_in(mention, reader)
                    )
                    where = subject.located if is_in else subject.mentioned
                    where.append(evidence_of(mention))

    def _is_present(self, mention: EntityMention) -> bool:
        """Whether a block of a zone's page says that a thing is there: a list, a row, a line that a
        character speaks, or what one does.
        """
        block = mention.block
        if block.kind == "quote":
            return mention.start < len(block.label)
        if block.kind == "row":
            return block.label.casefold() not in cues.ACCESS_LABELS
        if block.kind == "paragraph":
            return mention.entity.kind == kinds.NPC and self._does_something(mention)
        before = block.text[: mention.start].casefold().strip()
        return block.kind == "item" and (
            before in {"", "a", "an", "the"} or any(link.start == 0 for link in block.links)
        )

    def _does_something(self, mention: EntityMention) -> bool:
        """Whether somebody does what only who is there can do."""
        sentence, start = _sentence_of(mention)
        end = start + mention.end - mention.start
        clauses = self.gazetteer.prose.read(sentence).clauses
        is_heard = any(clause.verb in _HEARD for clause in clauses)
        return not is_heard and any(
            clause.is_present and clause.verb not in _NOT_THERE
            for clause in clauses
            if any(start <= one.head < end for one in clause.subjects)
        )

    def _stands_in(self, mention: EntityMention, reader: FactReader) -> bool:
        """Whether the page about a thing says that it is in the zone that is named: what it does
        there now, where it is found or was left, or what it is of it.
        """
        if mention.block.kind != "paragraph":
            return False
        sentence, start = _sentence_of(mention)
        clauses = self.gazetteer.prose.read(sentence).clauses
        end = reader.subject_end(sentence, mention.page)
        if _LABEL.fullmatch(sentence[:start]) and not end and not clauses:
            return True
        is_in, is_of = _BEING.search(sentence[:start]), _BELONGING.search(sentence[:start])
        return any(
            _is_still_so(clause) and (is_in or (is_of and clause.noun))
            for clause in clauses
            if clause.rest.start <= start < clause.rest.end
            # "Ada keeps it in Orla" says of a thing on its page where it is, too.
            and (
                any(one.head < end for one in clause.subjects)
                or any(one.pronoun for one in clause.objects)
            )
        )

    @cached_property
    def zone_mentions(self) -> list[EntityMention]:
        """Where other pages name the zone."""
        return [mention for zone in self._zones for mention in self.gazetteer.mentions_of(zone)]

    def _connections(self) -> Iterator[tuple[str, Evidence]]:
        mentions = [
            mention
            for page in self.pages
            for block in page.blocks
            for mention in self.gazetteer.mentions(page, block)
            if mention.entity.kind == kinds.ZONE
        ]
        # What this zone's pages say of ways out of it, then what other zones' pages say of ways
        # into them from here.
        for tells in (_listed_way, _told_way):
            for mention in mentions:
                if tells(mention) in {"out", "both"}:
                    yield mention.entity.name, evidence_of(mention)
            for mention in self.zone_mentions:
                other = self.gazetteer.about(mention.page)
                if (
                    other is not None
                    and other.kind == kinds.ZONE
                    and tells(mention) in {"in", "both"}
                ):
                    yield other.name, evidence_of(mention)


def evidence_of(mention: EntityMention) -> Evidence:
    """Return the passage that names a thing."""
    return Evidence(quote=mention.sentence, url=mention.page.url)


def _sentence_of(mention: EntityMention) -> tuple[str, int]:
    """Return the sentence that names a thing, and where in it."""
    sentence, place = max(
        (one for one in mention.block.sentence_places() if one[1] <= mention.start),
        key=lambda one: one[1],
        default=(mention.block.text, 0),
    )
    return sentence, mention.start - place


def _is_still_so(clause: Clause) -> bool:
    """Whether what a clause says of a thing and a place is so now."""
    is_left = clause.verb in _LEFT_THERE and not clause.objects
    is_there = clause.verb == "be" or clause.verb not in _NOT_THERE
    return is_left or (clause.is_present and is_there)


def _is_hearsay(mention: EntityMention) -> bool:
    """Whether somebody speaks of what has no page: nothing says that it is part of the zone."""
    is_spoken = mention.block.kind == "quote" and mention.start >= len(mention.block.label)
    return is_spoken and mention.entity.page is None and not mention.entity.url


_Way: TypeAlias = Literal["out", "in", "both", ""]


def _listed_way(mention: EntityMention) -> _Way:
    """Return which way between a zone and the one that it names a row or a list of the zone's page
    tells.
    """
    block = mention.block
    if block.kind == "row" and mention.start < len(block.label):
        return ""
    text = (
        block.label if block.kind == "row" else block.heading if block.kind == "item" else ""
    ).casefold()
    is_told = text in kinds.CONNECTION_LABELS or _CONNECTION.match(text) is not None
    # A list of linked zones under any other heading of a zone's page is where one can go from it.
    if not text or not (
        is_told or (_is_linked_item(mention) and _NO_CONNECTION.search(text) is None)
    ):
        return ""
    if text in kinds.WAYS_IN or _WAY_IN.search(text):
        return "in"
    return "both" if text in kinds.NEIGHBOURS or _BESIDE.match(text) else "out"


def _told_way(mention: EntityMention) -> _Way:
    """Return which way a sentence of a zone's page tells."""
    sentence = mention.sentence
    before = mention.block.text[: mention.start]
    if mention.block.kind not in {"paragraph", "item"} or not kinds.SPATIAL.search(sentence):
        return ""
    if _ENTERED.search(sentence) or _FROM.search(before):
        return "in"
    return "out" if _TO.search(before) and not _ROAD.search(sentence) else "both"


def _is_linked_item(mention: EntityMention) -> bool:
    """Whether a list item begins with a link to the thing."""
    return (
        mention.block.kind == "item"
        and mention.start == 0
        and any(link.start == 0 for link in mention.block.links)
    )
