"""The text of an HTML page, without anything that runs or hides.

Only the page's words leave: scripts, styles, templates, frames and forms are dropped with all they hold, marks
are dropped, entities are read. The page's own date and title are found on the way. Every page is read in time
that grows with its length and no faster, whatever it holds; the standard library's parser does not promise that
(https://github.com/python/cpython/issues/135462).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_RAW_TAGS = frozenset({"script", "style", "iframe", "noembed", "noframes", "xmp", "textarea"})
"""Elements that hold text up to their end mark, whatever that text looks like."""

_DROPPED_TAGS = frozenset({"template", "noscript", "object", "svg", "math", "select", "button"})
_BLOCK_TAGS = frozenset(
    {
        "p",
        "div",
        "br",
        "li",
        "tr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "section",
        "article",
        "table",
        "ul",
        "ol",
    }
    | {"header", "footer", "blockquote", "pre", "hr", "dt", "dd"}
)
_DATE_NAMES = frozenset({"date", "dc.date", "dcterms.date", "article:published_time", "pubdate"})
_CODE_NAMES = frozenset({"code", "symbol", "ticker"})

_OPENING = re.compile(r"<(?=[A-Za-z/!?])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9:-]*+")
_REST_OF_TAG = re.compile(r"""(?:[^"'>]++|"[^"]*+"|'[^']*+')*>""")
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]++))?""")
_RAW_ENDS = {name: re.compile(rf"</{name}\b[^>]*+>", re.IGNORECASE) for name in _RAW_TAGS}

_MAX_STRAY_QUOTES = 100
"""Tags whose quotes do not pair; each costs a look to the page's end, so a page with more is read no further."""

_MAX_ATTRIBUTES = 4096


@dataclass(frozen=True, slots=True)
class PageText:
    """What an announcement says of itself."""

    title: str | None
    date: str | None
    code: str | None
    tags: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _HtmlToken:
    kind: Literal["text", "start", "end"]
    text: str
    """The words, or the element's name in lower case."""
    attributes: str = ""


def read_page(page: str) -> PageText:
    """Return the words of a page, with its date and title where it says them."""
    reader = _PageReader()
    for token in _tokens(page):
        reader.feed(token)
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    named = [value for name, value in reader.metas.items() if name in _DATE_NAMES and value]
    codes = [value for name, value in reader.metas.items() if name in _CODE_NAMES and value]
    return PageText(
        title=_joined(reader.titles) or _joined(reader.headings),
        date=next(iter([*named, *reader.dates]), None),
        code=next(iter(codes), None),
        tags=tuple(tag.strip() for tag in reader.metas.get("keywords", "").split(",")),
        text="\n".join(line for line in lines if line),
    )


class _PageReader:
    """Collects what of a page's tokens is kept."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.titles: list[str] = []
        self.headings: list[str] = []
        self.dates: list[str] = []
        self.metas: dict[str, str] = {}
        self._dropping: list[str] = []
        self._inside: str | None = None

    def feed(self, token: _HtmlToken) -> None:
        match token.kind:
            case "text":
                self._on_text(token.text)
            case "start":
                self._on_start(token)
            case "end":
                self._on_end(token.text)

    def _on_text(self, text: str) -> None:
        if self._dropping:
            return
        words = html.unescape(text)
        if self._inside == "title":
            self.titles.append(words)
            return
        if self._inside == "h1":
            self.headings.append(words)
        self.pieces.append(words)

    def _on_start(self, token: _HtmlToken) -> None:
        name = token.text
        if name in _DROPPED_TAGS:
            self._dropping.append(name)
        elif name == "meta":
            given = _attributes(token.attributes)
            self.metas.setdefault(
                (given.get("name") or given.get("property") or "").lower(), given.get("content", "")
            )
        elif name == "time":
            self.dates += [date for date in [_attributes(token.attributes).get("datetime")] if date]
        elif name in ("title", "h1"):
            self._inside = name
        if name in _BLOCK_TAGS:
            self.pieces.append("\n")

    def _on_end(self, name: str) -> None:
        if self._dropping and name == self._dropping[-1]:
            self._dropping.pop()
        if name == self._inside:
            self._inside = None
        if name in _BLOCK_TAGS:
            self.pieces.append("\n")


def _tokens(page: str) -> Iterator[_HtmlToken]:
    """Yield text and tags in order; what cannot be closed ends the page, as browsers have it."""
    position, stray = 0, 0
    while opening := _OPENING.search(page, position):
        if opening.start() > position:
            yield _HtmlToken("text", page[position : opening.start()])
        start = opening.end()
        if page.startswith("!--", start):
            position = _after(page, "-->", start)
        elif page[start] in "!?":
            position = _after(page, ">", start)
        else:
            closing = page[start] == "/"
            named = _NAME.match(page, start + closing)
            end = _REST_OF_TAG.match(page, named.end() if named else start)
            stray += end is None
            if stray > _MAX_STRAY_QUOTES:
                return
            position = end.end() if end else _after(page, ">", start)
            if named is None or position > len(page):
                continue
            name = named[0].lower()
            yield _HtmlToken("end" if closing else "start", name, page[named.end() : position - 1])
            if name in _RAW_TAGS and not closing:
                raw_end = _RAW_ENDS[name].search(page, position)
                position = raw_end.end() if raw_end else len(page)
    if position < len(page):
        yield _HtmlToken("text", page[position:])


def _after(page: str, mark: str, start: int) -> int:
    """Return the position after a mark; one past the page's end where there is none."""
    found = page.find(mark, start)
    return found + len(mark) if found >= 0 else len(page) + 1


def _attributes(text: str) -> dict[str, str]:
    return {
        found[1].lower(): html.unescape((found[2] or "").strip("\"'"))
        for found in _ATTRIBUTE.finditer(text[:_MAX_ATTRIBUTES])
    }


def _joined(pieces: list[str]) -> str | None:
    return " ".join(" ".join(pieces).split()) or None
