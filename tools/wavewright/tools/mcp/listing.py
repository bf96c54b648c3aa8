"""Lists of tools, read page by page."""

from __future__ import annotations

from typing import Final

import mcp_types
from mcp import Client

from wavewright.planner.types import JsonObject
from wavewright.tools.mcp.connection import ConnectionState
from wavewright.tools.mcp.lock import ListedTool, ServerListing

MAX_LISTED_TOOLS: Final = 1000
MAX_PAGES: Final = 100


async def list_tools(client: Client, state: ConnectionState) -> ServerListing:
    """Return all pages of a list, each tool once.

    A tool that a later page repeats word for word is no second one: some servers ignore the cursor,
    or list what has moved to the next page meanwhile. Two of one page are two.

    Raises:
        MCPError: the server answers with an error.
        ValidationError: a page breaks the protocol.
    """
    tools = list[ListedTool]()
    digests = set[str]()
    cursor: str | None = None
    cursors = set[str]()
    faulty = list[ListedTool]()
    for _ in range(MAX_PAGES):
        state.faulty_tools.clear()
        page = await client.list_tools(cursor=cursor)
        new = [tool for tool in map(_listed, page.tools) if tool.digest not in digests]
        new_faulty = [tool for tool in state.faulty_tools if tool.digest not in digests]
        tools += new
        faulty += new_faulty
        digests.update(tool.digest for tool in (*new, *new_faulty))
        cursor = page.next_cursor
        # Some servers mark the end by an empty cursor, give the same one for ever, or give ever
        # new ones and the same page.
        is_last = not cursor or cursor in cursors or not (new or new_faulty)
        if is_last or len(tools) >= MAX_LISTED_TOOLS:
            break
        assert cursor is not None
        cursors.add(cursor)
    info = client.server_info
    return ServerListing(
        info.name if info else "",
        info.version if info else "",
        tuple(tools[:MAX_LISTED_TOOLS]),
        tuple(faulty[:MAX_LISTED_TOOLS]),
    )


def _listed(tool: mcp_types.Tool) -> ListedTool:
    hints: JsonObject = (
        {}
        if tool.annotations is None
        else tool.annotations.model_dump(by_alias=True, exclude_none=True, exclude={"title"})
    )
    return ListedTool(
        tool.name, tool.description or "", tool.input_schema, tool.output_schema, hints
    )
