"""Records of a chunk that code reads without a model, and the least that a chunk has.

An entity is a known name that stands in the chunk; an observation is a sentence or a row about one. A relation is a
verb between two names of a sentence, a row whose value is a name, or an item of a list under a heading: in the last two
the document's own subject is its source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from wavewright.tools.knowledge.chunking import TextSpan, sentence_spans
from wavewright.tools.knowledge.models import (
    Chunk,
    ChunkRecords,
    EntityRecord,
    KnownName,
    ObservationRecord,
    QuotedEvidence,
    RelationRecord,
)
from wavewright.tools.knowledge.names import DOCUMENT, FoundName, NameFinder, plain_text, title_name

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
_VERB: Final = re.compile(
    r"(?:,? ?(?:who|which|that) )?(?:(?:now|still|also|once|often|always|never|secretly|openly) )?"
    r"(?P<phrase>(?P<verb>is|are|was|were|has|had|lies|[a-z]{2,}(?:s|ed))(?: [a-z]+){0,3}?)"
    r"(?: (?:the|an?|its|his|her|their))?"
)
_NO_VERBS: Final = frozenset(
    {
        "its",
        "his",
        "this",
        "plus",
        "as",
        "versus",
        "besides",
        "towards",
        "across",
        "perhaps",
        "less",
        "unless",
    }
)
_BREAK: Final = re.compile(r"\b(?:and|or|but|not|if|when|while|because|than)\b")
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
    """Return the least that a chunk has: its document as an entity, its first sentence as an observation of it."""
    spans = [
        span for span in sentence_spans(chunk.text) if not _IS_BARE.match(chunk.text[span.start : span.end])
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
    """Return what the chunk's document is about: the known name of its title, or the document itself."""
    name = title_name(chunk.title)
    return next((one for one in chunk.names if one.name == name), KnownName(name=name, type=DOCUMENT))


class _ChunkReader:
    """Reads the records of one chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self.entities: dict[str, EntityRecord] = {}
        self.observations: dict[tuple[str, str], ObservationRecord] = {}
        self.relations: dict[tuple[str, str, str], RelationRecord] = {}
        self._chunk = chunk
        self._subject = _subject(chunk)
        self._heading = chunk.headings[-1] if len(chunk.headings) > 1 else ""

    def read(self) -> None:
        """Read the sentences, rows and items in their order."""
        text = self._chunk.text
        names = NameFinder(self._chunk.names).find(text)
        place = 0
        for span in sentence_spans(text):
            content = text[span.start : span.end]
            begun = place
            while place < len(names) and names[place].start < span.end:
                place += 1
            found = [one for one in names[begun:place] if one.start >= span.start]
            heading = _HEADING.fullmatch(content)
            if heading is not None:
                self._heading = "" if self._is_title(heading["text"]) else heading["text"]
            elif not content.lstrip().startswith(("```", "~~~")) and not _RULE.fullmatch(content):
                self._read_sentence(TextSpan(span.start, min(span.end, span.start + MAX_QUOTE)), found)

    def _is_title(self, heading: str) -> bool:
        return title_name(heading) == self._subject.name

    def _read_sentence(self, span: TextSpan, found: Sequence[FoundName]) -> None:
        content = self._chunk.text[span.start : span.end]
        found = [one for one in found if one.end <= span.end]
        evidence = (evidence_of(self._chunk, span),)
        for one in found:
            self._add_entity(one.name, evidence)
        row, item = _ROW.fullmatch(content), _ITEM.match(content)
        leading = next((one for one in found if one.start == span.start + _lead(content, item)), None)
        if row is not None:
            self._read_row(row, span, found, evidence)
        elif leading is not None:
            self._observe(leading.name, content, evidence)
            if item is not None and self._heading:
                self._relate_all(plain_text(self._heading), [leading], evidence)
        elif _PRONOUN.match(content):
            self._observe(self._subject, content, evidence)
        for first, second in pairwise(found):
            between = plain_text(self._chunk.text[first.end : second.start])
            verb = _VERB.fullmatch(between)
            if verb is not None and verb["verb"] not in _NO_VERBS and not _BREAK.search(between):
                self._relate(first.name, verb["phrase"], second.name, evidence)

    def _read_row(
        self,
        row: re.Match[str],
        span: TextSpan,
        found: Sequence[FoundName],
        evidence: tuple[QuotedEvidence, ...],
    ) -> None:
        """Read a row about the document's subject, or about what its label names."""
        label = plain_text(row["bold"] or row["cell"])
        named = next((one.name for one in found if one.name.name == label), None)
        self._observe(named or self._subject, row[0], evidence)
        values = [one for one in found if one.start >= span.start + row.start("value")]
        rest = plain_text(row["value"])
        for one in values:
            rest = rest.replace(one.name.name, "")
        if named is None and len(rest.split()) <= 2 * len(values):
            self._relate_all(label, values, evidence)

    def _relate_all(
        self, label: str, found: Sequence[FoundName], evidence: tuple[QuotedEvidence, ...]
    ) -> None:
        """Relate the document's subject to what a row or an item of a list under a heading names."""
        if 0 < len(label.split()) <= 4:
            for one in found:
                self._relate(self._subject, label.casefold(), one.name, evidence)

    def _relate(
        self, source: KnownName, relation: str, target: KnownName, evidence: tuple[QuotedEvidence, ...]
    ) -> None:
        if source.name != target.name:
            self._add_entity(source, evidence)
            self.relations.setdefault(
                (source.name, relation, target.name),
                RelationRecord(
                    source=source.name,
                    relation=relation,
                    target=target.name,
                    evidence=evidence,
                    origin="generated",
                ),
            )

    def _observe(self, name: KnownName, content: str, evidence: tuple[QuotedEvidence, ...]) -> None:
        text = plain_text(content).strip("- ")
        about = sum(entity == name.name for entity, _ in self.observations)
        if text != name.name and len(text) > 2 and about < MAX_OBSERVATIONS:
            self._add_entity(name, evidence)
            self.observations.setdefault(
                (name.name, text),
                ObservationRecord(entity=name.name, text=text, evidence=evidence, origin="generated"),
            )

    def _add_entity(self, name: KnownName, evidence: tuple[QuotedEvidence, ...]) -> None:
        if name.name not in self.entities:
            self.entities[name.name] = EntityRecord(
                name=name.name, type=name.type, evidence=evidence, origin="generated"
            )


def _lead(content: str, item: re.Match[str] | None) -> int:
    """Return where the first word of a sentence or an item stands, behind marks and an article."""
    lead = _LEAD.match(content, item.end() if item else 0)
    return lead.end() if lead else 0
