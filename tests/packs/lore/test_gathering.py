"""What the research of a topic keeps of the pages that it finds."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from wavewright.packs.lore.gathering import PageGathering
from wavewright.packs.lore.recording import RecordExtraction, records_name
from wavewright.packs.lore.settings import (
    SHIPPED_SOURCES,
    SHIPPED_TOPICS,
    LoreSettings,
    read_tiers,
    read_topics,
)
from wavewright.planner import Json, JsonObject
from wavewright.tools import MemoryRunData, ignore_emission

pytest.importorskip("selectolax")

DECK = """# Cargo Deck

**Threat level:** 4-6
**Access:** Blue keycard

## Crew
- **Dr. Ines Mora** - surgeon
"""


class NoAgents:
    """Agents where no model is configured."""

    is_available = False

    async def run(self, name: str, values: JsonObject, scope: str = "") -> Json:
        raise AssertionError((name, values, scope))


def test_pages_in_markdown_are_read_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "cargo-deck.md").write_text(DECK)
    search = {"provider": "local", "folder": ".", "base_url": "https://void.example"}
    settings = LoreSettings.model_validate({"web": {"search": search}})
    topics = read_topics(SHIPPED_TOPICS)
    extraction = RecordExtraction(topics)
    gathering = PageGathering(settings, tmp_path, topics, read_tiers(SHIPPED_SOURCES), extraction)
    data = MemoryRunData({"target": "Cargo Deck", "game": "Void"})

    async def research() -> None:
        for topic in ("zone_overview_research", "npc_research"):
            await gathering.research_topic(
                topic, extract=True, agents=NoAgents(), emit=ignore_emission, data=data
            )

    anyio.run(research)

    zone = data.read(records_name("zone"))["cargo_deck"]
    assert isinstance(zone, dict)
    assert (zone["level_range"], zone["access_gating"]) == ({"min": 4, "max": 6}, ["Blue keycard"])
    assert [*data.read(records_name("npcs"))] == ["dr_ines_mora"]
