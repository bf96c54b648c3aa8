"""Records of a zone that are read without a model, each value with the sentence or the row that
says it.

What no page says stays empty. Pages are hostile: `read_apart` calls a function in the process that
parses pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeVar

from wavewright.packs.extraction import kinds
from wavewright.packs.extraction.blocks import PageStructure, words_of
from wavewright.packs.extraction.entities import Gazetteer
from wavewright.packs.extraction.facts import Fact, FactCues, FactReader
from wavewright.packs.extraction.prose import ProseSettings, prose_reader
from wavewright.packs.extraction.relations import KIN_LABELS
from wavewright.packs.extraction.structure import SourcePage, read_structure
from wavewright.packs.lore.extraction import cues
from wavewright.packs.lore.extraction.levels import levels_of_value, levels_told
from wavewright.packs.lore.extraction.view import Subject, ZoneView
from wavewright.packs.lore.models import (
    Category,
    ConnectedZone,
    ConnectedZonesResult,
    Evidence,
    FactionData,
    FactionRelation,
    LevelRange,
    LoreCategory,
    LoreData,
    LoreRecord,
    NarrativeItemData,
    NPCData,
    NPCRelationship,
    PhaseState,
    Stance,
    ZoneData,
    slug,
)
from wavewright.packs.text.cross_reference import normal_name
from wavewright.packs.web.pages import parsed

MAX_EVIDENCE: Final = 12
"""Passages of one record that say no more than that it belongs to the zone."""

_STANCES: Final[tuple[Stance, ...]] = ("allied", "hostile", "neutral")
_PEOPLE: Final = frozenset({kinds.NPC})
_KIN: Final = tuple(dict.fromkeys(KIN_LABELS.values()))
_NPC_CUES: Final = (
    *cues.NPC_FACTS,
    *(
        FactCues(
            f"relation {kin}",
            "target",
            labels=frozenset(label for label, named in KIN_LABELS.items() if named == kin),
            verbs=frozenset({f"be {kin} of"}),
            kinds=_PEOPLE,
        )
        for kin in _KIN
    ),
)

METHOD: Final = "heuristic"
"""What answers say of how such records were found."""
EXTRACTION_SECONDS: Final = 60.0

_T = TypeVar("_T")
_KINDS: Final[Mapping[Category, tuple[str, ...]]] = {
    "zone": (kinds.ZONE,),
    "npcs": (kinds.NPC, kinds.FOE),
    "factions": (kinds.FACTION,),
    "lore": (kinds.LORE,),
    "narrative_items": (kinds.ITEM,),
}


@dataclass(frozen=True, slots=True)
class ZonePages:
    """What is read: pages, and for which zone and category."""

    pages: Sequence[SourcePage]
    """All pages that were read for the zone, of whatever topic: the more there are, the more names
    are known.
    """
    zone: str
    category: Category = "zone"
    model: str = ProseSettings().model
    """spaCy model that reads prose, where it is installed."""


def extract(source: ZonePages) -> list[LoreRecord]:
    """Return the records of a category about a zone, each with its evidence; those in the zone
    first.
    """
    view, category = _view(source), source.category
    if category == "zone":
        return [_zone(view)]
    makers = {"npcs": _npc, "factions": _faction, "lore": _lore, "narrative_items": _item}
    found = [makers[category](view, subject) for subject in view.subjects(*_KINDS[category])]
    return [*found, *_lore_sections(view)] if category == "lore" else [*found]


def connected_zones(source: ZonePages) -> ConnectedZonesResult:
    """Return the zones that can be reached: those of rows and lists first, then those of sentences."""
    found = _view(source).connections().items()
    return ConnectedZonesResult(
        zones=[ConnectedZone(name=name, evidence=sentence) for name, sentence in found]
    )


def links_to_follow(source: ZonePages) -> list[str]:
    """Return addresses of pages that are linked but were not read, about things of the category:
    those in it first.
    """
    subjects = _view(source).subjects(*_KINDS[source.category])
    return [
        one.url for subject in subjects for one in subject.entities if one.url and one.page is None
    ]


async def read_apart(read: Callable[[ZonePages], _T], source: ZonePages) -> _T:
    """Return what one of these functions finds, called in another process.

    Raises:
        ToolError: it takes longer than a minute, or the process ends.
    """
    return await parsed(
        read, source, what=f"what was read about {source.zone}", seconds=EXTRACTION_SECONDS
    )


def _view(source: ZonePages) -> ZoneView:
    pages = {page.url: page for page in source.pages}
    return ZoneView(_gazetteer(tuple(pages.values()), source.model), source.zone)


@lru_cache(maxsize=4)
def _gazetteer(pages: tuple[SourcePage, ...], model: str) -> Gazetteer:
    """Return the names of some pages, which each category and the connections read in turn."""
    structures = [*map(read_structure, pages)]
    return Gazetteer(structures, kinds.KINDS, prose=prose_reader(model))


class _Facts:
    """What is told of one thing, by field, and the passages that tell it."""

    def __init__(self, facts: Iterable[Fact], naming: Iterable[Evidence] = ()) -> None:
        self._facts = list(facts)
        self._evidence = dict.fromkeys([*dict.fromkeys(naming)][:MAX_EVIDENCE])

    def of(self, name: str) -> list[Fact]:
        """Return what is told of a field."""
        return [fact for fact in self._facts if fact.field == name]

    def one(self, name: str) -> str:
        """Return the value that most pages tell, then the first."""
        values: dict[str, tuple[str, set[str]]] = {}
        for fact in self.of(name):
            if fact.value:
                values.setdefault(normal_name(fact.value), (fact.value, set()))[1].add(fact.url)
                self.keep(fact, name, fact.value)
        return max(values.values(), key=lambda one: len(one[1]), default=("", set[str]()))[0]

    def many(self, name: str) -> list[str]:
        """Return all values that are told of a field, each once."""
        found: dict[str, str] = {}
        for fact in self.of(name):
            found.setdefault(normal_name(fact.value), fact.value)
            self.keep(fact, name, fact.value)
        return [*found.values()]

    def targets(self, name: str) -> list[str]:
        """Return the slugs of the things that a field names, each once."""
        return [
            *dict.fromkeys(slug(self.keep(fact, name, fact.value).value) for fact in self.of(name))
        ]

    def keep(self, fact: Fact, name: str, value: str = "") -> Fact:
        """Keep the passage of a fact as evidence."""
        self._evidence[Evidence(quote=fact.quote, url=fact.url, field=name, value=value)] = None
        return fact

    def prose(self, name: str) -> str:
        """Return a text of several paragraphs: that of the page that tells most."""
        by_page: dict[str, list[Fact]] = {}
        for fact in self.of(name):
            by_page.setdefault(fact.url, []).append(fact)
        longest = max(
            by_page.values(),
            key=lambda facts: sum(len(fact.value) for fact in facts),
            default=list[Fact](),
        )
        return "\n\n".join(self.keep(fact, name).value for fact in longest)

    @property
    def evidence(self) -> list[Evidence]:
        """All passages that were kept."""
        return list(self._evidence)


def _zone(view: ZoneView) -> ZoneData:
    """Return the record of the zone itself; of one that no page is about, its name."""
    reader = FactReader(view.gazetteer, view.entity, view.pages)
    told = reader.facts([cues.ARC, *cues.ZONE_FACTS])
    facts = [*map(_with_levels, told), *_told_levels(view)]
    found = _Facts(facts, map(_naming, view.pages))
    levels = found.one("level_range")
    phases = _phases(view, found)
    connected = view.connections()
    return ZoneData(
        name=view.name,
        level_range=_level_range(levels) if levels else None,
        narrative_arc=found.prose("narrative_arc"),
        political_climate=" ".join(dict.fromkeys(_political(found))),
        access_gating=found.many("access_gating"),
        phase_states=phases,
        connected_zones=[*connected],
        era=found.one("era"),
        evidence=[  # last: what is read above keeps it
            *found.evidence,
            *(
                one.model_copy(update={"field": "connected_zones", "value": name})
                for name, facts in connected.items()
                for one in facts[:1]
            ),
        ],
    )


def _level_range(levels: str) -> LevelRange:
    """Return the range that is written `4-7`, or `20+`."""
    low, _, high = levels.removesuffix("+").partition("-")
    return LevelRange(min=int(low), max=int(high) if high else None)


def _with_levels(fact: Fact) -> Fact:
    """Return a fact of levels with their common form, under the label that may leave them open."""
    if fact.field != "level_range":
        return fact
    return replace(fact, value=levels_of_value(fact.value, fact.label))


def _told_levels(view: ZoneView) -> Iterator[Fact]:
    """Yield the levels that sentences tell: those of the zone's pages, and elsewhere those that
    begin with its name.
    """
    told = [
        (sentence, page)
        for page in view.pages
        for block in page.blocks
        if block.kind in {"paragraph", "item"}
        for sentence in block.sentences()
    ]
    told += [
        (mention.sentence, mention.page)
        for mention in view.zone_mentions
        if mention.sentence.removeprefix("The ").startswith(view.name)
    ]
    for sentence, page in told:
        levels = levels_told(sentence, view.name)
        if levels:
            yield Fact("level_range", levels, sentence, page.url)


def _political(found: _Facts) -> Iterator[str]:
    for fact in found.of("political_climate"):
        found.keep(fact, "political_climate")
        yield fact.quote


def _phases(view: ZoneView, found: _Facts) -> list[PhaseState]:
    phases: dict[str, list[str]] = {}
    for page in view.pages:
        for block in page.prose():
            if cues.PHASE_HEADING.fullmatch(block.heading):
                phases.setdefault(block.heading, []).append(block.text)
                found.keep(
                    Fact("phase_states", block.heading, block.text, page.url),
                    "phase_states",
                    block.heading,
                )
    return [PhaseState(name=name, description="\n\n".join(texts)) for name, texts in phases.items()]


def _npc(view: ZoneView, subject: Subject) -> NPCData:
    found = _told_of(view, subject, _NPC_CUES)
    listed = list(_listed_factions(view, subject))
    role = found.one("role")
    record = NPCData(
        name=subject.name,
        zone_id=view.zone_id if subject.located else "",
        faction_ids=[
            *dict.fromkeys([*found.targets("faction_ids"), *(slug(fact.value) for fact in listed)])
        ],
        personality=" ".join(found.many("personality")),
        motivations=[value.removeprefix("to ") for value in found.many("motivations")],
        relationships=[*_relationships(found)],
        quest_threads=found.many("quest_threads"),
        phased_state=found.one("phased_state"),
        role=role or ("foe" if subject.kind == kinds.FOE else ""),
    )
    for fact in listed:
        found.keep(fact, "faction_ids", fact.value)
    return record.model_copy(update={"evidence": found.evidence})


def _relationships(found: _Facts) -> Iterator[NPCRelationship]:
    told = [(kin, fact) for kin in _KIN for fact in found.of(f"relation {kin}")]
    seen = set[tuple[str, str]]()
    for kin, fact in told:
        npc = slug(fact.value)
        if (kin, npc) not in seen:
            seen.add((kin, npc))
            found.keep(fact, "relationships", f"{kin} {fact.value}")
            yield NPCRelationship(npc_id=npc, type=kin, description=fact.quote)


def _listed_factions(view: ZoneView, subject: Subject) -> Iterator[Fact]:
    """Yield the factions that a list of the zone's page names beside a character."""
    for page in view.pages:
        for block in page.blocks:
            mentions = view.gazetteer.mentions(page, block) if block.kind == "item" else []
            if mentions and mentions[0].start == 0 and mentions[0].entity in subject.entities:
                for mention in mentions[1:]:
                    if mention.entity.kind == kinds.FACTION:
                        yield Fact(
                            "faction_ids", mention.entity.name, block.text, page.url, mention.entity
                        )


