"""What all pages that this process serves have in common: how they are made.

A page is made of a template with its filters, and loads style, script and icon. Its links begin
with the prefix at which a proxy offers it, and it shows who looks at it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from jinja2 import Environment
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from wavewright.config import WavewrightError
from wavewright.config.value_types import PersonName
from wavewright.engine.interfaces.view.people import viewer_of
from wavewright.engine.rehearsal.dry_run.text import dollars_text, tokens_text
from wavewright.prompts import page_environment
from wavewright.reviewer.report.page import made_visible, pretty_json, spaced, style_sheet
from wavewright.reviewer.values import duration_text, iso_of_epoch


class Person(BaseModel):
    """Who says that they do something."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: PersonName


def asset_routes() -> list[Route]:
    """Return where style, icon and scripts of all pages are served."""
    return [Route(path, partial(_asset, path)) for path in ASSETS]


def base_of(request: Request) -> str:
    """Return what the paths of all links begin with; it has no slash at its end."""
    base: str = request.scope.get("root_path", "")
    return base


def page(request: Request, template: str, code: int = 200, /, **values: object) -> Response:
    """Return the answer with a page, or with its `error` alone where a program is refused."""
    if code >= HTTPStatus.BAD_REQUEST and is_asked_for_json(request):
        return JSONResponse({"error": values["error"]}, code)
    shown = {"base": base_of(request), "viewer": viewer_of(request), **values}
    return HTMLResponse(render(template, **shown), code)


_TITLES: Final = {
    403: "Not allowed", 404: "No such page", 405: "Nothing to do here", 421: "Another address",
    429: "Too many requests",
}  # fmt: skip


def refusal(request: Request, error: Exception) -> Response:
    """Return why a request is refused."""
    assert isinstance(error, HTTPException)
    path = request.scope["path"].removeprefix(base_of(request))
    reason = error.detail
    if reason == HTTPStatus(error.status_code).phrase:
        reason = f"{request.method} {path}: {reason.lower()}"
    title = _TITLES.get(error.status_code, "Refused")
    answer = page(request, "missing.html.j2", error.status_code, title=title, error=reason)
    answer.headers.update(error.headers or {})
    return answer


def is_asked_for_json(request: Request) -> bool:
    """Return whether a program asks: it asks the API, or accepts JSON and no pages."""
    path = request.scope["path"].removeprefix(base_of(request))
    accepted = request.headers.get("accept", "")
    prefers_json = "application/json" in accepted and "text/html" not in accepted
    return f"{path}/".startswith("/api/") or prefers_json


def lead_to(request: Request, path: str) -> Response:
    """Return the answer that leads to another page, given its path below the prefix."""
    return RedirectResponse(f"{base_of(request)}{path}", 303)


def signature(request: Request, typed: object) -> str:
    """Return who does something that a form asks for, given the name that was typed in it.

    Raises:
        ValidationError: it is no name.
    """
    claimed = Person(by=str(typed or "view"))
    return viewer_of(request).identity(claimed.by)


async def steered(
    request: Request,
    act: Callable[[str], Awaitable[object]],
    refused: Callable[[Request, str, int], Awaitable[Response]],
    place: str,
) -> Response:
    """Do what a form asks for, in the name of the person that it gives, and lead to a place; a
    refusal is shown on the page.
    """
    form = await request.form()
    try:
        await act(signature(request, form.get("by")))
    except (WavewrightError, ValidationError) as error:
        return await refused(request, *refusal_of(error))
    return lead_to(request, place)


def render(template: str, /, **values: object) -> str:
    """Return a template as HTML."""
    return _environment().get_template(template).render(**values)


def reason_of(error: WavewrightError | ValidationError) -> str:
    """Return what is wrong and the fix in one line, each field of an answer with its fault."""
    if isinstance(error, WavewrightError):
        return f"{error} ({error.hint})" if error.hint else str(error)
    return "; ".join(map(_fault_text, error.errors()))


def _fault_text(fault: ErrorDetails) -> str:
    if not fault["loc"]:
        return fault["msg"]
    if fault["type"] == "extra_forbidden":
        return f"`{fault['loc'][0]}`: there is no such field"
    return f"`{fault['loc'][0]}`: {fault['msg']}"


def refusal_of(error: WavewrightError | ValidationError) -> tuple[str, int]:
    """Return what is wrong with what was asked, and the status of the answer."""
    return reason_of(error), 409 if isinstance(error, WavewrightError) else 422


@cache
def _environment() -> Environment:
    return page_environment(
        "wavewright.engine.interfaces.view",
        "pages",
        trims=True,
        finalize=made_visible,
        filters={
            "instant": _instant_text,
            "words": spaced,
            "duration": duration_text,
            "whole": tokens_text,
            "dollars": dollars_text,
            "pretty": pretty_json,
        },
    )


def _instant_text(seconds: float) -> str:
    return iso_of_epoch(seconds)[:19].replace("T", " ")


def _asset(path: str, request: Request) -> Response:
    del request
    name, media_type = ASSETS[path]
    file = files("wavewright.engine.interfaces.view").joinpath("pages", name)
    before = style_sheet() if path == "/style.css" else ""
    return Response(before + file.read_text(encoding="utf-8"), media_type=media_type)


ASSETS: Final = {
    "/style.css": ("view.css", "text/css"),
    "/favicon.svg": ("icon.svg", "image/svg+xml"),
    "/view.js": ("view.js", "text/javascript"),
    "/streams.js": ("streams.js", "text/javascript"),
}
"""The files of pages and their types, by the paths at which they are served."""
