"""A page as blocks of text in their order, the names in it, and its parts where it tells of several
things.

Names are told by how texts write them. An entry of a list of definitions, a table or a section
becomes a page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import BeforeValidator

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "quote", "row"]

_BULLET: Final = re.compile(r"(?:^|\s)[•·▪‣]\s+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])[”\"’')\]]*\s+(?=[\"“\u2018'(\[]?[A-Z0-9])")
_ABBREVIATION: Final = re.compile(
    r"\b(?:St|Mr|Mrs|Ms|Dr|Prof|Capt|Lt|Sgt|Col|Gen|Rev|Mt|vs|c|ca|No|approx|[Ll]vl?s?|[A-HJ-Z])\.$"
)


TASK_BOX: Final = r"\[[ xX]\][ \t]+"
"""Pattern of the box of a task, which stands between the mark of a list item and its words."""


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
    """Of an item that is the row of a table with headings: a row for each cell that says anything,
    and one for the first cell in any case.
    """

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
    """Return the sentences of a text; an abbreviation, an initial, a bullet and a line break are
    known.
    """
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


WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
SUFFIX: Final = re.compile(r"\s*\((?P<word>[^()]{2,30})\)\s*$")
"""Of titles: what tells a page from others of its name."""
_NAME_END: Final = re.compile(
    r"\s*(?:[,;:(\[]|\s[—–-]\s|"
    r"(?<!\b[A-Z])(?<!\b(?:St|Mr|Ms|Dr|Mt|Lt))(?<!\b(?:Mrs|Sgt|Col|Gen|Rev))(?<!\b(?:Capt|Prof))\.\s|\.$)"
)
"""Of the beginning of an item; the point of a title or an initial ends no name."""
_MAX_NAME_WORDS: Final = 7


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_PLURALS: Final = word_set("people folk cast crew bestiary equipment lore staff geography")

_T = TypeVar("_T")


def phrase_set(text: str) -> frozenset[str]:
    """Return the parts of a text between commas; one may be empty."""
    return frozenset(phrase.strip() for phrase in text.split(","))


Phrases: TypeAlias = Annotated[frozenset[str], BeforeValidator(phrase_set)]
"""Words or phrases, which a file has in one text between commas."""


def singular(word: str) -> str:
    """Return a word in lower case and, by its ending, in the singular."""
    word = word.casefold()
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case and in the singular."""
    return [singular(word) for word in WORD.findall(text)]


def clean_title(title: str) -> str:
    """Return a page's title without what tells it from others of its name, as in `Ash (city)`."""
    return SUFFIX.sub("", title).strip() or title


def is_plural(phrase: str) -> bool:
    """Whether a title is of several things by the form of its head noun, as `The People` or `Places
    of Ash`.
    """
    head = WORD.findall(
        re.split(r"\b(?:of|in|at|on|from|by|to|and|for|with)\b|[:—–(,/&]", phrase)[0].casefold()
    )[-1:]
    return bool(head) and (singular(head[0]) != head[0] or head[0] in _PLURALS)


def is_name(text: str) -> bool:
    """Whether a text is a name from its first word to its last."""
    return bool(text) and listed_name(text) == text.strip()


def listed_name(text: str) -> str:
    """Return the name at the beginning of a list item; empty where there is none."""
    name = _NAME_END.split(text, maxsplit=1)[0].strip()
    words = name.split()
    is_one = 0 < len(words) <= _MAX_NAME_WORDS and name[:1].isupper() and words[-1][:1].isupper()
    return name if is_one else ""


def common_words(pages: Sequence[PageStructure]) -> frozenset[str]:
    """Return the words that pages write in lower case: no names where they begin a sentence."""
    return frozenset(
        word
        for page in pages
        for block in page.blocks
        for word in WORD.findall(block.text)
        if word.islower()
    )


