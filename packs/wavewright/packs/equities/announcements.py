"""Announcements from a folder of Markdown or HTML files with dates.

A file says its date and code in its front matter (`date:`, `code:`), in its page (`<meta
name="date">`, `<time datetime="…">`), or in its name (`2010-02-01_AAPL_results.md`), in this order.
Text is not trusted: scripts and marks never leave this module, and the tool's output is marked
untrusted.

Of an HTML page only the words are kept, as `extraction` reads its blocks; it is parsed in another
process, because a hostile page may take any time.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath

import anyio

from wavewright.config import install_hint, is_installed
from wavewright.packs.equities.documents import (
    Announcement,
    AnnouncementsDocument,
    SourceNote,
    one_line,
)
from wavewright.packs.equities.price_tables import parse_date
from wavewright.packs.extraction.structure import SourcePage, read_structure
from wavewright.packs.text.markdown_tables import counted
from wavewright.packs.web.pages import parsed
from wavewright.tools import Folder, PathRefused, ToolError

MAX_FILES = 10_000
MAX_FILE_BYTES = 2 * 2**20
MAX_TEXT = 20_000

_HTML = frozenset({".html", ".htm"})
_SUFFIXES = _HTML | {".md", ".markdown"}
_NAME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?!\d)(?:[_-](?P<code>[A-Za-z0-9.^=]+)(?=[_-]|\Z))?[_ -]?(?P<title>.*)"
)
_FIELD = re.compile(r"([A-Za-z_]+)\s*:\s*+(.*\S|)\s*")
_DATE_NAMES = frozenset({"date", "dc.date", "dcterms.date", "article:published_time", "pubdate"})
_CODE_NAMES = frozenset({"code", "symbol", "ticker"})
_FRONT_NAMES = _CODE_NAMES | {"date"}


@dataclass(frozen=True, slots=True)
class _PageText:
    """What an announcement says of itself."""

    title: str | None
    date: str | None
    code: str | None
    tags: tuple[str, ...]
    text: str


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
        return anyio.run(_read_files, folder, names, configured.rstrip("/"))


async def _read_files(
    folder: Folder, names: Sequence[str], shown: str
) -> tuple[list[tuple[str, Announcement]], list[str]]:
    found: list[tuple[str, Announcement]] = []
    warnings: list[str] = []
    for name in names:
        source = f"{shown}/{name}"
        try:
            found.append(_announcement(name, await _page_text(folder, name), source))
        except (PathRefused, ToolError) as error:
            reason = error.reason if isinstance(error, PathRefused) else error.message
            warnings.append(f"{source}: {reason}; it is left out")
    return found, warnings


async def _page_text(folder: Folder, name: str) -> _PageText:
    """Return what a file says; one in HTML is read in another process.

    Raises:
        PathRefused: it is too large, or no regular file.
        ToolError: it cannot be read.
    """
    try:
        text = folder.read(name, max_bytes=MAX_FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte 0x{error.object[error.start]:02x} at {error.start}"
        raise ToolError(f"{place} is not UTF-8") from error
    if PurePosixPath(name).suffix.lower() not in _HTML:
        return _read_markdown(text)
    if not is_installed("web"):
        raise ToolError(f"HTML is read with the extra 'web': {install_hint('web')}")
    return await parsed(_read_html, text, what="it")


def _announcement(name: str, page: _PageText, source: str) -> tuple[str, Announcement]:
    """Return the code of a company and what a file says of it.

    Raises:
        ToolError: it lacks its date or its company.
    """
    named = _NAME.fullmatch(PurePosixPath(name).stem)
    date_text = page.date or (named["date"] if named else None)
    if date_text is None:
        raise ToolError(
            "it has no date (write 'date:' in its front matter, or name it 2010-02-01_AAPL_title.md)"
        )
    date = parse_date(date_text)
    if date is None:
        raise ToolError(f"its date {date_text[:40]!r} cannot be read (write it as 2010-02-01)")
    code = page.code or (named["code"] if named else None)
    if code is None:
        raise ToolError(
            "it names no company (write 'code:' in its front matter, or name it 2010-02-01_AAPL_title.md)"
        )
    title_of_name = (named["title"] if named else "").replace("_", " ").replace("-", " ")
    title = page.title or title_of_name or name
    return code.strip().upper(), Announcement(
        date=date,
        title=" ".join(title.split())[:300],
        text=page.text if len(page.text) <= MAX_TEXT else page.text[:MAX_TEXT] + "\n[cut]",
        tags=[tag for tag in page.tags if tag],
        source=source,
    )


def _read_markdown(text: str) -> _PageText:
    """Return a Markdown file's text and what its front matter says: plain `name: value` lines, no
    YAML.

    Raises:
        ToolError: the front matter is not closed, so that nothing tells what belongs to it.
    """
    fields: dict[str, str] = {}
    body = text
    first, *lines = text.splitlines() or [""]
    if first.strip() == "---":
        end = next((n for n, line in enumerate(lines) if line.strip() in ("---", "...")), None)
        if end is not None:
            fields = _front_fields(lines[:end])
            body = "\n".join(lines[end + 1 :])
        elif _FRONT_NAMES & _front_fields(takewhile(_FIELD.fullmatch, lines)).keys():
            # A rule that begins the text has no fields below it.
            raise ToolError("its front matter is not closed (end it with a line '---')")
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


def _front_fields(lines: Iterable[str]) -> dict[str, str]:
    found = filter(None, map(_FIELD.fullmatch, lines))
    return {field[1].lower(): field[2].strip("'\"") for field in found}


def _content(code: str, items: list[Announcement]) -> str:
    if not items:
        return f"# {code}\n\nNo announcements.\n"
    lines = [f"- {item.date}: {one_line(item.title)}" for item in items]
    return "\n".join([f"# {code}", "", *lines, ""])


def _read_html(page: str) -> _PageText:
    """Return the words of a page, with its date and title where it says them."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page)
    structure = read_structure(SourcePage(url="", html=page))
    metas: dict[str, str] = {}
    for node in tree.css("meta[content]"):
        name = node.attributes.get("name") or node.attributes.get("property") or ""
        metas.setdefault(name.lower(), node.attributes.get("content") or "")
    dates = [value for name, value in metas.items() if name in _DATE_NAMES and value]
    dates += [node.attributes.get("datetime") or "" for node in tree.css("time[datetime]")]
    codes = [value for name, value in metas.items() if name in _CODE_NAMES and value]
    titled = tree.css_first("title")
    title = "" if titled is None else " ".join(titled.text().split())
    return _PageText(
        title=title or structure.title or None,
        date=next(filter(None, dates), None),
        code=next(iter(codes), None),
        tags=tuple(tag.strip() for tag in metas.get("keywords", "").split(",")),
        text="\n".join(block.text for block in structure.blocks),
    )
