"""Records of a chunk that code reads without a model, and the least that a chunk has.

Rows, list items and titles are read by their form, sentences by spaCy where it is installed. An
entity is a name that they have; an observation is a sentence or a row about one; a relation is what
a row, a list or a sentence says of two.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from wavewright.config import Span
from wavewright.packs.extraction.blocks import (
    Block,
    PageStructure,
    is_name,
    singular,
    word_set,
    words_of,
)
from wavewright.packs.extraction.entities import Gazetteer, NamedEntity
from wavewright.packs.extraction.kinds import (
    KINDS,
    kind_of_word,
    type_of_kind,
    type_of_noun,
)
from wavewright.packs.extraction.prose import (
    ORGANIZATION,
    PERSON,
    Phrase,
    Pronoun,
    ProseReader,
    SentenceProse,
    Statement,
)
from wavewright.packs.extraction.relations import KINSHIP, FoundRelation, relations
from wavewright.packs.extraction.structure import SourcePage, read_structure
from wavewright.packs.knowledge.chunking import (
    DEFINITION,
    DOCUMENT,
    FIELD,
    HEADING,
    ITEM,
    RULE_LINE,
    THING,
    FoundName,
    NameFinder,
    plain_text,
    sentence_spans,
    title_name,
)
from wavewright.packs.knowledge.models import (
    Chunk,
    ChunkRecords,
    EntityRecord,
    KnownName,
    ObservationRecord,
    QuotedEvidence,
    RelationRecord,
)

MAX_OBSERVATIONS: Final = 5
"""About one entity in one chunk."""
MAX_QUOTE: Final = 600
"""Characters of the quote of a record that no model made."""
REMEMBERED: Final = 2
"""Sentences before a pronoun among whose names the one that it stands for is looked for."""

_IS_BARE: Final = re.compile(r"\s*(?:#|```|~~~|[\W_]*$)")
"""Of what is no sentence: a heading, a block of code, marks alone."""
_IS_CODE: Final = re.compile(r"\s*(?:```|~~~)")
_OPTION: Final = re.compile(r"\s*--?\w")
"""The beginning of what a manual says of an option of a command, which is no prose."""
_TABLE_RULE: Final = re.compile(r"[ \t\r]*\n(?=[^\n]*\|)(?=[^\n]*-)[ \t\r|:-]++(?:\n|$)")
"""The line below the headings of a table."""
_PAIR: Final = re.compile(r"\|(?P<label>(?:[^|\\\n]|\\.)+)\|(?=\s*[^|\s])(?:[^|\\\n]|\\.)+\|?")
"""The row of two columns that both say something."""
_OF_NAMES: Final = word_set("full complete proper official legal common")
"""Words before `name` in the heading of a column that tell no kind of things."""
_COLUMNS: Final = re.compile(r"\S[ \t]{3,}\S")
"""Of lines that set texts beside each other, which is no prose."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_NO_WORD: Final = re.compile(r"[\W_]+")
_LEAD: Final = re.compile(r"[\W_]*(?:The |the |An? )?[\W_]*")
_TYPES_OF_PRONOUNS: Final[Mapping[Pronoun, str]] = {
    "he": PERSON,
    "she": PERSON,
    "they": ORGANIZATION,
}
_OF_PEOPLE: Final = frozenset({"marry", "meet", "divorce", "bear to"})
"""Verbs that relate people alone: "Ada was born to Helen"."""
_OF_GROUPS: Final = frozenset({"acquire", "buy", "found"})
"""Verbs that are done to nobody: who is bought is a company."""
_OF_PLACES: Final = frozenset(
    {"bear in", "bury in", "die in", "live in", "retire in", "retire to", "settle in"}
)
"""Verbs of a person that have a place behind their preposition."""
_ALSO_OF_GROUPS: Final = word_set("ally enemy rival nemesis parent master")
"""Kin that a company may have, too."""
_KIN_OF_PEOPLE: Final = tuple(word for word in KINSHIP if word not in _ALSO_OF_GROUPS)
_OUTSIDE_FAMILIES: Final = word_set(
    "mentor teacher apprentice student pupil servant friend companion lover"
)
_FAMILY: Final = frozenset(_KIN_OF_PEOPLE) - _OUTSIDE_FAMILIES
"""Kin that people alone have: a university may have students, and no son."""
_PLACE: Final = "place"
_AWARD: Final = "award"
_AWARDS: Final = word_set("award cup fellowship lecture medal prize scholarship trophy")
"""What is called after people."""
_SURE: Final = 3
"""Votes of what a sentence says, against one of what a model takes a name for."""
_OTHERS: Final[Mapping[Pronoun, Pronoun]] = {"he": "she", "she": "he"}


