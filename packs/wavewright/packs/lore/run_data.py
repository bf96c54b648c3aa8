"""What the pack keeps as run data: the zone, and the pages of each topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypedDict

from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.models import PageReference, Tier
from wavewright.tools import RunData, ToolError

SOURCES: Final = "sources"
"""Run data: pages that were read, by address."""


class FoundPage(TypedDict):
    """A result of a search."""

    title: str
    url: str
    snippet: str
    tier: Tier


def content_name(topic: str) -> str:
    """Return the name of a topic's pages among run data."""
    return f"content.{topic}"


def zone_of(data: RunData) -> str:
    """Return the zone that the run is about.

    Raises:
        ToolError: the plan has no such input.
    """
    zone = data.inputs.get("target")
    if not isinstance(zone, str) or not zone:
        raise ToolError("the plan has no input 'target'", hint="give the zone's name as `target`")
    return zone


def game_of(data: RunData) -> str:
    """Return the game that the zone is of; empty where the plan does not say it."""
    return str(data.inputs.get("game") or "")


def stored_pages(data: RunData, topics: Iterable[str]) -> list[SourcePage]:
    """Return the pages of topics, each once."""
    found: dict[str, SourcePage] = {}
    for topic in topics:
        for key, page in data.read(content_name(topic)).items():
            if key not in found:
                found[key] = SourcePage.model_validate(page)
    return [*found.values()]


def references(data: RunData) -> list[PageReference]:
    """Return the pages that were read, in the order in which they were first opened."""
    return [PageReference.model_validate(one) for one in data.read(SOURCES).values()]
