"""Tools that find pages about a zone and keep them as run data, by topic."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urldefrag, urlsplit

import anyio.to_thread
from pydantic import Field

from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.extraction.records import ZonePages, links_to_follow, read_apart
from wavewright.packs.lore.models import Category
from wavewright.packs.lore.run_data import (
    SOURCES,
    FoundPage,
    content_name,
    game_of,
    stored_pages,
    zone_of,
)
from wavewright.packs.lore.settings import DIRECT, LoreSettings, SourceTiers, Topic
from wavewright.packs.text.markdown_tables import counted
from wavewright.packs.web.addresses import MAX_URL_LENGTH, AddressRefused, read_address
from wavewright.packs.web.guarded_client import WebAnswer
from wavewright.packs.web.pages import PLAIN_TYPES, CrawlExecuted, decode, read_answer
from wavewright.packs.web.reader import shared_reader
from wavewright.packs.web.search import Search, SearchExecuted, open_search
from wavewright.packs.web.settings import LocalSearch
from wavewright.planner import JsonObject
from wavewright.tools import Agents, Emit, Folder, PathRefused, RunData, ToolError

if TYPE_CHECKING:
    from wavewright.packs.lore.recording import RecordExtraction

RESULTS: Final = 5
"""Results of each query whose pages are opened where no model chooses."""
FOLLOWED: Final = 20
"""Linked pages that are opened for a topic, likewise."""


@dataclass
class PageGathering:
    """The tools `search`, `crawl_webpage` and `research_topic`."""

    settings: LoreSettings
    root: Path
    topics: Mapping[str, Topic]
    tiers: SourceTiers
    extraction: RecordExtraction
    """Has the tool `extract_category`."""

    async def search(  # noqa: D417 - `emit` is no parameter of the tool
        self, query: Annotated[str, Field(min_length=1, max_length=400)], *, emit: Emit
    ) -> list[FoundPage]:
        """Search for pages: those of the most trusted sources first, then the best results.

        Args:
            query: What to search for.
        """
        begun = time.monotonic()
        found = await self._search(query, 2 * RESULTS, emit)
        provider = "" if self.settings.web.search is None else self.settings.web.search.provider
        emit(SearchExecuted(provider, query, len(found), round(time.monotonic() - begun, 3)))
        return [
            FoundPage(
                title=one["title"],
                url=one["url"],
                snippet=one["snippet"],
                tier=self.tiers.tier(one["url"]),
            )
            for one in sorted(found, key=lambda one: self.tiers.rank(one["url"]))
        ]

    async def crawl_webpage(  # noqa: D417 - `emit` and `data` are no parameters of the tool
        self,
        url: Annotated[str, Field(min_length=1, max_length=MAX_URL_LENGTH)],
        *,
        emit: Emit,
        data: RunData,
    ) -> str:
        """Open a page; it is kept in full, and its beginning is shown.

        Args:
            url: Address of the page.
        """
        topic = data.scope if data.scope in self.topics else DIRECT
        page = await self._open(url, topic, emit, data, keeps_html=False)
        most = self.settings.crawl_content_truncate_chars
        if len(page.text) <= most:
            return page.text
        return f"{page.text[:most]}\n\n[... content truncated, full version captured ...]"

    async def research_topic(  # noqa: D417 - as above
        self,
        topic: str,
        extract: bool = False,  # noqa: FBT001, FBT002 - a parameter of plans
        feedback: Sequence[str] = (),
        *,
        agents: Agents,
        emit: Emit,
        data: RunData,
    ) -> str:
        """Research one topic about the zone, and keep the pages that carry it.

        Args:
            topic: Name of the topic.
            extract: Whether its category is extracted at once.
            feedback: Why the last package was rejected; a model looks for what it asks for.
        """
        if topic not in self.topics:
            raise ToolError(
                f"there is no topic {topic!r}", hint=f"topics: {', '.join(self.topics)}"
            )
        zone, game = zone_of(data), game_of(data)
        note = ""
        if agents.is_available:
            text = self.topics[topic].instructions.format(zone=zone, game=game)
            asked: JsonObject = {
                "zone": zone,
                "game": game,
                "instructions": text,
                "feedback": [*feedback],
            }
            try:
                await agents.run("research", asked, scope=topic)
            except ToolError as error:
                note = f" ({error})"
        if not data.read(content_name(topic)):
            keeps_html = not agents.is_available
            unread = await self._gather(topic, zone, game, emit, data, keeps_html=keeps_html)
            if unread:
                note += f"; {counted(len(unread), 'page')} could not be read: {unread[0]}"
        pages = stored_pages(data, [topic])
        characters = sum(len(page.text) for page in pages)
        sources = len({urlsplit(page.url).hostname or page.url for page in pages})
        done = f"Researched {topic}: {len(pages)} content blocks ({characters:,} chars), {sources} sources{note}"
        if not extract:
            return done
        extracted = await self.extraction.extract_category(
            self.topics[topic].category, feedback, agents=agents, data=data
        )
        return f"{done}; {extracted}"

    async def _gather(
        self, topic: str, zone: str, game: str, emit: Emit, data: RunData, *, keeps_html: bool
    ) -> list[ToolError]:
        """Open what the topic's queries find, and what those pages link to of its category; return
        why pages could not be read.
        """
        category: Category = self.topics[topic].category
        urls: dict[str, None] = {}
        for query in self.topics[topic].queries:
            urls |= dict.fromkeys(
                one["url"]
                for one in (await self.search(query.format(zone=zone, game=game), emit=emit))[
                    :RESULTS
                ]
            )
        unread = await self._open_all(urls, topic, emit, data, keeps_html=keeps_html)
        read = stored_pages(data, [*self.topics, DIRECT])
        source = ZonePages(read, zone, category, self.settings.extraction.model)
        linked = await read_apart(links_to_follow, source) if read else []
        unread += await self._open_all(linked[:FOLLOWED], topic, emit, data, keeps_html=keeps_html)
        return unread

    async def _open_all(
        self, urls: Iterable[str], topic: str, emit: Emit, data: RunData, *, keeps_html: bool
    ) -> list[ToolError]:
        unread: list[ToolError] = []
        for url in urls:
            try:
                await self._open(url, topic, emit, data, keeps_html=keeps_html)
            except ToolError as error:
                # A page that is gone is no failure of the topic.
                unread.append(error)
        return unread

    async def _open(
        self, url: str, topic: str, emit: Emit, data: RunData, *, keeps_html: bool
    ) -> SourcePage:
        """Return a page, from the run's data where it was read before, and keep it under a topic.

        Raises:
            ToolError: it cannot be read.
        """
        key = self._key(url)
        for name in [topic, *self.topics, DIRECT]:
            known = data.read(content_name(name)).get(key)
            if known is not None:
                if name != topic:
                    data.write(content_name(topic), key, known)
                return SourcePage.model_validate(known)
        begun = time.monotonic()
        answer = await self._answer(url)
        read = await read_answer(answer)
        emit(CrawlExecuted(read.url, len(read.text), round(time.monotonic() - begun, 3)))
        page: JsonObject = {"url": read.url, "title": read.title, "text": read.text}
        if keeps_html and answer.content_type not in PLAIN_TYPES:
            page["html"] = decode(answer)
        data.write(content_name(topic), key, page)
        reference = self.tiers.reference(read.url, answer.fetched_at)
        data.write(SOURCES, key, reference.model_dump(mode="json"))
        return SourcePage.model_validate(page)

    def _key(self, url: str) -> str:
        """Return the normal form of an address: one key for each page."""
        try:
            normal = read_address(url, self.settings.web.allow_private).url
        except AddressRefused:
            normal = urldefrag(url).url
        return normal.rstrip("/")

    async def _answer(self, url: str) -> WebAnswer:
        search = self.settings.web.search
        if isinstance(search, LocalSearch) and search.folder is not None:
            base = search.base_url.rstrip("/") + "/" if search.base_url else ""
            if url.startswith(base):
                return await anyio.to_thread.run_sync(self._local_answer, url, search.folder, base)
        return await shared_reader(self.settings.web).get_page(url)

    def _local_answer(self, url: str, searched: str, base: str) -> WebAnswer:
        """Return a page of the folder that is searched, whose address begins with `base`."""
        path = urldefrag(url).url.removeprefix(base)
        try:
            with Folder(self.root / Path(searched).expanduser()) as folder:
                content = folder.read(path, max_bytes=self.settings.web.max_bytes)
        except (PathRefused, OSError) as error:
            raise ToolError(f"{url} cannot be read: {error}") from error
        kind = "text/html" if path.endswith((".html", ".htm")) else "text/markdown"
        return WebAnswer(url, 200, {"content-type": kind}, content, dt.datetime.now(dt.UTC))

    @cached_property
    def _search(self) -> Search:
        return open_search(
            self.settings.web.search,
            self.root,
            pack="lore",
            reader=shared_reader(self.settings.web),
        )
