"""MCP servers of packs: a server for each role, with the tools of that role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import getdoc
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from wavewright.config.settings import Settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.cli.mcp_server.server import EngineServer
from wavewright.engine.pipeline.version import __version__
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.types import as_object
from wavewright.tools.packs import PackServer, ServerTool, load_pack, pack_names


class RoleServer(EngineServer[Any]):
    """The server of one role: it lists and calls the tools of that role alone."""

    def __init__(
        self, name: str, role: str, server: PackServer, tools: Mapping[str, Sequence[ServerTool]]
    ) -> None:
        super().__init__(name, version=__version__, instructions=server.instructions, log_level="WARNING")
        self._role = role
        self._roles_of: dict[str, list[str]] = {}
        for other, theirs in tools.items():
            for tool in theirs:
                self._roles_of.setdefault(tool.function.__name__, []).append(other)
        for tool in tools[role]:
            self.add_tool(
                tool.function,
                description=getdoc(tool.function),
                annotations=ToolAnnotations(
                    read_only_hint=tool.only_reads,
                    destructive_hint=tool.destroys,
                    idempotent_hint=True,
                    open_world_hint=False,
                ),
            )

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool of the role.

        Raises:
            ToolError: the tool is another role's, or the call failed.
        """
        roles = self._roles_of.get(name, [self._role])
        if self._role not in roles:
            raise ToolError(f"{name} is for the role {' or '.join(roles)}; this connection is {self._role}")
        return await super().call_tool(name, arguments, context)


def find_server(name: str, settings: Settings) -> PackServer:
    """Return an MCP server of an installed pack.

    Raises:
        CommandError: no pack brings one of this name.
        PackError: a pack cannot be imported, or refuses its settings.
    """
    servers: dict[str, PackServer] = {}
    for pack in pack_names():
        given = as_object(settings.packs.get(pack))
        servers |= load_pack(pack, given, settings.root).mcp_servers
    if name not in servers:
        raise CommandError(
            f"no pack brings an MCP server {name!r}", hint=suggest_name(name, servers, what="MCP servers")
        )
    return servers[name]
