"""A full-text index of a site, which is crawled at the first search and again when the index is too
old.

A crawl begins at the site's address and at its sitemaps, follows links below that address, and
fetches as everything else does: as robots.txt and the rates allow, and from the cache. What it has
found is kept in the same cache; a crawl that was interrupted goes on from the pages that are there.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import time
from collections import deque
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

import anyio
import anyio.to_thread
from pydantic import TypeAdapter, ValidationError

from wavewright.packs.web.addresses import AddressRefused
from wavewright.packs.web.guarded_client import WebAnswer
from wavewright.packs.web.index import IndexedPage, PageIndex, PageMatch, markdown_title, read_html
from wavewright.packs.web.pages import PLAIN_TYPES, CrawlExecuted, decode, parsed, read_targets
from wavewright.packs.web.reader import MAX_WAIT_SECONDS, WebReader, age_of
from wavewright.packs.web.settings import LocalSearch
from wavewright.tools import Emit, TextChunk, ToolError, ignore_emission

MAX_SITEMAPS: Final = 50
MAX_PAGE_CHARS: Final = 100_000
"""Of the text of one page; the rest is not indexed."""

_PAGES_A_NOTE: Final = 25
_PLACE: Final = re.compile(r"<loc>([^<]{1,4200})</loc>")
_NO_PAGE: Final = re.compile(
    r"\.(?:7z|avif|bz2|css|docx?|epub|exe|gif|gz|ico|iso|jpe?g|mp[34]|og[gv]|pdf|png|pptx?|rar|svg|tar|tgz|webm|webp"
    r"|woff2?|xlsx?|xz|zip)$",
    re.IGNORECASE,
)
_KEPT_PAGES: Final = TypeAdapter(list[IndexedPage])
_logger = logging.getLogger(__name__)


class SiteIndex:
    """The pages of one site; for the tasks of one event loop."""

    def __init__(self, settings: LocalSearch, reader: WebReader) -> None:
        """Fetch nothing yet; the cache of the reader, which fetches the pages, keeps what a crawl
        has found.

        Raises:
            AddressRefused: the address is not fetched.
        """
        assert settings.site is not None
        address = reader.address(settings.site)
        self._site = address.url
        self._prefix = self._site.partition("?")[0].rpartition("/")[0] + "/"
        self._reader = reader
        self._settings = settings
        limits = json.dumps([settings.max_pages, *settings.exclude])
        self._key = f"site {reader.cache_key(address)} {limits}"
        self._index = PageIndex()
        self._paths = set[str]()
        """Of the pages in the index."""
        self._crawled_at: dt.datetime | None = None
        self._lock = anyio.Lock()

    async def search(self, query: str, limit: int, emit: Emit = ignore_emission) -> list[PageMatch]:
        """Return the best pages for a query, as `PageIndex.search` does; `path` is the page's
        address.

        Where there is no index, or one that is too old, the site is crawled first: its progress and
        one `CrawlExecuted` are emitted.

        Raises:
            ToolError: the first page cannot be fetched, or the server asks to wait for longer than
                a minute.
        """
        async with self._lock:
            if self._crawled_at is None:
                await anyio.to_thread.run_sync(self._take_kept)
            if self._crawled_at is None or age_of(self._crawled_at) >= self._settings.refresh:
                await self._crawl_and_keep(emit)
        return await anyio.to_thread.run_sync(self._index.search, query, limit)

    def _take_kept(self) -> None:
        kept = self._reader.cache.get(self._key)
        if kept is not None:
            try:
                self._take(_KEPT_PAGES.validate_json(kept.content), kept.fetched_at)
            except ValidationError:
                _logger.warning(
                    "the index of %s is of another version; it is made again", self._site
                )

    def _keep(self, pages: list[IndexedPage], crawled_at: dt.datetime) -> None:
        kept = WebAnswer(self._site, 200, {}, _KEPT_PAGES.dump_json(pages), crawled_at)
        self._reader.cache.put(self._key, kept)
        self._take(pages, crawled_at)

    def _take(self, pages: Collection[IndexedPage], crawled_at: dt.datetime) -> None:
        self._index.replace(self._paths, pages)
        self._paths = {page.path for page in pages}
        self._crawled_at = crawled_at

    async def _crawl_and_keep(self, emit: Emit) -> None:
        begun, now = time.monotonic(), dt.datetime.now(dt.UTC)
        pages, left_out = await self._crawl(emit)
        await anyio.to_thread.run_sync(self._keep, pages, now)
        characters = sum(len(page.text) for page in pages)
        seconds = round(time.monotonic() - begun, 3)
        emit(CrawlExecuted(self._site, characters, seconds, len(pages), left_out))

    async def _crawl(self, emit: Emit) -> tuple[list[IndexedPage], int]:
        """Return the pages of the site, each text once, and how many addresses could not be read."""
        waiting = deque(self._pages_among([self._site, *await self._listed_pages()]))
        known, repeated = {*waiting}, set[str]()
        found = dict[tuple[str, str], IndexedPage]()
        fetched = left_out = 0
        while waiting and fetched < self._settings.max_pages:
            url = waiting.popleft()
            try:
                page, targets = await self._read(url)
            except ToolError as error:
                if url == self._site or (error.retry_after or 0.0) > MAX_WAIT_SECONDS:
                    raise
                if error.transient and url not in repeated:
                    repeated.add(url)
                    waiting.append(url)
                    continue
                _logger.info("left out of the index of %s: %s", self._site, error)
                page, targets = None, []
                left_out += 1
            fetched += 1
            if page is not None:
                found.setdefault((page.title, page.text), page)
            new = [target for target in self._pages_among(targets) if target not in known]
            known.update(new)
            waiting.extend(new)
            if fetched % _PAGES_A_NOTE == 0:
                emit(TextChunk(f"{fetched} pages of {self._site}\n"))
        return [*found.values()], left_out

    async def _read(self, url: str) -> tuple[IndexedPage | None, list[str]]:
        """Return a page and the addresses it links to; no page where a redirect leads out of the
        site.
        """
        answer = await self._reader.get_page(url)
        [*landed] = self._pages_among([answer.url])
        if not landed:
            return None, []
        if answer.content_type in PLAIN_TYPES:
            text = decode(answer)
            title, targets = markdown_title(text), list[str]()
        else:
            title, text, targets = await parsed(_read_site_page, answer, what=answer.url)
        name = unquote(PurePosixPath(urlsplit(answer.url).path).stem).replace("-", " ")
        return IndexedPage(
            answer.url, title or name, " ".join(text.split())[:MAX_PAGE_CHARS]
        ), targets

    async def _listed_pages(self) -> list[str]:
        """Return the addresses that the sitemaps of the site's server name; most servers have none."""
        waiting = deque(await self._reader.sitemaps(self._site))
        pages = list[str]()
        for _ in range(MAX_SITEMAPS):
            if not waiting:
                break
            try:
                text = decode(await self._reader.get_page(waiting.popleft(), accept=None))
            except ToolError as error:
                _logger.info("no sitemap: %s", error)
                continue
            has_tags = text.lstrip()[:1] == "<"
            places = (
                found.strip() for found in (_PLACE.findall(text) if has_tags else text.split())
            )
            named = [urljoin(self._site, place.replace("&amp;", "&")) for place in places]
            (waiting if "<sitemapindex" in text[:1000] else pages).extend(named)
        return pages

    def _pages_among(self, urls: Iterable[str]) -> Iterable[str]:
        """Return the addresses that are pages of the site, in their normal form, each once."""
        found = dict[str, None]()
        for url in urls:
            try:
                normal = self._reader.address(url).url
            except AddressRefused:
                continue
            path = normal.removeprefix(self._prefix)
            is_page = normal.startswith(self._prefix) and not _NO_PAGE.search(urlsplit(normal).path)
            if is_page and not any(
                fnmatchcase(path, pattern) for pattern in self._settings.exclude
            ):
                found[normal] = None
        return found


def _read_site_page(answer: WebAnswer) -> tuple[str, str, list[str]]:
    """Return title, text and link targets of an HTML answer."""
    return *read_html(decode(answer)), read_targets(answer)
