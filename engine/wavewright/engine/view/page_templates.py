"""How pages are made: templates with their filters, and the style, script and icon that they load."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import cast

from jinja2 import Environment
from markupsafe import Markup
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from wavewright.config.errors import WavewrightError
from wavewright.engine.dry_run.text import dollars_text, tokens_text
from wavewright.prompts.environments import page_environment
from wavewright.reviewer.report.page import pretty_json, style_sheet
from wavewright.reviewer.values import duration_text, iso_of_epoch, visible


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
        f"`{fault['loc'][0]}`: {fault['msg']}" if fault["loc"] else fault["msg"] for fault in error.errors()
    )


@cache
def _environment() -> Environment:
    environment = page_environment("wavewright.engine", "pages/view", trims=True, finalize=_shown)
    filters = cast("dict[str, Callable[..., object]]", environment.filters)
    filters |= {
        "instant": _instant_text,
        "words": _words,
        "duration": duration_text,
        "whole": tokens_text,
        "dollars": dollars_text,
        "pretty": pretty_json,
    }
    return environment


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _instant_text(seconds: float) -> str:
    return iso_of_epoch(seconds)[:19].replace("T", " ")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _asset(name: str) -> str:
    return files("wavewright.engine").joinpath("pages", "view", name).read_text(encoding="utf-8")


def _style(request: Request) -> Response:
    del request
    return Response(style_sheet() + _asset("view.css"), media_type="text/css")


def _script(request: Request) -> Response:
    del request
    return Response(_asset("view.js"), media_type="text/javascript")


def _icon(request: Request) -> Response:
    del request
    return Response(_asset("icon.svg"), media_type="image/svg+xml")
