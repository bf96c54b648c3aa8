"""How far sources are trusted, from a list of their places."""

from __future__ import annotations

import datetime as dt
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError

from wavewright.config.documents import read_document_file
from wavewright.config.sources import DocumentError
from wavewright.planner.language.plan import DocumentModel
from wavewright.tools.lore.models import PageReference, Tier
from wavewright.tools.packs import PackError

TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
DEFAULT_FILE: Final = Path(__file__).with_name("sources.yml")


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
        """Return the place of a page's tier in the order of trust, from 0; what is sorted by it keeps its order."""
        return TIERS.index(self.tier(url))

    def reference(self, url: str, accessed_at: dt.datetime) -> PageReference:
        """Return the reference of a page that was read at a time."""
        return PageReference(url=url, domain=domain(url), tier=self.tier(url), accessed_at=accessed_at)


def domain(url: str) -> str:
    """Return the host of an address in lower case, without `www.`."""
    return (urlsplit(url).hostname or "").removeprefix("www.")


def _is_at(url: str, place: str) -> bool:
    parts = urlsplit(url)
    host, slash, path = place.lower().partition("/")
    given = parts.netloc.rpartition("@")[2].lower() if ":" in host else parts.hostname or ""
    at_host = fnmatchcase(given, host) or given.endswith(f".{host}")
    at_path = (
        f"{parts.path.lower().rstrip('/')}/".startswith(f"/{path.rstrip('/')}/") if slash and path else True
    )
    return at_host and at_path


@cache
def read_tiers(file: Path = DEFAULT_FILE) -> SourceTiers:
    """Return the tiers of a file.

    Raises:
        PackError: the file cannot be read, or has another form.
    """
    try:
        return SourceTiers.model_validate(read_document_file(file).value)
    except DocumentError as error:
        raise PackError(f"the sources of the pack lore cannot be read: {error}", hint=error.hint) from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise PackError(
            f"{file}: {where}: {fault['msg'].lower()}",
            hint=f"tiers are {', '.join(TIERS[:-1])}, each a list of places",
        ) from error
