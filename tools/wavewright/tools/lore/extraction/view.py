"""The pages of a world as seen from one zone: what is in it, what its pages name, and where it leads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from wavewright.tools.extraction import kinds
from wavewright.tools.extraction.entities import EntityMention, Gazetteer, NamedEntity
from wavewright.tools.extraction.facts import FactReader
from wavewright.tools.extraction.names import clean_title
from wavewright.tools.extraction.structure import PageStructure
from wavewright.tools.lore.extraction import cues
from wavewright.tools.lore.models import Evidence, slug

_CONNECTION: Final = re.compile(
    r"(?:map |all |known )?(?:exits?|leads?|reached|connect\w*|neighbou?r\w*|adjacent|border\w*|ways? (?:in|out|on|to)|"
    r"paths?|roads?|routes?|passages?|portals?|travel\w*|links? to|entrances?|gates?|doors?|stairs?|teleports?|warps?|"
    r"onward|nearby|next to|beside|from here)\b"
)
_NO_CONNECTION: Final = re.compile(
    r"\b(?:see also|part|other|all|list|index|mention\w*|quests?|history|related|references?|contents?|contain\w*|"
    r"within|inside|sub\w*|places?|landmarks?|locations?|chapters?|story|lore|notes?)\b"
)
"""Headings of lists of zones that need not lead there."""
_BEFORE: Final = 300
"""Characters before a zone's name that are looked at."""
_IN_ZONE: Final = re.compile(
    r"(?:\b(?:in|at|near|within|beneath|below|above|outside|inside)|"
    r"(?:^|[.!?]\s)[^.!?]*\b(?:is|was|are|were)\s+(?:the|an?)\s[^.!?]*\b(?:of|from))\s+(?:the\s+)?$"
)
"""Of what stands before a zone's name in a sentence about something that is there."""


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
        spelled = [clean_title(page.title) for page in self.pages] + [entity.name for entity in zones]
        self.name = spelled[0] if spelled else zone.replace("_", " ")
        self._zones = zones
        self.entity = (
            zones[0] if zones else NamedEntity(self.name, kinds.ZONE, page=next(iter(self.pages), None))
        )

    def subjects(self, *wanted: str) -> list[Subject]:
        """Return the things of some kinds that are in the zone, then those that its pages name, most often first."""
        found = [one for one in self._subjects if one.kind in wanted and (one.located or one.mentioned)]
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
            subject = by_name.setdefault((entity.kind, slug(entity.name)), Subject(entity.name, entity.kind))
            subject.entities.append(entity)
            subject_of[entity] = subject
        for page in self.pages:
            for block in page.blocks:
                for mention in self.gazetteer.mentions(page, block):
                    if mention.entity in subject_of:
                        subject = subject_of[mention.entity]
                        (subject.located if _is_present(mention) else subject.mentioned).append(
                            evidence_of(mention)
                        )
        for subject in by_name.values():
            self._read_pages_of(subject)
        return list(by_name.values())

    def _read_pages_of(self, subject: Subject) -> None:
        """Add what a thing's own pages say of the zone."""
        for page in subject.pages:
            entity = next(entity for entity in subject.entities if entity.page is page)
            for fact in FactReader(self.gazetteer, entity).facts([cues.PRESENCE]):
                if slug(fact.value) == self.zone_id and subject.kind != kinds.ZONE:
                    subject.located.append(Evidence(quote=fact.quote, url=fact.url))
            for mention in self._zone_mentions:
                if mention.page is page:
                    is_in = subject.kind != kinds.LORE and (_is_linked_item(mention) or _stands_in(mention))
                    where = subject.located if is_in else subject.mentioned
                    where.append(evidence_of(mention))

    @cached_property
    def _zone_mentions(self) -> list[EntityMention]:
        return [mention for zone in self._zones for mention in self.gazetteer.mentions_of(zone)]

    def _connections(self) -> Iterator[tuple[str, Evidence]]:
        mentions = [
            mention
            for page in self.pages
            for block in page.blocks
            for mention in self.gazetteer.mentions(page, block)
            if mention.entity.kind == kinds.ZONE
        ]
        for mention in mentions:
            if _tells_connection(mention):
                yield mention.entity.name, evidence_of(mention)
        for mention in self._zone_mentions:
            other = self.gazetteer.at(mention.page.url)
            if other is not None and other.kind == kinds.ZONE and _tells_connection(mention):
                yield other.name, evidence_of(mention)
        for mention in (*mentions, *self._zone_mentions):
            if mention.block.kind in {"paragraph", "item"} and kinds.SPATIAL.search(mention.sentence):
                other = (
                    self.gazetteer.at(mention.page.url) if mention.entity in self._zones else mention.entity
                )
                if other is not None and other.kind == kinds.ZONE:
                    yield other.name, evidence_of(mention)


def evidence_of(mention: EntityMention, fact: str = "", value: str = "") -> Evidence:
    """Return the passage that names a thing."""
    return Evidence(quote=mention.sentence, url=mention.page.url, field=fact, value=value)


def _is_present(mention: EntityMention) -> bool:
    """Whether a block of a zone's page says that a thing is there: a list, a row or a line that a character speaks."""
    block = mention.block
    if block.kind == "quote":
        return mention.start < len(block.label)
    if block.kind == "row":
        return block.label.casefold() not in cues.ACCESS_LABELS
    return block.kind == "item" and (mention.start == 0 or any(link.start == 0 for link in block.links))


def _tells_connection(mention: EntityMention) -> bool:
    """Whether a row or a list of a zone's page says that a zone can be reached from it."""
    block = mention.block
    text = (block.label if block.kind == "row" else block.heading if block.kind == "item" else "").casefold()
    is_told = text in kinds.CONNECTION_LABELS or _CONNECTION.match(text) is not None
    # A list of linked zones under any other heading of a zone's page is where one can go from it.
    return bool(text) and (is_told or (_is_linked_item(mention) and _NO_CONNECTION.search(text) is None))


def _is_linked_item(mention: EntityMention) -> bool:
    """Whether a list item begins with a link to the thing."""
    return (
        mention.block.kind == "item"
        and mention.start == 0
        and any(link.start == 0 for link in mention.block.links)
    )


def _stands_in(mention: EntityMention) -> bool:
    """Whether a sentence says that what it is about is in the zone that it names."""
    before = mention.block.text[max(0, mention.start - _BEFORE) : mention.start]
    return mention.block.kind == "paragraph" and _IN_ZONE.search(before) is not None
