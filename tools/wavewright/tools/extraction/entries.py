"""Pages that tell of several things, taken apart: an entry of a list of definitions, a table or sections is a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from wavewright.tools.extraction.blocks import Block, BlockLink, PageStructure
from wavewright.tools.extraction.names import is_name, is_plural, listed_name

_SECTION_WORDS: Final = frozenset(
    [
        "overview",
        "introduction",
        "contents",
        "notes",
        "references",
        "links",
        "sources",
        "credits",
        "trivia",
        "gallery",
        "summary",
        "description",
        "background",
        "appendix",
        "index",
        "conclusion",
        "faq",
        "other",
        "miscellaneous",
    ]
)
_LEAST_PAGES: Final = 3
"""Of a site that repeat a text which belongs to none of them."""

KindOf = Callable[[str], str | None]
"""Returns the kind of what a list under a heading names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A thing that a page tells of beside others."""

    kind: str
    page: PageStructure
    """What is told of it, under the address of the whole page."""
    url: str = ""
    """Address of a page of its own, where its name is a link."""


def without_repeats(pages: Sequence[PageStructure]) -> list[PageStructure]:
    """Return the pages without the lists and paragraphs that half of them repeat: they belong to the site."""
    least = max(_LEAST_PAGES, len(pages) / 2)
    counts = Counter(run for page in pages for run in {_words(run) for run in _runs(page)})
    repeated = {run for run, count in counts.items() if count >= least}
    if not repeated:
        return list(pages)
    return [
        replace(
            page, blocks=tuple(block for run in _runs(page) for block in run if _words(run) not in repeated)
        )
        for page in pages
    ]


def _runs(page: PageStructure) -> Iterator[tuple[Block, ...]]:
    """Yield lists as a whole and any other block by itself."""
    for (kind, _), blocks in groupby(enumerate(page.blocks), lambda one: _run_of(*one)):
        del kind
        yield tuple(block for _, block in blocks)


def _run_of(place: int, block: Block) -> tuple[str, int]:
    return ("item", 0) if block.kind == "item" else (block.kind, place)


def _words(run: tuple[Block, ...]) -> tuple[str, ...]:
    """Return what tells a run from others; nothing for what is never the site's."""
    return tuple(block.text for block in run) if run[0].kind in {"item", "paragraph"} else (str(id(run)),)


def entries_of(page: PageStructure, kind_of_list: KindOf, is_label: Callable[[str], bool]) -> list[Entry]:
    """Return the things that a page tells of beside others, none where it is about one thing.

    Args:
        page: The page.
        kind_of_list: Tells what a heading is of.
        is_label: Whether a text is a label of info boxes and so no name.
    """
    title_kind = kind_of_list(page.title) if is_plural(page.title) else None
    found: list[Entry] = []
    for block in page.blocks:
        heading_kind = kind_of_list(block.heading) if block.heading else title_kind
        if block.cells:
            column = block.cells[0].label
            kind = heading_kind or kind_of_list(column) or kind_of_list(f"{column}s")
            name = listed_name(block.cells[0].value)
            if kind and name:
                links = block.cells[0].links
                rows = tuple(replace(cell, heading="") for cell in block.cells[1:])
                found.append(_entry(kind, page, name, rows, links[0].url if links else ""))
        elif block.kind == "row" and heading_kind and is_name(block.label) and not is_label(block.label):
            found.append(_entry(heading_kind, page, block.label, (_as_paragraph(block),), block.label_url))
    return found + (list(_sections(title_kind, page, kind_of_list)) if title_kind else [])


def _sections(kind: str, page: PageStructure, kind_of_list: KindOf) -> Iterator[Entry]:
    for heading, blocks in groupby(page.blocks, lambda block: block.heading):
        content = tuple(replace(block, heading="") for block in blocks if block.kind != "heading")
        is_entry = is_name(heading) and heading.casefold() not in _SECTION_WORDS and not kind_of_list(heading)
        if is_entry and any(block.kind == "paragraph" for block in content):
            yield _entry(kind, page, heading, content, "")


def _entry(kind: str, page: PageStructure, name: str, blocks: tuple[Block, ...], url: str) -> Entry:
    return Entry(kind, PageStructure(page.url, name, (), blocks), url)


def _as_paragraph(row: Block) -> Block:
    shift = len(row.label) + 2
    links = tuple(BlockLink(link.url, link.text, link.start - shift, link.end - shift) for link in row.links)
    return Block("paragraph", row.value, links=links)
