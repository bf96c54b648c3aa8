"""What all pages that this process serves have in common: how they are made, and who may use them.

A page is made of a template with its filters, and loads style, script and icon. Clients need the
token, and the address that is served. The token stands in the address that is printed. The first
request exchanges it for a cookie, so that it stays in no history. A request that changes something
must come from the page itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Final, cast
from urllib.parse import urlencode

from jinja2 import Environment
from pydantic import ValidationError
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavewright.config.errors import WavewrightError
from wavewright.engine.rehearsal.dry_run.text import dollars_text, tokens_text
from wavewright.prompts.environments import page_environment
from wavewright.reviewer.report.page import made_visible, pretty_json, spaced, style_sheet
from wavewright.reviewer.values import duration_text, iso_of_epoch


def style_routes() -> list[Route]:
    """Return where the style of all pages is served."""
    return [Route("/style.css", _style), Route("/favicon.svg", _icon)]


def script_route() -> Route:
    """Return where the script of the live page is served."""
    return Route("/view.js", _script)


def page(template: str, code: int = 200, /, **values: object) -> Response:
    """Return the answer with a page."""
    return HTMLResponse(render(template, **values), code)


def render(template: str, /, **values: object) -> str:
    """Return a template as HTML."""
    return _environment().get_template(template).render(**values)


def reason_of(error: WavewrightError | ValidationError) -> str:
    """Return what is wrong, each field of an answer with its fault."""
    if isinstance(error, WavewrightError):
        return str(error)
    return "; ".join(
        f"`{fault['loc'][0]}`: {fault['msg']}" if fault["loc"] else fault["msg"]
        for fault in error.errors()
    )


def refusal_of(error: WavewrightError | ValidationError) -> tuple[str, int]:
    """Return what is wrong with what was asked, and the status of the answer."""
    return reason_of(error), 409 if isinstance(error, WavewrightError) else 422


@cache
def _environment() -> Environment:
    environment = page_environment(
        "wavewright.engine.interfaces.view", "pages", trims=True, finalize=made_visible
    )
    filters = cast("dict[str, Callable[..., object]]", environment.filters)
    filters |= {
        "instant": _instant_text,
        "words": spaced,
        "duration": duration_text,
        "whole": tokens_text,
        "dollars": dollars_text,
        "pretty": pretty_json,
    }
    return environment


def _instant_text(seconds: float) -> str:
    return iso_of_epoch(seconds)[:19].replace("T", " ")


def _asset(name: str) -> str:
    return (
        files("wavewright.engine.interfaces.view")
        .joinpath("pages", name)
        .read_text(encoding="utf-8")
    )


def _style(request: Request) -> Response:
    del request
    return Response(style_sheet() + _asset("view.css"), media_type="text/css")


def _script(request: Request) -> Response:
    del request
    return Response(_asset("view.js"), media_type="text/javascript")


def _icon(request: Request) -> Response:
    del request
    return Response(_asset("icon.svg"), media_type="image/svg+xml")


LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})


class TokenAccess:
    """An ASGI application in front of another, which passes only requests with the token."""

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str]) -> None:
        """Guard an application.

        Args:
            app: The application.
            token: What a request must bring: in the query once, in the cookie, or as a bearer
                token.
            hosts: Values of the header `Host` that name the address that is served, with their
                ports.
        """
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with the reason why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._answer_instead(request)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (refused or self._app)(scope, receive, send_with_headers)

    def _answer_instead(self, request: Request) -> Response | None:
        """Return the answer to a request that is not passed on."""
        host = request.headers.get("host", "")
        if host not in self._hosts:
            return PlainTextResponse(f"this server is not {host!r}", 421)
        cookie = f"wavewright_{host.rpartition(':')[2]}"
        given = request.query_params.get("token")
        if given is not None and self._is_token(given) and request.method in _SAFE_METHODS:
            rest = urlencode(
                [pair for pair in request.query_params.multi_items() if pair[0] != "token"]
            )
            answer = RedirectResponse(f"{request.url.path}{'?' if rest else ''}{rest}", 303)
            answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
            return answer
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer):
            return None
        if not self._is_token(request.cookies.get(cookie, "")):
            return PlainTextResponse(
                "open the address that the command printed, with its token", 401
            )
        origin = request.headers.get("origin", "")
        if request.method not in _SAFE_METHODS and origin != f"{request.url.scheme}://{host}":
            return PlainTextResponse(
                f"{origin or 'a request without an origin'!r} may change nothing here", 403
            )
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())