class NameIndex(Generic[_T]):
    """Finds names in texts, word by word."""

    def __init__(self, named: Iterable[tuple[str, _T]], common: frozenset[str]) -> None:
        """Take names with what each one is of; `common` words are no names where they begin a
        sentence.
        """
        self._common = common
        self._by_first: dict[str, list[tuple[tuple[str, ...], _T]]] = {}
        for name, thing in named:
            words = tuple(_plain(word) for word in WORD.findall(name))
            if not words or len(name) <= 2:
                continue
            forms = [words]
            if words[0] == "The" and len(words) > 1:
                # Within a sentence, the article of a name is small; a name of one word is none
                # without it.
                forms += [words[1:]] if len(words) > 2 else [("the", words[1])]
            for form in forms:
                self._by_first.setdefault(form[0], []).append((form, thing))
        for names in self._by_first.values():
            names.sort(key=lambda one: -len(one[0]))

    def find(self, text: str) -> Iterator[tuple[_T, int, int]]:
        """Yield what is named in a text and where, the longest name at each place."""
        found = [(_plain(match[0]), match.start(), match.end()) for match in WORD.finditer(text)]
        position = 0
        while position < len(found):
            for words, thing in self._by_first.get(found[position][0], ()):
                end = position + len(words)
                if tuple(word for word, _, _ in found[position:end]) == words:
                    start = found[position][1]
                    is_common = len(words) == 1 and words[0].casefold() in self._common
                    if not (is_common and begins_sentence(text, start)):
                        yield thing, start, found[end - 1][2]
                        position = end - 1
                        break
            position += 1


def _plain(word: str) -> str:
    word = word.replace("’", "'")
    return word.removesuffix("'s")


_SECTION_WORDS: Final = word_set(
    "overview introduction contents notes references links sources credits trivia gallery summary description "
    "background appendix index conclusion faq other miscellaneous"
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
    """Return the pages without the lists and paragraphs that half of them repeat: they belong to
    the site.
    """
    least = max(_LEAST_PAGES, len(pages) / 2)
    counts = Counter(run for page in pages for run in {_words(run) for run in _runs(page)})
    repeated = {run for run, count in counts.items() if count >= least}
    if not repeated:
        return list(pages)
    return [
        replace(
            page,
            blocks=tuple(
                block for run in _runs(page) for block in run if _words(run) not in repeated
            ),
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
    return (
        tuple(block.text for block in run)
        if run[0].kind in {"item", "paragraph"}
        else (str(id(run)),)
    )


def entries_of(
    page: PageStructure, kind_of_list: KindOf, is_label: Callable[[str], bool]
) -> list[Entry]:
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
        elif (
            block.kind == "row"
            and heading_kind
            and is_name(block.label)
            and not is_label(block.label)
        ):
            found.append(
                _entry(heading_kind, page, block.label, (_as_paragraph(block),), block.label_url)
            )
    return found + (list(_sections(title_kind, page, kind_of_list)) if title_kind else [])


def _sections(kind: str, page: PageStructure, kind_of_list: KindOf) -> Iterator[Entry]:
    for heading, blocks in groupby(page.blocks, lambda block: block.heading):
        content = tuple(replace(block, heading="") for block in blocks if block.kind != "heading")
        is_entry = (
            is_name(heading)
            and heading.casefold() not in _SECTION_WORDS
            and not kind_of_list(heading)
        )
        if is_entry and any(block.kind == "paragraph" for block in content):
            yield _entry(kind, page, heading, content, "")


def _entry(kind: str, page: PageStructure, name: str, blocks: tuple[Block, ...], url: str) -> Entry:
    return Entry(kind, PageStructure(page.url, name, (), blocks), url)


def _as_paragraph(row: Block) -> Block:
    shift = len(row.label) + 2
    links = tuple(
        BlockLink(link.url, link.text, link.start - shift, link.end - shift) for link in row.links
    )
    return Block("paragraph", row.value, links=links)
