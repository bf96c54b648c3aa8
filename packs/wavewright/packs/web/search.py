"""Search by a configured provider: a folder of pages, a site, or a service.

There is no default provider and no fall-back from one to another: a search without its provider,
key or library is an error that says what to set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard
from urllib.parse import quote

import anyio.to_thread
from typing_extensions import TypedDict

from wavewright.packs.web.index import FolderIndex, PageMatch
from wavewright.packs.web.json_services import Admit, fetch_json, key_from_environment
from wavewright.packs.web.settings import (
    BraveSearch,
    DdgsSearch,
    LocalSearch,
    SearchSettings,
    SearxngSearch,
    TavilySearch,
)
from wavewright.planner import Json, as_object
from wavewright.tools import Emit, LogEvent, ToolError

if TYPE_CHECKING:
    from wavewright.packs.web.reader import WebReader
    from wavewright.packs.web.site import SiteIndex

MAX_SNIPPET: Final = 1_000
"""Characters of a service's snippet."""
MAX_TITLE: Final = 300


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


Search: TypeAlias = Callable[[str, int, Emit], Awaitable[list[SearchResult]]]
"""Finds at most so many pages for a query, best first, and emits the progress of a crawl; raises
`ToolError`.
"""


def open_search(
    settings: SearchSettings | None, root: Path, *, pack: str, reader: WebReader | None = None
) -> Search:
    """Return the search of a pack.

    Args:
        settings: The provider.
        root: What a relative folder is relative to.
        pack: Whose settings they are, for messages.
        reader: Crawls a site; its rates hold for requests to searxng, tavily and brave.

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
        case LocalSearch(folder=str(folder)):
            index = FolderIndex(root / Path(folder).expanduser(), exclude=settings.exclude)
            return partial(_search_folder, index, settings.base_url)
        case LocalSearch():
            if reader is None:
                raise ToolError(
                    f"the pack {pack!r} crawls no site",
                    hint="set 'search' for the pack 'web', and install it with `pip install 'wavewright[web]'`",
                )
            from wavewright.packs.web.site import SiteIndex

            return partial(_search_site, SiteIndex(settings, reader))
        case SearxngSearch() | TavilySearch() | BraveSearch():
            return partial(_search_service, settings, None if reader is None else reader.wait)
        case DdgsSearch():
            return partial(_search_ddgs, settings)


async def _search_site(index: SiteIndex, query: str, limit: int, emit: Emit) -> list[SearchResult]:
    return [_local_result(match, match.path) for match in await index.search(query, limit, emit)]


async def _search_folder(
    index: FolderIndex, base_url: str, query: str, limit: int, emit: Emit
) -> list[SearchResult]:
    del emit  # a folder is read at once
    matches = await anyio.to_thread.run_sync(index.search, query, limit)
    return [
        _local_result(
            match, f"{base_url.rstrip('/')}/{quote(match.path)}" if base_url else match.path
        )
        for match in matches
    ]


def _local_result(match: PageMatch, url: str) -> SearchResult:
    return {
        "title": match.title,
        "url": url,
        "snippet": match.snippet,
        "score": match.score,
        "provider": "local",
    }


async def _search_service(
    settings: SearxngSearch | TavilySearch | BraveSearch,
    admit: Admit | None,
    query: str,
    limit: int,
    emit: Emit,
) -> list[SearchResult]:
    del emit
    base, most = settings.base_url.rstrip("/"), min(limit, 20)
    place, snippet = ["results"], "content"
    match settings:
        case SearxngSearch():
            ask = partial(fetch_json, f"{base}/search", params={"q": query, "format": "json"})
        case TavilySearch():
            ask = partial(
                fetch_json,
                f"{base}/search",
                headers={"Authorization": f"Bearer {_key(settings)}"},
                body={"query": query, "max_results": most},
            )
        case _:
            place, snippet = ["web", "results"], "description"
            ask = partial(
                fetch_json,
                f"{base}/web/search",
                headers={"X-Subscription-Token": _key(settings)},
                params={"q": query, "count": str(most), "text_decorations": "false"},
            )
    answer = await ask(service=_service(settings.provider), seconds=settings.timeout, admit=admit)
    if isinstance(settings, BraveSearch) and isinstance(answer, dict) and "web" not in answer:
        return []  # the answer to a search without results
    return _results(settings.provider, _list_at(settings.provider, answer, place), snippet, limit)


async def _search_ddgs(
    settings: DdgsSearch, query: str, limit: int, emit: Emit
) -> list[SearchResult]:
    del emit
    try:
        from ddgs import DDGS  # pyright: ignore[reportUnknownVariableType] - loaded lazily by a class without types
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
    except ImportError as error:
        raise ToolError(
            "the search provider 'ddgs' is not installed",
            hint="run `pip install 'wavewright[search]'`",
        ) from error

    def find() -> list[dict[str, Any]]:
        return DDGS(timeout=max(1, round(settings.timeout))).text(
            query, region=settings.region, max_results=limit
        )

    try:
        found = await anyio.to_thread.run_sync(find, abandon_on_cancel=True)
    except DDGSException as error:
        if not isinstance(error, RatelimitException | TimeoutException) and "No results" in str(
            error
        ):
            return []
        raise ToolError(f"ddgs found no answer ({type(error).__name__})", transient=True) from error
    entries = [
        {"title": one.get("title"), "url": one.get("href"), "content": one.get("body")}
        for one in found
    ]
    return _results(settings.provider, entries, "content", limit)


def _key(settings: TavilySearch | BraveSearch) -> str:
    return key_from_environment(settings.api_key_env, service=_service(settings.provider))


def _service(provider: str) -> str:
    return f"the search provider {provider!r}"


def _list_at(provider: str, answer: Json, path: Sequence[str]) -> Sequence[Json]:
    node: Json = answer
    for name in path:
        node = as_object(node).get(name)
    if not isinstance(node, list):
        raise ToolError(
            f"{_service(provider)} answered without a list at {'.'.join(path)!r}",
            hint="check 'base_url' of the search settings",
        )
    return node


def _results(
    provider: str, entries: Sequence[Json], snippet: str, limit: int
) -> list[SearchResult]:
    """Return entries with an address of the web in the common form; others are left out."""
    found: list[SearchResult] = []
    for fields in map(as_object, entries):
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
