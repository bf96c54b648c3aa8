"""`wavewright mcp`: the MCP servers over a project and of packs, served over standard input and
output or HTTP.

A server has tools, resources and a prompt, and gives the client its errors. Over HTTP only requests
with a token are served whose `Host` and `Origin` name the address that is served.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from inspect import getdoc
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wavewright.config import Settings, WavewrightError, exit_codes
from wavewright.engine.interfaces.cli.common.arguments import (
    has_journal,
    open_journal,
    project_settings,
)
from wavewright.engine.interfaces.cli.common.error_text import error_text
from wavewright.engine.interfaces.cli.common.http_serving import listener_address, listener_at
from wavewright.engine.interfaces.cli.common.output import (
    CommandError,
    print_line,
    without_secrets,
)
from wavewright.engine.interfaces.cli.mcp_server import plan_tools, run_tools
from wavewright.engine.interfaces.cli.mcp_server.plan_tools import Project
from wavewright.engine.interfaces.cli.mcp_server.run_tools import RUN_URI
from wavewright.engine.interfaces.cli.project.init_command import AUTHORED_SCHEMAS, schema_text
from wavewright.engine.interfaces.cli.runs.runs_command import load_listed_run, package_of, row_json
from wavewright.engine.interfaces.view.people import (
    LOOPBACK,
    PageAccess,
    below_prefix,
    chosen_token,
    new_token,
)
from wavewright.engine.run.project.tools import all_tools
from wavewright.engine.run.version import __version__
from wavewright.engine.service.operations.bounded_http import BoundedRequests, bounded_protocol
from wavewright.engine.service.operations.trace_export import export_traces
from wavewright.executor import fold
from wavewright.planner import GoalTemplate, Job, as_object, suggest_name
from wavewright.planner.diagnostics.rendering import printable_json
from wavewright.planner.language.goals import AvailableTool
from wavewright.planner.planning.prompt import planner_prompt
from wavewright.planner.plans.goal_resolution import resolve_goal
from wavewright.reviewer import package_bytes
from wavewright.tools import PackServer, ServerTool, load_pack, pack_names, project_prompts

TOKEN_VARIABLE = "WAVEWRIGHT_MCP_TOKEN"  # noqa: S105 - the name of the variable
_MAX_BODY = 4 * 2**20
"""Bytes of a message of a client, as the MCP library takes them."""


@dataclass(frozen=True, slots=True)
class ServedServer:
    """What `wavewright mcp` is asked to serve."""

    name: str | None = None
    """MCP server of a pack; the project itself where absent."""
    role: str | None = None
    allows_runs: bool = False
    public_url: str | None = None
    """Address at which a proxy offers it; that of the settings where absent."""


def serve(served: ServedServer, http: str | None) -> int:
    """Serve the project, or an MCP server of a pack, until the client or a signal ends it; return
    the exit code.

    Raises:
        CommandError: the address is not HOST:PORT or cannot be used, a token is too short, there is
            no such server or role, or the role is missing.
    """
    settings = project_settings()
    with export_traces(), contextlib.chdir(settings.root):  # where tools run
        if served.name is None:
            if served.role is not None:
                raise CommandError(
                    "--role goes with the name of a server", hint="wavewright mcp NAME --role ROLE"
                )
            server = build_server(Project(settings, served.allows_runs))
            opened: AbstractAsyncContextManager[Servers] = contextlib.nullcontext({"": server})
        else:
            opened = _pack_servers(settings, served, http)
        return _serve_opened(
            opened, settings.root, http, PageAccess.from_settings(settings, served.public_url)
        )


_MAX_RUNS = 50
_JSON, _MARKDOWN = "application/json", "text/markdown"
_SCHEMAS = (*AUTHORED_SCHEMAS, "package")
_LANGUAGE_PAGES = ("plan-language", "plan-values", "ask-and-dispatch", "sub-plans", "gates")
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

    @server.resource(
        f"{RUN_URI}/package", name="package", description="A run's package.", mime_type=_JSON
    )
    async def package(run: str) -> str:
        row, events = await load_listed_run(settings, run)
        return package_bytes(package_of(row, fold(events))).decode()

    @server.prompt(
        name="write_plan", description="Write a plan that reaches a goal with this project's tools."
    )
    def write_plan(goal: str) -> str:
        return plan_prompt(goal, settings)


def language_page() -> str:
    """Return the reference of the plan language, its pages one after the other."""
    folder = files("wavewright.planner.language")
    return "\n".join(
        (folder / f"{name}.md").read_text(encoding="utf-8") for name in _LANGUAGE_PAGES
    )


def plan_prompt(goal: str, settings: Settings) -> str:
    """Return what the planner is asked for a goal that may use every tool of the project.

    Raises:
        PromptError, ToolDefinitionError, PackError: a prompt, a tool or a pack of the project is
            faulty.
    """
    signatures = all_tools(settings).signatures
    tools = tuple(AvailableTool(name=name) for name in sorted(signatures))
    # Unvalidated: a project without tools has an empty list, and a `${` in the user's words is
    # text.
    template = GoalTemplate.model_construct(name="goal", goal="goal", available_tools=tools)
    resolved = resolve_goal(Job(name="goal"), template).model_copy(update={"text": goal})
    prompt = planner_prompt(resolved, signatures, project_prompts(settings.prompts))
    return f"{prompt.instructions}\n\n{prompt.request}\n{_NEXT_STEPS}"


def _add_text(server: MCPServer[Project], uri: str, title: str, mime_type: str, read: Any) -> None:
    name = uri.removeprefix("wavewright://")
    server.add_resource(
        FunctionResource(uri=uri, name=name, title=title, mime_type=mime_type, fn=read)
    )


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
    """An MCP server that returns the errors of wavewright to the client, with their hints and
    without secrets.
    """

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool.

        Raises:
            ToolError: the call failed; its text names the place and the fix.
        """
        with _told_as(ToolError, UnexpectedToolError):
            return await super().call_tool(name, arguments, context)

    async def read_resource(self, uri: Any, context: Context[_State, Any] | None = None) -> Any:
        """Read a resource.

        Raises:
            ResourceError: it cannot be read; the text names the place and the fix.
        """
        with _told_as(ResourceError, UnexpectedResourceError):
            return await super().read_resource(uri, context)


