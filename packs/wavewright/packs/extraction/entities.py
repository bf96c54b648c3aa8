"""Things that pages name, with the kind of each, and where else their names stand.

The kind of a thing is read from the folder of its page's address, from breadcrumbs and categories,
from the heading of a list that names it, from a row such as `Type`, from rows that only such pages
have, and from a first sentence such as "X is a city"; the first of these that says anything
decides. Where none does, there is no kind: nothing is guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from wavewright.packs.extraction.blocks import (
    SUFFIX,
    Block,
    BlockLink,
    NameIndex,
    PageStructure,
    Phrases,
    clean_title,
    common_words,
    entries_of,
    is_name,
    is_plural,
    listed_name,
    without_repeats,
    word_set,
    words_of,
)
from wavewright.packs.extraction.prose import (
    NO_READER,
    PERSON,
    Clause,
    ProseName,
    ProseReader,
    SentenceProse,
)
from wavewright.packs.text.cross_reference import normal_name

_CUT: Final = re.compile(
    r"\b(?:of|in|by|from|at|on|to|for|with|about|and|or|here|there|nearby|within|found|seen|met|living|that|which|you)\b|"
    r"[:—–(,/&]"
)
"""Of headings: what stands before it is what the list is of."""
_OF_NAME: Final = re.compile(r" (?:of|de|von) ")
"""Between the noun of a name and what it is of."""
_OPENING: Final = 6
"""Sentences of a page among which one that begins with its title is looked for."""
_ENUMERATION: Final = re.compile(r"\s*(?:[,;•]|\band\b)\s*")
_NOBODY: Final = word_set(
    "none nobody nothing unknown various varies several many few all any neutral yes no"
)
"""Of rows and lists: what stands where there is no name."""
_TYPE_LABELS: Final = word_set("type kind category class classification")


@dataclass(frozen=True, slots=True)
class KindCues:
    """Words that tell a kind of thing; all singular and in lower case."""

    kind: str
    groups: Phrases
    """Of folders of addresses, breadcrumbs, categories, rows such as `Type`, and suffixes of
    titles.
    """
    lists: Phrases
    """Of headings above lists of such things, and of labels of rows that name them; words, or whole
    phrases.
    """
    nouns: Phrases = frozenset()
    """Of first sentences: what X is a NOUN says."""
    endings: Phrases = frozenset()
    """Of such nouns."""
    labels: Phrases = frozenset()
    """Of rows that only pages about such things have; two of them tell the kind."""
    are_people: bool = False
    """Whether such a thing is somebody: "X is a NOUN who …" says so, whatever the noun."""
    is_told_by_names: bool = False
    """Whether prose alone tells such a thing, also by a noun in its name, as `Red Lantern Company`
    does; any other has a page, a link or a list.
    """


@dataclass(eq=False, slots=True)
class NamedEntity:
    """A thing that pages name."""

    name: str
    kind: str
    url: str = ""
    """Address of the page about it, read or not; empty where nothing leads to one."""
    page: PageStructure | None = None
    """The page about it, where it was read."""


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A place where a thing is named."""

    entity: NamedEntity
    page: PageStructure
    block: Block
    start: int
    """In the text of the block."""
    end: int

    @property
    def sentence(self) -> str:
        """The sentence that names it; of a row or a short item, the whole."""
        if self.block.kind in {"row", "heading"}:
            return self.block.text
        name = self.block.text[self.start : self.end]
        return next((one for one in self.block.sentences() if name in one), self.block.text)


