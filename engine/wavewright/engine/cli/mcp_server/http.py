"""Servers over HTTP: only for requests with a token whose `Host` and `Origin` name the address that is served."""

from __future__ import annotations

import hmac
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


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
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    await uvicorn.Server(config).serve(sockets=[listener])
