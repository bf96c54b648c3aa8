"""A page as blocks of text in their order, each with its heading, its links and, for a row, its label.

Headings, paragraphs, list items, quotes and the rows of info boxes and tables are told apart; what is hidden, and what
is the same on every page of a site, is left out. Where a page is only known as Markdown, that is read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urldefrag, urljoin

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "quote", "row"]

MAX_DEPTH: Final = 200
"""Of nested elements; what lies deeper is left out."""
MAX_BLOCKS: Final = 20_000

_DROPPED: Final = (
    "script, style, noscript, template, head > *:not(title), nav, footer, button, input, select, textarea, iframe, "
    "object, svg, math, sup.reference, .mw-editsection, .toc, #toc, .navbox, [hidden], "
    "[aria-hidden=true], [class*=breadcrumb], [class*=catlinks], [class*=categories], "
    "[role=navigation], aside:not(:has(dl, table, [class*=infobox], [class*=pi-]))"
)
_HIDING_STYLE: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
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
_MARKING: Final = frozenset({"b", "strong", "code", "dfn"})
MAX_LABEL: Final = 40
"""Characters of a row's label."""
_BULLET: Final = re.compile(r"(?:^|\s)[•·▪‣]\s+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])[”\"’')\]]*\s+(?=[\"“\u2018'(\[]?[A-Z0-9])")
_ABBREVIATION: Final = re.compile(r"\b(?:St|Mr|Mrs|Ms|Dr|vs|c|ca|No|approx)\.$")


class SourcePage(BaseModel):
    """A page that was read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    title: str = ""
    text: str = ""
    """Markdown; read where there is no `html`."""
    html: str = ""


@dataclass(frozen=True, slots=True)
class BlockLink:
    """A link in a block; `start` and `end` are the place of its words in the block's text."""

    url: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page."""

    kind: BlockKind
    text: str
    """Of a row, its label and value, as `Label: value`."""
    heading: str = ""
    """The nearest heading above, without the page's own title; empty where there is none."""
    label: str = ""
    """Of a row, its label; of a quote, its speaker."""
    links: tuple[BlockLink, ...] = ()
    marked: tuple[str, ...] = ()
    """Its words in bold or set as code."""
    level: int = 0
    """Of a heading, from 1."""

    @property
    def value(self) -> str:
        """The text without the label."""
        return self.text[len(self.label) + 2 :] if self.label else self.text

    def sentences(self) -> list[str]:
        """Return the sentences of the text; those of a quote or a row without its label."""
        return split_sentences(self.value)

    def sentence_places(self) -> Iterator[tuple[str, int]]:
        """Yield each sentence with its place in the text."""
        end = len(self.text) - len(self.value)
        for sentence in self.sentences():
            start = self.text.index(sentence, end)
            end = start + len(sentence)
            yield sentence, start


