"""Announcements from a folder of Markdown or HTML files with dates.

A file says its date and code in its front matter (`date:`, `code:`), in its page (`<meta
name="date">`, `<time datetime="…">`), or in its name (`2010-02-01_AAPL_results.md`), in this order.
Text is not trusted: scripts and marks never leave this module, and the tool's output is marked
untrusted.

Of an HTML page only the words are kept: scripts, styles, templates, frames and forms are dropped
with all they hold, marks are dropped, entities are read. Every page is read in time that grows with
its length and no faster, whatever it holds; the standard library's parser does not promise that
(https://github.com/python/cpython/issues/135462).
"""

from __future__ import annotations

import datetime as dt
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from wavewright.packs.equities.documents import (
    Announcement,
    AnnouncementsDocument,
    SourceNote,
    one_line,
)
from wavewright.packs.equities.prices import parse_date
from wavewright.packs.text.markdown_tables import counted
from wavewright.tools import Folder, PathRefused, ToolError

MAX_FILES = 10_000
MAX_FILE_BYTES = 2 * 2**20
MAX_TEXT = 20_000

_SUFFIXES = frozenset({".md", ".markdown", ".html", ".htm"})
_NAME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[_-](?P<code>[A-Za-z0-9.^=]+)(?:[_-](?P<title>.+))?"
)
_FIELD = re.compile(r"([A-Za-z_]+)\s*:\s*(.*?)\s*")


def read_announcements(
    configured: str | None,
    root: Path,
    *,
    code: str,
    days: int,
    limit: int,
    now: dt.datetime,
    exchange: str,
) -> AnnouncementsDocument:
    """Return a company's announcements of the days up to now, latest first.

    A file that cannot be used (no date, no code, not UTF-8) is left out with a warning: it may not
    be this company's, and an undated one may be of the future.

    Raises:
        ToolError: no folder is configured, or the configured one is not there.
    """
    if configured is None:
        raise ToolError(
            "no announcements are configured",
            hint="set 'announcements' for the pack 'equities' to a folder of Markdown or HTML files, "
            "such as 2010-02-01_AAPL_results.md",
        )
    found, warnings = _read_folder(configured, root)
    today = now.astimezone(dt.UTC).date()
    since = today - dt.timedelta(days=min(days, (today - dt.date.min).days))
    fitting = [item for owner, item in found if owner == code and since <= item.date <= today]
    fitting.sort(key=lambda item: (-item.date.toordinal(), item.source))
    if len(fitting) > limit:
        warnings.append(
            f"{code}: {counted(len(fitting) - limit, 'older announcement')} left out by the limit of {limit}"
        )
    items = fitting[:limit]
    return AnnouncementsDocument(
        id=f"{exchange}:{code}:announcements",
        kind="announcements",
        title=f"{code}: {counted(len(items), 'announcement')} since {since}",
        tags=["announcements", code.lower()],
        content=_content(code, items),
        code=code,
        as_of=items[0].date if items else None,
        items=items,
        sources=[
            SourceNote(name=f"announcement of {code}", location=item.source, as_of=item.date)
            for item in items
        ],
        warnings=warnings,
    )


def _read_folder(configured: str, root: Path) -> tuple[list[tuple[str, Announcement]], list[str]]:
    """Return the announcements with the codes of their companies, and why other files are left out."""
    try:
        folder = Folder(root / Path(configured).expanduser())
    except OSError as error:
        raise ToolError(
            f"{configured}: the folder of announcements cannot be opened: {(error.strerror or '').lower()}",
            hint=f"create the folder, or fix 'announcements'; it was searched at {root / configured}",
        ) from error
    found: list[tuple[str, Announcement]] = []
    warnings: list[str] = []
    with folder:
        names = [
            entry.name
            for entry in folder.entries()
            if entry.is_file and PurePosixPath(entry.name).suffix.lower() in _SUFFIXES
        ]
        if len(names) > MAX_FILES:
            raise ToolError(
                f"{configured}: {len(names):,} announcement files, more than {MAX_FILES:,}",
                hint="split the folder, one for each job",
            )
        for name in names:
            source = f"{configured.rstrip('/')}/{name}"
            read = _read_file(folder, name, source)
            if isinstance(read, str):
                warnings.append(f"{source}: {read}; it is left out")
            else:
                found.append(read)
    return found, warnings