def evidence_of(chunk: Chunk, span: Span) -> QuotedEvidence:
    """Return a stretch of a chunk as evidence, with its place in the document."""
    return QuotedEvidence(
        quote=chunk.text[span.start : span.end],
        document=chunk.document,
        chunk=chunk.id,
        start=chunk.start + span.start,
        end=chunk.start + span.end,
    )


def generate_records(chunk: Chunk, prose: ProseReader) -> ChunkRecords | None:
    """Return what code reads in a chunk; nothing where no name stands in it."""
    reader = _ChunkReader(chunk, prose)
    reader.read()
    if not reader.entities:
        return None
    return ChunkRecords(
        chunk=chunk.id,
        origin="generated",
        entities=(*reader.entities.values(),),
        observations=(*reader.observations.values(),),
        relations=(*reader.relations.values(),),
    )


def least_records(chunk: Chunk) -> ChunkRecords:
    """Return the least that a chunk has: its document as an entity, its first sentence as an
    observation of it.
    """
    spans = [
        span
        for span in sentence_spans(chunk.text)
        if not _IS_BARE.match(chunk.text[span.start : span.end])
        and not _TABLE_RULE.match(chunk.text, span.end)
    ]
    first = spans[0] if spans else Span(0, len(chunk.text))
    span = Span(first.start, min(first.end, first.start + MAX_QUOTE))
    evidence = (evidence_of(chunk, span),)
    subject = _subject(chunk)
    names = NameFinder(chunk.names).find(chunk.text[span.start : span.end])
    named = {subject.name: subject, **{one.name.name: one.name for one in names}}
    return ChunkRecords(
        chunk=chunk.id,
        origin="forced",
        entities=tuple(
            EntityRecord(name=one.name, type=one.type, evidence=evidence, origin="forced")
            for one in named.values()
        ),
        observations=(
            ObservationRecord(
                entity=subject.name,
                text=plain_text(evidence[0].quote) or evidence[0].quote,
                evidence=evidence,
                origin="forced",
            ),
        ),
    )


def _subject(chunk: Chunk) -> KnownName:
    """Return what the chunk's document is about: the known name of its title, or the document
    itself.
    """
    name = title_name(chunk.title)
    return next(
        (one for one in chunk.names if one.name == name), KnownName(name=name, type=DOCUMENT)
    )


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of prose, with what stands in it."""

    span: Span
    """In the chunk."""
    text: str
    """Without the marks of Markdown."""
    prose: SentenceProse
    names: tuple[FoundName, ...]
    """Names with their places in the sentence, under the names that they are of."""
    unclear: tuple[int, ...] = ()
    """Where names stand that are short for several people's."""

    def named(self, phrase: Phrase) -> KnownName | None:
        """Return what a phrase names."""
        at = (one.name for one in self.names if one.start <= phrase.head < one.end)
        return next(at, None)


