"""The MCP servers over a project and of packs: tools, resources and prompt, and how errors reach the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from inspect import getdoc
from typing import Any, TypeVar

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from mcp.server.mcpserver.resources import FunctionResource
from mcp_types import ToolAnnotations

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.engine.cli.common.arguments import has_journal, load_run, open_journal
from wavewright.engine.cli.common.output import CommandError, error_text, without_secrets
from wavewright.engine.cli.mcp_server import plan_tools, run_tools
from wavewright.engine.cli.mcp_server.plan_tools import Project
from wavewright.engine.cli.mcp_server.run_tools import RUN_URI
from wavewright.engine.cli.project.init_command import AUTHORED_SCHEMAS, schema_text
from wavewright.engine.cli.runs.runs_command import package_of, row_json
from wavewright.engine.pipeline.version import __version__
from wavewright.engine.project.tools import all_tools
from wavewright.executor.events.state import fold
from wavewright.planner.diagnostics.rendering import printable_json
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.language.goals import AvailableTool, GoalTemplate, Job
from wavewright.planner.planning.prompt import planner_prompt
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.planner.types import as_object
from wavewright.prompts import Prompts
from wavewright.reviewer.package.builder import package_bytes
from wavewright.tools.packs import PackServer, ServerTool, load_pack, pack_names

_MAX_RUNS = 50
_JSON, _MARKDOWN = "application/json", "text/markdown"
_SCHEMAS = (*AUTHORED_SCHEMAS, "package")
_NEXT_STEPS = """
Do not only answer: call the tool `check_plan` with the object as its `plan`, fix what it finds, and look at it with
`dry_run`. Call `run_plan` when the user wants the result."""


def add_resources(server: MCPServer[Project], settings: Settings) -> None:
    """Add the resources and the prompt of a project."""
    for name in _SCHEMAS:
        _add_text(
            server,
            f"wavewright://schemas/{name}",
            f"JSON Schema of a {name}",
            _JSON,
            partial(schema_text, name),
        )
    _add_text(server, "wavewright://language", "The plan language", _MARKDOWN, language_page)
    _add_text(server, "wavewright://runs", "The newest runs", _JSON, partial(_list_runs, settings))

    @server.resource(f"{RUN_URI}/package", name="package", description="A run's package.", mime_type=_JSON)
    async def package(run: str) -> str:
        _, events = await load_run(settings, run)
        return package_bytes(package_of(fold(events))).decode()

    @server.prompt(
        name="write_plan", description="Write a plan that reaches a goal with this project's tools."
    )
    def write_plan(goal: str) -> str:
        return plan_prompt(goal, settings)


def language_page() -> str:
    """Return the reference of the plan language."""
    return (files("wavewright.planner.language") / "plan-language.md").read_text(encoding="utf-8")


def plan_prompt(goal: str, settings: Settings) -> str:
    """Return what the planner is asked for a goal that may use every tool of the project.

    Raises:
        PromptError, ToolDefinitionError, PackError: a prompt, a tool or a pack of the project is faulty.
    """
    signatures = all_tools(settings).signatures
    tools = tuple(AvailableTool(name=name) for name in sorted(signatures))
    # Unvalidated: a project without tools has an empty list, and a `${` in the user's words is text.
    template = GoalTemplate.model_construct(name="goal", goal="goal", available_tools=tools)
    resolved = resolve_goal(Job(name="goal"), template).model_copy(update={"text": goal})
    prompt = planner_prompt(resolved, signatures, Prompts(settings.prompts))
    return f"{prompt.instructions}\n\n{prompt.request}\n{_NEXT_STEPS}"


def _add_text(server: MCPServer[Project], uri: str, title: str, mime_type: str, read: Any) -> None:
    name = uri.removeprefix("wavewright://")
    server.add_resource(FunctionResource(uri=uri, name=name, title=title, mime_type=mime_type, fn=read))


async def _list_runs(settings: Settings) -> str:
    if not await anyio.to_thread.run_sync(has_journal, settings):
        return "[]"
    async with open_journal(settings) as journal:
        rows = await journal.list_runs()
    return printable_json([row_json(row) for row in rows[:_MAX_RUNS]], indent=2)


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
