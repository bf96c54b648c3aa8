"""The tools of the pack, with the run data that each reads and writes and the agents that it calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wavewright.planner.types import Effect
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import Tool
from wavewright.tools.lore.concluding import CROSS_REFERENCE, DISCOVERED, ResearchConclusion
from wavewright.tools.lore.gathering import SOURCES, PageGathering, content_name
from wavewright.tools.lore.models import CATEGORIES, DIRECT, SourceTiers, Topic
from wavewright.tools.lore.presentation import present_zone
from wavewright.tools.lore.recording import EXTRACTED, SUMMARY, RecordExtraction, records_name
from wavewright.tools.lore.settings import LoreSettings

_TIMEOUT: Final = "20m"
"""Of a tool that waits for an agent."""
_SEARCH_TIMEOUT: Final = "1h"
"""Of a tool that searches: the first search over a site crawls it, at the rate that the settings allow."""


def lore_tools(
    settings: LoreSettings, root: Path, topics: Mapping[str, Topic], tiers: SourceTiers
) -> tuple[Tool, ...]:
    """Return the tools that research a zone; paths in the settings are relative to `root`."""
    pages = frozenset(map(content_name, [*topics, DIRECT])) | {SOURCES}
    records = frozenset(map(records_name, CATEGORIES)) | {EXTRACTED}
    extraction, conclusion = RecordExtraction(topics), ResearchConclusion(topics)
    gathering = PageGathering(settings, root, topics, tiers, extraction.extract_category)
    extractors = {f"extract_{category}" for category in CATEGORIES}
    set_up = settings.model_dump(mode="json", include={"web", "topics", "crawl_content_truncate_chars"})
    reading: frozenset[Effect] = frozenset({"read", "egress"})
    return (
        make_tool(
            gathering.search,
            name="lore.search",
            effects=reading,
            tags={"data"},
            untrusted_output=True,
            timeout=_SEARCH_TIMEOUT,
            settings=set_up,
        ),
        make_tool(
            gathering.crawl_webpage,
            name="lore.crawl_webpage",
            effects=reading,
            tags={"data"},
            untrusted_output=True,
            timeout="2m",
            reads_data=pages,
            writes_data=pages,
            settings=set_up,
        ),
        make_tool(
            gathering.research_topic,
            name="lore.research_topic",
            effects=reading,
            tags={"data"},
            untrusted_output=True,
            timeout=_SEARCH_TIMEOUT,
            reads_data=pages | records | {SUMMARY},
            writes_data=pages | records,
            calls_agents={"research", *extractors},
            settings=set_up,
        ),
        make_tool(
            extraction.extract_category,
            name="lore.extract_category",
            tags={"analysis"},
            timeout=_TIMEOUT,
            reads_data=pages | records | {SUMMARY},
            writes_data=records,
            calls_agents=extractors,
        ),
        make_tool(
            conclusion.summarize_content,
            name="lore.summarize_content",
            timeout=_TIMEOUT,
            reads_data=pages | {SUMMARY},
            writes_data={SUMMARY},
            calls_agents={"summarize"},
        ),
        make_tool(
            conclusion.cross_reference,
            name="lore.cross_reference",
            tags={"analysis"},
            timeout=_TIMEOUT,
            reads_data=records,
            writes_data={CROSS_REFERENCE},
            calls_agents={"agreement"},
        ),
        make_tool(
            conclusion.discover_zones,
            name="lore.discover_zones",
            tags={"analysis"},
            timeout=_TIMEOUT,
            reads_data=pages | {SUMMARY},
            writes_data={DISCOVERED},
            calls_agents={"discovery"},
        ),
        make_tool(
            conclusion.assemble_package,
            name="lore.assemble_package",
            tags={"analysis"},
            reads_data=records | {SOURCES, CROSS_REFERENCE},
            output_data={
                **{category: {records_name(category)} for category in CATEGORIES},
                "zone_data": {records_name("zone")},
                "confidence": {CROSS_REFERENCE},
            },
        ),
        make_tool(present_zone, name="lore.present_zone", tags={"analysis"}),
    )