class _ChunkReader:
    """Reads the records of one chunk."""

    def __init__(self, chunk: Chunk, prose: ProseReader) -> None:
        self.entities: dict[str, EntityRecord] = {}
        self.observations: dict[tuple[str, str], ObservationRecord] = {}
        self.relations: dict[tuple[str, str, str], RelationRecord] = {}
        self._chunk = chunk
        self._prose = prose
        self._subject = _subject(chunk)
        self._headings = [*enumerate(map(self._known, chunk.headings), start=1)]
        """What the headings that the text stands under name, with their levels."""
        self._above: list[tuple[int, KnownName]] = []
        """The items that the next one of a list may be nested in, with their indents."""

    def read(self) -> None:
        """Read the rows and items, what they relate, and then the sentences."""
        text = self._chunk.text
        spans = [
            span
            for span in sentence_spans(text)
            if not _IS_CODE.match(text[span.start : span.end])
            and not RULE_LINE.fullmatch(text[span.start : span.end])
        ]
        page = read_structure(SourcePage(url=self._chunk.document, text=_with_heading(self._chunk)))
        rows = [block for block in page.blocks if block.kind == "row" or block.cells]
        names = NameFinder(self._chunk.names).find(text)
        for span in spans:
            heading = HEADING.fullmatch(text[span.start : span.end])
            if heading is not None:
                self._begin_section(heading)
                is_title = title_name(heading["text"]) == self._subject.name
                if is_title and self._subject.type != DOCUMENT:
                    self._add_entity(self._subject, (evidence_of(self._chunk, span),))
            else:
                within = [one for one in names if span.start <= one.start and one.end <= span.end]
                self._read_form(_cut(span), within, rows)
        self._relate_forms(page, spans)
        self._read_prose(spans)

    # -- forms ------------------------------------------------------------------------------------

    def _read_form(self, span: Span, found: Sequence[FoundName], rows: Sequence[Block]) -> None:
        """Read a row, an item that begins with a name, and the known names of any text."""
        content = self._chunk.text[span.start : span.end]
        found = [one for one in found if one.end <= span.end]
        evidence = (evidence_of(self._chunk, span),)
        row = _row_of(content, rows)
        cells = () if row is None else row.cells
        named = self._named_by(cells) if cells else None
        label = row.label if row is not None and not cells else self._label_of_pair(span)
        if named is not None:
            self._observe(named, "; ".join(cell.text for cell in cells[1:]), evidence)
        elif label:
            # A field of what its label names, else of what its section or the document is about.
            labelled = next((one.name for one in found if one.name.name == label), None)
            self._observe(labelled or self._of_section(), content, evidence)
        else:
            item = ITEM.fullmatch(content)
            leading = self._leading(span, item, found)
            parent = self._parent(span, leading) if item is not None else None
            told = leading or parent
            if told is not None:
                self._observe(told, content, evidence)
        for one in found:
            # A document that repeats its title names nothing by it.
            if one.name != self._subject or self._subject.type != DOCUMENT:
                self._add_entity(one.name, evidence)

    def _named_by(self, cells: Sequence[Block]) -> KnownName | None:
        """Return what stands in the first column of a table, where that is one of names, of a kind
        of things, or of known names.
        """
        first = cells[0]
        if not is_name(first.value):
            return None
        known = self._known(first.value)
        if known is not None:
            return known
        *words, noun = words_of(first.label) or [""]
        if noun == "name" and words and words[-1] not in _OF_NAMES:
            # "Ship name" is a column of ships, "Full name" one of names.
            noun = words[-1]
        kind = kind_of_word(noun)
        if kind is None and noun != "name":
            return None
        return KnownName(name=first.value, type=THING if kind is None else type_of_kind(kind))

    def _label_of_pair(self, span: Span) -> str:
        """Return the first cell of a row of two that are no headings of a table; empty where it is
        none. A chunk may begin within a table, below its headings.
        """
        pair = _PAIR.fullmatch(self._chunk.text[span.start : span.end].strip())
        is_heading = _TABLE_RULE.match(self._chunk.text, span.end) is not None
        return plain_text(pair["label"]).rstrip(":") if pair and not is_heading else ""

    def _known(self, name: str) -> KnownName | None:
        """Return what the chunk knows by a name, or has read by it."""
        known = next((one for one in (self._subject, *self._chunk.names) if one.name == name), None)
        read = self.entities.get(name)
        return known if read is None else KnownName(name=name, type=read.type)

    def _begin_section(self, heading: re.Match[str]) -> None:
        level = len(heading["marks"])
        above = [(depth, named) for depth, named in self._headings if depth < level]
        self._headings = [*above, (level, self._known(title_name(heading["text"])))]

    def _of_section(self) -> KnownName:
        """Return what the nearest heading names that names anything known, else what the document
        is about.
        """
        named = (one for _, one in reversed(self._headings) if one is not None)
        return next(named, self._subject)

    def _leading(
        self, span: Span, item: re.Match[str] | None, found: Sequence[FoundName]
    ) -> KnownName | None:
        """Return the known name that an item begins with, or that a definition is of."""
        content = self._chunk.text[span.start : span.end]
        if item is None and not DEFINITION.match(content):
            self._above = []
            return None
        lead = _LEAD.match(content, 0 if item is None else item.start("text"))
        start = span.start + (lead.end() if lead else 0)
        return next((one.name for one in found if one.start == start), None)

    def _parent(self, span: Span, leading: KnownName | None) -> KnownName | None:
        """Return what the item names that an item is nested in."""
        indent = span.start - self._chunk.text.rfind("\n", 0, span.start)
        self._above = [(depth, name) for depth, name in self._above if depth < indent]
        parent = self._above[-1][1] if self._above else None
        if leading is not None:
            self._above.append((indent, leading))
        return parent

    def _relate_forms(self, page: PageStructure, spans: Sequence[Span]) -> None:
        """Add what rows and lists say of the names that this and the other documents know."""
        chunk = self._chunk
        known = [
            NamedEntity(
                one.name,
                kind_of_word(one.type) or THING,
                chunk.document if one is self._subject else "",
            )
            for one in dict.fromkeys((self._subject, *chunk.names))
        ]
        plain = [(span, plain_text(chunk.text[span.start : span.end])) for span in spans]
        for found in relations(Gazetteer([page], KINDS, known=known), [page]):
            span = next(
                (span for span, text in plain if _says(text, found, self._subject.name)), None
            )
            if span is not None:
                source, target = (
                    self._known(one.name) or KnownName(name=one.name, type=type_of_kind(one.kind))
                    for one in (found.source, found.target)
                )
                self._relate(source, found.relation.replace("_", " "), target, span)

    # -- prose ------------------------------------------------------------------------------------

    def _read_prose(self, spans: Sequence[Span]) -> None:
        sentences = self._sentences(spans)
        for place, sentence in enumerate(sentences):
            evidence = (evidence_of(self._chunk, _cut(sentence.span)),)
            for found in sentence.names:
                self._add_entity(found.name, evidence)
            before = sentences[max(0, place - REMEMBERED) : place]
            told = [
                self._meant(phrase, sentence, before)
                for clause in sentence.prose.clauses
                for phrase in clause.subjects
            ]
            for name in dict.fromkeys(one for one in told if one is not None):
                self._observe(name, evidence[0].quote, evidence)
            for statement in sentence.prose.statements:
                self._read_statement(statement, sentence, before)

    def _read_statement(
        self, statement: Statement, sentence: _Sentence, before: Sequence[_Sentence]
    ) -> None:
        source = self._meant(statement.source, sentence, before)
        # "Grace joined him": whom she joined is somebody else.
        target = self._meant(statement.target, sentence, before, other=source)
        if source is None or target is None or source.name == target.name:
            return
        is_of_family = statement.noun in _FAMILY and statement.preposition == "of"
        if is_of_family and not {source.type, target.type} <= {PERSON, THING}:
            # "Their son", behind a university: it is not the one that has him.
            return
        self._relate(source, statement.relation, target, sentence.span)

    def _sentences(self, spans: Sequence[Span]) -> list[_Sentence]:
        """Return the sentences of prose, each with its names; none where no model reads them."""
        text = self._chunk.text
        kept = [
            span
            for span in spans
            if not HEADING.fullmatch(text[span.start : span.end])
            and not text[span.start : span.end].lstrip().startswith(("|", "    ", ">"))
            and not _COLUMNS.search(text[span.start : span.end])
            and not _OPTION.match(text[span.start : span.end])
        ]
        fields = {
            span
            for span in kept
            if FIELD.match(text, span.start, span.end)
            and text[span.start : span.end].rstrip()[-1] not in ".!"
        }
        if len(fields) > 1:
            # The head of a mail is no prose, though a subject may have a verb.
            kept = [span for span in kept if span not in fields]
        plain = [_prose_text(text[span.start : span.end]) for span in kept]
        if self._prose.is_of_another_language(" ".join(plain)):
            return []
        small = {word for word in _WORD.findall(text) if word.islower()}
        # A sentence without any name has nothing to tell: most of a manual's need no reading.
        named = [one if _may_name(one, small) else "" for one in plain]
        read = self._prose.read_all(named)
        known = self._chunk.names
        finder = NameFinder(dict.fromkeys([*known, self._subject]))
        sentences = [
            _Sentence(span, one, prose, _names_in(one, prose, finder))
            for span, one, prose in zip(kept, plain, read, strict=True)
        ]
        return _under_full_names(sentences, known, self._subject, {*self._chunk.terms})

    def _meant(
        self,
        phrase: Phrase,
        sentence: _Sentence,
        before: Sequence[_Sentence],
        other: KnownName | None = None,
    ) -> KnownName | None:
        """Return what a phrase names.

        A pronoun stands for the one name of its kind in the two sentences before it and in what
        precedes it in its own, but for the `other` of the statement; where there are several, or
        somebody else is spoken of already, for none. See docs/reference/knowledge.md.
        """
        if phrase.pronoun is None:
            return sentence.named(phrase)
        window = [*before, sentence]
        pronouns = {
            one.pronoun
            for place in window
            for one in place.prose.pronouns
            if place is not sentence or one.head < phrase.head
        }
        if _OTHERS.get(phrase.pronoun) in pronouns:
            # "He … her": there are two, and names do not tell which is which.
            return None
        earlier = [
            one.name
            for place in window
            for one in place.names
            if place is not sentence or one.end <= phrase.head
        ]
        kind = _TYPES_OF_PRONOUNS.get(phrase.pronoun)
        if kind == PERSON and any(map(_may_be_surname, self._told_of(window, sentence, phrase))):
            return None
        if kind == PERSON and _is_of_somebody_before(phrase, window):
            return None
        is_unclear = any(place.unclear for place in before) or any(
            start < phrase.head for start in sentence.unclear
        )
        if kind == PERSON and is_unclear:
            return None
        fitting = {
            one.name: one
            for one in earlier
            if (one.type == kind if kind is not None else one.type != PERSON)
            and (other is None or one.name != other.name)
        }
        return next(iter(fitting.values())) if len(fitting) == 1 else None

    def _told_of(
        self, window: Sequence[_Sentence], sentence: _Sentence, phrase: Phrase
    ) -> Iterator[KnownName]:
        """Yield the names that clauses before a phrase are about."""
        for place in window:
            for clause in place.prose.clauses:
                for subject in clause.subjects:
                    name = place.named(subject)
                    is_before = place is not sentence or subject.head < phrase.head
                    if name is not None and is_before:
                        yield name

    # -- records ----------------------------------------------------------------------------------

    def _relate(self, source: KnownName, relation: str, target: KnownName, span: Span) -> None:
        evidence = (evidence_of(self._chunk, _cut(span)),)
        for one in (source, target):
            self._add_entity(one, evidence)
        key = (source.name, relation, target.name)
        self.relations.setdefault(
            key,
            RelationRecord(
                source=source.name,
                relation=relation,
                target=target.name,
                evidence=evidence,
                origin="generated",
            ),
        )

    def _observe(self, name: KnownName, content: str, evidence: tuple[QuotedEvidence, ...]) -> None:
        text = _prose_text(content).strip("- ")
        about = sum(entity == name.name for entity, _ in self.observations)
        if text != name.name and len(text) > 2 and about < MAX_OBSERVATIONS:
            self._add_entity(name, evidence)
            self.observations.setdefault(
                (name.name, text),
                ObservationRecord(
                    entity=name.name, text=text, evidence=evidence, origin="generated"
                ),
            )

    def _add_entity(self, name: KnownName, evidence: tuple[QuotedEvidence, ...]) -> None:
        record = EntityRecord(name=name.name, type=name.type, evidence=evidence, origin="generated")
        known = self.entities.setdefault(name.name, record)
        if known.type in {THING, DOCUMENT} and name.type not in {THING, DOCUMENT}:
            self.entities[name.name] = known.model_copy(update={"type": name.type})


