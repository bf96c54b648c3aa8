"""The MCP server over a project: its tools, resources and prompt, and how their errors reach the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from inspect import getdoc
from typing import Any, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from mcp_types import ToolAnnotations

from wavewright.config.errors import WavewrightError
from wavewright.engine.cli.common.errors import error_text, without_secrets
from wavewright.engine.cli.mcp_server import plan_tools, run_tools
from wavewright.engine.cli.mcp_server.plan_tools import Project
from wavewright.engine.cli.mcp_server.resources import add_resources
from wavewright.engine.pipeline.version import __version__

_INSTRUCTIONS = """\
wavewright checks and runs plans: lists of typed tool calls. Read wavewright://language, see list_tools, write a plan,
check it with check_plan, look at it with dry_run, and run it with run_plan."""
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RUNS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)


_State = TypeVar("_State")


class EngineServer(MCPServer[_State]):
    """An MCP server that returns the errors of wavewright to the client, with their hints and without secrets."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool.

        Raises:
            ToolError: the call failed; its text names the place and the fix.
        """
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:
            if isinstance(error.__cause__, WavewrightError):
                raise ToolError(without_secrets(error_text(error.__cause__))) from error.__cause__
            raise

    async def read_resource(self, uri: Any, context: Context[_State, Any] | None = None) -> Any:
        """Read a resource.

        Raises:
            ResourceError: it cannot be read; the text names the place and the fix.
        """
        try:
            return await super().read_resource(uri, context)
        except UnexpectedResourceError as error:
            if isinstance(error.__cause__, WavewrightError):
                raise ResourceError(without_secrets(error_text(error.__cause__))) from error.__cause__
            raise


def build_server(project: Project) -> EngineServer[Project]:
    """Return the server of a project; its tools expect the project's root as working directory."""

    @asynccontextmanager
    async def lifespan(_server: MCPServer[Project]) -> AsyncGenerator[Project]:
        yield project

    server = EngineServer[Project](
        "wavewright", version=__version__, instructions=_INSTRUCTIONS, lifespan=lifespan, log_level="WARNING"
    )
    for tool in (
        plan_tools.check_plan,
        plan_tools.dry_run,
        plan_tools.list_tools,
        plan_tools.explain_diagnostic,
        run_tools.show_run,
    ):
        server.add_tool(tool, description=getdoc(tool), annotations=_READS)
    server.add_tool(run_tools.run_plan, description=getdoc(run_tools.run_plan), annotations=_RUNS)
    add_resources(server, project.settings)
    return server
