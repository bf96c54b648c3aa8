"""`wavewright view`: serve the live page of a project's runs, jobs and decisions."""

from __future__ import annotations

from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.page_server import serve_page
from wavewright.engine.view.app import open_view


def serve(place: str, *, opens: bool) -> int:
    """Serve at `HOST:PORT` until a signal, and return the exit code.

    Raises:
        CommandError: the address is not HOST:PORT or cannot be used.
    """
    settings = project_settings()
    return serve_page(lambda: open_view(settings), f"live page of {settings.root}", place, opens=opens)
