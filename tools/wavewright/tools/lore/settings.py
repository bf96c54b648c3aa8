"""What a project or a job sets for the pack `lore`."""

from __future__ import annotations

import os
from typing import Annotated, Final

from pydantic import Field

from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import JsonObject
from wavewright.tools.lore.cycle_settings import number_from
from wavewright.tools.lore.store.settings import StoreSettings
from wavewright.tools.packs import validated_settings
from wavewright.tools.web.settings import WebSettings

_VARIABLES: Final = ("CRAWL_CONTENT_TRUNCATE_CHARS", "RATE_LIMIT_REQUESTS_PER_MINUTE")
"""Environment variables that stand for `crawl_content_truncate_chars` and `web.requests_per_minute`."""


class LoreSettings(DocumentModel):
    """All settings of the pack."""

    store: StoreSettings = StoreSettings()
    """Where validated lore and checkpoints are."""
    sources: str | None = None
    """File with the tiers of sources, in place of the pack's own `sources.yml`."""
    web: WebSettings = WebSettings()
    """How pages are searched and fetched, as for the pack `web`."""
    topics: str | None = None
    """File with the topics of research, in place of the pack's own `research_topics.yml`."""
    crawl_content_truncate_chars: Annotated[int, Field(ge=200)] = 4000
    """Characters of a page that a model is shown; the whole page is kept."""


def read_settings(settings: JsonObject) -> LoreSettings:
    """Return the settings of the pack.

    Raises:
        PackError: fields are unknown or have wrong values, or a variable is not a number.
    """
    truncate, rate = (number_from(os.environ, name, int) for name in _VARIABLES)
    given = dict(settings)
    if truncate is not None:
        given.setdefault("crawl_content_truncate_chars", truncate)
    web = given.get("web", {})
    if rate is not None and isinstance(web, dict):
        given["web"] = {"requests_per_minute": rate, **web}
    return validated_settings("lore", LoreSettings, given)
