"""Tools that make records of the pages that were read, and the merge that never overwrites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import ValidationError

from wavewright.packs.extraction.prose import ProseSettings, prose_note
from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.extraction.records import METHOD, ZonePages, extract, read_apart
from wavewright.packs.lore.models import (
    CATEGORIES,
    RECORD_TYPES,
    Category,
    Evidence,
    LoreRecord,
    ZoneData,
    ZoneExtraction,
    slug,
)
from wavewright.packs.lore.run_data import content_name, game_of, references, stored_pages, zone_of
from wavewright.packs.lore.settings import DIRECT, Topic
from wavewright.planner import Json, JsonObject, as_list, as_object
from wavewright.tools import Agents, RunData, ToolError

EXTRACTED: Final = "extracted"
"""Run data: categories that were extracted, with how, and whether a model was asked in vain."""
SUMMARY: Final = "summary"
"""Run data: by topic, a summary and the keys of the pages that it covers."""
MAX_CONTENT: Final = 300_000
"""Characters of all texts that one agent is given; longer ones are cut evenly."""

_STORE_FIELDS: Final = frozenset({"id", "sources", "confidence", "updated_at"})
"""Fields of a record that no page says."""

_T = TypeVar("_T")


def records_name(category: Category) -> str:
    """Return the name of a category's records among run data."""
    return f"records.{category}"


def topic_texts(data: RunData, names: Sequence[str], topics: Mapping[str, Topic]) -> list[Json]:
    """Return the texts of some topics as an agent is given them, under the header of their topic:
    summaries in place of the pages that they cover.
    """
    texts: list[JsonObject] = []
    summaries = data.read(SUMMARY)
    for topic in names:
        # What was opened outside the research of a topic has no header.
        header = {"section": topics[topic].section_header} if topic in topics else {}
        summary = as_object(summaries.get(topic))
        covered = as_list(summary.get("covers"))
        if summary:
            texts.append({**header, "topic": topic, "summary": summary["text"]})
        for key, page in data.read(content_name(topic)).items():
            if isinstance(page, dict) and key not in covered:
                texts.append({**header, "topic": topic, "url": page["url"], "text": page["text"]})
    total = sum(len(str(one.get("text", ""))) for one in texts)
    if total > MAX_CONTENT:
        most = MAX_CONTENT // len(texts)
        texts = [
            {**one, "text": str(one["text"])[:most]} if "text" in one else one for one in texts
        ]
    return [*texts]


@dataclass(frozen=True)
class RecordExtraction:
    """The tool `extract_category`."""

    topics: Mapping[str, Topic]
    model: str = ProseSettings().model
    """spaCy model that reads prose where no language model does."""

    async def extract_category(  # noqa: D417 - `agents` and `data` are no parameters of the tool
        self, category: Category, feedback: Sequence[str] = (), *, agents: Agents, data: RunData
    ) -> str:
        """Extract the records of a category from what was researched about it.

        Records of the same thing become one: what is empty is filled, and nothing is overwritten.

        Args:
            category: One of zone, npcs, factions, lore, narrative_items.
            feedback: Why the last package was rejected; a model considers what is about the
                category.
        """
        zone = zone_of(data)
        own = [name for name, topic in self.topics.items() if topic.category == category]
        pages = stored_pages(data, [*own, DIRECT])
        if not pages:
            return f"Research first: there is no content for {category}; call research_topic({own[0]!r})"
        values: JsonObject = {
            "zone": zone,
            "content": topic_texts(data, [*own, DIRECT], self.topics),
            "sources": [one.model_dump(mode="json") for one in references(data)],
            "feedback": [*feedback],
        }
        answered, note = await answer_of(
            agents,
            f"extract_{category}",
            values,
            lambda answer: read_records(category, answer, zone, pages),
        )
        method, (found, left_out) = "agent", answered or ([], 0)
        if answered is None:
            # The more pages there are, the more names are known.
            read = stored_pages(data, [*self.topics, DIRECT])
            method = METHOD
            found = await read_apart(extract, ZonePages(read, zone, category, self.model))
            unread = prose_note(self.model)
            note += f"; {unread}" if unread else ""
        known = data.read(records_name(category))
        for record in found:
            written: JsonObject = record.model_dump(
                mode="json", exclude_defaults=True, exclude=set(_STORE_FIELDS)
            )
            before = known.get(record.id)
            merged = merge_records(before, written) if isinstance(before, dict) else written
            data.write(records_name(category), record.id, merged)
        new = sum(record.id not in known for record in found)
        done: JsonObject = {
            "method": method,
            "records": len(known) + new,
            "is_stand_in": agents.is_available and method == METHOD,
        }
        data.write(EXTRACTED, category, done)
        dropped = f", {left_out} left out without evidence" if left_out else ""
        return f"Extracted {category}: {len(known) + new} records, {new} new{dropped} (method: {method}{note})"


