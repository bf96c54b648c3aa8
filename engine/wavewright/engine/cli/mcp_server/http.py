"""The server over HTTP: only for requests with the token whose `Host` and `Origin` name the address that is served."""

from __future__ import annotations

import hmac
import socket

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wavewright.engine.cli.mcp_server.server import ProjectServer

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


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


async def serve_http(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application on a socket until a signal."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    await uvicorn.Server(config).serve(sockets=[listener])
