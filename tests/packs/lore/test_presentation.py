"""The package of a zone as a document that people read."""

from __future__ import annotations

import datetime as dt

from wavewright.packs.lore.models import (
    CrossReferenceResult,
    Evidence,
    FactionData,
    FactionRelation,
    NPCData,
    PageReference,
    SourceConflict,
    ZoneData,
    ZoneExtraction,
)
from wavewright.packs.lore.packages import zone_package
from wavewright.packs.lore.presentation import present_zone

PAGE = PageReference(
    url="http://a.test/ash",
    domain="a.test",
    tier="primary",
    accessed_at=dt.datetime(2026, 5, 1, tzinfo=dt.UTC),
)
TOLD = [Evidence(quote="Ash", url=PAGE.url)]
FOUND = ZoneExtraction(
    zone=ZoneData(
        name="Ash", narrative_arc="Ash is dry.", connected_zones=["bel_marsh"], evidence=TOLD
    ),
    npcs=[
        NPCData(
            name="Mara | Voss", zone_id="ash", role="baker", faction_ids=["lamps"], evidence=TOLD
        )
    ],
    factions=[
        FactionData(
            name="Lamps",
            inter_faction=[FactionRelation(faction_id="moths", stance="hostile")],
            evidence=TOLD,
        )
    ],
)
RESULT = CrossReferenceResult(
    is_consistent=False,
    conflicts=[
        SourceConflict(
            data_point="Ash: era", source_a="x", source_b="y", claim_a="first", claim_b="last"
        )
    ],
    confidence={"npcs": 0.5},
)


def test_records_stand_with_their_sources_conflicts_and_warnings() -> None:
    document = present_zone(zone_package("ash", FOUND, RESULT, [PAGE]))["document"]

    text = str(document["markdown"])
    assert text.startswith("Ash is dry.")
    assert "| Mara \\| Voss | baker | lamps | 0.00 | http://a.test/ash (primary) |" in text
    assert "| Lamps |  | hostile: moths | 0.00 | http://a.test/ash (primary) |" in text
    assert "| Ash: era | first (x) | last (y) |" in text
    assert "| shallow_narrative_arc |" in text
    assert "## Lore" not in text


def test_the_graph_names_all_things_with_the_zone_first() -> None:
    content = present_zone(zone_package("ash", FOUND, RESULT, [PAGE]))["document"]["content"]

    assert content == {
        "graph": {
            "nodes": [
                {"id": "zone ash", "label": "Ash", "kind": "zone"},
                {"id": "zone bel_marsh", "label": "bel marsh", "kind": "zone"},
                {"id": "faction lamps", "label": "Lamps", "kind": "faction"},
                {"id": "faction moths", "label": "moths", "kind": "faction"},
                {"id": "character mara_voss", "label": "Mara | Voss", "kind": "character"},
            ],
            "edges": [
                {"from": "zone ash", "to": "zone bel_marsh", "label": "leads to"},
                {"from": "faction lamps", "to": "faction moths", "label": "is hostile to"},
                {"from": "character mara_voss", "to": "zone ash", "label": "is in"},
                {"from": "character mara_voss", "to": "faction lamps", "label": "belongs to"},
            ],
        }
    }
