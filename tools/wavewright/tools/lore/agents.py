"""The named agents of the pack: research, discovery, five extractors, summaries, cross-reference, orchestrator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list
from wavewright.tools.lore.models import (
    CATEGORIES,
    RECORD_TYPES,
    Category,
    ConnectedZonesResult,
    CrossReferenceResult,
    LoreModel,
)
from wavewright.tools.workers.agent_specs import AgentLimits, AgentSpec

RESEARCH_SHARE: Final = 0.5
EXTRACTION_SHARES: Final[Mapping[Category, float]] = {
    "zone": 0.05,
    "npcs": 0.15,
    "factions": 0.1,
    "lore": 0.1,
    "narrative_items": 0.05,
}
CROSS_REFERENCE_TOKENS: Final = 25_000
DISCOVERY_TOKENS: Final = 12_500
SUMMARY_TOKENS: Final = 75_000
"""Of the summaries of all topics together."""
SUMMARY_SECONDS: Final = 300.0
ORCHESTRATOR: Final = "orchestrator"

_NOT_IN_PAGES: Final = frozenset({"id", "sources", "confidence", "updated_at", "zone_id", "game"})


@lru_cache(maxsize=8)
def lore_agents(topics: int) -> tuple[AgentSpec, ...]:
    """Return the agents, for a number of topics that share the tokens of summaries."""
    extractors = [
        AgentSpec(
            name=f"extract_{category}",
            description=f"Extracts the records of the category {category} from texts.",
            prompt=f"lore/extract_{category}",
            output_schema=_records_schema(category),
            token_share=EXTRACTION_SHARES[category],
        )
        for category in CATEGORIES
    ]
    return (
        AgentSpec(
            name="research",
            description="Finds and opens the pages about one topic of a zone.",
            prompt="lore/research",
            tools=("search", "crawl_webpage"),
            token_share=RESEARCH_SHARE,
            limits=AgentLimits(requests=20, tool_calls=40, seconds=600.0),
        ),
        *extractors,
        AgentSpec(
            name="summarize",
            description="Shortens the texts of a topic.",
            prompt="lore/summarize",
            max_output_tokens=SUMMARY_TOKENS // topics,
            limits=AgentLimits(requests=1, tool_calls=0, seconds=SUMMARY_SECONDS),
        ),
        AgentSpec(
            name="agreement",
            description="Holds the records of a zone against each other.",
            prompt="lore/cross_reference",
            output_schema=_schema(CrossReferenceResult),
            max_output_tokens=CROSS_REFERENCE_TOKENS,
        ),
        AgentSpec(
            name="discovery",
            description="Finds the zones that are connected to one.",
            prompt="lore/discover_zones",
            tools=("search",),
            output_schema=_schema(ConnectedZonesResult),
            max_output_tokens=DISCOVERY_TOKENS,
        ),
        AgentSpec(
            name=ORCHESTRATOR,
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
    fields = record.pop("properties")
    assert isinstance(fields, dict)
    definitions: Json = record.pop("$defs", None)
    kept: JsonObject = {name: field for name, field in fields.items() if name not in _NOT_IN_PAGES}
    used = definitions if isinstance(definitions, dict) else dict[str, Json]()
    return {
        "type": "object",
        "required": ["records"],
        "additionalProperties": False,
        "properties": {
            "records": {
                "type": "array",
                "items": {**record, "properties": kept, "required": [*_required(record)]},
            }
        },
        "$defs": {name: part for name, part in used.items() if name != "PageReference"},
    }


def _required(record: JsonObject) -> list[Json]:
    return [*as_list(record.get("required")), "evidence"]
