"""Tools of MCP servers, as the lock of the project has them.

Loaded only for a project with servers: their client is an extra.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from wavewright.config import Settings, WavewrightError
from wavewright.tools import Tool, server_settings
from wavewright.tools.functions.tool import ServerCaller
from wavewright.tools.mcp.lock import McpServerError, read_lock, unlocked_server_error
from wavewright.tools.mcp.tools import left_out_tools, locked_tools, mcp_tool


class ServerToolSource(NamedTuple):
    """A tool of a server, not made yet."""

    server: str
    full_name: str
    make: Callable[[], Tool]


def find_server_tools(
    name: str | None, settings: Settings, caller: ServerCaller | None
) -> Iterator[ServerToolSource]:
    """Yield the tools that a name means; all tools without a name.

    Raises:
        ToolDefinitionError: the name is that of a server which is not in the lock.
    """
    servers, lock = settings.mcp.servers, read_lock(settings.root)
    server = name.partition(".")[0] if name is not None and "." in name else None
    if server in servers and server not in lock.servers:
        raise unlocked_server_error(server)
    for tool in locked_tools(servers, lock):
        if name in (None, tool.short_name, tool.full_name):
            make = partial(
                mcp_tool,
                name or tool.full_name,
                tool.server,
                tool.name,
                tool.locked,
                servers[tool.server],
                caller,
            )
            yield ServerToolSource(tool.server, tool.full_name, make)


def refuse_left_out(name: str, settings: Settings) -> None:
    """Raise an error where a name means a tool that the lock of its server leaves out.

    Raises:
        ToolDefinitionError: with the reason why no plan can call it.
    """
    for tool in left_out_tools(settings.mcp.servers, read_lock(settings.root)):
        if name in (tool.short_name, tool.full_name):
            raise tool.error()


def called_servers(called: Collection[str], settings: Settings) -> dict[str, str]:
    """Return the MCP server of each of these tools that is one of a server."""
    servers = settings.mcp.servers
    return {
        written: tool.server
        for tool in locked_tools(servers, read_lock(settings.root))
        for written in (tool.short_name, tool.full_name)
        if written in called
    }


def unusable_servers(
    servers: Mapping[str, str], settings: Settings
) -> Iterator[tuple[str, WavewrightError]]:
    """Yield the tools whose server cannot be started or reached as the settings say, with the
    reason.
    """
    for tool, server in servers.items():
        try:
            server_settings(server, settings.mcp.servers[server], settings.root)
        except McpServerError as error:
            yield tool, error
