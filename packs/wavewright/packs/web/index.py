"""Full-text indexes of pages, which are found by their titles and words; one of a folder that it
follows.

An index is kept in memory. That of a folder first reads, at each search, files that are new or have
changed (HTML, Markdown and plain text), and forgets those that are gone. SQLite's FTS5 ranks the
pages, with Porter's stemmer.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from wavewright.config import install_hint
from wavewright.packs.web.encodings import decode_page, decode_unlabelled
from wavewright.tools import ToolError

MAX_PAGES: Final = 20_000
MAX_PAGE_BYTES: Final = 2 * 2**20
"""Longer files are read up to here."""
SNIPPET_CHARS: Final = 300

_CANDIDATES: Final = 50
"""Pages that are ordered by their titles: the best ones by their words."""

_TITLE_WEIGHT: Final = 8.0
_HTML: Final = (".html", ".htm", ".xhtml")
_MARKDOWN: Final = (".md", ".markdown")
_WORD: Final = re.compile(r"\w+")
_MARKDOWN_TITLE: Final = re.compile(r"^#\s+(.(?:.*?\S)??)[^\S\n]*+#*+$", re.MULTILINE)
_STOP_WORDS: Final = frozenset(
    _WORD.findall(
        "a about after all also an and any are as at be because been but by can could did do does for from"
        " had has have he her his how i if in into is it its just like me more most my no not of on one only"
        " or other our out over she so some such than that the their them then there these they this to up us"
        " was we were what when where which who why will with would you your"
    )
)


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """A page as it is indexed."""

    path: str
    """Relative to the folder, with `/`; the address of a page of a site."""
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class PageMatch:
    """A page that a search has found."""

    path: str
    title: str
    snippet: str
    """Up to 300 characters of the page, from about the first word that the query has."""
    score: float
    """Higher is better; comparable within one search only."""


class PageIndex:
    """Pages that are found by their titles and words; safe to use from any thread."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        # Tools keep an index and have no end of their own, so the database is closed when the index
        # is forgotten.
        weakref.finalize(self, self._database.close)
        self._database.execute(
            "CREATE VIRTUAL TABLE page USING fts5"
            "(path UNINDEXED, title, text, tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        self._lock = threading.Lock()

    def replace(self, gone: Collection[str], pages: Iterable[IndexedPage]) -> None:
        """Forget the pages of some paths, then add others."""
        with self._lock:
            self._database.execute("BEGIN")
            try:
                self._database.executemany(
                    "DELETE FROM page WHERE path = ?", ((path,) for path in gone)
                )
                self._database.executemany(
                    "INSERT INTO page VALUES (?, ?, ?)",
                    ((page.path, page.title, page.text) for page in pages),
                )
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def search(self, query: str, limit: int) -> list[PageMatch]:
        """Return the best pages for a query, best first; a page need not have all of its words.

        Pages whose whole title is in the query precede others, those with the longest title first.
        """
        words = query_words(query)
        found = self._ranked(words, max(limit, _CANDIDATES)) if words else []
        found.sort(key=lambda scored: _named_words(scored[0].title, words), reverse=True)
        return [
            PageMatch(page.path, page.title, _snippet(page.text, words), score)
            for page, score in found[:limit]
        ]

    def _ranked(self, words: Sequence[str], limit: int) -> list[tuple[IndexedPage, float]]:
        """Return the best pages that have at least one of these words, with their scores."""
        with self._lock:
            rows = self._database.execute(
                "SELECT path, title, text, -bm25(page, 0, ?, 1) FROM page WHERE page MATCH ?"
                " ORDER BY 4 DESC, path LIMIT ?",
                (_TITLE_WEIGHT, " OR ".join(f'"{word}"' for word in words), limit),
            ).fetchall()
        return [(IndexedPage(path, title, text), score) for path, title, text, score in rows]


class FolderIndex:
    """The pages of one folder; safe to use from any thread."""

    def __init__(self, folder: Path, *, exclude: Collection[str] = ()) -> None:
        """Read nothing yet.

        Args:
            folder: Where the pages are, at any depth; hidden files and folders are left out.
            exclude: Patterns of relative paths that are left out, such as `drafts/*`; `*` matches
                `/`, too.
        """
        self._folder = folder
        self._exclude = tuple(exclude)
        self._pages = PageIndex()
        self._known = dict[str, tuple[int, int]]()
        self._lock = threading.Lock()

    def search(self, query: str, limit: int) -> list[PageMatch]:
        """Return the best pages for a query, as `PageIndex.search` does.

        Raises:
            ToolError: the folder does not exist, has more than 20,000 pages, or has HTML pages and
                the extra `web` is not installed.
        """
        with self._lock:
            self._update()
        return self._pages.search(query, limit)

    def _update(self) -> None:
        found = dict(self._files())
        changed = [path for path, state in found.items() if self._known.get(path) != state]
        gone = self._known.keys() - found.keys()
        if changed or gone:
            replaced = gone | (self._known.keys() & changed)
            self._pages.replace(replaced, (read_page(self._folder, path) for path in changed))
            self._known = found

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Return each file's relative path, with its time of change and size."""
        if not self._folder.is_dir():
            raise ToolError(
                f"there is no folder {str(self._folder)!r} to search",
                hint="fix 'folder' of the search settings",
            )
        for count, (path, entry) in enumerate(self._pages_below(str(self._folder), "")):
            if count == MAX_PAGES:
                raise ToolError(
                    f"{str(self._folder)!r} has more than {MAX_PAGES:,} pages",
                    hint="name a smaller folder, or leave parts out by 'exclude' of the search settings",
                )
            stat = entry.stat()
            yield path, (stat.st_mtime_ns, stat.st_size)

    def _pages_below(self, folder: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            path = prefix + entry.name
            if entry.name.startswith(".") or any(
                fnmatchcase(path, pattern) for pattern in self._exclude
            ):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._pages_below(entry.path, f"{path}/")
            elif entry.is_file(follow_symlinks=False) and path.lower().endswith(
                (*_HTML, *_MARKDOWN, ".txt")
            ):
                yield path, entry


def _named_words(title: str, words: Collection[str]) -> int:
    """Return how many words a title has that the query has as well; 0 where the query lacks one of
    them.
    """
    named = query_words(title)
    return len(named) if all(word in words for word in named) else 0


def _snippet(text: str, words: Collection[str]) -> str:
    first = re.search(rf"\b(?:{'|'.join(map(re.escape, words))})", text, re.IGNORECASE)
    start = 0 if first is None else text.rfind(". ", 0, first.start()) + 1
    return text[start : start + SNIPPET_CHARS].strip()


def query_words(query: str) -> list[str]:
    """Return the words of a query, each once, without English stop words unless there are no
    others.
    """
    words = [*dict.fromkeys(_WORD.findall(query.lower()))]
    return [word for word in words if word not in _STOP_WORDS] or words


def read_page(folder: Path, path: str) -> IndexedPage:
    """Return a file as a page, decoded as one of the web; what is no text becomes U+FFFD.

    The title is the first heading, else the page's `title`, else the file's name.
    """
    file = folder / path
    with file.open("rb") as stream:
        content = stream.read(MAX_PAGE_BYTES)
    is_html = path.lower().endswith(_HTML)
    # A `meta` element in a text of another kind is an example, and says nothing of it.
    source = decode_page(content) if is_html else decode_unlabelled(content)
    if is_html:
        title, text = read_html(source)
    else:
        title, text = (markdown_title(source) if path.lower().endswith(_MARKDOWN) else ""), source
    return IndexedPage(path, title or file.stem.replace("-", " "), " ".join(text.split()))


def markdown_title(text: str) -> str:
    """Return the first heading of a text; empty where it has none."""
    heading = _MARKDOWN_TITLE.search(text)
    return heading[1] if heading else ""


def read_html(source: str) -> tuple[str, str]:
    """Return title and text of a page, without its navigation.

    Raises:
        ToolError: the extra `web` is not installed.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise ToolError(
            "the extra 'web' is not installed, which reads HTML pages", hint=install_hint("web")
        ) from error

    tree = LexborHTMLParser(source)
    tree.strip_tags(["script", "style", "nav", "footer", "template"])
    body = tree.css_first("main") or tree.css_first("article") or tree.body
    heading = tree.css_first("h1") or tree.css_first("title")
    title = " ".join(heading.text().split()) if heading is not None else ""
    return title, body.text(separator=" ") if body is not None else ""