@dataclass(frozen=True, slots=True)
class PageStructure:
    """A page as its parts."""

    url: str
    title: str
    """Its first heading, else its `title`."""
    trail: tuple[str, ...]
    """Names of what it belongs to: breadcrumbs, categories and tags."""
    blocks: tuple[Block, ...]

    def rows(self) -> Iterator[Block]:
        """Yield the rows of info boxes and tables."""
        return (block for block in self.blocks if block.kind == "row")

    def prose(self) -> Iterator[Block]:
        """Yield paragraphs: what the page says in its own voice."""
        return (block for block in self.blocks if block.kind == "paragraph")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text; an abbreviation, a bullet and a line break are known."""
    found: list[str] = []
    for line in _BULLET.split(text.replace("\n", " • ")):
        begun = ""
        for part in _SENTENCE_END.split(line):
            begun = f"{begun} {part}" if begun else part
            if not _ABBREVIATION.search(begun):
                found.append(begun.strip())
                begun = ""
        found.append(begun.strip())
    return [sentence for sentence in found if sentence]


def begins_sentence(text: str, start: int) -> bool:
    """Whether a sentence of a text begins at a place."""
    before = text[:start].rstrip(" \"“\u2018'(")
    return not before or before[-1] in ".!?…:•\n"


def read_structure(page: SourcePage) -> PageStructure:
    """Return a page as its parts, in a time that depends on the page: hostile pages belong into another process."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page.html or _html_of_markdown(page.text))
    titled = tree.css_first("title")
    site_title = page.title or ("" if titled is None else _squeeze(titled.text()))
    trail = [_squeeze(node.text()) for node in tree.css(_TRAIL)]
    _drop_hidden(tree)
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
    from markdown_it import MarkdownIt

    return str(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def _drop_hidden(tree: LexborHTMLParser) -> None:
    # What lies within another goes first: a node must not be freed twice.
    for node in reversed(tree.css(_DROPPED)):
        node.decompose()
    for node in reversed(tree.css("body [style]")):
        if _HIDING_STYLE.search(node.attributes.get("style") or ""):
            node.decompose()


def _squeeze(text: str) -> str:
    return " ".join(text.split())


@dataclass(slots=True)
class _Line:
    """Text that is being read, without white space that means nothing, and the links in it."""

    text: str = ""
    links: list[BlockLink] = field(default_factory=list[BlockLink])
    strong: str = ""
    """The text in bold at the beginning."""
    marked: list[str] = field(default_factory=list[str])

    def add(self, text: str) -> None:
        if text[:1].isspace() and self.text and not self.text[-1].isspace():
            self.text += " "
        words = " ".join(text.split())
        if words:
            self.text += words + (" " if text[-1].isspace() else "")

    def end_line(self) -> None:
        self.text = self.text.rstrip() + "\n"


class _BlockReader:
    """Reads the blocks of an element."""

    def __init__(self, base: str, title: str) -> None:
        self.blocks: list[Block] = []
        self._base = base
        self._title = title
        self._heading = ""

    def read(self, node: LexborNode, depth: int = 0) -> None:
        """Read what lies in an element, block by block."""
        if depth > MAX_DEPTH or len(self.blocks) >= MAX_BLOCKS:
            return
        line = _Line()
        label = ""
        child = node.child
        while child is not None:
            tag = child.tag or ""
            if tag == "dt" or _is_label(child):
                line = self._end(line, _kind_within(node))
                label = self._line_of(child).text.strip().rstrip(":")
            elif tag in _HEADINGS:
                line = self._end(line, _kind_within(node))
                self._read_heading(child)
            elif label and (tag == "dd" or tag in _CONTAINERS):
                self._add("row", self._line_of(child), label)
                # Several `dd` belong to one `dt`.
                label = label if tag == "dd" else ""
            elif tag == "tr":
                self._read_table_row(child)
            elif tag in _CONTAINERS:
                line = self._end(line, _kind_within(node))
                if _has_blocks(child) and tag != "blockquote":
                    self.read(child, depth + 1)
                else:
                    self._end(self._line_of(child), _kind_of(tag, _kind_within(node)))
            else:
                self._inline(child, line, depth)
            child = child.next
        self._end(line, _kind_within(node))

    def _read_heading(self, node: LexborNode) -> None:
        line = self._line_of(node)
        text = line.text.strip()
        self._heading = "" if text == self._title else text
        self.blocks.append(
            Block("heading", text, self._heading, links=tuple(line.links), level=_HEADINGS[node.tag or ""])
        )

    def _read_table_row(self, node: LexborNode) -> None:
        cells = [cell for cell in _children(node) if cell.tag in {"th", "td"}]
        if len(cells) == 2 and (cells[0].tag == "th" or cells[1].tag == "td"):
            label = self._line_of(cells[0])
            if len(label.text) <= MAX_LABEL:
                self._add("row", self._line_of(cells[1]), label.text.strip().rstrip(":"))
                return
        line = _Line()
        for cell in cells:
            if _has_blocks(cell) and len(cells) == 1:
                self.read(cell)
            else:
                if line.text.strip():
                    line.text = line.text.rstrip() + " — "
                self._inline(cell, line, 0)
        self._end(line, "item")

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
        at_start = not line.text.strip()
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
        if tag in {"b", "strong"} and at_start:
            line.strong = words
        if tag in _MARKING and words:
            line.marked.append(words)

    def _end(self, line: _Line, kind: BlockKind) -> _Line:
        """Add the block of a line, where it holds anything, and return a new line."""
        text = line.text.strip()
        if text:
            label, _, value = text.partition(":")
            is_labelled = line.strong and label.strip() == line.strong.rstrip(":").strip() and value.strip()
            if kind == "quote":
                self._add(kind, line, label.strip() if is_labelled else "")
            elif is_labelled and len(label) <= MAX_LABEL and "\n" not in text:
                self._add("row", line, label.strip())
            else:
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
            BlockLink(link.url, link.text, link.start - shift + len(prefix), link.end - shift + len(prefix))
            for link in line.links
            if link.start >= shift
        )
        self.blocks.append(Block(kind, text, self._heading, label, links, tuple(line.marked)))


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


def _has_blocks(node: LexborNode) -> bool:
    return any(child.tag in _CONTAINERS or child.tag in _HEADINGS for child in _children(node))


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
