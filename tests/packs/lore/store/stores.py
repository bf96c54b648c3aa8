"""Stores that several tests open, and packages that they write."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from wavewright.packs.lore.messages import ResearchPackage
from wavewright.packs.lore.settings import StoreSettings
from wavewright.packs.lore.store.lore_store import LoreStore
from wavewright.packs.lore.store.tables import definitions
from wavewright.packs.surreal import SurrealConnection

JOB = "6f1cf0a6-7a1d-4c9f-8a53-6f3d3f4f0f11"


def package_of(name: str, **fields: object) -> ResearchPackage:
    """Return a package about a zone that connects to nothing, with these fields."""
    zone: object = {"name": name, "game": "tidefall", "confidence": 0.9}
    given = {
        "job_id": JOB,
        "package_id": "p-1",
        "iteration": 1,
        "zone_name": name,
        "zone_data": zone,
        **fields,
    }
    return ResearchPackage.model_validate(given)


def ash_vale() -> ResearchPackage:
    """Return a package whose records name zones, people and factions that no package has described
    yet.
    """
    return package_of(
        "Ash Vale",
        zone_data={
            "name": "Ash Vale",
            "game": "tidefall",
            "level_range": {"min": 1, "max": 5},
            "narrative_arc": "Corsairs burn the orchards.",
            "connected_zones": ["Port Merrow"],
            "confidence": 0.9,
        },
        npcs=[
            {
                "name": "Mira Fenn",
                "zone_id": "ash_vale",
                "faction_ids": ["Orchard Wardens"],
                "relationships": [
                    {"npc_id": "Old Tam", "type": "mentor", "description": "taught her to sail"}
                ],
                "confidence": 0.8,
            }
        ],
        factions=[
            {
                "name": "The Orchard Wardens",
                "parent_faction_id": "crown",
                "inter_faction": [{"faction_id": "corsairs", "stance": "hostile"}],
            }
        ],
        lore=[
            {
                "title": "History",
                "zone_id": "ash_vale",
                "category": "history",
                "content": "It once was a lake.",
            }
        ],
        narrative_items=[
            {
                "name": "Ember Lantern",
                "zone_id": "ash_vale",
                "power_description": "It shows corsairs.",
            }
        ],
    )


def port_merrow() -> ResearchPackage:
    """Return a package that describes what the one about Ash Vale names."""
    return package_of(
        "Port Merrow",
        npcs=[
            {"name": "Old Tam", "zone_id": "port_merrow", "role": "captain"},
            {"name": "Mira Fenn", "role": "pilot"},
        ],
        factions=[{"name": "Corsairs"}, {"name": "Crown"}],
        lore=[
            {
                "title": "History",
                "zone_id": "port_merrow",
                "content": "The port was built on piles.",
            }
        ],
    )


@asynccontextmanager
async def opened(
    settings: StoreSettings, root: Path
) -> AsyncGenerator[tuple[LoreStore, SurrealConnection]]:
    """Open a store with its tables."""
    async with SurrealConnection(settings, root) as connection:
        await connection.run(definitions())
        yield LoreStore(connection), connection
