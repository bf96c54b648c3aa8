"""`wavewright play`: serve the page of a pack, such as a game."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from wavewright.config import Settings
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.interfaces.cli.common.page_serving import serve_page
from wavewright.engine.interfaces.view.people import PageAccess
from wavewright.engine.interfaces.view.served_pages import asset_routes
from wavewright.planner import as_object, suggest_name
from wavewright.tools import PackPage, load_pack, pack_names


def serve(name: str, pack: str | None, place: str, *, public_url: str | None, opens: bool) -> int:
    """Serve the page of a pack until a signal, and return the exit code.

    Raises:
        CommandError: no pack has a page, several have one and none is named, or the address cannot
            be used.
        WavewrightError: what the page works on cannot be opened.
    """
    settings = project_settings()
    page = _find_page(pack, settings)

    @asynccontextmanager
    async def open_page() -> AsyncGenerator[ASGIApp]:
        async with page.open(settings.root, name) as app:
            yield Starlette(routes=[*asset_routes(), Mount("/", app)])

    return serve_page(
        open_page,
        f"{page.about} {name!r}",
        place,
        PageAccess.from_settings(settings, public_url),
        opens=opens,
        # Playing decides something, and steers no runs and no jobs.
        role_of_path=lambda _path: "decide",
    )


def _find_page(wanted: str | None, settings: Settings) -> PackPage:
    pages: dict[str, PackPage] = {}
    for name in pack_names():
        page = load_pack(name, as_object(settings.packs.get(name)), settings.root).page
        if page is not None:
            pages[name] = page
    if wanted is None and len(pages) == 1:
        return next(iter(pages.values()))
    if wanted is None:
        raise CommandError(
            f"{len(pages)} packs have a page", hint=f"name one with --pack: {', '.join(pages)}"
        )
    if wanted not in pages:
        raise CommandError(
            f"the pack {wanted!r} has no page",
            hint=suggest_name(wanted, pages, what="packs with a page"),
        )
    return pages[wanted]