def _row_of(content: str, rows: Sequence[Block]) -> Block | None:
    """Return the row that a stretch of text is, or the first sentence of."""
    said = _words_alone(plain_text(content))
    whole = (one for one in rows if _words_alone(one.text) == said)
    begun = (
        one
        for one in rows
        if one.label
        and said.startswith(f"{_words_alone(one.label)} ")
        and _words_alone(one.text).startswith(f"{said} ")
    )
    return next(whole, None) or next(begun, None)


def _is_of_somebody_before(phrase: Phrase, window: Sequence[_Sentence]) -> bool:
    """Whether the same pronoun stands before everybody whom the sentences name: they go on about
    somebody named earlier, and "She met Ada. She left" tells not who left.
    """
    for place in window:
        people = [name.start for name in place.names if name.name.type == PERSON]
        first = min(people, default=len(place.text))
        if any(one.pronoun == phrase.pronoun and one.head < first for one in place.prose.pronouns):
            return place is not window[-1]
        if people:
            return False
    return False


def _may_be_surname(name: KnownName) -> bool:
    """Whether a name may be a person's, whom a model takes for something else: one word, that is
    neither an abbreviation nor a place.
    """
    is_typed = name.type in {PERSON, _PLACE}
    return not is_typed and " " not in name.name and not name.name.isupper()


