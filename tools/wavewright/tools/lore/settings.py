"""What a project or a job sets for the pack `lore`, and the environment of a daemon that researches zones in cycles.

The variables are defaults of the daemon's settings: what `wavewright.yaml` states wins over them. Those of the standing
job count where `STARTING_ZONE` is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Final, TypeVar

from pydantic import Field

from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import JsonObject, as_object
from wavewright.tools.message_contract import MessageContract
from wavewright.tools.packs import PackError, validated_settings
from wavewright.tools.surreal import DatabaseName, SurrealSettings
from wavewright.tools.web.settings import WebSettings

_VARIABLES: Final = ("CRAWL_CONTENT_TRUNCATE_CHARS", "RATE_LIMIT_REQUESTS_PER_MINUTE")
"""Environment variables that stand for `crawl_content_truncate_chars` and `web.requests_per_minute`."""


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
    """One for each game: identities are names, and two games may have a zone or a person of the same name."""


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


_N = TypeVar("_N", int, float)

STARTING_ZONE: Final = "STARTING_ZONE"
"""First zone of the standing job."""
CYCLE_DELAY: Final = "RESEARCH_CYCLE_DELAY_MINUTES"
"""Minutes between two cycles."""
CYCLE_TOKENS: Final = "PER_CYCLE_TOKEN_BUDGET"
DAY_TOKENS: Final = "DAILY_TOKEN_BUDGET"
ITERATIONS: Final = "MAX_RESEARCH_VALIDATE_ITERATIONS"
"""Packages of one zone that the validator may reject or accept."""


def with_environment(contract: MessageContract, environment: Mapping[str, str]) -> MessageContract:
    """Return the contract with the defaults that the environment gives.

    Raises:
        PackError: a variable is not a number.
    """
    daemon: JsonObject = {**contract.daemon}
    if start := environment.get(STARTING_ZONE):
        standing: JsonObject = {"start": start}
        if (minutes := number_from(environment, CYCLE_DELAY, float)) is not None:
            standing["pause"] = 60 * minutes
        if (tokens := number_from(environment, CYCLE_TOKENS, int)) is not None:
            standing["tokens_per_cycle"] = tokens
        daemon["standing"] = standing
    if (most := number_from(environment, ITERATIONS, int)) is not None:
        daemon["validation"] = {**as_object(daemon.get("validation")), "iterations": most}
    of_day = number_from(environment, DAY_TOKENS, int)
    budgets: JsonObject = contract.budgets if of_day is None else {"day": {"tokens": of_day}}
    return replace(contract, daemon=daemon, budgets=budgets)


def number_from(environment: Mapping[str, str], name: str, read: Callable[[str], _N]) -> _N | None:
    """Return what a variable states; `None` where it is not set.

    Raises:
        PackError: it is not a number.
    """
    text = environment.get(name, "")
    if not text:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise PackError(f"{name} is no number", hint="set a number, or unset it", place=name) from error
