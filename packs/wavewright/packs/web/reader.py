"""Fetches pages at limited rates, where robots.txt allows it, and a page that is new enough from a
cache.

One reader serves whatever fetches with the same settings in a process, so that its rates hold for
all of it. Answers are kept in a SQLite file that all processes of a user share; where it cannot be
used, nothing is kept.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from wavewright.config import user_state_dir
from wavewright.packs.web.addresses import WebAddress, read_address
from wavewright.packs.web.guarded_client import PAGE_TYPES, GuardedClient, StatusError, WebAnswer
from wavewright.packs.web.settings import WebSettings
from wavewright.tools import MINUTE_SECONDS, RateLimiter, ToolError

if TYPE_CHECKING:
    from protego import Protego

MAX_CACHE_BYTES: Final = 256 * 2**20

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, url TEXT NOT NULL, status INTEGER NOT NULL, headers TEXT NOT NULL, content BLOB NOT NULL,
    fetched_at REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS answers_by_age ON answers (fetched_at);
"""
_OLDEST_BEYOND_THE_BOUND: Final = """
DELETE FROM answers WHERE key IN (
    SELECT key FROM (
        SELECT key, sum(length(content) + length(headers)) OVER (ORDER BY fetched_at DESC, key) AS total FROM answers
    ) WHERE total > ?
)
"""


@dataclass(frozen=True, slots=True)
class PageCache:
    """Answers by key, the newest `max_bytes` of them."""

    file: Path
    max_bytes: int = MAX_CACHE_BYTES

    def get(self, key: str) -> WebAnswer | None:
        """Return the answer that is kept for a key."""
        with suppress(sqlite3.Error, OSError), self._transaction() as connection:
            row = connection.execute(
                "SELECT url, status, headers, content, fetched_at FROM answers WHERE key = ?",
                (key,),
            ).fetchone()
            if row is not None:
                url, status, headers, content, fetched_at = row
                return WebAnswer(
                    url,
                    status,
                    json.loads(headers),
                    content,
                    dt.datetime.fromtimestamp(fetched_at, dt.UTC),
                )
        return None

    def put(self, key: str, answer: WebAnswer) -> None:
        """Keep an answer in place of an older one, and remove the oldest beyond the bound."""
        with suppress(sqlite3.Error, OSError), self._transaction() as connection:
            connection.execute(
                "REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
                (
                    key,
                    answer.url,
                    answer.status,
                    json.dumps(dict(answer.headers)),
                    answer.content,
                    answer.fetched_at.timestamp(),
                ),
            )
            connection.execute(_OLDEST_BEYOND_THE_BOUND, (self.max_bytes,))

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.file, timeout=10)) as connection, connection:
            connection.executescript(_SCHEMA)
            yield connection


ROBOTS_SECONDS: Final = 24 * 3600.0
MAX_SERVERS: Final = 1_000
MAX_WAIT_SECONDS: Final = 60.0
"""Of a `Retry-After` that is waited for; where it is longer, calls fail and say when to come again.
"""

MAX_CRAWL_DELAY: Final = 60.0
"""Seconds; robots.txt of a server may name a longer `Crawl-delay`."""


