"""`wavewright mcp`: serve the project, or an MCP server of a pack, over standard input and output or HTTP.

Over HTTP only requests with a token are served whose `Host` and `Origin` name the address that is served.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wavewright.config import exit_codes
from wavewright.config.settings import Settings
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.http_serving import listener_address, listener_at
from wavewright.engine.cli.common.output import CommandError, print_line
from wavewright.engine.cli.mcp_server.plan_tools import Project
from wavewright.engine.cli.mcp_server.server import EngineServer, RoleServer, build_server, find_server
from wavewright.engine.operations.trace_export import export_traces

TOKEN_VARIABLE = "WAVEWRIGHT_MCP_TOKEN"  # noqa: S105 - the name of the variable
_MIN_TOKEN_LENGTH = 16
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class ServedServer:
    """What `wavewright mcp` is asked to serve."""

    name: str | None = None
    """MCP server of a pack; the project itself where absent."""
    role: str | None = None
    allows_runs: bool = False


def serve(served: ServedServer, http: str | None) -> int:
    """Serve the project, or an MCP server of a pack, until the client or a signal ends it; return the exit code.

    Raises:
        CommandError: the address is not HOST:PORT or cannot be used, a token is too short, there is no such server or
            role, or the role is missing.
    """
    settings = project_settings()
    with export_traces(), contextlib.chdir(settings.root):  # where tools run
        if served.name is None:
            if served.role is not None:
                raise CommandError(
                    "--role goes with the name of a server", hint="wavewright mcp NAME --role ROLE"
                )
            return _serve_opened(_project_server(settings, served), settings.root, http)
        return _serve_opened(_pack_servers(settings, served, http), settings.root, http)


Servers: TypeAlias = Mapping[str, EngineServer[Any]]
"""Servers by role; the project's has none, which is an empty text."""


def _serve_opened(opened: AbstractAsyncContextManager[Servers], root: Path, http: str | None) -> int:
    with contextlib.ExitStack() as stack:
        listener = (
            None if http is None else stack.enter_context(contextlib.closing(listener_at(http, "--http")))
        )

        async def run() -> None:
            async with opened as servers:
                if http is None or listener is None:
                    [server] = servers.values()
                    await server.run_stdio_async()
                    return
                tokens = {role: _given_token(role) or secrets.token_urlsafe(32) for role in servers}
                by_token = {tokens[role]: server for role, server in servers.items()}
                if len(by_token) < len(servers):
                    raise CommandError(
                        "two roles have the same token", hint="give each role a token of its own"
                    )
                print_line(f"MCP server of {root}: http://{listener_address(listener)}/mcp")
                for role, token in tokens.items():
                    if not _given_token(role):
                        print_line(f"token of {role}: {token}" if role else f"token: {token}")
                from wavewright.engine.cli.mcp_server.serving import http_app, serve_http

                await serve_http(http_app(by_token, http.rpartition(":")[0]), listener)

        anyio.run(run)
    return exit_codes.OK


@asynccontextmanager
async def _project_server(settings: Settings, served: ServedServer) -> AsyncGenerator[Servers]:
    yield {"": build_server(Project(settings, served.allows_runs))}


@asynccontextmanager
async def _pack_servers(
    settings: Settings, served: ServedServer, http: str | None
) -> AsyncGenerator[Servers]:
    assert served.name is not None
    server = find_server(served.name, settings)
    roles = ", ".join(server.roles)
    if served.role is not None and served.role not in server.roles:
        raise CommandError(f"{served.name} has no role {served.role!r}", hint=f"its roles are {roles}")
    if served.role is None and http is None:
        raise CommandError(f"{served.name} needs a role over standard input", hint=f"--role, one of {roles}")
    async with server.open() as tools:
        yield {
            role: RoleServer(served.name, role, server, tools)
            for role in server.roles
            if served.role in {None, role}
        }


def _given_token(role: str) -> str:
    """Return the token of a role in the environment; empty where there is none."""
    variable = f"{TOKEN_VARIABLE}_{role.upper()}" if role else TOKEN_VARIABLE
    token = os.environ.get(variable, "")
    if token and len(token) < _MIN_TOKEN_LENGTH:
        message = f"{variable} has fewer than {_MIN_TOKEN_LENGTH} characters"
        raise CommandError(message, hint="set a longer one, or unset it for a new one")
    return token


def http_app(servers: Mapping[str, MCPServer[Any]], host: str) -> ASGIApp:
    """Return servers by their tokens as one ASGI application, for clients that use a name of the host.

    A token leads to its server. `/health` needs none, and answers as soon as the servers do.
    """
    names = dict.fromkeys((host, *_LOOPBACK))
    security = TransportSecuritySettings(
        allowed_hosts=[each for name in names for each in (name, f"{name}:*")],
        allowed_origins=[each for name in names for each in (f"http://{name}", f"http://{name}:*")],
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

    return Starlette(
        routes=[Route("/health", _health), Mount("/", BearerTokens(apps))],
        lifespan=lifespan,
    )


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


async def serve_http(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application on a socket until a signal."""
    import uvicorn  # not above: where the extra `mcp` is missing, so may this be, and `mcp` is to be named

    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    await uvicorn.Server(config).serve(sockets=[listener])