async def answer_of(
    agents: Agents, name: str, values: JsonObject, read: Callable[[Json], _T]
) -> tuple[_T | None, str]:
    """Return what an agent answers, as `read` takes it; nothing where there is no model or it gives
    no such answer, and then why, for the line that a tool gives.
    """
    if not agents.is_available:
        return None, ""
    try:
        return read(await agents.run(name, values)), ""
    except (ToolError, ValidationError) as error:
        return None, f"; {error}"


def read_records(
    category: Category, answer: Json, zone: str, pages: Sequence[SourcePage]
) -> tuple[list[LoreRecord], int]:
    """Return an agent's records whose evidence stands in the pages, and how many others were left
    out.

    Raises:
        ToolError: the agent was ended before it gave an answer.
    """
    if answer is None:
        raise ToolError(f"the agent 'extract_{category}' was ended without an answer")
    entries = as_list(as_object(answer).get("records"))
    texts = {page.url: " ".join(page.text.split()) for page in pages}
    found: dict[str, LoreRecord] = {}
    for entry in entries:
        record = _record(category, entry, zone)
        if record is None or (category == "zone" and record.id != slug(zone)):
            continue
        found_evidence = [one for one in record.evidence if _stands_in(one, texts)]
        if found_evidence and record.id not in found:
            found[record.id] = record.model_copy(update={"evidence": found_evidence})
    return [*found.values()], len(entries) - len(found)


def _stands_in(evidence: Evidence, texts: Mapping[str, str]) -> bool:
    return " ".join(evidence.quote.split()) in texts.get(evidence.url, "")


def _record(category: Category, entry: Json, zone: str) -> LoreRecord | None:
    """Return a record of an agent's answer; None where it is none."""
    if not isinstance(entry, dict):
        return None
    fields = {name: value for name, value in entry.items() if name not in _STORE_FIELDS}
    if "zone_id" in RECORD_TYPES[category].model_fields:
        fields["zone_id"] = zone
    try:
        return RECORD_TYPES[category].model_validate(fields)
    except ValidationError:
        return None


def merge_records(before: JsonObject, new: JsonObject) -> JsonObject:
    """Return a record with what is empty filled from another of the same thing; lists are united."""
    merged = dict(before)
    for name, value in new.items():
        old = merged.get(name)
        if isinstance(old, list) and isinstance(value, list):
            merged[name] = [*old, *(one for one in value if one not in old)]
        elif old in (None, "", [], {}):
            merged[name] = value
    return merged


def found_records(data: RunData) -> ZoneExtraction:
    """Return all records of the run; of a zone that no page is about, its name."""
    zone = zone_of(data)
    found: dict[Category, Sequence[object]] = {
        category: [*data.read(records_name(category)).values()] for category in CATEGORIES
    }
    return ZoneExtraction.of(
        {**found, "zone": found["zone"] or [ZoneData(name=zone, game=game_of(data))]}
    )
