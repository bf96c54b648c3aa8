"""`wavewright tools --lock`: accept what the MCP servers of the project offer."""

from __future__ import annotations

import sys

import anyio

from wavewright.config import exit_codes
from wavewright.config.installation import install_hint, is_installed
from wavewright.config.settings import Settings
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.planner.diagnostics.rendering import printable
from wavewright.reviewer.atomic_files import write_atomically
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.mcp.lock import (
    LOCK_NAME,
    ServerListing,
    ToolsLock,
    lock_server,
    read_lock,
    tool_changes,
)
from wavewright.tools.mcp.settings import server_settings


def write_lock() -> int:
    """Ask every server for its tools, print the changes, and write the lock.

    Raises:
        ToolDefinitionError: no server is configured, one needs a variable that is not set, or one fails or does not
            answer in time; then nothing is written.
    """
    settings = project_settings()
    if not settings.mcp.servers:
        raise ToolDefinitionError("no MCP server is configured", "add one to mcp.servers in wavewright.yaml")
    if not is_installed("mcp"):
        raise ToolDefinitionError("the extra 'mcp' is not installed", install_hint("mcp"))
    old = read_lock(settings.root)
    new = anyio.run(_ask_servers, settings)
    for name, server in new.servers.items():
        changes = tool_changes(old.servers.get(name), server)
        about = f"{name} ({server.name} {server.version})".replace(" )", ")")
        sys.stdout.write(
            f"{printable(about)}: {len(server.tools)} tools, {'changed' if changes else 'unchanged'}\n"
        )
        sys.stdout.writelines(f"  {printable(line)}\n" for line in changes)
        for tool, left_out in server.left_out.items():
            warning = printable(f"{name}.{tool} is left out: {left_out.reason}")
            sys.stderr.write(f"warning: {warning}\n")
    write_atomically(settings.root / LOCK_NAME, new.text.encode())
    return exit_codes.OK


async def _ask_servers(settings: Settings) -> ToolsLock:
    from wavewright.tools.mcp.sessions import McpSessions

    sections = settings.mcp.servers
    servers = [server_settings(name, section, settings.root) for name, section in sections.items()]
    locked = dict.fromkeys(sections, lock_server(ServerListing("", "", ())))
    failed: list[ToolError] = []
    async with McpSessions(servers) as sessions, anyio.create_task_group() as group:

        async def ask(name: str) -> None:
            try:
                locked[name] = lock_server(await sessions.listing(name), sections[name].tools)
            except ToolError as error:
                failed.append(error)

        for name in sections:
            group.start_soon(ask, name)
    if failed:
        raise ToolDefinitionError("; ".join(map(str, failed)), failed[0].hint)
    return ToolsLock(servers=locked)
