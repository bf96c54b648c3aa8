"""A page as Markdown: its main part, its title and its links.

The main part is the page's `main` or `article`. A page without either is read by trafilatura, which
finds the text among menus; where that finds nothing, or nothing but words of a page with a table,
the whole body is the text. Parsing takes quadratic time for hostile pages in every library tried
(80 s for 130 kB), so pages are parsed in a process that is stopped at a deadline.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urldefrag, urljoin

from pydantic import BaseModel, ConfigDict

from wavewright.packs.web.addresses import MAX_URL_LENGTH
from wavewright.packs.web.encodings import decode_page
from wavewright.packs.web.guarded_client import WebAnswer
from wavewright.packs.web.processes import ProcessEndedError, call_in_process
from wavewright.tools import LogEvent, ToolError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

PARSE_SECONDS: Final = 10.0
MAX_LINKS: Final = 1_000

PLAIN_TYPES: Final = frozenset({"text/plain", "text/markdown"})
"""Types of pages that are returned as they are."""

_Source = TypeVar("_Source")
_Parsed = TypeVar("_Parsed")
_MAIN: Final = "main, [role=main], article"
_DROPPED: Final = (
    "body :is(script, style, noscript, template, nav, aside, footer, button, input, select, textarea, iframe, "
    "object, svg, math, form:not(:has(main, article, h1)), [hidden], [aria-hidden=true], [role=navigation])"
)
"""With `:is`, each node is found once. A form around the content is that of a whole page, as
ASP.NET makes it.
"""
_HIDING_STYLE: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_HEADER_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
_TABLES: Final = "table:has(th), dl"
"""Of data: a table without headings may lay out the page."""
_MARK: Final = re.compile(r"^\s*(?:#|\||[-*+] |\d+\. )", re.MULTILINE)
"""Of Markdown: a heading, a row or an item."""
_BLANK_LINES: Final = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class CrawlExecuted(LogEvent):
    """A page, or the pages of a site, have been fetched or taken from the cache, and read."""

    url: str
    """Of the page, or of the site."""
    characters: int
    """Of the texts."""
    seconds: float
    pages: int = 1
    left_out: int = 0
    """Pages that could not be read."""


class Link(BaseModel):
    """A link of a page."""

    model_config = ConfigDict(frozen=True)

    url: str
    """Absolute, without a fragment."""
    text: str


class Page(BaseModel):
    """A page as text."""

    model_config = ConfigDict(frozen=True)

    url: str
    """Where the page was found, after redirects."""
    title: str
    """Empty where the page has none."""
    text: str
    """Markdown."""
    links: list[Link]
    """Links of the text to other pages, each address once; 1,000 at most."""
    fetched_at: dt.datetime


async def read_answer(answer: WebAnswer, *, seconds: float = PARSE_SECONDS) -> Page:
    """Return the page that a server has answered with; it is parsed in another process.

    Raises:
        ToolError: parsing takes longer than `seconds`, or the process ends.
    """
    if answer.content_type in PLAIN_TYPES:
        return Page(
            url=answer.url, title="", text=decode(answer), links=[], fetched_at=answer.fetched_at
        )
    return await parsed(read_page, answer, what=answer.url, seconds=seconds)


async def parsed(
    read: Callable[[_Source], _Parsed],
    source: _Source,
    *,
    what: str,
    seconds: float = PARSE_SECONDS,
) -> _Parsed:
    """Return what a function of a module reads from pages, called in another process.

    Args:
        read: The function.
        source: What it is called with.
        what: What is parsed, for messages.
        seconds: Deadline of parsing.

    Raises:
        ToolError: it takes longer than `seconds`, or the process ends.
    """
    try:
        return await call_in_process(read, source, seconds=seconds)
    except TimeoutError as error:
        raise ToolError(
            f"{what} cannot be parsed within {seconds:g} s", hint="leave it out"
        ) from error
    except ProcessEndedError as error:
        raise ToolError(
            f"{what} cannot be parsed: its parser has crashed", hint="leave it out"
        ) from error


def read_page(answer: WebAnswer) -> Page:
    """Return the page of an HTML answer, in a time that depends on the page."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(decode(answer))
    titled = tree.css_first("title") or tree.css_first("h1")
    title = "" if titled is None else " ".join(titled.text().split())
    drop_hidden(tree, _DROPPED)
    main = max(tree.css(_MAIN), key=lambda node: len(node.text()), default=None)
    part = main or tree.body
    base_url = _base_url(tree, answer)
    links: dict[str, Link] = {}
    for anchor in [] if part is None else part.css("a[href]"):
        target = _absolute(base_url, anchor.attributes.get("href") or "")
        if target is not None and len(links) < MAX_LINKS:
            anchor.attrs["href"] = target
            links.setdefault(target, Link(url=target, text=" ".join(anchor.text().split())))
    text = _extracted_text(tree.html or "", answer.url) if main is None else ""
    has_table = part is not None and part.css_first(_TABLES) is not None
    if has_table and _MARK.search(text) is None:
        # Of a short page, trafilatura gives the words alone, without its tables.
        text = ""
    return Page(
        url=answer.url,
        title=title,
        text=text or _as_markdown("" if part is None else part.html or ""),
        links=[*links.values()],
        fetched_at=answer.fetched_at,
    )


def drop_hidden(tree: LexborHTMLParser, dropped: str) -> None:
    """Remove what a selector finds, and what a style hides."""
    # What lies within another goes first: a node must not be freed twice.
    for node in reversed(tree.css(dropped)):
        node.decompose()
    for node in reversed(tree.css("body [style]")):
        if _HIDING_STYLE.search(node.attributes.get("style") or ""):
            node.decompose()


def read_targets(answer: WebAnswer) -> list[str]:
    """Return the addresses that the whole of an HTML answer links to, menus included, each once;
    1,000 at most.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(decode(answer))
    base_url = _base_url(tree, answer)
    found = (
        _absolute(base_url, anchor.attributes.get("href") or "") for anchor in tree.css("a[href]")
    )
    return [*dict.fromkeys(target for target in found if target is not None)][:MAX_LINKS]


def _base_url(tree: LexborHTMLParser, answer: WebAnswer) -> str:
    base = tree.css_first("base[href]")
    found = None if base is None else _absolute(answer.url, base.attributes.get("href") or "")
    return found or answer.url


def decode(answer: WebAnswer) -> str:
    """Return a text, decoded by its byte order mark, header or `meta` element, else as UTF-8 or
    Windows-1252.
    """
    in_header = _HEADER_CHARSET.search(answer.headers.get("content-type", ""))
    return decode_page(answer.content, "" if in_header is None else in_header[1])


def _absolute(base: str, href: str) -> str | None:
    """Return the address that a link leads to; nothing where it is no page of the web."""
    try:
        target = urldefrag(urljoin(base, href.strip())).url
    except ValueError:
        return None
    return (
        target
        if target.startswith(("http://", "https://")) and len(target) <= MAX_URL_LENGTH
        else None
    )


def _extracted_text(html: str, url: str) -> str:
    from trafilatura import extract  # imports 60 MB of packages; most pages have a main element

    return (
        extract(html, url=url, output_format="markdown", include_links=True, favor_recall=True)
        or ""
    )


def _as_markdown(html: str) -> str:
    from markdownify import markdownify

    try:
        text = markdownify(html, heading_style="ATX", strip=["img"])
    except RecursionError:  # a page of some hundred nested elements
        from selectolax.lexbor import LexborHTMLParser

        body = LexborHTMLParser(html).body
        text = "" if body is None else body.text(separator="\n", strip=True)
    return _BLANK_LINES.sub("\n\n", text).strip()
