"""What is researched about a zone: topics from a file, each with the category that is extracted from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from wavewright.config.documents import read_document_file
from wavewright.config.model_validation import read_as_model
from wavewright.config.sources import DocumentError
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import ID_PATTERN
from wavewright.tools.lore.models import Category
from wavewright.tools.packs import PackError

DIRECT: Final = "_direct"
"""The topic of pages that no research of a topic has opened; they are extracted with every category."""
SHIPPED: Final = Path(__file__).with_name("research_topics.yml")


class Topic(DocumentModel):
    """One topic; in its texts `{zone}` and `{game}` stand for the names."""

    category: Category
    """What is extracted from its pages."""
    section_header: str
    """Put before its texts."""
    queries: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """What is searched for where no model chooses the words."""
    instructions: str
    """What the research agent is told."""
    schema_hints: str
    """What a summary must keep."""


class TopicsFile(DocumentModel):
    """The form of `research_topics.yml`."""

    topics: Annotated[dict[Annotated[str, Field(pattern=ID_PATTERN)], Topic], Field(min_length=1)]


@lru_cache(maxsize=8)
def read_topics(file: Path = SHIPPED) -> Mapping[str, Topic]:
    """Return the topics of a file by name, in their order.

    Raises:
        PackError: it cannot be read, or holds something else.
    """
    try:
        return read_as_model(read_document_file(file), TopicsFile).topics
    except DocumentError as error:
        raise PackError(str(error), hint="fix the file that the setting 'lore.topics' names") from error
