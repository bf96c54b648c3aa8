"""What pages say of a thing: values of rows, sections and sentences, each with the passage that
says it.

What is said in quotation by a character is never taken for a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

from wavewright.packs.extraction.blocks import Block, PageStructure, Phrases, clean_title, words_of
from wavewright.packs.extraction.entities import EntityMention, Gazetteer, NamedEntity
from wavewright.packs.extraction.kinds import LABELS, NPC, kind_of_word
from wavewright.packs.extraction.prose import Clause, Phrase

Takes: TypeAlias = Literal["text", "list", "quote", "target"]

MAX_SECTION: Final = 2_000
"""Characters of a section's text; paragraphs are kept whole."""

_PRONOUN: Final = re.compile(r"(?:He|She|It|They|This|These)\b")
_THE_NOUN: Final = re.compile(r"The (?P<noun>[a-z]+)\b")
_LIST_MARKS: Final = re.compile(r"\s*(?:[,;\n•]|\band\b)\s*")
_NOTE: Final = re.compile(r"\s*(?:(?P<comma>,)|[—–:(]|-\s)\s*(?P<text>[^,;(—–)]+)")
"""What a list adds to a name: `Old Tam, ferryman`, `Old Tam (ferryman)`."""
_NO_VALUES: Final = frozenset(
    {"none", "unknown", "n/a", "na", "-", "—", "–", "?", "none known", "tba", "tbd"}
)


@dataclass(frozen=True, slots=True)
class FactCues:
    """How a field of a thing is told."""

    field: str
    takes: Takes = "text"
    """The value; the parts of an enumeration; the whole sentence; or the things of some kinds in
    the passage.
    """
    labels: Phrases = frozenset()
    """Of rows, in lower case."""
    labels_of: Phrases = frozenset()
    """Names of `LABELS` of the kinds, which are labels, too."""
    headings: Phrases = frozenset()
    """Of sections, in lower case; empty text for what stands above the first heading."""
    pattern: re.Pattern[str] | None = None
    """Of what follows the thing's name in a sentence; its group `value` is the value."""
    verbs: Phrases = frozenset()
    """What a clause says of the thing: a verb in its basic form, alone or with the words behind it,
    such as `serve`, `belong to`, `be at war with`, `be captain of`. What follows is the value.
    """
    verbs_with: Phrases = frozenset()
    """Verbs, in the present, that a clause says somebody does to the thing, as `rule`."""
    words: Phrases = frozenset()
    """Adjectives that a clause says of the thing."""
    noun_kind: str = ""
    """Kind of the noun that a clause says the thing is; the noun with its adjectives is the value."""
    kinds: Phrases = frozenset()
    """Of targets."""


_MAX_ROW: Final = 200
"""Characters of a paragraph that is a label and its value."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value of a field, and the passage that says it."""

    field: str
    value: str
    quote: str
    url: str
    target: NamedEntity | None = None
    label: str = ""
    """Of the row or the section that it was read from, in lower case."""


@dataclass(frozen=True, slots=True)
class _AboutSentence:
    """A sentence that begins with a thing's name, or with a pronoun for it."""

    text: str
    rest: str
    """What follows the name."""
    page: PageStructure
    block: Block
    start: int = 0
    """Where the name stands; elsewhere than at the beginning only clauses tell what is said of it."""


