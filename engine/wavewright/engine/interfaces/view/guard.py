"""Who may use the pages that this process serves: an ASGI application in front of them.

Clients need a token, and the address that is served. A browser shows its token once, in the address
that is printed or in the form of `/sign-in`, and gets a session for it, whose secret is no token: a
cookie goes to every port of the host. A request that changes something must come from the page
itself, and from somebody whose role allows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlencode

import anyio
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wavewright.config.sections import Role
from wavewright.engine.interfaces.view.people import (
    Credentials,
    PageAccess,
    Viewer,
    below_prefix,
    set_viewer,
    viewer_of,
)
from wavewright.engine.interfaces.view.served_pages import (
    base_of,
    is_asked_for_json,
    refusal,
    render,
)
from wavewright.engine.interfaces.view.sessions import SESSION_SECONDS, Sessions

_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_MAX_REQUESTS: Final = 100
"""Of one client at once, streams included."""

RoleOfPath = Callable[[str], Role]
"""Returns the role that a change at a path needs."""


def role_of_view(path: str) -> Role:
    """Return the role that a change in the live page needs: decisions have one of their own."""
    rest = path.removeprefix("/api/v1")
    return "decide" if rest.startswith("/decisions/") else "operate"


class AccessGuard:
    """An ASGI application in front of another, which passes only requests of those who may."""

    def __init__(
        self,
        app: ASGIApp,
        access: PageAccess,
        token: str | None,
        hosts: Iterable[str],
        role_of_path: RoleOfPath = role_of_view,
    ) -> None:
        """AccessGuard an application.

        Args:
            app: The application.
            access: Who may use it.
            token: The common token, if there is one.
            hosts: Values of the header `Host` that name the address that is served, with their
                ports.
            role_of_path: Returns the role that a change at a path needs.
        """
        self._app = app
        self._access = access
        self._credentials = Credentials.of(access, token)
        self._hosts = frozenset(hosts) | access.public_hosts
        self._role_of_path = role_of_path
        self._sessions = Sessions(access.sessions)
        self._open_requests = Counter[str]()

    def close(self) -> None:
        """Close the file of sessions."""
        self._sessions.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with the reason why not."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_read = False

        async def receive_noting() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = not message.get("more_body", False)
            return message

        request = Request(below_prefix(scope, self._access.prefix), receive_noting)
        client = _client_of(request, self._access)
        self._open_requests[client] += 1
        try:
            is_bare_prefix = scope["path"] == self._access.prefix
            answer = await self._answer_instead(request, client, is_bare_prefix=is_bare_prefix)
            # A proxy may drop an answer that overtakes the body of its request.
            while answer is not None and request.method not in _SAFE_METHODS and not is_read:
                await receive_noting()
            # A session that was ended elsewhere ends what is streamed to it, too.
            with anyio.CancelScope() as streaming:

                async def send_guarded(message: Message) -> None:
                    if message["type"] == "http.response.start":
                        headers = MutableHeaders(scope=message)
                        for name, value in _SECURITY_HEADERS.items():
                            headers.setdefault(name, value)
                    elif message.get("more_body") and not self._is_valid_still(request):
                        await send({"type": "http.response.body", "body": b""})
                        streaming.cancel()
                        return
                    await send(message)

                await (answer or self._app)(request.scope, receive, send_guarded)
        finally:
            # Clients without an open request leave the counter.
            self._open_requests -= Counter((client,))

    async def _answer_instead(
        self, request: Request, client: str, *, is_bare_prefix: bool
    ) -> Response | None:
        """Return the answer to a request that is not passed on."""
        host = request.headers.get("host", "")
        if host not in self._hosts:
            return _refusal(request, 421, f"this server is not {host!r}")
        if is_bare_prefix:
            # Relative links of a page would lead past the prefix.
            query = request.url.query
            place = f"{base_of(request)}/"
            return RedirectResponse(f"{place}?{query}" if query else place, 307)
        if self._open_requests[client] > _MAX_REQUESTS:
            return _refusal(request, 429, f"{_MAX_REQUESTS} requests are open already")
        is_change = request.method not in _SAFE_METHODS
        # A page of the public host over plain HTTP may be anyone's on the way there.
        is_public = host in self._access.public_hosts
        own_origins = {self._access.origin, None if is_public else f"http://{host}"} - {None}
        is_own = request.headers.get("origin") in own_origins
        path = request.scope["path"].removeprefix(self._access.prefix)
        if is_change and path in {"/sign-in", "/sign-out"}:
            return await self._sign(request, path) if is_own else _refused_origin(request)
        shown = request.query_params.get("token")
        found = None if shown is None or is_change else self._credentials.find(shown)
        if found is not None:
            return self._begin_session(request, *found, _without_token(request))
        viewer, is_ambient = self._viewer_of(request)
        if viewer is None:
            # A token is no mend for whom the proxy has named: the settings do not know them.
            refused = self._access.name_by_proxy(request)
            reason = "" if refused is None else f"{refused} is not among the people of this page."
            return _sign_in_page(request, reason)
        set_viewer(request, viewer)
        # What the browser adds by itself proves nothing about whose page has asked.
        if is_change and is_ambient and not is_own:
            return _refused_origin(request)
        needed = self._role_of_path(path) if is_change else "look"
        if not viewer.may(needed):
            reason = f"{viewer.name} may {viewer.role} here, and this needs the role {needed!r}"
            return _refusal(request, 403, reason)
        return None

    def _viewer_of(self, request: Request) -> tuple[Viewer | None, bool]:
        """Return who sends a request, and whether a browser adds by itself what shows it."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (found := self._credentials.find(bearer)) is not None:
            return found[1], False
        if (named := self._access.viewer_named_by_proxy(request)) is not None:
            return named, True
        return self._viewer_of_session(request), True

    def _viewer_of_session(self, request: Request) -> Viewer | None:
        secret = request.cookies.get(self._cookie(request))
        credential = None if secret is None else self._sessions.credential(secret)
        # A person who was removed, or has another token, has no session any more.
        known = None if credential is None else self._credentials.viewers.get(credential)
        if known is None:
            return None
        return Viewer(known.role, known.name, known.proof, has_session=True)

    def _is_valid_still(self, request: Request) -> bool:
        return not viewer_of(request).has_session or self._viewer_of_session(request) is not None

    async def _sign(self, request: Request, path: str) -> Response:
        """Begin the session of a token that was typed, or end that of a browser."""
        home = f"{base_of(request)}/"
        if path == "/sign-out":
            self._sessions.end(request.cookies.get(self._cookie(request), ""))
            answer = RedirectResponse(home, 303)
            answer.delete_cookie(
                self._cookie(request), path="/", secure=self._is_encrypted, httponly=True
            )
            return answer
        try:
            form = await request.form()
        except HTTPException as error:
            return _refusal(request, error.status_code, error.detail)
        found = self._credentials.find(str(form.get("token", "")).strip())
        if found is None:
            return _sign_in_page(request, "There is no such token.")
        return self._begin_session(request, *found, home)

    def _begin_session(
        self, request: Request, credential: str, viewer: Viewer, place: str
    ) -> Response:
        answer = RedirectResponse(place, 303)
        answer.set_cookie(
            self._cookie(request),
            self._sessions.begin(credential, viewer.name),
            max_age=int(SESSION_SECONDS),
            secure=self._is_encrypted,
            httponly=True,
            samesite="strict",
        )
        return answer

    @property
    def _is_encrypted(self) -> bool:
        origin = self._access.origin
        return origin is not None and origin.startswith("https:")

    def _cookie(self, request: Request) -> str:
        """Return the name of the cookie: another one for each page of a host."""
        if self._is_encrypted:
            return f"__Host-wavewright{self._access.prefix.replace('/', '_')}"
        port = request.headers.get("host", "").rpartition(":")[2]
        return f"wavewright_{port}"


