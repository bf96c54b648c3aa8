"""What a job or a project sets for this pack: where prices, benchmarks, announcements and searches come from.

Paths are relative to the folder of the file they stand in. A key for a provider is named by its environment
variable and never written down.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wavewright.config.value_types import Seconds
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import JsonObject
from wavewright.tools.packs import validated_settings
from wavewright.tools.web.search import SearchSettings


class PriceServiceSettings(DocumentModel):
    """A price service over HTTP, in the shape of EODHD."""

    provider: Literal["eodhd"] = "eodhd"
    base_url: Annotated[str, Field(pattern=r"^https?://")] = "https://eodhd.com/api"
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "EODHD_API_KEY"
    """Name of the environment variable that holds the key."""
    suffix: str = ""
    """Put after every code, such as `.AU` or `.US`."""
    timeout: Seconds = 30.0
    since: str = "2000-01-01"
    """First day that is asked for."""


class BasketSettings(DocumentModel):
    """An equal-weight basket of some of the source's codes."""

    kind: Literal["equal_weight_basket"] = "equal_weight_basket"
    codes: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


class EquitiesSettings(DocumentModel):
    """All settings of the pack; each part is optional until a tool needs it."""

    prices: str | PriceServiceSettings | None = None
    """`vega_datasets`, a folder, a file, or a provider."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | None = None
    exchange: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,11}$")] = "local"
    """First part of document ids, such as `asx` in `asx:GNP:stock_collector`."""
    indices: dict[str, str | BasketSettings] = {}
    """Benchmark code → a price file, or a basket. `EQUAL_WEIGHT`, the basket of all codes, is always there."""
    announcements: str | None = None
    """A folder of Markdown or HTML files with dates."""
    search: SearchSettings | None = None
    """Provider of `search_web`."""


def read_settings(settings: JsonObject) -> EquitiesSettings:
    """Return the settings of the pack.

    Raises:
        PackError: fields are unknown or have wrong values.
    """
    return validated_settings("equities", EquitiesSettings, settings)
