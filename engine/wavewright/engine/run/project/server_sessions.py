"""Sessions with the MCP servers of a project. Loaded only for a project with servers: their client is
an extra.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from wavewright.config import Settings
from wavewright.tools import McpSessions, server_settings
from wavewright.tools.functions.tool import ServerCaller
from wavewright.tools.mcp.lock import (
    McpServerError,
    ServerListing,
    read_lock,
    refuse_changed_tools,
)
from wavewright.tools.mcp.tools import McpServerSettings


@asynccontextmanager
async def open_server_sessions(settings: Settings) -> AsyncGenerator[ServerCaller]:
    """Open sessions with the servers of the settings; each is started at its first call.

    A server that cannot be started as the settings say fails the calls of its tools alone.
    """
    sections = settings.mcp.servers
    servers, unusable = list[McpServerSettings](), dict[str, McpServerError]()
    for name, section in sections.items():
        try:
            servers.append(server_settings(name, section, settings.root))
        except McpServerError as error:
            unusable[name] = error

    def verify(server: str, listing: ServerListing) -> None:
        # The lock may have been written since: a daemon lives for long.
        locked = read_lock(settings.root).servers.get(server)
        refuse_changed_tools(server, locked, listing, sections[server].tools)

    async with McpSessions(servers, verify, unusable) as sessions:
        yield sessions
