"""A page as blocks of text in their order, each with its heading, its links and, for a row, its
label.

Headings, paragraphs, list items, quotes and the rows of info boxes and tables are told apart; what
is hidden, and what is the same on every page of a site, is left out. Where a page is only known as
Markdown, that is read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urldefrag, urljoin

from pydantic import BaseModel, ConfigDict

from wavewright.packs.extraction.blocks import (
    TASK_BOX,
    Block,
    BlockKind,
    BlockLink,
    PageStructure,
    word_set,
)
from wavewright.packs.web.pages import drop_hidden

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from selectolax.lexbor import LexborNode

MAX_DEPTH: Final = 200
"""Of nested elements; what lies deeper is left out."""
MAX_BLOCKS: Final = 20_000

_DROPPED: Final = (
    "script, style, noscript, template, head > *:not(title), nav, footer, button, input, select, textarea, iframe, "
    "object, svg, math, sup.reference, .mw-editsection, .toc, #toc, .navbox, [hidden], "
    "[aria-hidden=true], [class*=breadcrumb], [class*=catlinks], [class*=categories], "
    "[role=navigation], aside:not(:has(dl, table, [class*=infobox], [class*=pi-])), "
    ":is([class*=sidebar], [id*=sidebar], [class*=pagination], [class*=navigation], [class*=footer], [id*=footer], "
    "[class*=menu], [class*=toctree]):not(body):not(:has(h1, main, article, [class*=infobox]))"
)
_TRAIL: Final = (
    "[class*=breadcrumb] a, [class*=breadcrumb] li, [class*=breadcrumb] span, [aria-label*=readcrumb] a, "
    "#catlinks a, [class*=catlinks] a, [class*=categories] a, a[rel~=tag], a[href*='Category:']"
)
_MAIN: Final = "main, [role=main], article, #mw-content-text, #content"
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_CONTAINER_TAGS: Final = (
    "address article aside body center dd details div dl dt fieldset figure figcaption form header li main ol p "
    "pre section summary table tbody td tfoot th thead tr ul blockquote caption"
)
_CONTAINERS: Final = frozenset(_CONTAINER_TAGS.split())
_FIELD_COLUMNS: Final = frozenset(
    {"property", "field", "attribute", "detail", "stat", "key", "info", ""}
)
"""Headings of the first column of a table of two that is an info box."""
_VALUED_COLUMNS: Final = word_set(
    "name item parameter setting option variable metric measure quantity"
)
"""Headings of the first column of a table of two that is an info box where the second is `Value`:
`Ship` and `Value` is a table of ships.
"""
MAX_LABEL: Final = 40
"""Characters of a row's label."""
_MAX_ROWSPAN: Final = 1_000
_DEFINITION: Final = re.compile(
    rf"^(?P<term>[^\W_][^\n]{{0,{MAX_LABEL}}}?):?\n(?:[ \t]*\n)?: +(?P<value>\S[^\n]*)$",
    re.MULTILINE,
)
"""An entry of a list of definitions, which Markdown itself does not know."""
_TASK: Final = re.compile(
    rf"^(?P<mark>[ \t]*(?:[-*+]|\d{{1,9}}[.)])[ \t]+){TASK_BOX}", re.MULTILINE
)
"""The beginning of a list item that is a task; its box is no word of it."""
_LINE_OF_LABEL: Final = re.compile(
    rf"(?<=\S)\n(?=\*\*[^*\n]{{1,{MAX_LABEL}}}(?::\*\*|\*\*:)[ \t]*\S)"
)
"""The end of a line above one that begins with a label in bold: of an info box, which is no prose."""


