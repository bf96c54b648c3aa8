"""What a project or a job sets for the pack `web`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from wavewright.config.value_types import Seconds
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import JsonObject
from wavewright.tools.packs import validated_settings
from wavewright.tools.web.addresses import AddressRefused, read_place
from wavewright.tools.web.search import SearchSettings


def _read_place(text: str) -> str:
    try:
        return read_place(text)
    except AddressRefused as error:
        raise ValueError(str(error)) from error


class WebSettings(DocumentModel):
    """All settings of the pack."""

    allow_private: Annotated[
        tuple[Annotated[str, Field(pattern=r"^\S+:\d+$"), AfterValidator(_read_place)], ...],
        Field(strict=False),
    ] = ()
    """Hosts with ports that are fetched although they are not public, such as `127.0.0.1:8080` or `[::1]:8080`."""
    user_agent: Annotated[str, Field(pattern=r"^[!-~][ -~]*$")] = "wavewright"
    """What servers are told; what stands before a `/` is the name that robots.txt files are read by."""
    requests_per_minute: Annotated[int, Field(ge=1, le=10_000)] = 120
    """Of all hosts together, searches included."""
    requests_per_host_per_minute: Annotated[int, Field(ge=1, le=10_000)] = 30
    """Evenly spaced; a longer `Crawl-delay` of a host's robots.txt, of a minute at most, holds in its place."""
    max_bytes: Annotated[int, Field(ge=1, le=64 * 2**20)] = 4 * 2**20
    """Of one page, after decompression."""
    timeout: Seconds = 30.0
    """For one page, redirects included, waiting for the rates not."""
    cache_for: Seconds = 3600.0
    """How long a page is taken from the cache; then the server is asked whether it has changed."""
    search: SearchSettings | None = None
    """Provider of `search_web`."""


def read_settings(settings: JsonObject) -> WebSettings:
    """Return the settings of the pack.

    Raises:
        PackError: fields are unknown or have wrong values.
    """
    return validated_settings("web", WebSettings, settings)
