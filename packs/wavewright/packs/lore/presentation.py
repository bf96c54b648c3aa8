"""The package of a zone as a document for people: what was found, from where, how sure, and a graph
of it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from typing_extensions import TypedDict

from wavewright.packs.lore.models import (
    CATEGORIES,
    Category,
    LevelRange,
    LoreRecord,
    SourceConflict,
    ZoneData,
    ZoneExtraction,
)
from wavewright.packs.text.markdown_tables import markdown_table
from wavewright.planner import Json, JsonObject, as_list

_Record = TypeVar("_Record", bound=LoreRecord)


class ZonePresentation(TypedDict):
    """A zone for people."""

    document: JsonObject


def present_zone(package: JsonObject) -> ZonePresentation:
    """Make a document for people of the package of a zone: tables of what was found, and the zone's
    graph.

    Args:
        package: Output of `assemble_package`.
    """
    listed: dict[Category, Sequence[object]] = {
        category: as_list(package.get(category)) for category in CATEGORIES[1:]
    }
    found = ZoneExtraction.of({"zone": [package["zone_data"]], **listed})
    zone = found.zone
    conflicts = [SourceConflict.model_validate(one) for one in as_list(package.get("conflicts"))]
    parts = [
        zone.narrative_arc or "No page tells the story of this zone.",
        *markdown_table("The zone", ("field", "value"), _zone_rows(zone)),
        *_records(
            "Characters",
            found.npcs,
            ("role", "factions"),
            lambda one: (one.role, ", ".join(one.faction_ids)),
        ),
        *_records(
            "Factions",
            found.factions,
            ("kind", "stances"),
            lambda one: (
                one.level,
                ", ".join(f"{other.stance}: {other.faction_id}" for other in one.inter_faction),
            ),
        ),
        *_records(
            "Lore", found.lore, ("category", "told"), lambda one: (one.category, one.content)
        ),
        *_records(
            "Items",
            found.narrative_items,
            ("significance", "power"),
            lambda one: (one.significance, one.power_description),
        ),
        *markdown_table(
            "Contradictions",
            ("of", "one page", "another page"),
            [
                (
                    one.data_point,
                    f"{one.claim_a} ({one.source_a})",
                    f"{one.claim_b} ({one.source_b})",
                )
                for one in conflicts
            ],
        ),
        *markdown_table(
            "Warnings",
            ("warning",),
            [(str(one),) for one in as_list(package.get("quality_warnings"))],
        ),
    ]
    document: JsonObject = {
        "id": f"zone-{zone.id}",
        "title": zone.name,
        "tags": ["zone"],
        "markdown": "\n\n".join(parts),
        "content": {"graph": _ZoneGraph(found).json()},
    }
    return {"document": document}


def _zone_rows(zone: ZoneData) -> Iterator[tuple[str, ...]]:
    levels = zone.level_range
    rows = {
        "levels": _levels_text(levels),
        "politics": zone.political_climate,
        "needed to enter": "; ".join(zone.access_gating),
        "phases": "; ".join(phase.name for phase in zone.phase_states),
        "era": zone.era,
        "leads to": ", ".join(zone.connected_zones),
        "confidence": f"{zone.confidence:.2f}",
        "sources": _sources(zone),
    }
    return ((name, value) for name, value in rows.items() if value)


def _levels_text(levels: LevelRange | None) -> str:
    if levels is None:
        return ""
    return f"{levels.min} and above" if levels.max is None else f"{levels.min} to {levels.max}"


def _records(
    title: str,
    records: Sequence[_Record],
    names: tuple[str, ...],
    cells: Callable[[_Record], tuple[str, ...]],
) -> list[str]:
    rows = [
        (str(getattr(one, one.name_field)), *cells(one), f"{one.confidence:.2f}", _sources(one))
        for one in records
    ]
    return markdown_table(title, ("name", *names, "confidence", "sources"), rows)


def _sources(record: LoreRecord) -> str:
    """Return the pages that a record is from; without references, those of its evidence."""
    shown = [f"{one.url} ({one.tier})" for one in record.sources] or [
        one.url for one in record.evidence
    ]
    return ", ".join(dict.fromkeys(shown))


@dataclass(slots=True)
class _ZoneGraph:
    """The things of a zone and how they are related, the zone first."""

    found: ZoneExtraction
    nodes: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    edges: list[Json] = field(default_factory=list[Json])

    def __post_init__(self) -> None:
        found, zone = self.found, self.found.zone
        here = self._add("zone", zone.id, zone.name)
        for other in zone.connected_zones:
            self._relate(here, "leads to", self._add("zone", other))
        for faction in found.factions:
            self._add("faction", faction.id, faction.name)
        for faction in found.factions:
            for one in faction.inter_faction:
                self._relate(
                    f"faction {faction.id}",
                    f"is {one.stance} to",
                    self._add("faction", one.faction_id),
                )
        for npc in found.npcs:
            own = self._add("character", npc.id, npc.name)
            self._place(own, "is in", npc.zone_id)
            for group in npc.faction_ids:
                self._relate(own, "belongs to", self._add("faction", group))
        for npc in found.npcs:
            for kin in npc.relationships:
                if f"character {kin.npc_id}" in self.nodes:
                    self._relate(
                        f"character {npc.id}", f"has {kin.type}", f"character {kin.npc_id}"
                    )
        for entry in found.lore:
            self._place(self._add("lore", entry.id, entry.title), "is about", zone.id)
        for item in found.narrative_items:
            self._place(self._add("item", item.id, item.name), "is found in", item.zone_id)

    def json(self) -> JsonObject:
        return {
            "nodes": [{"id": name, **node} for name, node in self.nodes.items()],
            "edges": self.edges,
        }

    def _add(self, kind: str, name: str, label: str = "") -> str:
        self.nodes.setdefault(
            f"{kind} {name}", {"label": label or name.replace("_", " "), "kind": kind}
        )
        return f"{kind} {name}"

    def _place(self, name: str, relation: str, zone: str) -> None:
        own = self.found.zone.id
        self._relate(name, relation if zone == own else "is named with", f"zone {own}")

    def _relate(self, start: str, label: str, end: str) -> None:
        self.edges.append({"from": start, "to": end, "label": label})