def _cut(span: Span) -> Span:
    return Span(span.start, min(span.end, span.start + MAX_QUOTE))


def _may_name(text: str, small: set[str]) -> bool:
    """Whether a text has a word with a capital that is none of the words in lower case around it."""
    words = _WORD.findall(text)
    return any(word[0].isupper() for word in words[1:]) or (
        bool(words) and words[0].casefold() not in small
    )


def _prose_text(content: str) -> str:
    """Return a stretch of a document as plain text, without the mark and the box of a list item."""
    item = ITEM.fullmatch(content)
    return plain_text(item["text"] if item else content)


# -- which names are one, and of what type --------------------------------------------------------


def _names_in(text: str, prose: SentenceProse, finder: NameFinder) -> tuple[FoundName, ...]:
    """Return the names in a sentence: known ones to the letter, and those that the model finds
    where they are longer.
    """
    found = finder.find(text) if prose.is_sentence else []
    for one in prose.names:
        taken = [
            other for other in found if one.span.start < other.end and other.start < one.span.end
        ]
        if any(other.end - other.start >= one.span.end - one.span.start for other in taken):
            continue
        found = [other for other in found if other not in taken]
        name = KnownName(name=one.titled[:200], type=one.type or THING)
        found.append(FoundName(name, one.span.end - len(one.titled), one.span.end))
    return tuple(sorted(found, key=lambda one: one.start))