def _read_file(folder: Folder, name: str, source: str) -> tuple[str, Announcement] | str:
    """Return the code of a company and what the file says of it, or why it cannot be used."""
    try:
        text = folder.read(name, max_bytes=MAX_FILE_BYTES).decode("utf-8-sig")
    except PathRefused as error:
        return error.reason
    except UnicodeDecodeError as error:
        return f"byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8"
    is_page = PurePosixPath(name).suffix.lower() in (".html", ".htm")
    page = _read_page(text) if is_page else _read_markdown(text)
    named = _NAME.fullmatch(PurePosixPath(name).stem)
    date_text = page.date or (named["date"] if named else None)
    if date_text is None:
        return "it has no date (write 'date:' in its front matter, or name it 2010-02-01_AAPL_title.md)"
    date = parse_date(date_text)
    if date is None:
        return f"its date {date_text[:40]!r} cannot be read (write it as 2010-02-01)"
    code = page.code or (named["code"] if named else None)
    if code is None:
        return "it names no company (write 'code:' in its front matter, or name it 2010-02-01_AAPL_title.md)"
    given_title = (
        page.title or (named["title"] or "").replace("_", " ").replace("-", " ")
        if named
        else page.title
    )
    return code.strip().upper(), Announcement(
        date=date,
        title=" ".join((given_title or name).split())[:300],
        text=page.text if len(page.text) <= MAX_TEXT else page.text[:MAX_TEXT] + "\n[cut]",
        tags=[tag for tag in page.tags if tag],
        source=source,
    )


def _read_markdown(text: str) -> _PageText:
    """Return a Markdown file's text and what its front matter says: plain `name: value` lines, no
    YAML.
    """
    fields: dict[str, str] = {}
    body = text
    lines = text.splitlines()
    if lines and lines[0].strip() == "---":
        ends = [
            number
            for number, line in enumerate(lines[1:], start=1)
            if line.strip() in ("---", "...")
        ]
        if ends:
            for line in lines[1 : ends[0]]:
                matched = _FIELD.fullmatch(line)
                if matched:
                    fields[matched[1].lower()] = matched[2].strip("'\"")
            body = "\n".join(lines[ends[0] + 1 :])
    heading = next(
        (line.lstrip("# ").strip() for line in body.splitlines() if line.startswith("#")), None
    )
    return _PageText(
        title=fields.get("title") or heading,
        date=fields.get("date"),
        code=fields.get("code") or fields.get("symbol") or fields.get("ticker"),
        tags=tuple(tag.strip(" '\"") for tag in fields.get("tags", "").strip("[]").split(",")),
        text=body.strip(),
    )


def _content(code: str, items: list[Announcement]) -> str:
    if not items:
        return f"# {code}\n\nNo announcements.\n"
    lines = [f"- {item.date}: {one_line(item.title)}" for item in items]
    return "\n".join([f"# {code}", "", *lines, ""])


_RAW_TAGS = frozenset({"script", "style", "iframe", "noembed", "noframes", "xmp", "textarea"})
"""Elements that hold text up to their end mark, whatever that text looks like."""

_DROPPED_TAGS = frozenset({"template", "noscript", "object", "svg", "math", "select", "button"})
_BLOCK_NAMES = "p div br li tr h1 h2 h3 h4 h5 h6 section article table ul ol header footer blockquote pre hr dt dd"
_BLOCK_TAGS = frozenset(_BLOCK_NAMES.split())
_DATE_NAMES = frozenset({"date", "dc.date", "dcterms.date", "article:published_time", "pubdate"})
_CODE_NAMES = frozenset({"code", "symbol", "ticker"})

_OPENING = re.compile(r"<(?=[A-Za-z/!?])")
_ELEMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9:-]*+")
_REST_OF_TAG = re.compile(r"""(?:[^"'>]++|"[^"]*+"|'[^']*+')*>""")
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]++))?""")
_RAW_ENDS = {name: re.compile(rf"</{name}\b[^>]*+>", re.IGNORECASE) for name in _RAW_TAGS}

_MAX_STRAY_QUOTES = 100
"""Tags whose quotes do not pair; each costs a look to the page's end, so a page with more is read
no further.
"""

_MAX_ATTRIBUTES = 4096


@dataclass(frozen=True, slots=True)
class _PageText:
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


def _read_page(page: str) -> _PageText:
    """Return the words of a page, with its date and title where it says them."""
    reader = _PageReader()
    for token in _tokens(page):
        reader.feed(token)
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    named = [value for name, value in reader.metas.items() if name in _DATE_NAMES and value]
    codes = [value for name, value in reader.metas.items() if name in _CODE_NAMES and value]
    return _PageText(
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
            named = _ELEMENT_NAME.match(page, start + closing)
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
