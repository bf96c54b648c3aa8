"""Who may use a page that this process serves: clients with its token, from the address that is served.

The token stands in the address that is printed. The first request exchanges it for a cookie, so that it stays in no
history. A request that changes something must come from the page itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
            token: What a request must bring: in the query once, in the cookie, or as a bearer token.
            hosts: Values of the header `Host` that name the address that is served, with their ports.
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
            rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            answer = RedirectResponse(f"{request.url.path}{'?' if rest else ''}{rest}", 303)
            answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
            return answer
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer):
            return None
        if not self._is_token(request.cookies.get(cookie, "")):
            return PlainTextResponse("open the address that the command printed, with its token", 401)
        origin = request.headers.get("origin", "")
        if request.method not in _SAFE_METHODS and origin != f"{request.url.scheme}://{host}":
            return PlainTextResponse(
                f"{origin or 'a request without an origin'!r} may change nothing here", 403
            )
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())