@contextlib.contextmanager
def _told_as(told: type[Exception], unexpected: type[Exception]) -> Generator[None]:
    """Return a context in which an error of wavewright reaches the client whole, and not as one that
    the library did not expect.
    """
    try:
        yield
    except unexpected as error:
        if isinstance(error.__cause__, WavewrightError):
            raise told(without_secrets(error_text(error.__cause__))) from error.__cause__
        raise


def build_server(project: Project) -> EngineServer[Project]:
    """Return the server of a project; its tools expect the project's root as working directory."""

    @asynccontextmanager
    async def lifespan(_server: MCPServer[Project]) -> AsyncGenerator[Project]:
        yield project

    server = EngineServer[Project](
        "wavewright",
        version=__version__,
        instructions=_INSTRUCTIONS,
        lifespan=lifespan,
        log_level="WARNING",
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
        super().__init__(
            name, version=__version__, instructions=server.instructions, log_level="WARNING"
        )
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
            raise ToolError(
                f"{name} is for the role {' or '.join(roles)}; this connection is {self._role}"
            )
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
            f"no pack brings an MCP server {name!r}",
            hint=suggest_name(name, servers, what="MCP servers"),
        )
    return servers[name]


Servers: TypeAlias = Mapping[str, EngineServer[Any]]
"""Servers by role; the project's has none, which is an empty text."""


