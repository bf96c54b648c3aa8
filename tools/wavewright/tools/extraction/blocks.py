"""A page as blocks of text in their order, and the sentences of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "quote", "row"]

_BULLET: Final = re.compile(r"(?:^|\s)[•·▪‣]\s+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])[”\"’')\]]*\s+(?=[\"“\u2018'(\[]?[A-Z0-9])")
_ABBREVIATION: Final = re.compile(r"\b(?:St|Mr|Mrs|Ms|Dr|vs|c|ca|No|approx)\.$")


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
    level: int = 0
    """Of a heading, from 1."""
    label_url: str = ""
    """Address that the label of a row leads to."""
    cells: tuple[Block, ...] = ()
    """Of an item that is the row of a table with headings: a row for each cell."""

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
