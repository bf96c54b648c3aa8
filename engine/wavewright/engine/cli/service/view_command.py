"""`wavewright view`: serve the live page of a project's runs, jobs and decisions."""

from __future__ import annotations

import contextlib
import os
import secrets
import webbrowser

import uvicorn

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.listening import listener_address, listener_at
from wavewright.engine.cli.common.output import print_line
from wavewright.engine.view.access import LOOPBACK
from wavewright.engine.view.app import view_app

TOKEN_VARIABLE = "WAVEWRIGHT_VIEW_TOKEN"  # noqa: S105 - the name of the variable


def serve(place: str, *, opens: bool) -> int:
    """Serve at `HOST:PORT` until a signal, and return the exit code.

    Raises:
        CommandError: the address is not HOST:PORT or cannot be used.
    """
    settings = project_settings()
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
    with contextlib.closing(listener_at(place, "--listen")) as listener:
        address = listener_address(listener)
        port = address.rpartition(":")[2]
        app = view_app(settings, token, {address, *(f"{name}:{port}" for name in LOOPBACK)})
        print_line(f"live page of {settings.root}: http://{address}/?token={token}")
        if opens:
            webbrowser.open(f"http://{address}/?token={token}")
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        uvicorn.Server(config).run(sockets=[listener])
    return exit_codes.OK
