"""Search by a configured provider: a folder of pages, or a service of the web.

There is no default provider and no fall-back from one to another: a search without its provider, key or library is an
error that says what to set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeGuard, cast
from urllib.parse import quote

import anyio.to_thread
from pydantic import Field
from typing_extensions import TypedDict

from wavewright.config.value_types import Seconds
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.functions.log_events import LogEvent
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.web.index import Engine, FolderIndex
from wavewright.tools.web.json_services import Admit, fetch_json, key_from_environment

MAX_SNIPPET: Final = 2_000
"""Characters of a service's snippet."""
MAX_TITLE: Final = 300

_BaseUrl: TypeAlias = Annotated[str, Field(pattern=r"^https?://")]
_Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class SearchResult(TypedDict):
    """One page that a search has found."""

    title: str
    url: str
    snippet: str
    score: float | None
    """Higher is better, comparable within one search; null where the provider gives none."""
    provider: str


@dataclass(frozen=True)
class SearchExecuted(LogEvent):
    """A search has been answered."""

    provider: str
    query: str
    results: int
    seconds: float


class LocalSearch(DocumentModel):
    """A folder of HTML, Markdown and text files."""

    provider: Literal["local"]
    folder: str
    base_url: str = ""
    """Put before the relative path of a page to make its `url`; such as `https://docs.example.org/`."""
    exclude: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Patterns of relative paths that are left out, such as `drafts/*`."""
    engine: Engine = "fts5"


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
    LocalSearch | SearxngSearch | TavilySearch | BraveSearch | DdgsSearch, Field(discriminator="provider")
]
"""What a pack's settings say of searches."""

Search: TypeAlias = Callable[[str, int], Awaitable[list[SearchResult]]]
"""Finds at most so many pages for a query, best first; raises `ToolError`."""


def open_search(
    settings: SearchSettings | None, root: Path, *, pack: str, admit: Admit | None = None
) -> Search:
    """Return the search of a pack.

    Args:
        settings: The provider.
        root: What a relative folder is relative to.
        pack: Whose settings they are, for messages.
        admit: Awaited before each request to searxng, tavily or brave; limits their rate.

    Raises:
        ToolError: no provider is configured, or what it needs is not installed.
    """
    match settings:
        case None:
            raise ToolError(
                "no search provider is configured",
                hint=f"set 'search' for the pack {pack!r}, such as {{provider: searxng, base_url: "
                "'http://localhost:8888'}; providers are local, searxng, tavily, brave and ddgs",
            )
        case LocalSearch():
            index = FolderIndex(
                root / Path(settings.folder).expanduser(), exclude=settings.exclude, engine=settings.engine
            )
            return partial(_search_folder, index, settings.base_url)
        case SearxngSearch():
            return partial(_search_searxng, settings, admit)
        case TavilySearch():
            return partial(_search_tavily, settings, admit)
        case BraveSearch():
            return partial(_search_brave, settings, admit)
        case DdgsSearch():
            return partial(_search_ddgs, settings)


async def _search_folder(index: FolderIndex, base_url: str, query: str, limit: int) -> list[SearchResult]:
    matches = await anyio.to_thread.run_sync(index.search, query, limit)
    return [
        {
            "title": match.title,
            "url": f"{base_url.rstrip('/')}/{quote(match.path)}" if base_url else match.path,
            "snippet": match.snippet,
            "score": match.score,
            "provider": "local",
        }
        for match in matches
    ]


async def _search_searxng(
    settings: SearxngSearch, admit: Admit | None, query: str, limit: int
) -> list[SearchResult]:
    answer = await fetch_json(
        f"{settings.base_url.rstrip('/')}/search",
        service=_service("searxng"),
        seconds=settings.timeout,
        params={"q": query, "format": "json"},
        admit=admit,
    )
    return _results("searxng", _list_at("searxng", answer, "results"), "content", limit)


async def _search_tavily(
    settings: TavilySearch, admit: Admit | None, query: str, limit: int
) -> list[SearchResult]:
    answer = await fetch_json(
        f"{settings.base_url.rstrip('/')}/search",
        service=_service("tavily"),
        seconds=settings.timeout,
        headers={"Authorization": f"Bearer {_key(settings)}"},
        body={"query": query, "max_results": min(limit, 20)},
        admit=admit,
    )
    return _results("tavily", _list_at("tavily", answer, "results"), "content", limit)


async def _search_brave(
    settings: BraveSearch, admit: Admit | None, query: str, limit: int
) -> list[SearchResult]:
    answer = await fetch_json(
        f"{settings.base_url.rstrip('/')}/web/search",
        service=_service("brave"),
        seconds=settings.timeout,
        params={"q": query, "count": str(min(limit, 20)), "text_decorations": "false"},
        headers={"X-Subscription-Token": _key(settings)},
        admit=admit,
    )
    if isinstance(answer, dict) and "web" not in answer:
        return []  # the answer to a search without results
    found = _list_at("brave", answer, "web", "results")
    return _results("brave", found, "description", limit)


async def _search_ddgs(settings: DdgsSearch, query: str, limit: int) -> list[SearchResult]:
    try:
        from ddgs import DDGS  # pyright: ignore[reportUnknownVariableType] - loaded lazily by a class without types
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
    except ImportError as error:
        raise ToolError(
            "the search provider 'ddgs' is not installed", hint="run `pip install 'wavewright[search]'`"
        ) from error

    def find() -> list[dict[str, Any]]:
        return DDGS(timeout=max(1, round(settings.timeout))).text(
            query, region=settings.region, max_results=limit
        )

    try:
        found = await anyio.to_thread.run_sync(find, abandon_on_cancel=True)
    except DDGSException as error:
        if not isinstance(error, RatelimitException | TimeoutException) and "No results" in str(error):
            return []
        raise ToolError(f"ddgs found no answer ({type(error).__name__})", transient=True) from error
    entries = [
        {"title": one.get("title"), "url": one.get("href"), "content": one.get("body")} for one in found
    ]
    return _results(settings.provider, entries, "content", limit)


def _key(settings: TavilySearch | BraveSearch) -> str:
    return key_from_environment(settings.api_key_env, service=_service(settings.provider))


def _service(provider: str) -> str:
    return f"the search provider {provider!r}"


def _odd_answer(provider: str, place: str) -> ToolError:
    return ToolError(
        f"{_service(provider)} answered without a list at {place!r}",
        hint="check 'base_url' of the search settings",
    )


def _list_at(provider: str, answer: Json, *path: str) -> Sequence[Json]:
    node: Json = answer
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    if not isinstance(node, list):
        raise _odd_answer(provider, ".".join(path))
    return node


def _results(provider: str, entries: Sequence[Any], snippet: str, limit: int) -> list[SearchResult]:
    """Return entries with an address of the web in the common form; others are left out."""
    found: list[SearchResult] = []
    for entry in entries:
        fields = cast("JsonObject", entry) if isinstance(entry, dict) else {}
        url = _one_line(fields.get("url"))
        if url.startswith(("http://", "https://")):
            score = fields.get("score")
            found.append(
                {
                    "title": _one_line(fields.get("title"))[:MAX_TITLE],
                    "url": url,
                    "snippet": _one_line(fields.get(snippet))[:MAX_SNIPPET],
                    "score": float(score) if _is_score(score) else None,
                    "provider": provider,
                }
            )
    return found[:limit]


def _is_score(value: Json) -> TypeGuard[float]:
    """Whether a value is a number that a float holds exactly; NaN and infinities are none."""
    return isinstance(value, int | float) and abs(value) < 2**53


def _one_line(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
