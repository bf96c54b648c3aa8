"""The text of an HTML page, without anything that runs or hides.

Only the page's words leave: scripts, styles, templates, frames and forms are dropped with all they hold, marks
are dropped, entities are read. The page's own date and title are found on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser

_DROPPED = frozenset(
    {
        "script",
        "style",
        "template",
        "noscript",
        "iframe",
        "object",
        "svg",
        "math",
        "textarea",
        "select",
        "button",
    }
)
_BLOCKS = frozenset(
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


@dataclass(frozen=True, slots=True)
class Page:
    """What an announcement says of itself."""

    title: str | None
    date: str | None
    code: str | None
    tags: tuple[str, ...]
    text: str


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.titles: list[str] = []
        self.headings: list[str] = []
        self.dates: list[str] = []
        self.metas: dict[str, str] = {}
        self._dropping: list[str] = []
        self._in: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _DROPPED:
            self._dropping.append(tag)
        elif tag == "meta":
            name = (given.get("name") or given.get("property") or "").lower()
            self.metas.setdefault(name, given.get("content", ""))
        elif tag == "time" and given.get("datetime"):
            self.dates.append(given["datetime"])
        elif tag in ("title", "h1"):
            self._in = tag
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._dropping and tag == self._dropping[-1]:
            self._dropping.pop()
        if tag == self._in:
            self._in = None
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._dropping:
            return
        if self._in == "title":
            self.titles.append(data)
            return
        if self._in == "h1":
            self.headings.append(data)
        self.pieces.append(data)


def read_page(html: str) -> Page:
    """Return the words of a page, with its date and title where it says them."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    named = [value for name, value in reader.metas.items() if name in _DATE_NAMES and value]
    codes = [value for name, value in reader.metas.items() if name in _CODE_NAMES and value]
    return Page(
        title=_joined(reader.titles) or _joined(reader.headings),
        date=next(iter([*named, *reader.dates]), None),
        code=next(iter(codes), None),
        tags=tuple(tag.strip() for tag in reader.metas.get("keywords", "").split(",")),
        text="\n".join(line for line in lines if line),
    )


def _joined(pieces: list[str]) -> str | None:
    return " ".join(" ".join(pieces).split()) or None