class FactReader:
    """Reads what pages say of one thing."""

    def __init__(
        self, gazetteer: Gazetteer, entity: NamedEntity, pages: Sequence[PageStructure] = ()
    ) -> None:
        """Read nothing yet.

        Args:
            gazetteer: The names of all pages.
            entity: The thing.
            pages: Pages about it; its own where absent.
        """
        self._gazetteer = gazetteer
        self._entity = entity
        self.pages = tuple(pages) or ((entity.page,) if entity.page is not None else ())

    def facts(self, cues: Sequence[FactCues]) -> list[Fact]:
        """Return what is told of some fields, rows first."""
        return [
            fact
            for cue in cues
            for fact in (*self._in_rows(cue), *self._in_sections(cue), *self._in_sentences(cue))
        ]

    def _in_rows(self, cue: FactCues) -> Iterator[Fact]:
        labels = cue.labels.union(*(LABELS[name] for name in cue.labels_of))
        for page in self.pages:
            for block in page.rows():
                if block.label.casefold() in labels:
                    yield from self._values(cue, block.value, block, page)
            for block in page.prose():
                # "Recommended level: 20-26" is a row, however it is written.
                label, mark, value = block.text.partition(":")
                is_row = mark and "\n" not in block.text and len(block.text) <= _MAX_ROW
                if is_row and label.strip().casefold() in labels:
                    yield from self._values(cue, value.strip(), block, page, block.text)

    def _in_sections(self, cue: FactCues) -> Iterator[Fact]:
        for page in self.pages:
            size = 0
            for block in page.blocks:
                if block.kind in {"paragraph", "item"} and block.heading.casefold() in cue.headings:
                    size += len(block.text)
                    if size <= MAX_SECTION or size == len(block.text):
                        yield from self._values(cue, block.text, block, page)

    def _in_sentences(self, cue: FactCues) -> Iterator[Fact]:
        for sentence in self._about:
            for value in self._told(cue, sentence):
                yield from self._values(cue, value, sentence.block, sentence.page, sentence.text)
            is_read = cue.pattern is not None and sentence.start == 0
            match = cue.pattern.search(sentence.rest) if cue.pattern and is_read else None
            if match is not None:
                value = match["value"].strip(" ,")
                yield from self._values(cue, value, sentence.block, sentence.page, sentence.text)
        for page, block, text in self._done_to_it(cue):
            yield from self._values(cue, text, block, page, text)

    def _done_to_it(self, cue: FactCues) -> Iterator[tuple[PageStructure, Block, str]]:
        """Yield the sentences that say what is done to the thing in the verbs of a cue."""
        if not cue.verbs_with:
            return
        places = [(page, block) for page in self.pages for block in page.prose()]
        mentions = self._gazetteer.mentions_of(self._entity)
        places += [(one.page, one.block) for one in mentions if one.block.kind == "paragraph"]
        # By identity: a page is as long to compare as it is.
        for page, block in {id(block): (page, block) for page, block in places}.values():
            for sentence in block.sentences():
                for clause in self._gazetteer.prose.read(sentence).clauses:
                    is_told = clause.is_present and clause.verb in cue.verbs_with
                    if is_told and any(
                        self._is_named(one, sentence, page) for one in clause.objects
                    ):
                        yield page, block, sentence

    def _is_named(self, phrase: Phrase, sentence: str, page: PageStructure) -> bool:
        """Whether a phrase names the thing, or is `it` on its own page."""
        if phrase.pronoun is not None:
            return phrase.pronoun == "it" and page in self.pages
        start = sentence.find(self._entity.name)
        return start >= 0 and start <= phrase.head < start + len(self._entity.name)

    def _told(self, cue: FactCues, sentence: _AboutSentence) -> Iterator[str]:
        """Yield what the clauses of a sentence say of the thing in the words of a cue."""
        if not (cue.verbs or cue.words or cue.noun_kind):
            return
        note = _NOTE.match(sentence.rest) if sentence.block.kind == "item" else None
        if cue.noun_kind and note is not None:
            head = words_of(note["text"].partition(" of ")[0])[-1:]
            if note["comma"] or (head and kind_of_word(head[0]) == cue.noun_kind):
                yield note["text"].strip()
                return
        end = len(sentence.text) - len(sentence.rest)
        for clause in self._gazetteer.prose.read(sentence.text).clauses:
            if not any(sentence.start <= one.head < end for one in clause.subjects):
                continue
            rest = sentence.text[clause.rest.start : clause.rest.end]
            if cue.words & clause.words:
                yield rest
            if cue.noun_kind and clause.verb == "be":
                is_kind = kind_of_word(clause.noun) == cue.noun_kind
                if is_kind or (clause.has_somebody and cue.noun_kind == NPC):
                    yield sentence.text[clause.phrase.start : clause.phrase.end]
            behind = _behind(clause, rest, cue.verbs)
            if behind is not None:
                yield behind

    def _values(
        self, cue: FactCues, text: str, block: Block, page: PageStructure, sentence: str = ""
    ) -> Iterator[Fact]:
        quote = sentence or block.text
        label = (block.label or block.heading).casefold()
        if cue.takes == "target":
            for mention in self._gazetteer.mentions(page, block):
                named = block.text[mention.start : mention.end]
                is_within = not sentence or named in text
                if (
                    is_within
                    and mention.entity.kind in cue.kinds
                    and mention.entity is not self._entity
                ):
                    yield Fact(
                        cue.field, mention.entity.name, quote, page.url, mention.entity, label
                    )
            return
        is_enumeration = cue.takes in {"list", "quote"} and block.kind == "row"
        text = sentence if sentence and cue.takes == "quote" else text
        parts = _LIST_MARKS.split(text) if is_enumeration else [text]
        for part in parts:
            is_whole = cue.takes == "quote" or (block.kind == "paragraph" and not sentence)
            value = part.strip() if is_whole else part.strip().rstrip(".")
            if value and value.casefold() not in _NO_VALUES:
                yield Fact(cue.field, value, quote, page.url, label=label)

    @cached_property
    def _about(self) -> list[_AboutSentence]:
        """Sentences about the thing: on its own pages also those of a pronoun, elsewhere those that
        begin with it.
        """
        found: list[_AboutSentence] = []
        for page in self.pages:
            for block in page.prose():
                for sentence in block.sentences():
                    end = self.subject_end(sentence, page)
                    if end:
                        found.append(_AboutSentence(sentence, sentence[end:], page, block))
        for mention in self._gazetteer.mentions_of(self._entity):
            if mention.block.kind in {"paragraph", "item"} and mention.page not in self.pages:
                found += self._elsewhere(mention)
        return found

    def subject_end(self, sentence: str, page: PageStructure) -> int:
        """Return where the subject of a sentence ends on a page of the thing, also "The valley" where
        the page calls it a valley; 0 where it is another.
        """
        end = subject_end(sentence, self._entity.name)
        begun = _THE_NOUN.match(sentence)
        if end or begun is None or kind_of_word(begun["noun"]) != self._entity.kind:
            return end
        return begun.end() if begun["noun"] in self._called[id(page)] else 0

    @cached_property
    def _called(self) -> Mapping[int, frozenset[str]]:
        """The words of the first sentence about the thing, for each of its pages by identity."""
        called: dict[int, frozenset[str]] = {}
        for page in self.pages:
            sentences = (one for block in page.prose() for one in block.sentences())
            first = next((one for one in sentences if subject_end(one, self._entity.name)), "")
            called[id(page)] = frozenset(words_of(first[:_MAX_ROW]))
        return called

    def _elsewhere(self, mention: EntityMention) -> Iterator[_AboutSentence]:
        name = mention.block.text[mention.start : mention.end]
        for sentence, place in mention.block.sentence_places():
            bare = sentence.removeprefix("The ")
            start = mention.start - place
            if mention.block.kind == "paragraph" and 0 < start < len(sentence):
                rest = sentence[start + len(name) :]
                yield _AboutSentence(sentence, rest, mention.page, mention.block, start)
            if bare.startswith(name):
                yield _AboutSentence(sentence, bare[len(name) :], mention.page, mention.block)


def _behind(clause: Clause, rest: str, verbs: frozenset[str]) -> str | None:
    """Return what stands behind the words by which a clause says one of some things; None where it
    says none of them.
    """
    if clause.noun and f"be {clause.noun} {clause.preposition}" in verbs:
        return rest
    words = rest.split()
    for count in range(min(3, len(words)), -1, -1):
        if " ".join([clause.verb, *(word.lower() for word in words[:count])]) in verbs:
            return " ".join(words[count:])
    return None


def subject_end(sentence: str, name: str) -> int:
    """Return where the subject of a sentence ends: the name, one word of it, or a pronoun; 0 where
    it is another.
    """
    bare = sentence.removeprefix("The ")
    for own in [name, *(word for word in name.split() if word[:1].isupper() and len(word) > 2)]:
        if bare.startswith(clean_title(own)) and not bare[len(own) : len(own) + 1].isalnum():
            return len(sentence) - len(bare) + len(own)
    pronoun = _PRONOUN.match(sentence)
    return pronoun.end() if pronoun else 0
