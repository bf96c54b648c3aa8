"""`wavewright mcp`: serve the project over standard input and output, or over HTTP.

HTTP needs a bearer token, and accepts only requests whose `Host` and `Origin` name the address that is served.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wavewright.config import exit_codes
from wavewright.config.sections import valid_host_port
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.cli.common.output import print_line
from wavewright.engine.cli.mcp_server.plan_tools import Project
from wavewright.engine.cli.mcp_server.server import ProjectServer, build_server
from wavewright.engine.operations.health import open_listener

TOKEN_VARIABLE = "WAVEWRIGHT_MCP_TOKEN"  # noqa: S105 - the name of the variable
_MIN_TOKEN_LENGTH = 16
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def serve(*, http: str | None, allows_runs: bool) -> int:
    """Serve the project until the client or a signal ends it, and return the exit code.

    Raises:
        CommandError: the address is not HOST:PORT, or the token is too short.
        PortTakenError: the address cannot be used.
    """
    settings = project_settings()
    with contextlib.chdir(settings.root):  # where tools run
        server = build_server(Project(settings, allows_runs))
        if http is None:
            anyio.run(server.run_stdio_async)
            return exit_codes.OK
        token = os.environ.get(TOKEN_VARIABLE, "")
        if token and len(token) < _MIN_TOKEN_LENGTH:
            message = f"{TOKEN_VARIABLE} has fewer than {_MIN_TOKEN_LENGTH} characters"
            raise CommandError(message, hint="set a longer one, or unset it for a new one")
        with contextlib.closing(_listener(http)) as listener:
            address = _address(listener)
            print_line(f"MCP server of {settings.root}: http://{address}/mcp")
            if not token:
                token = secrets.token_urlsafe(32)
                print_line(f"token: {token}")
            app = http_app(server, http.rpartition(":")[0], token)
            config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
            anyio.run(_serve_http, uvicorn.Server(config), listener)
    return exit_codes.OK


def http_app(server: ProjectServer, host: str, token: str) -> ASGIApp:
    """Return the server as an ASGI application for clients that have the token and use a name of the host."""
    names = dict.fromkeys((host, *_LOOPBACK))
    security = TransportSecuritySettings(
        allowed_hosts=[each for name in names for each in (name, f"{name}:*")],
        allowed_origins=[each for name in names for each in (f"http://{name}", f"http://{name}:*")],
    )
    return BearerToken(server.streamable_http_app(transport_security=security, host=host), token)


class BearerToken:
    """Answers 401 to every request without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request with the token on."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                headers = {"WWW-Authenticate": "Bearer"}
                await PlainTextResponse("a bearer token is needed", 401, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _listener(place: str) -> socket.socket:
    try:
        return open_listener(valid_host_port(place))
    except ValueError as error:
        raise CommandError(f"--http {place!r}: {error}") from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _serve_http(server: uvicorn.Server, listener: socket.socket) -> None:
    await server.serve(sockets=[listener])