def _client_of(request: Request, access: PageAccess) -> str:
    """Return the address of who asks: a trusted proxy names it last in `X-Forwarded-For`."""
    address = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return forwarded if forwarded and access.is_proxy(address) else address


def _without_token(request: Request) -> str:
    """Return the address of a request, from its root, without the token."""
    rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
    # Two slashes at the beginning would name another host.
    path = f"/{request.scope['path'].lstrip('/')}"
    return f"{path}?{rest}" if rest else path


def _refused_origin(request: Request) -> Response:
    origin = request.headers.get("origin")
    who = repr(origin) if origin else "a request without an origin"
    return _refusal(request, 403, f"{who} may change nothing here")


def _refusal(request: Request, code: int, reason: str) -> Response:
    """Return the reason as a page to browsers, in JSON to programs, as the API describes it, and as
    text to others.
    """
    headers = {"WWW-Authenticate": "Bearer"} if code == 401 else None
    if is_asked_for_json(request):
        return JSONResponse({"error": reason}, code, headers)
    if "text/html" in request.headers.get("accept", ""):
        return refusal(request, HTTPException(code, reason))
    return PlainTextResponse(reason, code, headers)


def _sign_in_page(request: Request, error: str = "") -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        reason = error or (
            "open the address that the command printed, with its token, or send a token as"
            " `Authorization: Bearer TOKEN`"
        )
        return _refusal(request, 401, reason)
    # A link on another page brings no cookie of ours: the browser is to ask again by itself.
    comes_from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    html = render(
        "sign_in.html.j2",
        base=base_of(request),
        error=error,
        asks_again=comes_from_elsewhere and request.method == "GET",
    )
    return HTMLResponse(html, 401)
