"""What a project or a job sets for the pack `lore`, with the files of topics and of sources that it
may name.

The environment sets up a daemon that researches zones in cycles.

The variables are defaults of the daemon's settings: what `wavewright.yaml` states wins over them.
Those of the standing job count where `STARTING_ZONE` is set.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from wavewright.config import ReadPath
from wavewright.packs.extraction.prose import ProseSettings
from wavewright.packs.lore.models import Category, PageReference, Tier
from wavewright.packs.surreal import DatabaseName, SurrealSettings
from wavewright.packs.web.settings import WebSettings
from wavewright.planner import ID_PATTERN, DocumentModel, JsonObject, as_object
from wavewright.tools import MessageContract, PackError, read_pack_file, validated_settings

DIRECT: Final = "_direct"
"""The topic of pages that no research of a topic has opened; they are extracted with every
category.
"""
SHIPPED_TOPICS: Final = Path(__file__).with_name("research_topics.yml")


class Topic(DocumentModel):
    """One topic; in its texts `{zone}` and `{game}` stand for the names."""

    category: Category
    """What is extracted from its pages."""
    section_header: str
    """Put before its texts, as `section`, where a model reads them."""
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
def read_topics(file: Path = SHIPPED_TOPICS) -> Mapping[str, Topic]:
    """Return the topics of a file by name, in their order.

    Raises:
        PackError: it cannot be read, or holds something else.
    """
    return read_pack_file(file, TopicsFile, "lore.topics").topics


TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
SHIPPED_SOURCES: Final = Path(__file__).with_name("sources.yml")


class SourceTiers(DocumentModel):
    """The list of sources: `sources.yml` of the pack, or the file that the setting `sources` names."""

    version: Literal[1] = 1
    tiers: dict[Literal["official", "primary", "secondary", "tertiary"], list[str]] = {}
    """Places by tier; see the pack's own file for their form."""

    def tier(self, url: str) -> Tier:
        """Return the tier of a page, the most trusted one that lists its place."""
        for tier in TIERS:
            if tier != "unlisted" and any(_is_at(url, place) for place in self.tiers.get(tier, ())):
                return tier
        return "unlisted"

    def rank(self, url: str) -> int:
        """Return the place of a page's tier in the order of trust, from 0; what is sorted by it
        keeps its order.
        """
        return TIERS.index(self.tier(url))

    def reference(self, url: str, accessed_at: dt.datetime) -> PageReference:
        """Return the reference of a page that was read at a time."""
        return PageReference(
            url=url, domain=domain(url), tier=self.tier(url), accessed_at=accessed_at
        )


def domain(url: str) -> str:
    """Return the host of an address in lower case, without `www.`."""
    return (urlsplit(url).hostname or "").removeprefix("www.")


def _is_at(url: str, place: str) -> bool:
    parts = urlsplit(url)
    host, slash, path = place.lower().partition("/")
    given = parts.netloc.rpartition("@")[2].lower() if ":" in host else parts.hostname or ""
    at_host = fnmatchcase(given, host) or given.endswith(f".{host}")
    at_path = (
        f"{parts.path.lower().rstrip('/')}/".startswith(f"/{path.rstrip('/')}/")
        if slash and path
        else True
    )
    return at_host and at_path


@cache
def read_tiers(file: Path = SHIPPED_SOURCES) -> SourceTiers:
    """Return the tiers of a file.

    Raises:
        PackError: the file cannot be read, or has another form.
    """
    return read_pack_file(file, SourceTiers, "lore.sources")


class StoreSettings(SurrealSettings):
    """Where the records of lore are."""

    what: ClassVar[str] = "lore store"
    section: ClassVar[str] = "packs.lore.store"
    sharing: ClassVar[str] = (
        "serve it once with `wavewright mcp lore-store --http HOST:PORT`, and connect to that"
    )

    path: str = Field(default=".wavewright/lore", min_length=1)
    """Folder of the embedded engine."""
    password_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "LORE_STORE_PASSWORD"  # noqa: S105 - the name of the variable
    """Name of the environment variable that holds the user's password."""
    database: DatabaseName = "lore"
    """One for each game: identities are names, and two games may have a zone or a person of the
    same name.
    """


