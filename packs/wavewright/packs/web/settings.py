"""Settings of the pack: where is searched, and how pages are fetched."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from wavewright.config import ReadPath, Seconds
from wavewright.packs.web.addresses import AddressRefused, read_place
from wavewright.planner import DocumentModel

_BaseUrl: TypeAlias = Annotated[str, Field(pattern=r"^https?://")]
_Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class LocalSearch(DocumentModel):
    """A folder of HTML, Markdown and text files, or a site that is crawled."""

    provider: Literal["local"]
    folder: ReadPath | None = None
    base_url: str = ""
    """Put before the relative path of a file to make its `url`; such as
    `https://docs.example.org/`.
    """
    site: _BaseUrl | None = None
    """Address that a crawl begins at; it follows links to addresses that begin with it, up to its
    last `/`.
    """
    max_pages: Annotated[int, Field(ge=1, le=5_000)] = 1_000
    """How many addresses a crawl fetches, beside sitemaps."""
    refresh: Seconds = 86_400.0
    """How old the index of a site may become; then the site is crawled again."""
    exclude: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Patterns of relative paths that are left out, such as `drafts/*`."""

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        """Refuse settings with both places or none, and fields of the other place."""
        if (self.folder is None) == (self.site is None):
            raise ValueError("the provider 'local' has either a 'folder' or a 'site'")
        others = ("base_url",) if self.folder is None else ("max_pages", "refresh")
        for name in others:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"a {'site' if self.folder is None else 'folder'} has no {name!r}")
        return self


class SearxngSearch(DocumentModel):
    """An instance of SearXNG whose settings allow the format `json`."""

    provider: Literal["searxng"]
    base_url: _BaseUrl
    timeout: Seconds = 20.0


class TavilySearch(DocumentModel):
    """The service Tavily."""

    provider: Literal["tavily"]
    base_url: _BaseUrl = "https://api.tavily.com"
    api_key_env: _Variable = "TAVILY_API_KEY"
    """Name of the environment variable that holds the key."""
    timeout: Seconds = 20.0


class BraveSearch(DocumentModel):
    """The service Brave Search."""

    provider: Literal["brave"]
    base_url: _BaseUrl = "https://api.search.brave.com/res/v1"
    api_key_env: _Variable = "BRAVE_API_KEY"
    """Name of the environment variable that holds the key."""
    timeout: Seconds = 20.0


class DdgsSearch(DocumentModel):
    """Public search pages, read by the library ddgs with its own HTTP client."""

    provider: Literal["ddgs"]
    region: str = "us-en"
    timeout: Seconds = 20.0


SearchSettings: TypeAlias = Annotated[
    LocalSearch | SearxngSearch | TavilySearch | BraveSearch | DdgsSearch,
    Field(discriminator="provider"),
]
"""What a pack's settings say of searches."""


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
    """Hosts with ports that are fetched although they are not public, such as `127.0.0.1:8080` or
    `[::1]:8080`.
    """
    user_agent: Annotated[str, Field(pattern=r"^[!-~][ -~]*$")] = "wavewright"
    """What servers are told; what stands before a `/` is the name that robots.txt files are read
    by.
    """
    requests_per_minute: Annotated[int, Field(ge=1, le=10_000)] = 120
    """Of all hosts together, searches included."""
    requests_per_host_per_minute: Annotated[int, Field(ge=1, le=10_000)] = 30
    """Evenly spaced; a longer `Crawl-delay` of a host's robots.txt, of a minute at most, holds in
    its place.
    """
    max_bytes: Annotated[int, Field(ge=1, le=64 * 2**20)] = 4 * 2**20
    """Of one page, after decompression."""
    timeout: Seconds = 30.0
    """For one page, redirects included, waiting for the rates not."""
    cache_for: Seconds = 3600.0
    """How long a page is taken from the cache; then the server is asked whether it has changed."""
    search: SearchSettings | None = None
    """Provider of `search_web`."""
