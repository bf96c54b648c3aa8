"""The tools of the pack `web`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from wavewright.config import install_hint, is_installed
from wavewright.packs.web.addresses import MAX_URL_LENGTH
from wavewright.packs.web.pages import CrawlExecuted, Page, read_answer
from wavewright.packs.web.reader import shared_reader
from wavewright.packs.web.search import Search, SearchExecuted, SearchResult, open_search
from wavewright.packs.web.settings import LocalSearch, WebSettings
from wavewright.planner import Retry
from wavewright.tools import MINUTE_SECONDS, Emit, Tool, ToolError, make_tool

_TIMEOUT_SECONDS: Final = 120.0
_SECONDS_A_PAGE: Final = 2.0
"""What a page of a crawl may take on average, beside the wait for the rates."""

_make_web_tool = partial(
    make_tool,
    effects={"read", "egress"},
    tags={"data"},
    expected_seconds=2.0,
    untrusted_output=True,
    retry=Retry(attempts=3),
    timeout=_TIMEOUT_SECONDS,
)
"""Makes a tool that asks the web: it reads, sends the question out, and brings untrusted text back.
"""


@dataclass(frozen=True)
class _WebTools:
    """What the tools do, as methods: the contract of a method is read once, that of a nested
    function each time.
    """

    settings: WebSettings
    root: Path

    async def fetch_page(  # noqa: D417 - `emit` is no parameter of the tool
        self, url: Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH)], *, emit: Emit
    ) -> Page:
        """Fetch a page of the public web as Markdown.

        Args:
            url: Address of the page, with http:// or https://.
        """
        if not is_installed("web"):
            raise ToolError(
                "the extra 'web' is not installed, which reads pages", hint=install_hint("web")
            )
        begun = time.monotonic()
        page = await read_answer(await shared_reader(self.settings).get_page(url))
        emit(CrawlExecuted(page.url, len(page.text), round(time.monotonic() - begun, 3)))
        return page

    @cached_property
    def _search(self) -> Search:
        reader = None
        if is_installed("web"):
            reader = shared_reader(self.settings)
        return open_search(self.settings.search, self.root, pack="web", reader=reader)

    async def search_web(  # noqa: D417 - `emit` is no parameter of the tool
        self,
        query: Annotated[str, Field(min_length=1, max_length=400)],
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
        *,
        emit: Emit,
    ) -> list[SearchResult]:
        """Search with the configured provider, best results first.

        Args:
            query: What to search for.
            limit: How many results to return at most.
        """
        begun = time.monotonic()
        found = await self._search(query, limit, emit)
        provider = "" if self.settings.search is None else self.settings.search.provider
        emit(SearchExecuted(provider, query, len(found), round(time.monotonic() - begun, 3)))
        return found


def web_tools(settings: WebSettings, root: Path) -> tuple[Tool, ...]:
    """Return `fetch_page` and `search_web`; the provider of searches is opened when it is first
    called.
    """
    tools, given = _WebTools(settings, root), settings.model_dump(mode="json")
    return (
        _make_web_tool(tools.fetch_page, settings=given),
        _make_web_tool(
            tools.search_web,
            settings=[given, str(root)],
            timeout=_search_seconds(settings),
            # Whoever chooses the words gets no more than results, which are untrusted anyway.
            accepts_untrusted={"query"},
        ),
    )


def _search_seconds(settings: WebSettings) -> float:
    """Return what a search may take: the first one over a site crawls it."""
    search = settings.search
    if not isinstance(search, LocalSearch) or search.site is None:
        return _TIMEOUT_SECONDS
    spacing = MINUTE_SECONDS / min(
        settings.requests_per_host_per_minute, settings.requests_per_minute
    )
    return _TIMEOUT_SECONDS + search.max_pages * (spacing + _SECONDS_A_PAGE)
