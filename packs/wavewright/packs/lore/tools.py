"""The tools of the pack, with the run data that each reads and writes, and the named agents that
they call.

The agents are those for research, discovery, five extractors, summaries, cross-reference, and the
orchestrator.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from wavewright.packs.lore.concluding import CROSS_REFERENCE, DISCOVERED, ResearchConclusion
from wavewright.packs.lore.gathering import PageGathering
from wavewright.packs.lore.models import (
    CATEGORIES,
    RECORD_TYPES,
    Category,
    ConnectedZonesResult,
    CrossReferenceResult,
    LoreModel,
)
from wavewright.packs.lore.presentation import present_zone
from wavewright.packs.lore.recording import EXTRACTED, SUMMARY, RecordExtraction, records_name
from wavewright.packs.lore.run_data import SOURCES, content_name
from wavewright.packs.lore.settings import DIRECT, LoreSettings, SourceTiers, Topic
from wavewright.planner import JsonObject, JsonSchema, as_list, as_object
from wavewright.tools import AgentLimits, AgentSpec, Tool, make_tool

_TIMEOUT: Final = "20m"
"""Of a tool that waits for an agent."""
_SEARCH_TIMEOUT: Final = "1h"
"""Of a tool that searches: the first search over a site crawls it, at the rate that the settings
allow.
"""
_RESEARCH_SHARE: Final = 0.5
_EXTRACTION_SHARES: Final[Mapping[Category, float]] = {
    "zone": 0.05,
    "npcs": 0.15,
    "factions": 0.1,
    "lore": 0.1,
    "narrative_items": 0.05,
}
_CROSS_REFERENCE_TOKENS: Final = 25_000
_DISCOVERY_TOKENS: Final = 12_500
_SUMMARY_TOKENS: Final = 75_000
"""Of the summaries of all topics together."""
_SUMMARY_SECONDS: Final = 300.0
_ORCHESTRATOR: Final = "orchestrator"
_NOT_IN_PAGES: Final = frozenset({"id", "sources", "confidence", "updated_at", "zone_id", "game"})


def lore_tools(
    settings: LoreSettings, root: Path, topics: Mapping[str, Topic], tiers: SourceTiers
) -> tuple[Tool, ...]:
    """Return the tools that research a zone; paths in the settings are relative to `root`."""
    pages = frozenset(map(content_name, [*topics, DIRECT])) | {SOURCES}
    records = frozenset(map(records_name, CATEGORIES)) | {EXTRACTED}
    model = settings.extraction.model
    extraction, conclusion = RecordExtraction(topics, model), ResearchConclusion(topics, model)
    gathering = PageGathering(settings, root, topics, tiers, extraction)
    extractors = {f"extract_{category}" for category in CATEGORIES}
    fetches: dict[str, Any] = {
        "effects": {"read", "egress"},
        "tags": {"data"},
        "untrusted_output": True,
        "settings": settings.model_dump(
            mode="json", include={"web", "topics", "crawl_content_truncate_chars"}
        ),
    }
    return (
        make_tool(
            gathering.search,
            name="lore.search",
            timeout=_SEARCH_TIMEOUT,
            accepts_untrusted={"query"},
            **fetches,
        ),
        make_tool(
            gathering.crawl_webpage,
            name="lore.crawl_webpage",
            timeout="2m",
            reads_data=pages,
            writes_data=pages,
            **fetches,
        ),
        make_tool(
            gathering.research_topic,
            name="lore.research_topic",
            timeout=_SEARCH_TIMEOUT,
            reads_data=pages | records | {SUMMARY},
            writes_data=pages | records,
            calls_agents={"research", *extractors},
            accepts_untrusted={"topic", "feedback"},
            **fetches,
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
            deterministic=True,
            tags={"analysis"},
            reads_data=records | {SOURCES, CROSS_REFERENCE},
            output_data={
                **{category: {records_name(category)} for category in CATEGORIES},
                "zone_data": {records_name("zone")},
                "confidence": {CROSS_REFERENCE},
            },
        ),
        make_tool(present_zone, name="lore.present_zone", tags={"analysis"}, deterministic=True),
    )


@lru_cache(maxsize=8)
def lore_agents(topics: int) -> tuple[AgentSpec, ...]:
    """Return the agents, for a number of topics that share the tokens of summaries."""
    extractors = [
        AgentSpec(
            name=f"extract_{category}",
            description=f"Extracts the records of the category {category} from texts.",
            prompt=f"lore/extract_{category}",
            output_schema=_records_schema(category),
            token_share=_EXTRACTION_SHARES[category],
        )
        for category in CATEGORIES
    ]
    return (
        AgentSpec(
            name="research",
            description="Finds and opens the pages about one topic of a zone.",
            prompt="lore/research",
            tools=("search", "crawl_webpage"),
            token_share=_RESEARCH_SHARE,
            limits=AgentLimits(requests=20, tool_calls=40, seconds=600.0),
        ),
        *extractors,
        AgentSpec(
            name="summarize",
            description="Shortens the texts of a topic.",
            prompt="lore/summarize",
            max_output_tokens=_SUMMARY_TOKENS // topics,
            limits=AgentLimits(requests=1, tool_calls=0, seconds=_SUMMARY_SECONDS),
        ),
        AgentSpec(
            name="agreement",
            description="Holds the records of a zone against each other.",
            prompt="lore/cross_reference",
            output_schema=_schema(CrossReferenceResult),
            max_output_tokens=_CROSS_REFERENCE_TOKENS,
        ),
        AgentSpec(
            name="discovery",
            description="Finds the zones that are connected to one.",
            prompt="lore/discover_zones",
            tools=("search",),
            output_schema=_schema(ConnectedZonesResult),
            max_output_tokens=_DISCOVERY_TOKENS,
        ),
        AgentSpec(
            name=_ORCHESTRATOR,
            description="Coordinates the research of a zone: decides which topics to research, and when to go on.",
            prompt="lore/orchestrate",
            tools=(
                "research_topic",
                "crawl_webpage",
                "summarize_content",
                "extract_category",
                "cross_reference",
                "discover_zones",
            ),
            limits=AgentLimits(requests=60, tool_calls=60, seconds=3600.0),
        ),
    )


def _schema(model: type[LoreModel]) -> JsonSchema:
    schema: JsonSchema = model.model_json_schema()
    return schema


def _records_schema(category: Category) -> JsonSchema:
    """Return the schema of an extractor's answer: records with the fields that pages can say."""
    record = _schema(RECORD_TYPES[category])
    fields, used = as_object(record.pop("properties")), as_object(record.pop("$defs", None))
    kept: JsonObject = {name: field for name, field in fields.items() if name not in _NOT_IN_PAGES}
    return {
        "type": "object",
        "required": ["records"],
        "additionalProperties": False,
        "properties": {
            "records": {
                "type": "array",
                "items": {
                    **record,
                    "properties": kept,
                    "required": [*as_list(record.get("required")), "evidence"],
                },
            }
        },
        "$defs": {name: part for name, part in used.items() if name != "PageReference"},
    }