def _faction(view: ZoneView, subject: Subject) -> FactionData:
    found = _told_of(view, subject, cues.FACTION_FACTS)
    parents = found.targets("parent_faction_id")
    stances: dict[str, FactionRelation] = {}
    for stance in _STANCES:
        for fact in found.of(stance):
            key = slug(fact.value)
            found.keep(fact, f"inter_faction {key}", stance)
            stances.setdefault(key, FactionRelation(faction_id=key, stance=stance))
    level = found.one("level") or found.one("noun").lower().rpartition(" ")[2]
    return FactionData(
        name=subject.name,
        parent_faction_id=parents[0] if parents else "",
        level=level,
        inter_faction=[*stances.values()],
        exclusive_with=found.targets("exclusive_with"),
        ideology=found.one("ideology"),
        goals=[value.removeprefix("to ") for value in found.many("goals")],
        evidence=found.evidence,  # last: what is read above keeps it
    )


def _lore(view: ZoneView, subject: Subject) -> LoreData:
    found = _told_of(view, subject, [cues.LORE_TEXT, *cues.LORE_FACTS])
    content = found.prose("content") or _all_prose(found, subject.pages)
    rows = [
        row.value
        for page in subject.pages
        for row in page.rows()
        if row.label.casefold() == "category"
    ]
    trail = [name for page in subject.pages for name in page.trail]
    return LoreData(
        title=subject.name,
        zone_id=view.zone_id if subject.mentioned or subject.located else "",
        category=_category([*rows, *trail, subject.name]),
        content=content,
        era=found.one("era"),
        evidence=found.evidence,  # last: what is read above keeps it
    )