class LoreSettings(DocumentModel):
    """All settings of the pack."""

    store: StoreSettings = StoreSettings()
    """Where validated lore and checkpoints are."""
    sources: ReadPath | None = None
    """File with the tiers of sources, in place of the pack's own `sources.yml`."""
    web: WebSettings = WebSettings()
    """How pages are searched and fetched, as for the pack `web`."""
    topics: ReadPath | None = None
    """File with the topics of research, in place of the pack's own `research_topics.yml`."""
    extraction: ProseSettings = ProseSettings()
    """How prose is read where no language model does it."""
    crawl_content_truncate_chars: Annotated[int, Field(ge=200)] = 4000
    """Characters of a page that a model is shown; the whole page is kept."""


def read_settings(settings: JsonObject) -> LoreSettings:
    """Return the settings of the pack; environment variables count where they say nothing.

    Raises:
        PackError: fields are unknown or have wrong values, or a variable is not a number.
    """
    variables = _read_variables(os.environ)
    given = dict(settings)
    if variables.truncate is not None:
        given.setdefault("crawl_content_truncate_chars", variables.truncate)
    if variables.topics is not None:
        given.setdefault("topics", variables.topics)
    web = given.get("web", {})
    if variables.rate is not None and isinstance(web, dict):
        given["web"] = {"requests_per_minute": variables.rate, **web}
    return validated_settings("lore", LoreSettings, given)


class _Variables(BaseModel):
    """The environment variables that the pack reads; one that is empty is not set."""

    start: str | None = Field(None, alias="STARTING_ZONE")
    """First zone of the standing job."""
    game: str | None = Field(None, alias="GAME_NAME")
    """Game that the zones of the standing job are of."""
    pause_minutes: float | None = Field(None, alias="RESEARCH_CYCLE_DELAY_MINUTES")
    """Between two cycles."""
    cycle_tokens: int | None = Field(None, alias="PER_CYCLE_TOKEN_BUDGET")
    zone_tokens: int | None = Field(None, alias="PER_ZONE_TOKEN_BUDGET")
    """The same by another name: a cycle is one zone."""
    day_tokens: int | None = Field(None, alias="DAILY_TOKEN_BUDGET")
    iterations: int | None = Field(None, alias="MAX_RESEARCH_VALIDATE_ITERATIONS")
    """Packages of one zone that the validator may reject or accept."""
    amqp_url: str | None = Field(None, alias="RABBITMQ_URL")
    agent: str | None = Field(None, alias="AGENT_ID")
    """Name of the daemon in messages."""
    model: str | None = Field(None, alias="LLM_MODEL")
    topics: str | None = Field(None, alias="TOPICS_CONFIG")
    """File with the topics of research."""
    truncate: int | None = Field(None, alias="CRAWL_CONTENT_TRUNCATE_CHARS")
    rate: int | None = Field(None, alias="RATE_LIMIT_REQUESTS_PER_MINUTE")
    """The setting `web.requests_per_minute`."""


def _read_variables(environment: Mapping[str, str]) -> _Variables:
    """Return what the environment states.

    Raises:
        PackError: a variable is not a number.
    """
    try:
        return _Variables.model_validate({name: text for name, text in environment.items() if text})
    except ValidationError as error:
        name = str(error.errors(include_url=False)[0]["loc"][0])
        raise PackError(
            f"{name} is no number", hint="set a number, or unset it", place=name
        ) from error


def with_environment(contract: MessageContract, environment: Mapping[str, str]) -> MessageContract:
    """Return the contract with the defaults that the environment gives.

    Raises:
        PackError: a variable is not a number.
    """
    variables = _read_variables(environment)
    shared = variables.model_dump(include={"amqp_url", "agent"}, exclude_none=True)
    daemon: JsonObject = {**contract.daemon}
    if variables.start is not None:
        standing: JsonObject = {"start": variables.start}
        if variables.pause_minutes is not None:
            standing["pause"] = 60 * variables.pause_minutes
        tokens = variables.cycle_tokens or variables.zone_tokens
        if tokens is not None:
            standing["tokens_per_cycle"] = tokens
        if variables.game is not None:
            standing["inputs"] = {"game": variables.game}
        daemon["standing"] = standing
    if variables.iterations is not None:
        validation = as_object(daemon.get("validation"))
        daemon["validation"] = {**validation, "iterations": variables.iterations}
    roles = {
        name: replace(role, daemon={**role.daemon, **shared}, model=variables.model)
        for name, role in contract.roles.items()
    }
    budgets = contract.budgets
    if variables.day_tokens is not None:
        budgets = {"day": {"tokens": variables.day_tokens}}
    return replace(
        contract, daemon={**daemon, **shared}, budgets=budgets, model=variables.model, roles=roles
    )