def _under_full_names(
    sentences: Sequence[_Sentence],
    known: Sequence[KnownName],
    subject: KnownName,
    defined: AbstractSet[str],
) -> list[_Sentence]:
    """Return sentences with what they name under one name and type in the whole chunk; what is no
    name in them is left out.
    """
    kept = {one.name for one in known}
    types = _types(sentences, kept | {subject.name})
    terms = _behind_articles(sentences)
    words = {word for term in defined if not term.isupper() for word in _words_of_name(term)}
    full = _full_names({**{one.name: one.type for one in known}, **types}, subject.name)
    if types.get(subject.name, DOCUMENT) == DOCUMENT:
        # What a document is called is a name in it only where the model takes it for one, or where
        # a sentence says something of it.
        subjects = (
            sentence.named(phrase)
            for sentence in sentences
            for clause in sentence.prose.clauses
            for phrase in clause.subjects
        )
        if subject in subjects:
            types[subject.name] = THING
        else:
            kept.discard(subject.name)

    def whole(found: FoundName) -> FoundName | None:
        name = full[found.name.name]
        if name is None:
            return None
        is_typed = types.get(name, THING) not in {THING, DOCUMENT}
        is_term = name in terms | defined or words.issuperset(_words_of_name(name))
        is_name = name in kept or (is_typed and not is_term)
        type_ = types.get(name, found.name.type)
        return replace(found, name=KnownName(name=name, type=type_)) if is_name else None

    return [
        replace(
            sentence,
            names=tuple(filter(None, map(whole, sentence.names))),
            unclear=tuple(one.start for one in sentence.names if full[one.name.name] is None),
        )
        for sentence in sentences
    ]