class Gazetteer:
    """The things that some pages name."""

    def __init__(
        self,
        pages: Sequence[PageStructure],
        cues: Sequence[KindCues] = (),
        *,
        known: Iterable[NamedEntity] = (),
        prose: ProseReader = NO_READER,
    ) -> None:
        """Read the pages.

        Args:
            pages: Pages of one or more sites; the more there are, the more names are known.
            cues: The kinds; where two fit, the first one holds.
            known: Things that are known beforehand, such as those of other pages.
            prose: Reads sentences; where it cannot, only the form of pages tells names.
        """
        self._cues = tuple(cues)
        self.prose = prose
        self._labels = (
            frozenset(label for cue in cues for label in cue.labels | cue.lists) | _TYPE_LABELS
        )
        pages = without_repeats(pages)
        prose.read_all(
            [one for page in pages for block in page.prose() for one in block.sentences()]
        )
        entries = {id(page): entries_of(page, self.listing_kind, self._is_label) for page in pages}
        self.pages = (*pages, *(entry.page for group in entries.values() for entry in group))
        self.entities: list[NamedEntity] = []
        self._by_url: dict[str, NamedEntity] = {}
        self._by_page: dict[int, NamedEntity] = {}
        self._by_name: dict[str, list[NamedEntity]] = {}
        self._hosts = {urlsplit(page.url).netloc for page in pages}
        for entity in known:
            self._add(entity)
        listed = self._listed_kinds()
        for page in pages:
            here = [] if self.kind_of_address(page.url) else entries[id(page)]
            is_list = (
                len(here) > 1
                and is_plural(page.title)
                and self.listing_kind(page.title) is not None
            )
            kind = "" if is_list else self._kind_of_page(page, listed)
            if kind and page.title and page.url not in self._by_url:
                self._add(NamedEntity(clean_title(page.title), kind, page.url, page))
        for entry in (one for group in entries.values() for one in group):
            known_kind = self._by_url[entry.url].kind if entry.url in self._by_url else entry.kind
            if known_kind == entry.kind:
                self._add(NamedEntity(clean_title(entry.page.title), entry.kind, page=entry.page))
        self._add_linked(listed)
        self._add_listed()
        self._add_described()
        self._names = NameIndex(
            ((one.name, one) for one in self.entities if one.name[:1].isupper()),
            common_words(pages),
        )
        self._mentions: dict[NamedEntity, list[EntityMention]] = {}
        for page in self.pages:
            for block in page.blocks:
                for mention in self.mentions(page, block):
                    self._mentions.setdefault(mention.entity, []).append(mention)

    def about(self, page: PageStructure) -> NamedEntity | None:
        """Return the thing that a page, or a piece of it, is about."""
        return self._by_page.get(id(page)) or self._by_url.get(page.url)

    def named(self, name: str) -> list[NamedEntity]:
        """Return the things of a name."""
        return self._by_name.get(normal_name(name), [])

    def mentions(
        self, page: PageStructure, block: Block, *, with_own: bool = False
    ) -> list[EntityMention]:
        """Return what a block names, by links first and by names where there is no link, in their
        order.

        What the page itself is about is left out unless `with_own`.
        """
        found: list[EntityMention] = []
        for link in block.links:
            entity = self._by_url.get(link.url)
            if entity is not None and (with_own or link.url != page.url):
                found.append(EntityMention(entity, page, block, link.start, link.end))
        taken = [(link.start, link.end) for link in block.links]
        for entity, start, end in self._names.find(block.text):
            is_own = entity.page is page or (entity.url != "" and entity.url == page.url)
            if (with_own or not is_own) and not any(a < end and start < b for a, b in taken):
                found.append(EntityMention(entity, page, block, start, end))
        return sorted(found, key=lambda one: one.start)

    def mentions_of(self, entity: NamedEntity) -> list[EntityMention]:
        """Return where a thing is named on pages other than its own, in their order."""
        return self._mentions.get(entity, [])

    def listing_kind(self, text: str) -> str | None:
        """Return the kind of what a list under a heading, or a row with a label, names."""
        return kind_of_list(text, self._cues)

    def _is_label(self, text: str) -> bool:
        is_one_word = " " not in text.strip()
        return text.casefold() in self._labels or (
            is_one_word and self.listing_kind(text) is not None
        )

    def kind_of_address(self, url: str) -> str | None:
        """Return the kind that the folders of an address tell."""
        parts = urlsplit(url)
        *folders, leaf = [unquote(part) for part in parts.path.strip("/").split("/")]
        namespace, colon, _ = leaf.partition(":")
        values = [value for _, value in parse_qsl(parts.query)][:-1]
        for folder in [*([namespace] if colon else []), *values, *reversed(folders)]:
            kind = self._kind_of_group(folder)
            if kind is not None:
                return kind
        return None

    def _kind_of_group(self, text: str) -> str | None:
        words = words_of(text)
        return next(
            (cue.kind for cue in self._cues for word in reversed(words) if word in cue.groups), None
        )

    def _kind_of_page(self, page: PageStructure, listed: Mapping[str, str]) -> str | None:
        suffix = SUFFIX.search(page.title)
        return (
            self.kind_of_address(page.url)
            or next(filter(None, map(self._kind_of_group, reversed(page.trail))), None)
            or (self._kind_of_group(suffix["word"]) if suffix else None)
            or listed.get(page.url)
            or self._kind_of_type_row(page)
            or self._kind_of_labels(page)
            or self._kind_of_first_sentence(page)
        )

    def _kind_of_type_row(self, page: PageStructure) -> str | None:
        for row in page.rows():
            if row.label.casefold() in _TYPE_LABELS:
                words = words_of(row.value)
                for cue in self._cues:
                    if any(word in cue.groups for word in words) or any(
                        word in cue.nouns for word in words[-1:]
                    ):
                        return cue.kind
        return None

    def _kind_of_labels(self, page: PageStructure) -> str | None:
        labels = {row.label.casefold() for row in page.rows()}
        found = [(len(labels & cue.labels), cue.kind) for cue in self._cues]
        count, kind = max(found, key=lambda one: one[0], default=(0, ""))
        is_clear = count > 1 and sum(other == count for other, _ in found) == 1
        return kind if is_clear else None

    def _kind_of_first_sentence(self, page: PageStructure) -> str | None:
        """Return the kind that one of the first sentences gives to what the page is about."""
        title = clean_title(page.title)
        sentences = [sentence for block in page.prose() for sentence in block.sentences()]
        for sentence in sentences[:_OPENING]:
            for clause in self.prose.read(sentence).clauses:
                start = sentence.find(title)
                is_about = any(
                    start <= one.head < start + len(title)
                    if start >= 0
                    else one.pronoun is not None and sentence is sentences[0]
                    for one in clause.subjects
                )
                kind = self._kind_of_clause(clause) if is_about else None
                if kind is not None:
                    return kind
        return None

    def _kind_of_clause(self, clause: Clause) -> str | None:
        """Return the kind that the noun tells which a subject is said to be, or that it is somebody
        `who` does something.
        """
        if clause.verb != "be" or not clause.noun:
            return None
        people = (cue.kind for cue in self._cues if cue.are_people and clause.has_somebody)
        return self._kind_of_noun(clause.noun) or next(people, None)

    def _kind_of_noun(self, phrase: str) -> str | None:
        """Return the kind that the last word of a phrase tells."""
        head = "".join(words_of(phrase)[-1:])
        return next((cue.kind for cue in self._cues if head in cue.nouns), None) or next(
            (cue.kind for cue in self._cues if head.endswith((*cue.endings,))), None
        )

    def _listed_kinds(self) -> dict[str, str]:
        """Return, by address, the kind that lists and rows give to the pages that they link."""
        found: dict[str, Counter[str]] = {}
        for page in self.pages:
            for block in page.blocks:
                links = _leading_links(block)
                text = block.label if block.kind == "row" else _list_heading(page, block)
                kind = self.listing_kind(text)
                if kind is None:
                    continue
                for link in links:
                    found.setdefault(link.url, Counter())[kind] += 1
        return {url: kinds.most_common(1)[0][0] for url, kinds in found.items()}

    def _add_linked(self, listed: Mapping[str, str]) -> None:
        texts: dict[str, Counter[str]] = {}
        for page in self.pages:
            for block in page.blocks:
                for link in block.links:
                    if urlsplit(link.url).netloc in self._hosts and link.url not in self._by_url:
                        texts.setdefault(link.url, Counter())[link.text] += 1
        read = {page.url for page in self.pages}
        for url, names in texts.items():
            kind = None if url in read else self.kind_of_address(url) or listed.get(url)
            if kind is not None:
                self._add(NamedEntity(_best_link_text(url, names), kind, url))

    def _add_listed(self) -> None:
        for page in self.pages:
            for block in page.blocks:
                if _leading_links(block):
                    continue
                heading = _list_heading(page, block)
                name = listed_name(block.text)
                # "West: Ash", with a link, is one more way to Ash.
                is_label = bool(block.links) and block.text.startswith(f"{name}:")
                if block.kind == "item" and heading and not is_label:
                    self._add_names(heading, [name])
                elif block.kind == "row" and is_plural(block.label) and not block.links:
                    parts = [part.strip() for part in _ENUMERATION.split(block.value)]
                    self._add_names(block.label, [part for part in parts if is_name(part)])

    def _add_described(self) -> None:
        """Add what has no page, row or list, and of which a sentence says what it is: beside its
        name, by its name, or as the model takes it.
        """
        for page in self.pages:
            for sentence in (one for block in page.prose() for one in block.sentences()):
                said = self.prose.read(sentence)
                for name in said.names:
                    kind = self._kind_of_name(name, said)
                    if kind is not None and not self._is_named(name.titled):
                        self._add(NamedEntity(name.titled, kind))

    def _kind_of_name(self, name: ProseName, said: SentenceProse) -> str | None:
        described = [
            self._kind_of_clause(clause)
            for clause in said.clauses
            if any(name.span.start <= one.head < name.span.end for one in clause.subjects)
        ]
        kind = next(filter(None, described), None)
        if kind is not None:
            told = next(cue for cue in self._cues if cue.kind == kind)
            # Streets and squares that a text passes by are no places of their own.
            return kind if told.is_told_by_names or told.are_people else None
        # "The Order of the Pale Hand" is an order.
        told_kind = self._kind_of_noun(_OF_NAME.split(name.text)[0])
        own = next((cue for cue in self._cues if cue.kind == told_kind), None)
        if own is not None and own.is_told_by_names:
            return own.kind
        people = (cue.kind for cue in self._cues if cue.are_people)
        is_person = " " in name.titled and name.type == PERSON
        return next(people, None) if is_person and own is None else None

    def _is_named(self, name: str) -> bool:
        """Whether something has a name, or has it as a part of its own."""
        normal = f" {normal_name(name)} "
        return any(normal in f" {known} " or f" {known} " in normal for known in self._by_name)

    def _add_names(self, heading: str, names: Iterable[str]) -> None:
        kind = kind_of_list(heading, self._cues)
        for name in names if kind is not None else ():
            if name and name.casefold() not in _NOBODY and not self.named(name):
                self._add(NamedEntity(name, kind or ""))

    def _add(self, entity: NamedEntity) -> None:
        self.entities.append(entity)
        self._by_name.setdefault(normal_name(entity.name), []).append(entity)
        if entity.page is not None:
            self._by_page[id(entity.page)] = entity
        if entity.url:
            self._by_url[entity.url] = entity