@dataclass(slots=True)
class _OriginState:
    """What is known of the server at one origin; instants are those of the event loop's clock."""

    rate: RateLimiter
    robots: Protego | None = None
    robots_until: float = 0.0
    retry_at: float = 0.0
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while robots.txt is read."""


class WebReader:
    """Fetches pages for all tools of a process that have the same settings."""

    def __init__(self, settings: WebSettings, client: GuardedClient, cache: PageCache) -> None:
        self._settings = settings
        self._client = client
        self.cache = cache
        self._agent = settings.user_agent.partition("/")[0]
        self._rate = RateLimiter(settings.requests_per_minute)
        self._servers: OrderedDict[str, _OriginState] = OrderedDict()

    async def get_page(self, url: str, accept: Collection[str] | None = PAGE_TYPES) -> WebAnswer:
        """Return a page, from the cache where it is new enough or its server says that it has not
        changed.

        Args:
            url: Absolute.
            accept: Media types that are read; any where it is None.

        Raises:
            ToolError: as in `GuardedClient.get`; or robots.txt forbids the page or cannot be read;
                or the server has asked to wait for longer than a minute.
        """
        address = self.address(url)
        key = self.cache_key(address)
        known = await anyio.to_thread.run_sync(self.cache.get, key)
        if known is not None and age_of(known.fetched_at) < self._settings.cache_for:
            return known
        conditions = _conditions(known)
        answer = await self._fetch(url, conditions, accept)
        if answer.status == 304 and known is not None and conditions:
            if answer.url == known.url:
                answer = replace(known, fetched_at=answer.fetched_at)
            else:  # a redirect has led to another page than the one whose conditions were sent
                answer = await self._fetch(url, {}, accept)
        if answer.status == 304:
            raise ToolError(f"{answer.url} answered 304 although no condition was sent")
        place = self.address(answer.url).place
        is_kept = place not in self._settings.allow_private or place == address.place
        may_store = "no-store" not in answer.headers.get("cache-control", "").lower()
        if answer.status == 200 and is_kept and may_store:
            await anyio.to_thread.run_sync(self.cache.put, key, answer)
        return answer

    async def _fetch(
        self, url: str, conditions: Mapping[str, str], accept: Collection[str] | None
    ) -> WebAnswer:
        try:
            return await self._client.get(url, headers=conditions, accept=accept, admit=self._admit)
        except StatusError as error:
            if error.retry_after is not None:
                self._server(error.address).retry_at = anyio.current_time() + error.retry_after
            raise

    def address(self, url: str) -> WebAddress:
        """Return an address as it is fetched.

        Raises:
            AddressRefused: it is not fetched.
        """
        return read_address(url, self._settings.allow_private)

    def cache_key(self, address: WebAddress) -> str:
        """Return what the cache keeps a page under: a private one is only for settings that allow
        its host.
        """
        is_private = address.place in self._settings.allow_private
        return f"{'private' if is_private else 'public'} {address.url}"

    async def sitemaps(self, url: str) -> list[str]:
        """Return the sitemaps that robots.txt of a server names, else the usual one.

        Raises:
            ToolError: as in `get_page`.
        """
        address = self.address(url)
        await self._admit(address)
        robots = self._server(address).robots
        return [*(() if robots is None else robots.sitemaps)] or [f"{address.origin}/sitemap.xml"]

    async def wait(self, address: WebAddress) -> None:
        """Return when the rates let one more request to a server begin, and its `Retry-After` is
        over.

        Raises:
            ToolError: the server has asked to wait for longer than a minute.
        """
        server = self._server(address)
        await self._wait(server, address, server.rate, self._rate)

    async def _wait(self, server: _OriginState, address: WebAddress, *rates: RateLimiter) -> None:
        is_over = False
        while not is_over:
            seconds = server.retry_at - anyio.current_time()
            if seconds > MAX_WAIT_SECONDS:
                message = f"{address.origin} asks to wait {seconds:.0f} s"
                raise ToolError(message, transient=True, retry_after=seconds)
            await anyio.sleep(max(0.0, seconds))
            for rate in rates:
                await rate.wait()
            # The server may have asked while the rates were waited for.
            is_over = anyio.current_time() >= server.retry_at

    async def _admit(self, address: WebAddress) -> None:
        server = self._server(address)
        async with server.lock:
            if anyio.current_time() >= server.robots_until:
                await self._read_robots(server, address)
        if server.robots is not None and not server.robots.can_fetch(address.url, self._agent):
            raise ToolError(
                f"{address.url} is refused: {address.origin}/robots.txt does not allow it for {self._agent!r}",
                hint="leave the page out, or ask its owner",
            )
        await self.wait(address)

    async def _read_robots(self, server: _OriginState, address: WebAddress) -> None:
        """Read a server's robots.txt; one that is not there allows everything, one that fails
        raises (RFC 9309).
        """
        # Not above: packs bring their tools where the extra `web` is missing, too.
        from protego import Protego

        try:
            answer = await self._client.get(
                f"{address.origin}/robots.txt", accept=None, admit=self._wait_shared
            )
            robots = Protego.parse(answer.content.decode("utf-8", "replace"))
        except StatusError as error:
            if error.transient or error.status >= 500:
                raise
            robots = Protego.parse("")
        delay = min(robots.crawl_delay(self._agent) or 0.0, MAX_CRAWL_DELAY)
        server.robots = robots
        server.robots_until = anyio.current_time() + ROBOTS_SECONDS
        server.rate = self._server_rate(delay)

    async def _wait_shared(self, address: WebAddress) -> None:
        await self._wait(self._server(address), address, self._rate)

    def _server(self, address: WebAddress) -> _OriginState:
        server = self._servers.pop(address.origin, None) or _OriginState(self._server_rate())
        self._servers[address.origin] = server
        if len(self._servers) > MAX_SERVERS:
            self._servers.popitem(last=False)
        return server

    def _server_rate(self, crawl_delay: float = 0.0) -> RateLimiter:
        return RateLimiter(
            1, max(MINUTE_SECONDS / self._settings.requests_per_host_per_minute, crawl_delay)
        )


def shared_reader(settings: WebSettings) -> WebReader:
    """Return the reader of this process for these settings; its cache is `web.sqlite` in the user's
    state folder.
    """
    return _shared_reader(settings.model_dump_json(), user_state_dir() / "web.sqlite")


@cache
def _shared_reader(settings: str, file: Path) -> WebReader:
    given = WebSettings.model_validate_json(settings)
    client = GuardedClient(
        allowed=given.allow_private,
        user_agent=given.user_agent,
        max_bytes=given.max_bytes,
        seconds=given.timeout,
    )
    return WebReader(given, client, PageCache(file))


def age_of(instant: dt.datetime) -> float:
    """Return the seconds since an instant."""
    return (dt.datetime.now(dt.UTC) - instant).total_seconds()


def _conditions(known: WebAnswer | None) -> Mapping[str, str]:
    """Return headers that ask for a page only if it is another than the known one."""
    found: Mapping[str, str] = {} if known is None else known.headers
    asked = {"If-None-Match": found.get("etag"), "If-Modified-Since": found.get("last-modified")}
    return {name: text for name, text in asked.items() if text is not None}