def _types(sentences: Sequence[_Sentence], known_names: AbstractSet[str]) -> dict[str, str]:
    """Return the type of each name: what a sentence calls it, else that of a known name, else what
    most sentences take it for.
    """
    votes = _votes(sentences)
    said = dict[str, str]()
    for sentence in sentences:
        for clause in sentence.prose.clauses:
            # A noun of no known kind says less than what the model takes the name for.
            is_known = kind_of_word(clause.noun) is not None
            for phrase in clause.subjects if clause.noun else ():
                # "Her second husband, X": a project may be another's sibling.
                is_kin = clause.noun in _KIN_OF_PEOPLE and clause.phrase.start < phrase.head
                named = sentence.named(phrase) if phrase.pronoun is None else None
                if named is not None and (is_kin or is_known or not votes[named.name]):
                    told = PERSON if is_kin else said.get(named.name)
                    said[named.name] = told or type_of_noun(clause.noun)
    found = dict[str, str]()
    for one in (one for sentence in sentences for one in sentence.names):
        name, taken = one.name.name, one.name.type
        is_known = name in known_names and taken not in {THING, DOCUMENT}
        if votes[name] and not is_known:
            ((taken, _),) = votes[name].most_common(1)
        found[name] = said.get(name) or _type_by_name(name, taken)
    return found


def _type_by_name(name: str, taken: str) -> str:
    """Return the type that the noun of a name tells: `Kremsmünster Observatory` is nobody, whatever
    a model takes it for, and the `Ann Holt Prize` is not Ann Holt. A person may be called Hill or
    Castle.
    """
    words = name.partition(" of ")[0].split()
    if len(words) > 1 and words[-1].casefold() in _AWARDS:
        return _AWARD
    told = (
        type_of_noun(words[-1].rstrip(".").casefold())
        if len(words) > 1 or " of " in name
        else taken
    )
    is_known = told == ORGANIZATION or (told == _PLACE and taken not in {PERSON, ORGANIZATION})
    return told if is_known and taken != DOCUMENT else taken


