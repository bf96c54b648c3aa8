"""The page of a game as an ASGI application; every viewer sees the same game.

All that it serves is in one folder, and its links are relative, so that it stands below any prefix.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

import anyio
from markupsafe import Markup
from prometheus_client import CONTENT_TYPE_LATEST
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from wavewright.config import WavewrightError, known_secrets_redactor, load_settings
from wavewright.engine import PipelineMonitor, StructuredLog
from wavewright.packs.tabletop.game.events import Said
from wavewright.packs.tabletop.page.board import TalkLine, Transcript, board_of, speaker_name
from wavewright.packs.tabletop.project import open_project_game, pack_settings
from wavewright.packs.tabletop.session import Game, WaitingMessage
from wavewright.planner import JsonObject
from wavewright.prompts import page_environment
from wavewright.tools import ToolError

_MAX_MESSAGE: Final = 2000
"""Characters of what a player says in a turn."""
_MAX_PLAYER: Final = 64
_PACKAGE: Final = "wavewright.packs.tabletop.page"


@asynccontextmanager
async def open_game_page(root: Path, name: str) -> AsyncGenerator[ASGIApp]:
    """Open a game of the project in a folder and yield its page.

    Raises:
        WavewrightError: the settings, the world, the model or the journal cannot be used.
    """
    settings = load_settings(root, os.environ)
    log = StructuredLog(
        agent="wavewright",
        domain="tabletop",
        level=pack_settings(settings).log_level,
        redactor=known_secrets_redactor(settings),
    )
    monitor = PipelineMonitor(log, ["agent_type"])
    game_opened = open_project_game(
        root, name, listeners=monitor.listeners, report_twin=monitor.report
    )
    async with game_opened as game, anyio.create_task_group() as group:
        page = GamePage(game, name, monitor)
        group.start_soon(page.follow)
        yield Starlette(routes=page.routes())
        group.cancel_scope.cancel()


class GamePage:
    """The answers to the requests of players."""

    def __init__(self, game: Game, name: str, monitor: PipelineMonitor) -> None:
        self._game = game
        self._name = name
        self._monitor = monitor
        self._transcript = Transcript()
        self._changed = anyio.Event()
        self._open: tuple[Said | None, tuple[WaitingMessage, ...], str] = (None, (), "")
        """The words that arrive, the messages that wait, and why the last turn failed."""
        self._open_number = 0
        """Grows with each change of these."""
        self._templates = page_environment(_PACKAGE, ".", trims=True)
        self._take()

    def routes(self) -> list[Route]:
        """Return what is served where."""
        return [
            Route("/", self.page),
            Route("/stream", self.stream),
            Route("/turn", self.turn, methods=["POST"]),
            Route("/undo", self.undo, methods=["POST"]),
            Route("/withdraw", self.withdraw, methods=["POST"]),
            Route("/metrics", self.metrics),
            Route("/play.css", _asset("play.css", "text/css")),
            Route("/play.js", _asset("play.js", "text/javascript")),
        ]

    async def follow(self) -> None:
        """Take what happens in the game, without an end."""
        while True:
            changed = self._game.changed
            self._take()
            await changed.wait()

    async def page(self, request: Request) -> Response:
        """Answer with the whole page."""
        del request
        return HTMLResponse(self._page(""))

    async def stream(self, request: Request) -> Response:
        """Answer with what changes; `Last-Event-ID`, or else `seen`, is what the viewer has."""
        seen = _read_id(
            request.headers.get("last-event-id") or request.query_params.get("seen", "")
        )

        async def events() -> AsyncGenerator[ServerSentEvent]:
            nonlocal seen
            while True:
                changed, now = self._changed, self._id
                if now != seen:
                    told = self._told_since(seen[0])
                    seen = now
                    yield ServerSentEvent(json.dumps(told), event="changed", id=_id_text(now))
                else:
                    await changed.wait()

        return EventSourceResponse(events(), ping=15)

    async def turn(self, request: Request) -> Response:
        """Take a message: its turn begins, or it waits for the one that is played."""
        form = await request.form()
        message, player = (
            str(form.get("message", "")).strip(),
            str(form.get("player", ""))[:_MAX_PLAYER],
        )
        if not 0 < len(message) <= _MAX_MESSAGE:
            return self._refused(request, f"a message has 1 to {_MAX_MESSAGE} characters")
        changed = self._game.changed
        try:
            self._game.say(message, player)
        except WavewrightError as error:
            return self._refused(request, error.message)
        await changed.wait()  # so that a page without scripts shows it
        self._take()
        return _accepted(request)

    async def withdraw(self, request: Request) -> Response:
        """Take back a message that waits."""
        self._game.withdraw(str((await request.form()).get("player", "")))
        return _accepted(request)

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of the phases in Prometheus' text format."""
        del request
        return Response(self._monitor.text(), media_type=CONTENT_TYPE_LATEST)

    async def undo(self, request: Request) -> Response:
        """Take back the last turn."""
        try:
            await self._game.undo()
        except WavewrightError as error:
            return self._refused(request, error.message)
        return _accepted(request)

    @property
    def _id(self) -> tuple[int, int]:
        """What a viewer has seen that has all: the last event, and what is open."""
        return self._transcript.last_id, self._open_number

    def _take(self) -> None:
        """Take what has happened since the last time."""
        before = self._id
        for numbered in self._game.events_since(self._transcript.last_id):
            self._transcript.add(numbered.id, numbered.event, self._game.state)
        failure = self._game.failure
        is_told = failure is None or isinstance(
            failure, ToolError
        )  # that one ends the turn with a line
        now_open = (self._game.draft, self._game.waiting, "" if is_told else str(failure))
        if now_open != self._open:
            self._open, self._open_number = now_open, self._open_number + 1
        if self._id != before:
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    def _told_since(self, id_: int) -> JsonObject:
        """Return what a viewer is told that has seen the events up to one."""
        transcript = self._transcript
        if transcript.last_id == id_:
            return {"pending": self._pending()}
        is_whole = transcript.last_undo > id_ or id_ > transcript.last_id
        lines = [line for line in transcript.lines if is_whole or line.id > id_]
        return {
            "is_whole": is_whole,
            "lines": self._lines(lines),
            "pending": self._pending(),
            **self._board(),
        }

    def _refused(self, request: Request, reason: str) -> Response:
        if _wants_json(request):
            return JSONResponse({"error": reason}, 409)
        return HTMLResponse(self._page(reason), 409)

    def _page(self, error: str) -> str:
        shown = {
            "log": self._lines(self._transcript.lines),
            "pending": self._pending(),
            **self._board(),
        }
        return self._render(
            "play",
            name=self._name,
            seen=_id_text(self._id),
            error=error,
            player=secrets.token_hex(8),
            **{part: Markup(html) for part, html in shown.items()},  # noqa: S704 - of escaping templates
        )

    def _lines(self, lines: list[TalkLine]) -> str:
        return self._render("lines", lines=lines)

    def _pending(self) -> str:
        draft, waiting, failure = self._open
        said = draft and TalkLine(
            0, draft.speech, speaker_name(draft.speaker, self._game.state), draft.text
        )
        return self._render("pending", draft=said, waiting=waiting, failure=failure)

    def _board(self) -> dict[str, str]:
        board = board_of(self._transcript, self._game.state, self._game.header)
        return {name: self._render(name, board=board) for name in ("actions", "board")}

    def _render(self, template: str, **values: object) -> str:
        return self._templates.get_template(f"{template}.html.j2").render(values)


def _read_id(text: str) -> tuple[int, int]:
    """Return the id that a viewer sends; that of nothing where it is none."""
    event, _, number = text.partition(".")
    return (int(event), int(number)) if event.isdecimal() and number.isdecimal() else (0, -1)


def _id_text(id_: tuple[int, int]) -> str:
    return f"{id_[0]}.{id_[1]}"


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _accepted(request: Request) -> Response:
    return Response(status_code=204) if _wants_json(request) else RedirectResponse(".", 303)


def _asset(name: str, media_type: str) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        del request
        return Response(files(_PACKAGE).joinpath(name).read_bytes(), media_type=media_type)

    return answer
