"""Lists of tools, as servers send them and as they are read.

The library refuses a whole list for one tool that breaks the protocol; such tools are taken out
before it sees them.
"""

from __future__ import annotations

import logging
from typing import Final, cast

import mcp_types
from mcp import Client
from pydantic import ValidationError

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.mcp.connection import ConnectionState
from wavewright.tools.mcp.lock import ListedTool, ServerListing

MAX_LISTED_TOOLS: Final = 1000
MAX_PAGES: Final = 100
_MAX_LEFT_OUT_NOTES: Final = 20


async def list_tools(client: Client) -> ServerListing:
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
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        new = [tool for tool in map(_listed, page.tools) if tool.digest not in digests]
        tools += new
        digests.update(tool.digest for tool in new)
        cursor = page.next_cursor
        # Some servers mark the end by an empty cursor, give the same one for ever, or give ever
        # new ones and the same page.
        if not (cursor and new) or cursor in cursors or len(tools) >= MAX_LISTED_TOOLS:
            break
        cursors.add(cursor)
    info = client.server_info
    return ServerListing(
        info.name if info else "", info.version if info else "", tuple(tools[:MAX_LISTED_TOOLS])
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


def leave_out_faulty_tools(message: mcp_types.JSONRPCResponse, state: ConnectionState) -> None:
    """Take tools that are not well-formed out of a list of tools, with a warning for each."""
    tools = message.result.get("tools")
    if not isinstance(tools, list):
        return
    sound: list[object] = []
    left_out = 0
    for tool in cast("list[object]", tools):
        if _is_well_formed(tool):
            sound.append(tool)
            continue
        left_out += 1
        if left_out <= _MAX_LEFT_OUT_NOTES:
            shown: object = tool
            if isinstance(tool, dict):
                shown = cast("dict[str, object]", tool).get("name")
            text = f"left out a tool without a proper name or schema: {str(shown)[:200]!r}"
            state.log(text, logging.WARNING)
    message.result["tools"] = sound


def _is_well_formed(tool: object) -> bool:
    if isinstance(tool, dict):
        _complete_schema(cast("dict[str, Json]", tool))
    try:
        parsed = mcp_types.Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    schemas = (parsed.input_schema, parsed.output_schema or {"type": "object"})
    return all(schema.get("type") == "object" for schema in schemas)


def _complete_schema(tool: dict[str, Json]) -> None:
    """Say of parameters that they are those of an object: some servers leave that out."""
    schema = tool.get("inputSchema")
    if isinstance(schema, dict) and "type" not in schema:
        tool["inputSchema"] = {"type": "object", **schema}