def _serve_opened(
    opened: AbstractAsyncContextManager[Servers], root: Path, http: str | None, access: PageAccess
) -> int:
    with contextlib.ExitStack() as stack:
        listener = (
            None
            if http is None
            else stack.enter_context(contextlib.closing(listener_at(http, "--http")))
        )

        async def run() -> None:
            async with opened as servers:
                if http is None or listener is None:
                    [server] = servers.values()
                    await server.run_stdio_async()
                    return
                chosen = {role: chosen_token(_token_variable(role)) for role in servers}
                tokens = {role: token or new_token() for role, token in chosen.items()}
                by_token = {tokens[role]: server for role, server in servers.items()}
                if len(by_token) < len(servers):
                    raise CommandError(
                        "two roles have the same token", hint="give each role a token of its own"
                    )
                place = access.public_url or f"http://{listener_address(listener)}"
                print_line(f"MCP server of {root}: {place.rstrip('/')}/mcp")
                for role, token in tokens.items():
                    if chosen[role] is None:
                        print_line(f"token of {role}: {token}" if role else f"token: {token}")

                app = http_app(by_token, http.rpartition(":")[0], access)
                await serve_http(app, listener, access)

        anyio.run(run)
    return exit_codes.OK


@asynccontextmanager
async def _pack_servers(
    settings: Settings, served: ServedServer, http: str | None
) -> AsyncGenerator[Servers]:
    assert served.name is not None
    server = find_server(served.name, settings)
    roles = ", ".join(server.roles)
    if served.role is not None and served.role not in server.roles:
        raise CommandError(
            f"{served.name} has no role {served.role!r}", hint=f"its roles are {roles}"
        )
    if served.role is None and http is None:
        raise CommandError(
            f"{served.name} needs a role over standard input", hint=f"--role, one of {roles}"
        )
    async with server.open() as tools:
        yield {
            role: RoleServer(served.name, role, server, tools)
            for role in server.roles
            if served.role in {None, role}
        }


def _token_variable(role: str) -> str:
    return f"{TOKEN_VARIABLE}_{role.upper()}" if role else TOKEN_VARIABLE


def http_app(
    servers: Mapping[str, MCPServer[Any]], host: str, access: PageAccess | None = None
) -> ASGIApp:
    """Return servers by their tokens as one ASGI application, for clients that use a name of the
    host.

    A token leads to its server. `/health` needs none, and answers as soon as the servers do. Behind
    a proxy that offers them at a public address, clients may use that, too.
    """
    access = access or PageAccess()
    names = dict.fromkeys((host, *LOOPBACK))
    origins = [origin for name in names for origin in (f"http://{name}", f"http://{name}:*")]
    security = TransportSecuritySettings(
        allowed_hosts=[
            *(allowed for name in names for allowed in (name, f"{name}:*")),
            *access.public_hosts,
        ],
        allowed_origins=[*origins, *([] if access.origin is None else [access.origin])],
    )
    apps = {
        token: server.streamable_http_app(transport_security=security, host=host)
        for token, server in servers.items()
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    app = Starlette(
        routes=[Route("/health", _health), Mount("/", BearerTokens(apps))],
        lifespan=lifespan,
    )

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        is_request = scope["type"] == "http"
        await app(below_prefix(scope, access.prefix) if is_request else scope, receive, send)

    return BoundedRequests(served, _MAX_BODY)


def _health(_: Request) -> Response:
    return PlainTextResponse("ok")


class BearerTokens:
    """Passes a request on to the application of its token, and answers 401 to every other."""

    def __init__(self, apps: Mapping[str, ASGIApp]) -> None:
        self._apps = {f"Bearer {token}".encode(): app for token, app in apps.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request with a token on."""
        given = dict(scope["headers"]).get(b"authorization", b"")
        for expected, app in self._apps.items():
            if hmac.compare_digest(given, expected):
                await app(scope, receive, send)
                return
        headers = {"WWW-Authenticate": "Bearer"}
        await PlainTextResponse("a bearer token is needed", 401, headers)(scope, receive, send)


async def serve_http(app: ASGIApp, listener: socket.socket, access: PageAccess) -> None:
    """Serve an application on a socket until a signal; connections are bounded."""
    config = uvicorn.Config(
        app,
        http=bounded_protocol(access.is_proxy),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    await uvicorn.Server(config).serve(sockets=[listener])