def kind_of_list(text: str, cues: Sequence[KindCues]) -> str | None:
    """Return the kind of what a list under a heading names: the heading's phrase, else its head
    noun, tells it.
    """
    phrase = text.casefold().strip()
    for cue in cues:
        if phrase in cue.lists:
            return cue.kind
    for part in _CUT.split(phrase):
        words = words_of(part)[-1:]
        if words:
            listed = (cue.kind for cue in cues if words[0] in cue.lists)
            # Several things by their noun, as "Forests" or "The Knights".
            nouns = (cue.kind for cue in cues if is_plural(part) and words[0] in cue.nouns)
            return next(listed, None) or next(nouns, None)
    return None


def _list_heading(page: PageStructure, block: Block) -> str:
    """Return what a list stands under: its heading, else the title of a page of several things."""
    return block.heading or (page.title if is_plural(page.title) else "")


def _leading_links(block: Block) -> Sequence[BlockLink]:
    """Return the links that a list item or a row is about: the one that it begins with, or all of a
    row that is an enumeration of links.
    """
    if block.kind not in {"item", "row"} or not block.links:
        return ()
    rest = block.value
    for link in block.links:
        rest = rest.replace(link.text, "", 1)
    if block.kind == "row" and not _ENUMERATION.sub("", rest):
        return block.links
    is_first = block.links[0].start <= len(block.text) - len(block.value)
    return block.links[: int(is_first)]


def _best_link_text(url: str, names: Counter[str]) -> str:
    """Return the text that is the address's own name, else the most common one."""
    leaf = normal_name(unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2]).partition(".")[0])
    same = [name for name in names if normal_name(name).replace(" ", "") == leaf.replace(" ", "")]
    return same[0] if same else names.most_common(1)[0][0]
