"""Records of a chunk that code reads without a model, and the least that a chunk has.

An entity is a known name that stands in the chunk; an observation is a sentence or a row about one.
Relations are read by `tools.extraction.relations`, with the chunk as a piece of the document that
is about its title.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from wavewright.packs.extraction.entities import Gazetteer, NamedEntity
from wavewright.packs.extraction.kinds import KINDS, kind_of_word
from wavewright.packs.extraction.relations import FoundRelation, relations
from wavewright.packs.extraction.structure import SourcePage, read_structure
from wavewright.packs.knowledge.chunking import (
    DOCUMENT,
    THING,
    FoundName,
    NameFinder,
    TextSpan,
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

_ROW: Final = re.compile(
    r"\s*(?:[-*+]\s+)?(?:\*\*(?P<bold>[^*:|\n]{2,40})(?::\*\*|\*\*\s*:)|\|\s*\**(?P<cell>[^|:\n]{2,40}?):?\**\s*\|)\s*"
    r"(?P<value>[^|]*[^|\s])\s*\|?\s*"
)
_IS_BARE: Final = re.compile(r"\s*(?:#|```|~~~|[\W_]*$)")
"""Of what is no sentence: a heading, a block of code, marks alone."""
_RULE: Final = re.compile(r"[\s|:-]+")
_HEADING: Final = re.compile(r"\s*#{1,6}\s+(?P<text>.+)")
_ITEM: Final = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+[\[*_`\"“]*")
_NO_WORD: Final = re.compile(r"[\W_]+")
_PRONOUN: Final = re.compile(r"(?:It|He|She|They)\b")
_LEAD: Final = re.compile(r"[\W_]*(?:The |the |An? )?[\W_]*")


def evidence_of(chunk: Chunk, span: TextSpan) -> QuotedEvidence:
    """Return a stretch of a chunk as evidence, with its place in the document."""
    return QuotedEvidence(
        quote=chunk.text[span.start : span.end],
        document=chunk.document,
        chunk=chunk.id,
        start=chunk.start + span.start,
        end=chunk.start + span.end,
    )


def generate_records(chunk: Chunk) -> ChunkRecords | None:
    """Return what code reads in a chunk; nothing where no name stands in it."""
    reader = _ChunkReader(chunk)
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
    ]
    first = spans[0] if spans else TextSpan(0, len(chunk.text))
    span = TextSpan(first.start, min(first.end, first.start + MAX_QUOTE))
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


class _ChunkReader:
    """Reads the records of one chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self.entities: dict[str, EntityRecord] = {}
        self.observations: dict[tuple[str, str], ObservationRecord] = {}
        self.relations: dict[tuple[str, str, str], RelationRecord] = {}
        self._chunk = chunk
        self._subject = _subject(chunk)

    def read(self) -> None:
        """Read the sentences, rows and items in their order, and then what relates the names."""
        text = self._chunk.text
        names = NameFinder(self._chunk.names).find(text)
        spans = [*sentence_spans(text)]
        place = 0
        for span in spans:
            content = text[span.start : span.end]
            begun = place
            while place < len(names) and names[place].start < span.end:
                place += 1
            found = [one for one in names[begun:place] if one.start >= span.start]
            is_content = not content.lstrip().startswith(("```", "~~~")) and not _RULE.fullmatch(
                content
            )
            heading = _HEADING.fullmatch(content)
            if heading is not None and title_name(heading["text"]) == self._subject.name:
                self._add_entity(self._subject, (evidence_of(self._chunk, span),))
            elif is_content and heading is None:
                self._read_sentence(
                    TextSpan(span.start, min(span.end, span.start + MAX_QUOTE)), found
                )
        self._relate(spans)

    def _read_sentence(self, span: TextSpan, found: Sequence[FoundName]) -> None:
        content = self._chunk.text[span.start : span.end]
        found = [one for one in found if one.end <= span.end]
        evidence = (evidence_of(self._chunk, span),)
        for one in found:
            self._add_entity(one.name, evidence)
        row, item = _ROW.fullmatch(content), _ITEM.match(content)
        leading = next(
            (one for one in found if one.start == span.start + _lead(content, item)), None
        )
        if row is not None:
            label = plain_text(row["bold"] or row["cell"])
            named = next((one.name for one in found if one.name.name == label), None)
            self._observe(named or self._subject, content, evidence)
        elif leading is not None:
            self._observe(leading.name, content, evidence)
        elif _PRONOUN.match(content):
            self._observe(self._subject, content, evidence)

    def _relate(self, spans: Sequence[TextSpan]) -> None:
        """Add what the chunk says of how the names that it and the other documents know are
        related.
        """
        chunk = self._chunk
        page = read_structure(SourcePage(url=chunk.document, text=_with_heading(chunk)))
        known = [
            NamedEntity(
                one.name,
                kind_of_word(one.type) or THING,
                chunk.document if one is self._subject else "",
            )
            for one in dict.fromkeys((self._subject, *chunk.names))
        ]
        types = {one.name: one for one in (*chunk.names, self._subject)}
        plain = [(span, plain_text(chunk.text[span.start : span.end])) for span in spans]
        for found in relations(Gazetteer([page], KINDS, known=known), [page]):
            span = next(
                (span for span, text in plain if _says(text, found, self._subject.name)), None
            )
            if span is None:
                continue
            evidence = (
                evidence_of(chunk, TextSpan(span.start, min(span.end, span.start + MAX_QUOTE))),
            )
            for one in (found.source, found.target):
                self._add_entity(
                    types.get(one.name) or KnownName(name=one.name, type=one.kind), evidence
                )
            record = RelationRecord(
                source=found.source.name,
                relation=found.relation.replace("_", " "),
                target=found.target.name,
                evidence=evidence,
                origin="generated",
            )
            self.relations.setdefault((record.source, record.relation, record.target), record)

    def _observe(self, name: KnownName, content: str, evidence: tuple[QuotedEvidence, ...]) -> None:
        text = plain_text(content).strip("- ")
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
        self.entities.setdefault(name.name, record)


def _lead(content: str, item: re.Match[str] | None) -> int:
    """Return where the first word of a sentence or an item stands, behind marks and an article."""
    lead = _LEAD.match(content, item.end() if item else 0)
    return lead.end() if lead else 0


def _with_heading(chunk: Chunk) -> str:
    """Return the text under the heading that it stands under in the document, where it does not
    begin with it.
    """
    heading = chunk.headings[-1] if len(chunk.headings) > 1 else ""
    return (
        f"## {heading}\n\n{chunk.text}"
        if heading and not _HEADING.match(chunk.text)
        else chunk.text
    )


def _says(text: str, found: FoundRelation, subject: str) -> bool:
    """Whether a stretch of text is what a relation was read from: it has its words, and each name
    but the subject's.
    """
    names = {found.source.name, found.target.name} - {subject}
    said, quote = (_NO_WORD.sub(" ", one).strip() for one in (text, found.quote))
    return (quote in said or said in quote) and all(name in text for name in names)