def _votes(sentences: Sequence[_Sentence]) -> Mapping[str, Counter[str]]:
    """Return how often a name is taken for each type."""
    votes = defaultdict[str, Counter[str]](Counter)
    for sentence in sentences:
        prose = sentence.prose
        # "Globex met its rival": what has `its` rival is nobody.
        is_of_thing = any(phrase.pronoun == "it" for phrase in prose.pronouns)
        people = [
            phrase.head
            for statement in prose.statements
            if f"{statement.verb} {statement.preposition}".strip() in _OF_PEOPLE and not is_of_thing
            for phrase in (statement.source, statement.target)
        ]
        people += [
            statement.target.head
            for statement in prose.statements
            if statement.noun in _KIN_OF_PEOPLE and statement.preposition == "of"
        ]
        groups = [
            (statement.source if statement.preposition == "by" else statement.target).head
            for statement in prose.statements
            if statement.verb in _OF_GROUPS and statement.preposition in {"by", ""}
        ]
        places = [
            statement.target.head
            for statement in prose.statements
            if f"{statement.verb} {statement.preposition}" in _OF_PLACES
            # "A company in Kiel": what a thing of a known kind is in is nobody.
            or (statement.preposition == "in" and kind_of_word(statement.noun))
        ]
        for one in sentence.names:
            near = (other for other in prose.names if other.span == Span(one.start, one.end))
            votes[one.name.name].update(other.type for other in near if other.type)
            # Only people are married or have a mother, and whom one meets is somebody.
            if any(one.start <= head < one.end for head in people):
                votes[one.name.name][PERSON] += _SURE
            is_group = any(one.start <= head < one.end for head in groups)
            if is_group and votes[one.name.name][PERSON]:
                votes[one.name.name][ORGANIZATION] += _SURE
            # One is born in a place, and may die in the Battle of Orla.
            if " " not in one.name.name and any(one.start <= head < one.end for head in places):
                votes[one.name.name][_PLACE] += _SURE
    return votes


def _behind_articles(sentences: Sequence[_Sentence]) -> set[str]:
    """Return the single words that always stand behind `the`: what a document calls so is a word of
    its own, as `the Provider` is.
    """
    behind: dict[str, set[bool]] = {}
    for sentence in sentences:
        for one in sentence.names:
            has_article = sentence.text[: one.start].casefold().endswith("the ")
            behind.setdefault(one.name.name, set()).add(has_article)
    return {name for name, articles in behind.items() if " " not in name and articles == {True}}


def _words_of_name(name: str) -> list[str]:
    """Return the words of a name that say something, in the singular: `Forms of the Covered Work`
    is made of the words of terms.
    """
    return [singular(word.casefold()) for word in _WORD.findall(name) if word[0].isupper()]


def _full_names(types: Mapping[str, str], subject: str) -> dict[str, str | None]:
    """Return the full name that each name is short for, or itself; None for a short name that may
    be of several, of whom none is the one that the document is about.
    """
    found: dict[str, str | None] = {}
    for name in types:
        words = name.split()
        longer = [
            other
            for other, kind in types.items()
            if kind == PERSON
            and len(other.split()) > len(words)
            and set(words) <= set(other.split())
        ]
        outer = [
            one
            for one in longer
            if not any(one != two and set(one.split()) < set(two.split()) for two in longer)
        ]
        if not outer:
            found[name] = name
        elif subject in outer:
            found[name] = subject
        else:
            found[name] = outer[0] if len(outer) == 1 else None
    return found


def _with_heading(chunk: Chunk) -> str:
    """Return the text under the headings that it stands under in the document, those of a table
    among them, where it does not begin with them.
    """
    heading = chunk.headings[-1] if len(chunk.headings) > 1 else ""
    text = f"{chunk.table_head}\n{chunk.text}" if chunk.table_head else chunk.text
    return f"## {heading}\n\n{text}" if heading and not HEADING.match(text) else text


def _says(text: str, found: FoundRelation, subject: str) -> bool:
    """Whether a stretch of text is what a relation was read from: it has its words, and each name
    but the subject's.
    """
    names = {found.source.name, found.target.name} - {subject}
    said, quote = _words_alone(text), _words_alone(found.quote)
    return (quote in said or said in quote) and all(name in text for name in names)


def _words_alone(text: str) -> str:
    return _NO_WORD.sub(" ", text).strip()