def _all_prose(found: _Facts, pages: Sequence[PageStructure]) -> str:
    texts: list[str] = []
    for page in pages:
        for block in page.prose():
            if sum(map(len, texts)) < 2_000:
                found.keep(Fact("content", block.text, block.text, page.url), "content")
                texts.append(block.text)
    return "\n\n".join(texts)


def _category(texts: Sequence[str]) -> LoreCategory:
    for text in texts:
        words = set(words_of(text))
        for category, known in cues.LORE_CATEGORIES.items():
            if words & known:
                return category
    return ""


def _lore_sections(view: ZoneView) -> Iterator[LoreData]:
    for page in view.pages:
        sections: dict[str, list[str]] = {}
        for block in page.prose():
            if block.heading.casefold() in cues.LORE_SECTIONS:
                sections.setdefault(block.heading, []).append(block.text)
        for heading, texts in sections.items():
            evidence = [Evidence(quote=heading, url=page.url)]
            evidence += [Evidence(quote=text, url=page.url, field="content") for text in texts]
            yield LoreData(
                title=f"{view.name}: {heading}",
                zone_id=view.zone_id,
                category=_category([heading]),
                content="\n\n".join(texts),
                evidence=evidence,
            )


def _item(view: ZoneView, subject: Subject) -> NarrativeItemData:
    found = _told_of(view, subject, [cues.ITEM_STORY, *cues.ITEM_FACTS])
    return NarrativeItemData(
        name=subject.name,
        zone_id=view.zone_id if subject.located else "",
        story_arc=found.prose("story_arc"),
        wielder_lineage=found.many("wielder_lineage"),
        power_description=" ".join(found.many("power_description")),
        significance=found.one("significance"),
        evidence=found.evidence,  # last: what is read above keeps it
    )


def _told_of(view: ZoneView, subject: Subject, fields: Sequence[FactCues]) -> _Facts:
    """Return what is told of a thing; what says that it belongs to the zone is evidence in any case,
    that with its name in it first.
    """
    facts = [
        fact
        for entity in subject.entities
        for fact in FactReader(view.gazetteer, entity).facts(fields)
    ]
    name = normal_name(subject.name)
    passages = [*subject.located, *map(_naming, subject.pages), *subject.mentioned]
    naming = sorted(passages, key=lambda one: name not in normal_name(one.quote))
    return _Facts(dict.fromkeys(facts), naming)


def _naming(page: PageStructure) -> Evidence:
    """Return the sentence, the row or the heading of a page that names what it is about."""
    name = normal_name(page.title)
    for block in page.prose():
        for sentence in block.sentences():
            if name in normal_name(sentence):
                return Evidence(quote=sentence, url=page.url)
    return Evidence(quote=page.title, url=page.url)
