"""Lists of tools, read page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio
import mcp_types
from mcp import Client, MCPError
from pydantic import ValidationError

from wavewright.config.errors import WavewrightError
from wavewright.planner.types import JsonObject
from wavewright.tools.mcp.connection import ConnectionState, reason_of
from wavewright.tools.mcp.lock import ListedTool, ServerListing
from wavewright.tools.mcp.wire import MAX_MESSAGE_BYTES

MAX_LISTED_TOOLS: Final = 1000
MAX_PAGES: Final = 100


@dataclass(frozen=True, slots=True)
class PageLimit:
    """Up to where a list is read."""

    pages: int = MAX_PAGES
    reason: str = f"its list has more than {MAX_PAGES} pages"
    """Why no more are read."""


class ListingCutOff(WavewrightError):
    """The connection ended while a page after the first one was asked for."""

    def __init__(self, limit: PageLimit) -> None:
        super().__init__(limit.reason)
        self.limit = limit
        """Up to where the list can be read over another connection."""


async def list_tools(
    client: Client, state: ConnectionState, seconds: float, limit: PageLimit
) -> ServerListing:
    """Return all pages of a list, each tool once.

    A tool that a later page repeats word for word is no second one: some servers ignore the cursor,
    or list what has moved to the next page meanwhile. Two of one page are two. A page that cannot be
    read costs no page before it.

    Args:
        client: Asks the server.
        state: What became of its connection.
        seconds: What all pages after the first one may take.
        limit: Up to where the list is read.

    Raises:
        ListingCutOff: the connection ended at a later page.
        MCPError: the server answers the first page with an error.
        ValidationError: the first page breaks the protocol.
    """
    pages = _Pages(state, limit)
    cursor = await pages.add(client, None)
    try:
        with anyio.fail_after(seconds):
            while cursor is not None:
                cursor = await pages.add(client, cursor)
    except TimeoutError:
        pages.unread = f"its other pages did not come within {seconds:.1f} s"
    except (MCPError, ValidationError) as error:
        if state.ended.is_set():
            reason = f"{state.fault or reason_of(error)} as page {pages.count + 1} was asked for"
            raise ListingCutOff(PageLimit(pages.count, reason)) from error
        pages.unread = reason_of(error)
    tools = tuple(pages.tools[:MAX_LISTED_TOOLS])
    if pages.unread:
        state.warn(f"only {len(tools):,} of its tools were read: {pages.unread}")
    info = client.server_info
    return ServerListing(
        info.name if info else "",
        info.version if info else "",
        tools,
        tuple(pages.faulty[:MAX_LISTED_TOOLS]),
        pages.unread,
    )


class _Pages:
    """What the pages of a list have held so far."""

    def __init__(self, state: ConnectionState, limit: PageLimit) -> None:
        self.count = 0
        self.tools = list[ListedTool]()
        self.faulty = list[ListedTool]()
        self.unread = ""
        self._state = state
        self._limit = limit
        self._chars = 0
        self._digests = set[str]()
        self._cursors = set[str]()

    async def add(self, client: Client, cursor: str | None) -> str | None:
        """Read a page; return the cursor of the next one, None where there is none to read."""
        self._state.faulty_tools.clear()
        self._state.unread_tools = ""
        page = await client.list_tools(cursor=cursor)
        self.count += 1
        tools = [tool for tool in map(_listed, page.tools) if tool.digest not in self._digests]
        faulty = [tool for tool in self._state.faulty_tools if tool.digest not in self._digests]
        self.tools += tools
        self.faulty += faulty
        self._digests.update(tool.digest for tool in (*tools, *faulty))
        self._chars += sum(len(tool.text) for tool in (*tools, *faulty))
        self.unread = self._state.unread_tools
        following = page.next_cursor
        # Some servers mark the end by an empty cursor, give the same one for ever, or give ever
        # new ones and the same page.
        is_last = not following or following in self._cursors or not (tools or faulty)
        if len(self.tools) + (not is_last) > MAX_LISTED_TOOLS:
            self.unread = f"its list has more than {MAX_LISTED_TOOLS:,} tools"
        elif not is_last and self._chars > MAX_MESSAGE_BYTES:
            # All pages may be as long as one that has the whole list.
            self.unread = f"its list is longer than {MAX_MESSAGE_BYTES // 2**20} MiB"
        elif not is_last and self.count == self._limit.pages:
            self.unread = self._limit.reason
        if is_last or self.unread:
            return None
        assert following is not None
        self._cursors.add(following)
        return following


def _listed(tool: mcp_types.Tool) -> ListedTool:
    hints: JsonObject = (
        {}
        if tool.annotations is None
        else tool.annotations.model_dump(by_alias=True, exclude_none=True, exclude={"title"})
    )
    return ListedTool(
        tool.name, tool.description or "", tool.input_schema, tool.output_schema, hints
    )