class SourcePage(BaseModel):
    """A page that was read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    title: str = ""
    text: str = ""
    """Markdown; read where there is no `html`."""
    html: str = ""


def read_structure(page: SourcePage) -> PageStructure:
    """Return a page as its parts, in a time that depends on the page: hostile pages belong into
    another process.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page.html or _html_of_markdown(page.text))
    titled = tree.css_first("title")
    site_title = page.title or ("" if titled is None else _squeeze(titled.text()))
    trail = [_squeeze(node.text()) for node in tree.css(_TRAIL)]
    drop_hidden(tree, _DROPPED)
    main = max(tree.css(_MAIN), key=lambda node: len(node.text()), default=tree.body)
    heading = None if main is None else main.css_first("h1")
    heading = heading or tree.css_first("h1")
    title = "" if heading is None else _squeeze(heading.text())
    base = tree.css_first("base[href]")
    base_url = page.url if base is None else urljoin(page.url, base.attributes.get("href") or "")
    reader = _BlockReader(base_url, title)
    if main is not None:
        reader.read(main)
    return PageStructure(
        page.url,
        title or site_title,
        tuple(name for name in dict.fromkeys(trail) if name),
        tuple(reader.blocks),
    )


def _html_of_markdown(text: str) -> str:
    text = _LINE_OF_LABEL.sub("  \n", text)
    text = _TASK.sub(r"\g<mark>", _DEFINITION.sub(r"**\g<term>:** \g<value>\n", text))
    return str(_markdown_parser().render(text))


@cache
def _markdown_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _squeeze(text: str) -> str:
    return " ".join(text.split())


