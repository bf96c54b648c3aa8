"""The page of a game as an ASGI application; every viewer sees the same game."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

import anyio
from markupsafe import Markup
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from wavewright.config.errors import WavewrightError
from wavewright.engine import PhaseTrace
from wavewright.prompts.environments import page_environment
from wavewright.tools.tabletop.page.board import TalkLine, Transcript, board_of
from wavewright.tools.tabletop.project import open_project_game
from wavewright.tools.tabletop.session import Game

_MAX_MESSAGE: Final = 2000
"""Characters of what a player says in a turn."""
_PACKAGE: Final = "wavewright.tools.tabletop.page"


@asynccontextmanager
async def open_game_page(root: Path, name: str) -> AsyncGenerator[ASGIApp]:
    """Open a game of the project in a folder and yield its page.

    Raises:
        WavewrightError: the settings, the world, the model or the journal cannot be used.
    """
    game_opened = open_project_game(root, name, listeners=[PhaseTrace()])
    async with game_opened as game, anyio.create_task_group() as group:
        page = GamePage(game, name)
        group.start_soon(page.follow)
        yield Starlette(routes=page.routes())
        group.cancel_scope.cancel()


class GamePage:
    """The answers to the requests of players."""

    def __init__(self, game: Game, name: str) -> None:
        self._game = game
        self._name = name
        self._transcript = Transcript()
        self._changed = anyio.Event()
        self._templates = page_environment(_PACKAGE, ".", trims=True)
        self._take(0)

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/", self.page),
            Route("/stream", self.stream),
            Route("/turn", self.turn, methods=["POST"]),
            Route("/undo", self.undo, methods=["POST"]),
            Route("/play.css", _asset("play.css", "text/css")),
            Route("/play.js", _asset("play.js", "text/javascript")),
        ]

    async def follow(self) -> None:
        """Take the events of the game as they happen, without an end."""
        async with aclosing(self._game.follow(self._transcript.last_id)) as events:
            async for numbered in events:
                if numbered.id > self._transcript.last_id:
                    self._take(self._transcript.last_id)

    async def page(self, request: Request) -> Response:
        """Answer with the whole page."""
        del request
        return HTMLResponse(self._page(""))

    async def stream(self, request: Request) -> Response:
        """Answer with what changes; `Last-Event-ID`, or else `seen`, is what the viewer has."""
        given = request.headers.get("last-event-id") or request.query_params.get("seen", "0")
        seen = int(given) if given.isdecimal() else 0

        async def events() -> AsyncGenerator[ServerSentEvent]:
            nonlocal seen
            while True:
                changed, transcript = self._changed, self._transcript
                if transcript.last_id > seen:
                    is_whole = transcript.last_undo > seen
                    lines = transcript.lines if is_whole else transcript.lines_since(seen)
                    told = {"is_whole": is_whole, "lines": self._lines(lines), "board": self._board()}
                    seen = transcript.last_id
                    yield ServerSentEvent(json.dumps(told), event="changed", id=str(seen))
                else:
                    await changed.wait()

        return EventSourceResponse(events(), ping=15)

    async def turn(self, request: Request) -> Response:
        """Begin the turn that a player asks for; it goes on when this is answered."""
        message = str((await request.form()).get("message", "")).strip()
        if not 0 < len(message) <= _MAX_MESSAGE:
            return self._refused(request, f"a message has 1 to {_MAX_MESSAGE} characters")
        try:
            async with aclosing(self._game.turn(message)) as events:
                await anext(events)
        except WavewrightError as error:
            return self._refused(request, error.message)
        return _accepted(request)

    async def undo(self, request: Request) -> Response:
        """Take back the last turn."""
        try:
            await self._game.undo()
        except WavewrightError as error:
            return self._refused(request, error.message)
        return _accepted(request)

    def _take(self, id_: int) -> None:
        for numbered in self._game.events_since(id_):
            self._transcript.add(numbered.id, numbered.event, self._game.state)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _refused(self, request: Request, reason: str) -> Response:
        if _wants_json(request):
            return JSONResponse({"error": reason}, 409)
        return HTMLResponse(self._page(reason), 409)

    def _page(self, error: str) -> str:
        transcript = self._transcript
        return self._templates.get_template("play.html.j2").render(
            name=self._name,
            seen=transcript.last_id,
            error=error,
            log=Markup(self._lines(transcript.lines)),  # noqa: S704 - rendered from escaping templates
            board=Markup(self._board()),  # noqa: S704 - as above
        )

    def _lines(self, lines: list[TalkLine]) -> str:
        return self._templates.get_template("lines.html.j2").render(lines=lines)

    def _board(self) -> str:
        board = board_of(self._transcript, self._game.state, self._game.header)
        return self._templates.get_template("board.html.j2").render(board=board)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _accepted(request: Request) -> Response:
    return Response(status_code=204) if _wants_json(request) else RedirectResponse("/", 303)


def _asset(name: str, media_type: str) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        del request
        return Response(files(_PACKAGE).joinpath(name).read_bytes(), media_type=media_type)

    return answer
