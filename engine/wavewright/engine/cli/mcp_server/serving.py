"""`wavewright mcp`: serve the project over standard input and output, or over HTTP with a token."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket

import anyio

from wavewright.config import exit_codes
from wavewright.config.sections import valid_host_port
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.cli.common.output import print_line
from wavewright.engine.cli.mcp_server.plan_tools import Project
from wavewright.engine.cli.mcp_server.server import build_server

TOKEN_VARIABLE = "WAVEWRIGHT_MCP_TOKEN"  # noqa: S105 - the name of the variable
_MIN_TOKEN_LENGTH = 16


def serve(*, http: str | None, allows_runs: bool) -> int:
    """Serve the project until the client or a signal ends it, and return the exit code.

    Raises:
        CommandError: the address is not HOST:PORT or cannot be used, or the token is too short.
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
            from wavewright.engine.cli.mcp_server.http import http_app, serve_http

            anyio.run(serve_http, http_app(server, http.rpartition(":")[0], token), listener)
    return exit_codes.OK


def _listener(place: str) -> socket.socket:
    try:
        host, _, port = valid_host_port(place).rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), int(port)), family=family)
    except ValueError as error:
        raise CommandError(f"--http {place!r}: {error}") from error
    except OSError as error:
        message = f"--http {place!r} cannot be used: {error.strerror}"
        hint = "name another address; port 0 takes a free one"
        raise CommandError(message, hint=hint, exit_code=exit_codes.ENVIRONMENT) from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