@dataclass(slots=True)
class _Line:
    """Text that is being read, without white space that means nothing, and the links in it."""

    text: str = ""
    links: list[BlockLink] = field(default_factory=list[BlockLink])
    strong: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Texts in bold, with their places."""

    def add(self, text: str) -> None:
        if text[:1].isspace() and self.text and not self.text[-1].isspace():
            self.text += " "
        words = " ".join(text.split())
        if words:
            self.text += words + (" " if text[-1].isspace() else "")

    def end_line(self) -> None:
        self.text = self.text.rstrip() + "\n"

    @property
    def bold_beginning(self) -> str:
        """The text in bold that it begins with."""
        start, words = self.strong[0] if self.strong else (0, "")
        return "" if self.text[:start].strip() else words

    def lines(self) -> Iterator[_Line]:
        """Yield its lines, each as one of its own."""
        place = 0
        for text in self.text.split("\n"):
            end = place + len(text)
            yield _Line(
                text,
                [
                    BlockLink(link.url, link.text, link.start - place, link.end - place)
                    for link in self.links
                    if place <= link.start and link.end <= end
                ],
                [(start - place, words) for start, words in self.strong if place <= start <= end],
            )
            place = end + 1


class _BlockReader:
    """Reads the blocks of an element."""

    def __init__(self, base: str, title: str) -> None:
        self.blocks: list[Block] = []
        self._base = base
        self._title = title
        self._heading = ""
        self._label_url = ""
        self._columns: list[str] = []
        self._reaching: dict[int, tuple[LexborNode, int]] = {}
        """Cells that reach down into the next rows, by their column, with how many rows."""

    def read(self, node: LexborNode, depth: int = 0) -> None:
        """Read what lies in an element, block by block."""
        if depth > MAX_DEPTH or len(self.blocks) >= MAX_BLOCKS:
            return
        line = _Line()
        label = ""
        for child in _children(node):
            tag = child.tag or ""
            if tag == "dt" or _is_label(child):
                line = self._end(line, _kind_within(node))
                labelled = self._line_of(child)
                label = labelled.text.strip().rstrip(":")
                self._label_url = labelled.links[0].url if labelled.links else ""
            elif tag in _HEADINGS:
                line = self._end(line, _kind_within(node))
                self._read_heading(child)
            elif label and (tag == "dd" or tag in _CONTAINERS):
                self._add("row", self._line_of(child), label)
                # Several `dd` belong to one `dt`.
                label = label if tag == "dd" else ""
            elif tag == "tr":
                self._read_table_row(child)
            elif tag == "table":
                line = self._end(line, _kind_within(node))
                outer = self._columns, self._reaching
                self._columns, self._reaching = [], {}
                self.read(child, depth + 1)
                self._columns, self._reaching = outer
            elif tag in _CONTAINERS:
                line = self._end(line, _kind_within(node))
                if _has_blocks(child) and tag != "blockquote":
                    self.read(child, depth + 1)
                else:
                    self._end(self._line_of(child), _kind_of(tag, _kind_within(node)))
            else:
                self._inline(child, line, depth)
        self._end(line, _kind_within(node))

    def _read_heading(self, node: LexborNode) -> None:
        line = self._line_of(node)
        text = line.text.strip()
        self._heading = "" if text == self._title else text
        self.blocks.append(
            Block(
                "heading",
                text,
                self._heading,
                links=tuple(line.links),
                level=_HEADINGS[node.tag or ""],
            )
        )

    def _read_table_row(self, node: LexborNode) -> None:
        cells = self._cells_of(node)
        if len(cells) > 1 and all(cell.tag == "th" for cell in cells):
            columns = [self._line_of(cell).text.strip() for cell in cells]
            is_fields = len(columns) == 2 and _are_fields(*map(str.casefold, columns))
            self._columns = [] if is_fields else columns
            return
        if len(cells) == 2 and not self._columns:
            label = self._line_of(cells[0])
            if len(label.text) <= MAX_LABEL:
                self._label_url = label.links[0].url if label.links else ""
                self._add("row", self._line_of(cells[1]), label.text.strip().rstrip(":"))
                return
        if len(cells) == 1 and _has_blocks(cells[0]):
            self.read(cells[0])
            return
        line = _Line()
        for cell in cells:
            if line.text.strip():
                line.text = line.text.rstrip() + " — "
            self._inline(cell, line, 0)
        count = len(self.blocks)
        self._add("item", line)
        if len(self.blocks) > count and len(cells) == len(self._columns):
            whole = self.blocks.pop()
            for column, cell in zip(self._columns, cells, strict=True):
                self._add("row", self._line_of(cell), column)
            rows = tuple(self.blocks[count:])
            if not self._line_of(cells[0]).text.strip():
                # It is not said whose row it is: the next cell is no name of it.
                first = self._columns[0]
                unnamed = Block("row", f"{first}: " if first else "", self._heading, first)
                rows = (unnamed, *rows)
            self.blocks[count:] = [replace(whole, cells=rows)]

    def _cells_of(self, node: LexborNode) -> list[LexborNode]:
        """Return the cells of a row, those of rows above that reach down into it among them."""
        own = [cell for cell in _children(node) if cell.tag in {"th", "td"}]
        above, self._reaching = self._reaching, {}
        cells: list[LexborNode] = []
        while own or len(cells) in above:
            column = len(cells)
            if column in above:
                cell, rows = above[column][0], above[column][1] - 1
            else:
                cell = own.pop(0)
                rows = _rows_of(cell) - 1
            if rows > 0:
                self._reaching[column] = (cell, rows)
            cells.append(cell)
        return cells

    def _line_of(self, node: LexborNode) -> _Line:
        line = _Line()
        self._inline(node, line, 0)
        return line

    def _inline(self, node: LexborNode, line: _Line, depth: int) -> None:
        tag = node.tag or ""
        if tag == "-text":
            line.add(node.text_content or "")
            return
        if tag == "br":
            line.end_line()
            return
        if depth > MAX_DEPTH:
            return
        is_apart = tag in _CONTAINERS and bool(line.text) and line.text[-1] != "\n"
        if is_apart:
            line.end_line()
        start = len(line.text) + (
            1 if line.text and not line.text[-1].isspace() and _leads_space(node) else 0
        )
        for child in _children(node):
            self._inline(child, line, depth + 1)
        words = line.text[start:].rstrip()
        if tag == "a" and words:
            url = urldefrag(urljoin(self._base, node.attributes.get("href") or "")).url
            line.links.append(BlockLink(url, words, start, start + len(words)))
        if tag in {"b", "strong"}:
            line.strong.append((start, words))

    def _end(self, line: _Line, kind: BlockKind) -> _Line:
        """Add the block of a line, where it holds anything, and return a new line."""
        text = line.text.strip()
        if text:
            label, _, value = text.partition(":")
            is_labelled = label.strip() == line.bold_beginning.rstrip(":").strip() and value.strip()
            if kind == "quote":
                self._add(kind, line, label.strip() if is_labelled else "")
            elif is_labelled and len(label) <= MAX_LABEL and "\n" not in text:
                self._add("row", line, label.strip())
            elif "\n" in text and _is_bold_list(line):
                for part in line.lines():
                    self._end(part, kind)
            elif not _is_link_bar(line):
                self._add(kind, line)
        return _Line()

    def _add(self, kind: BlockKind, line: _Line, label: str = "") -> None:
        """Add a block; the label stands before its value, whether the line has it or not."""
        shift = len(line.text) - len(line.text.lstrip())
        text = line.text.strip()
        if not text:
            return
        prefix = ""
        if label:
            rest = re.match(rf"{re.escape(label)}\s*:\s*", text)
            cut = rest.end() if rest else 0
            shift += cut
            prefix = f"{label}: "
            text = prefix + text[cut:]
        links = tuple(
            BlockLink(
                link.url,
                link.text,
                link.start - shift + len(prefix),
                link.end - shift + len(prefix),
            )
            for link in line.links
            if link.start >= shift
        )
        label_url, self._label_url = self._label_url if kind == "row" else "", ""
        self.blocks.append(Block(kind, text, self._heading, label, links, label_url=label_url))


def _is_bold_list(line: _Line) -> bool:
    """Whether most lines begin with a label in bold: an info box that is written as lines of text."""
    labelled = [one for one in line.lines() if one.bold_beginning and ":" in one.text]
    return 2 * len(labelled) > line.text.strip().count("\n")


def _is_link_bar(line: _Line) -> bool:
    """Whether a line is a bar of links to parts of the site: links with nothing but marks between
    them.
    """
    rest = line.text
    for link in line.links:
        rest = rest.replace(link.text, "", 1)
    marks = "".join(rest.split())
    return len(line.links) > 1 and "|" in marks and not marks.strip("|[]·•/-–—«»<>:")


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


def _has_blocks(node: LexborNode) -> bool:
    return any(child.tag in _CONTAINERS or child.tag in _HEADINGS for child in _children(node))


def _are_fields(first: str, second: str) -> bool:
    """Whether the headings of two columns say that the table is an info box: `Property` and
    anything, or `Item` and `Value`.
    """
    return first in _FIELD_COLUMNS or (first in _VALUED_COLUMNS and second in {"value", "values"})


def _rows_of(cell: LexborNode) -> int:
    """Return over how many rows a cell reaches."""
    text = cell.attributes.get("rowspan") or "1"
    return min(int(text), _MAX_ROWSPAN) if text.isascii() and text.isdigit() else 1


def _is_label(node: LexborNode) -> bool:
    return node.tag != "-text" and "pi-data-label" in (node.attributes.get("class") or "")


def _leads_space(node: LexborNode) -> bool:
    """Whether the first text of an element begins with white space."""
    first: LexborNode | None = node
    while first is not None and first.tag != "-text":
        first = first.child
    return first is not None and (first.text_content or "")[:1].isspace()


def _kind_within(node: LexborNode) -> BlockKind:
    return _kind_of(node.tag or "", "paragraph")


def _kind_of(tag: str, otherwise: BlockKind) -> BlockKind:
    if tag == "blockquote":
        return "quote"
    return "item" if tag == "li" else "paragraph" if otherwise == "quote" else otherwise
