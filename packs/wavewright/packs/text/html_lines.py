"""The lines that a page of HTML shows, each with its place in the source.

A row of a table is a line of cells between bars, as in Markdown; a term and its definition are a
row of two; any other block is a line of its own. An empty line ends each table and each list. Tags
may be left open, as HTML allows.

Parsers of trees do not say where in the source a thing stands, and the standard library's takes
minutes for a hostile page of 100 KB; one pass over the tags does neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import unescape
from typing import Final

from wavewright.config import Span

_BLOCKS: Final = frozenset(
    {
        "address", "article", "aside", "blockquote", "caption", "dd", "div", "dl", "dt", "figcaption",
        "h1", "h2", "h3", "h4", "h5", "h6", "header", "li", "main", "ol", "p", "pre", "section", "ul",
    }
)  # fmt: skip
_LISTS: Final = frozenset({"dl", "ol", "ul"})
_UNSEEN: Final = frozenset({"script", "style", "template", "noscript"})
_TAG: Final = re.compile(
    rf"</?(?:table|t[rhd]|{'|'.join(sorted(_BLOCKS))})(?![\w-])[^<>]*>", re.IGNORECASE
)
_TOKEN: Final = re.compile(
    r"<!--|-->|<(?P<end>/?)(?P<tag>[A-Za-z][A-Za-z0-9]*+)(?P<attributes>[^<>]*+)>"
)
_ROWSPAN: Final = re.compile(r"""\browspan\s*=\s*["']?(\d{1,3})\b""", re.IGNORECASE)
_BAR: Final = "\\|"
"""A bar within a cell."""

Line = tuple[str, Span]
_END: Final[Line] = ("", Span(0, 0))


def html_lines(text: str) -> list[Line]:
    """Return the lines of a text that is HTML or holds some; none where it has no tag of a block."""
    if not has_block_tag(text):
        return []
    return _LineReader(text).read()


def has_block_tag(text: str) -> bool:
    """Whether a text has a tag of HTML that begins or ends a line."""
    return _TAG.search(text) is not None


@dataclass(slots=True)
class _Table:
    """A table that is being read."""

    lines: list[Line] = field(default_factory=list[Line])
    cells: list[str] | None = None
    """Of the row that is open."""
    row_start: int = 0
    is_in_cell: bool = False
    rowspan: int = 1
    """Of the cell that is open."""
    spanning: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])
    """Cells that reach into rows below: how many of them, and the text, by column."""
    text_around: list[str] = field(default_factory=list[str])
    """Text before the table in the cell of the table around it."""

    def add_spanning(self) -> None:
        """Add the cells of rows above that stand before the next cell of this row."""
        assert self.cells is not None
        while (spanned := self.spanning.pop(len(self.cells), None)) is not None:
            rows, text = spanned
            if rows > 1:
                self.spanning[len(self.cells)] = (rows - 1, text)
            self.cells.append(text)


class _LineReader:
    """Gathers lines while the source is read."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: list[Line] = []
        self._tables: list[_Table] = []
        self._text: list[str] = []
        self._text_start = 0
        self._block = ""
        """Tag of the block that is open."""
        self._term: tuple[str, int] | None = None
        """A term before its definition, and where it begins."""

    def read(self) -> list[Line]:
        """Return the lines."""
        position = 0
        ends_unseen = ""
        for token in _TOKEN.finditer(self._source):
            tag = (token["tag"] or "").lower()
            name = token[0] if token["tag"] is None else f"{token['end']}{tag}"
            if ends_unseen:
                ends_unseen = "" if name == ends_unseen else ends_unseen
            else:
                self._add_text(position, token.start())
                if name == "<!--":
                    ends_unseen = "-->"
                elif name in _UNSEEN:
                    ends_unseen = f"/{name}"
                elif token["end"]:
                    self._end(tag, token)
                else:
                    self._begin(tag, token)
            position = token.end()
        if not ends_unseen:
            self._add_text(position, len(self._source))
        while self._tables:
            self._end_table(len(self._source))
        self._end_block(len(self._source))
        return self._lines

    def _begin(self, tag: str, token: re.Match[str]) -> None:
        place = token.start()
        if tag == "table":
            if not self._tables:
                self._end_block(place)
            self._tables.append(_Table(text_around=self._text))
            self._text = []
        elif tag == "tr" and self._tables:
            self._end_row(place)
            self._tables[-1].cells, self._tables[-1].row_start = [], place
        elif tag in {"td", "th"} and self._tables and self._tables[-1].cells is not None:
            self._end_cell()
            self._tables[-1].is_in_cell = True
            rowspan = _ROWSPAN.search(token["attributes"])
            self._tables[-1].rowspan = 1 if rowspan is None else int(rowspan[1])
        elif tag in _BLOCKS or tag == "br":
            self._end_block(place)
            self._block = self._block if tag == "br" else tag

    def _end(self, tag: str, token: re.Match[str]) -> None:
        if tag == "table" and self._tables:
            self._end_table(token.start())
        elif tag == "tr" and self._tables:
            self._end_row(token.end())
        elif tag in {"td", "th"} and self._tables:
            self._end_cell()
        elif tag in _BLOCKS:
            self._end_block(token.start())
            self._block = ""
            if tag in _LISTS and not self._tables:
                self._lines.append(_END)

    def _add_text(self, start: int, end: int) -> None:
        text = self._source[start:end]
        if not text.strip() and not self._text:
            return
        if not self._text:
            self._text_start = start + len(text) - len(text.lstrip())
        self._text.append(unescape(text))

    def _take_text(self) -> str:
        text = " ".join("".join(self._text).split())
        self._text = []
        return text

    def _end_cell(self) -> None:
        table = self._tables[-1]
        if table.cells is None or not table.is_in_cell:
            self._text = []  # what stands between rows and cells is shown nowhere in the table
            return
        table.add_spanning()
        text = self._take_text()
        if table.rowspan > 1:
            table.spanning[len(table.cells)] = (table.rowspan - 1, text)
        table.cells.append(text)
        table.is_in_cell = False

    def _end_row(self, end: int) -> None:
        table = self._tables[-1]
        self._end_cell()
        if table.cells:
            table.add_spanning()
            span = Span(table.row_start, _end_of_text(self._source, table.row_start, end))
            table.lines.append((_row(table.cells), span))
        table.cells = None

    def _end_table(self, end: int) -> None:
        self._end_row(end)
        # The rows of a table within a cell are no rows of the table around it.
        table = self._tables.pop()
        self._lines += [_END, *table.lines, _END]
        self._text = table.text_around

    def _end_block(self, end: int) -> None:
        if self._tables:
            self._text.append(" ")
            return
        text = self._take_text()
        if not text:
            return
        span = Span(self._text_start, _end_of_text(self._source, self._text_start, end))
        if self._block == "dt":
            self._term = (text.rstrip(": "), span.start)
        elif self._block == "dd" and self._term is not None:
            term, start = self._term
            self._lines.append((_row((term, text)), Span(start, span.end)))
            self._term = None
        elif self._block or "\n" not in self._source[span.start : span.end]:
            # Several lines outside of every block are Markdown, which is read as it is.
            self._lines.append((text, span))


def _row(cells: Iterable[str]) -> str:
    """Return a row of cells as Markdown writes it."""
    return f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |"


def _end_of_text(source: str, start: int, end: int) -> int:
    """Return where the text before a place ends, without white space."""
    return start + len(source[start:end].rstrip())
