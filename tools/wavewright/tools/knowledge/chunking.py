"""Cut documents at their headings into chunks of a bounded length.

A chunk is one stretch of the document's text. Short sections stay together; a long one is cut between sentences, and
each of its parts begins with the last sentences of the one before.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from wavewright.tools.extraction.blocks import split_sentences
from wavewright.tools.knowledge.models import Chunk

_HEADING: Final = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<text>.+?)[ \t]*#*[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")
_BLOCK_START: Final = re.compile(r"\s*(?:[-*+•]\s|\d{1,3}[.)]\s|\||#{1,6}\s|>|$)")
_NO_SLUG: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A document as text."""

    name: str
    """Path below the folder, or address."""
    title: str
    text: str
    """Markdown or plain text."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A stretch of a text, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Section:
    """A stretch of a document under its headings."""

    start: int
    end: int
    headings: tuple[str, ...]


def chunks_of(document: TextDocument, chars: int, overlap: int) -> list[Chunk]:
    """Return the chunks of a document, in order; none where it is blank.

    Args:
        document: The document.
        chars: Characters of a chunk at most; only a sentence or a block of code that is longer is cut.
        overlap: Sentences of the chunk before that a part of a section begins with.
    """
    found: list[Chunk] = []
    seen: Counter[str] = Counter()
    for section in _joined(document.text, chars):
        for part in _parts(document.text, section, chars, overlap):
            text = document.text[part.start : part.end]
            known = _chunk_id(document.name, section.headings, text)
            seen[known] += 1
            found.append(
                Chunk(
                    id=known if seen[known] == 1 else f"{known}-{seen[known]}",
                    document=document.name,
                    title=document.title,
                    headings=section.headings,
                    text=text,
                    start=part.start,
                    end=part.end,
                )
            )
    return found


def text_blocks(text: str) -> Iterator[TextSpan]:
    """Yield the paragraphs, list items, headings and table rows of a Markdown text; a block of code is one."""
    begun: int | None = None
    end = position = 0
    fenced = False
    for line in text.splitlines(keepends=True):
        is_fence = _FENCE.match(line) is not None
        if begun is not None and not fenced and (is_fence or _BLOCK_START.match(line)):
            yield TextSpan(begun, end)
            begun = None
        if line.strip():
            begun = position if begun is None else begun
            end = position + len(line.rstrip())
        position += len(line)
        fenced = fenced != is_fence
        is_whole = (is_fence and not fenced) or (not fenced and line.lstrip().startswith(("#", "|")))
        if begun is not None and is_whole:
            yield TextSpan(begun, end)
            begun = None
    if begun is not None:
        yield TextSpan(begun, end)


def sentence_spans(text: str) -> Iterator[TextSpan]:
    """Yield the sentences of a Markdown text; a block of code and a row of a table are one."""
    for block in text_blocks(text):
        content = text[block.start : block.end]
        if _FENCE.match(content) or content.lstrip().startswith("|"):
            yield block
            continue
        position = 0
        for sentence in split_sentences(content.replace("\n", " ")):
            place = content.replace("\n", " ").find(sentence, position)
            if place >= 0:
                position = place + len(sentence)
                yield TextSpan(block.start + place, block.start + position)


def _sections(text: str) -> Iterator[_Section]:
    path: list[tuple[int, str]] = []
    start = 0
    for block in text_blocks(text):
        heading = _HEADING.fullmatch(text[block.start : block.end])
        if heading is None:
            continue
        if text[start : block.start].strip():
            yield _Section(start, block.start, tuple(name for _, name in path))
        start = block.start
        level = len(heading["marks"])
        path = [*((depth, name) for depth, name in path if depth < level), (level, heading["text"])]
    if text[start:].strip():
        yield _Section(start, len(text), tuple(name for _, name in path))


def _joined(text: str, chars: int) -> Iterator[_Section]:
    """Yield sections; neighbours that are short stay together, under the headings that they share."""
    joined: _Section | None = None
    for section in _sections(text):
        if joined is not None and section.end - joined.start <= chars // 2:
            pairs = zip(joined.headings, section.headings, strict=False)
            shared = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            joined = _Section(joined.start, section.end, shared)
            continue
        if joined is not None:
            yield joined
        joined = section
    if joined is not None:
        yield joined


def _parts(text: str, section: _Section, chars: int, overlap: int) -> Iterator[TextSpan]:
    sentences = [
        piece
        for one in sentence_spans(text[section.start : section.end])
        for piece in _pieces(text, TextSpan(section.start + one.start, section.start + one.end), chars)
    ]
    begun = 0
    for place, sentence in enumerate(sentences):
        if place > begun and sentence.end - sentences[begun].start > chars:
            yield TextSpan(sentences[begun].start, sentences[place - 1].end)
            repeated = max(begun + 1, place - overlap)
            fits = sentence.end - sentences[repeated].start <= chars
            begun = repeated if fits else place
    if sentences:
        yield TextSpan(sentences[begun].start, sentences[-1].end)


def _pieces(text: str, span: TextSpan, chars: int) -> Iterator[TextSpan]:
    """Yield a span, cut at white space where it is too long."""
    start = span.start
    while span.end - start > chars:
        cut = max(text.rfind("\n", start, start + chars), text.rfind(" ", start, start + chars))
        end = cut if cut > start else start + chars
        yield TextSpan(start, end)
        start = end
    yield TextSpan(start, span.end)


def _chunk_id(document: str, headings: tuple[str, ...], text: str) -> str:
    slug = _NO_SLUG.sub("-", document.casefold()).strip("-")[:60]
    digest = hashlib.sha256("\0".join([document, *headings, text]).encode()).hexdigest()
    return f"{slug}-{digest[:12]}"
