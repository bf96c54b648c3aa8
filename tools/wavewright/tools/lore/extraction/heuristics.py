"""What pages tell about a zone, read without a model.

The functions are pure. Pages are hostile: `read_apart` calls one of them in the process that parses pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from wavewright.tools.extraction import kinds
from wavewright.tools.extraction.entities import Gazetteer
from wavewright.tools.extraction.structure import SourcePage, read_structure
from wavewright.tools.lore.extraction.records import (
    faction_records,
    item_records,
    lore_records,
    npc_records,
    zone_record,
)
from wavewright.tools.lore.extraction.view import ZoneView
from wavewright.tools.lore.models import Category, ConnectedZone, ConnectedZonesResult, LoreRecord
from wavewright.tools.web.pages import parsed

METHOD: Final = "heuristic"
"""What answers say of how such records were found."""
EXTRACTION_SECONDS: Final = 60.0

_T = TypeVar("_T")
_EXTRACTORS: Final[Mapping[Category, Callable[[ZoneView], Sequence[LoreRecord]]]] = {
    "zone": lambda view: [zone_record(view)],
    "npcs": npc_records,
    "factions": faction_records,
    "lore": lore_records,
    "narrative_items": item_records,
}
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
    """All pages that were read for the zone, of whatever topic: the more there are, the more names are known."""
    zone: str
    category: Category = "zone"


def extract(source: ZonePages) -> list[LoreRecord]:
    """Return the records of a category about a zone, each with its evidence; those in the zone first."""
    return [*_EXTRACTORS[source.category](_view(source))]


def connected_zones(source: ZonePages) -> ConnectedZonesResult:
    """Return the zones that can be reached: those of rows and lists first, then those of sentences."""
    found = _view(source).connections().items()
    return ConnectedZonesResult(
        zones=[ConnectedZone(name=name, evidence=sentence) for name, sentence in found]
    )


def links_to_follow(source: ZonePages) -> list[str]:
    """Return addresses of pages that are linked but were not read, about things of the category: those in it first."""
    subjects = _view(source).subjects(*_KINDS[source.category])
    return [one.url for subject in subjects for one in subject.entities if one.url and one.page is None]


async def read_apart(read: Callable[[ZonePages], _T], source: ZonePages) -> _T:
    """Return what one of these functions finds, called in another process.

    Raises:
        ToolError: it takes longer than a minute, or the process ends.
    """
    return await parsed(read, source, what=f"what was read about {source.zone}", seconds=EXTRACTION_SECONDS)


def _view(source: ZonePages) -> ZoneView:
    pages = {page.url: page for page in source.pages}
    return ZoneView(Gazetteer([*map(read_structure, pages.values())], kinds.KINDS), source.zone)
