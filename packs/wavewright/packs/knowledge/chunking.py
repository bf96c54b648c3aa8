"""Documents cut at their headings into chunks of a bounded length, and the names that stand in
them.

A chunk is one stretch of the document's text. Short sections stay together; a long one is cut
between sentences, and each of its parts begins with the last sentences of the one before.

Titles are names, and so is what a list under a heading of several things names, where the documents
name it again. What such a thing is comes from the heading, and of a title from the folder of its
document; where nothing says it, the type is a neutral one.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import PurePosixPath
from typing import Final

from wavewright.config import Span
from wavewright.packs.extraction.blocks import (
    TASK_BOX,
    clean_title,
    is_name,
    is_plural,
    listed_name,
    singular,
    split_sentences,
    word_set,
)
from wavewright.packs.extraction.entities import kind_of_list
from wavewright.packs.extraction.kinds import KINDS, kind_of_word, type_of_kind, type_of_noun
from wavewright.packs.extraction.prose import NO_READER, ProseReader
from wavewright.packs.knowledge.models import Chunk, KnownName

HEADING: Final = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<text>.(?:.*?\S)??)[ \t]*+#*+[ \t]*+")
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")
_BLOCK_START: Final = re.compile(r"\s*(?:[-*+•]\s|\d{1,3}[.)]\s|\||#{1,6}\s|>|$)")
_ROW: Final = re.compile(r"[ \t]*\|")
_TABLE: Final = re.compile(
    r"^(?P<head>(?P<names>[ \t]*\|.*\n)(?=.*-)[ \t]*\|[ \t\r|:-]*)$(?:\n[ \t]*\|.*)*", re.MULTILINE
)
RULE_LINE: Final = re.compile(r"(?=.*-)[ \t\r|:-]+")
"""The line between the headings of a table and its rows."""
FIELD: Final = re.compile(r"[A-Z][\w-]{1,20}:[ \t]+\S")
"""A line such as `Subject: …`; one below another is a block of its own, as in the head of a mail."""
_NUMBERED_TITLE: Final = re.compile(
    r"\d{1,3}(?:\.\d{1,3})*[.)]?[ \t]+[A-Z][^.,:;!?\n]{1,40}\n(?=[A-Z“\"])"
)
"""A short line with a number and without an end, above one that begins a sentence."""
_MAX_CAPITALS: Final = 60
"""Characters of a line in capitals alone, which heads what follows it in a plain text."""
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
class _Section:
    """A stretch of a document under its headings."""

    start: int
    end: int
    headings: tuple[str, ...]


def chunks_of(document: TextDocument, chars: int, overlap: int) -> list[Chunk]:
    """Return the chunks of a document, in order; none where it is blank.

    Args:
        document: The document.
        chars: Characters of a chunk at most; only a sentence or a block of code that is longer is
            cut.
        overlap: Sentences of the chunk before that a part of a section begins with.
    """
    found: list[Chunk] = []
    seen: Counter[str] = Counter()
    tables = [*_TABLE.finditer(document.text)]
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
                    table_head=_table_head(tables, part.start),
                    text=text,
                    start=part.start,
                    end=part.end,
                )
            )
    return found


def _table_head(tables: Sequence[re.Match[str]], start: int) -> str:
    """Return what stands above a place of the lines that head its table; empty where no row of a
    table begins there, or its first line does.
    """
    number = bisect_right(tables, start, key=lambda table: table.end())
    if number == len(tables):
        return ""
    table = tables[number]
    if start < table.end("names") or not _ROW.match(table.string, start):
        return ""
    head = table.string[table.start() : min(start, table.end("head"))]
    return "\n".join(head.splitlines())


def text_blocks(text: str) -> Iterator[Span]:
    """Yield the paragraphs, list items, headings and table rows of a Markdown text; a block of code
    is one, and so is a line in capitals or with a number that is a title.
    """
    begun: int | None = None
    end = position = 0
    fenced = False
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        is_fence = _FENCE.match(line) is not None
        is_title = (line.isupper() and len(line) < _MAX_CAPITALS) or (
            _NUMBERED_TITLE.match(text, position) is not None
        )
        is_field = any(map(FIELD.match, lines[max(0, place - 1) : place])) and FIELD.match(line)
        if (
            begun is not None
            and not fenced
            and (is_fence or is_title or is_field or _BLOCK_START.match(line))
        ):
            yield Span(begun, end)
            begun = None
        if line.strip():
            begun = position if begun is None else begun
            end = position + len(line.rstrip())
        position += len(line)
        fenced = fenced != is_fence
        is_whole = (is_fence and not fenced) or (
            not fenced and (is_title or line.lstrip().startswith(("#", "|")))
        )
        if begun is not None and is_whole:
            yield Span(begun, end)
            begun = None
    if begun is not None:
        yield Span(begun, end)


def sentence_spans(text: str) -> Iterator[Span]:
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
                yield Span(block.start + place, block.start + position)


def _sections(text: str) -> Iterator[_Section]:
    path: list[tuple[int, str]] = []
    start = 0
    for block in text_blocks(text):
        heading = HEADING.fullmatch(text[block.start : block.end])
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


def _parts(text: str, section: _Section, chars: int, overlap: int) -> Iterator[Span]:
    sentences = [
        piece
        for one in sentence_spans(text[section.start : section.end])
        for piece in _pieces(text, Span(section.start + one.start, section.start + one.end), chars)
    ]
    begun = 0
    for place, sentence in enumerate(sentences):
        if place > begun and sentence.end - sentences[begun].start > chars:
            yield Span(sentences[begun].start, sentences[place - 1].end)
            repeated = max(begun + 1, place - overlap)
            fits = sentence.end - sentences[repeated].start <= chars
            begun = repeated if fits else place
    if sentences:
        yield Span(sentences[begun].start, sentences[-1].end)


def _pieces(text: str, span: Span, chars: int) -> Iterator[Span]:
    """Yield a span, cut at white space where it is too long."""
    start = span.start
    while span.end - start > chars:
        cut = max(text.rfind("\n", start, start + chars), text.rfind(" ", start, start + chars))
        end = cut if cut > start else start + chars
        yield Span(start, end)
        start = end
    yield Span(start, span.end)


def _chunk_id(document: str, headings: tuple[str, ...], text: str) -> str:
    slug = _NO_SLUG.sub("-", document.casefold()).strip("-")[:60]
    digest = hashlib.sha256("\0".join([document, *headings, text]).encode()).hexdigest()
    return f"{slug}-{digest[:12]}"


DOCUMENT: Final = "document"
_OPENING: Final = 8
"""Sentences and headings at the beginning of a document that tell what it is about."""
THING: Final = "thing"

_TOKEN: Final = re.compile(r"[^\W_]+")
_LINK: Final = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)")
_MARKS: Final = re.compile(
    rf"[*`|]+|^[ \t]*(?:#{{1,6}}|>|[-*+•])[ \t]+(?:{TASK_BOX})?|(?<!\w)_+|_+(?!\w)", re.MULTILINE
)
_CUT_WORD: Final = re.compile(r"(?P<begun>\w+)[-\u2010][ \t]*\n[ \t]*(?P<rest>\w+)")
_COMPOUND_BEGINNINGS: Final = word_set(
    "well ill half self so ever all ex non semi anti cross co mid full part long short high low old new first second "
    "third one two three four five six seven eight nine ten twenty thirty forty fifty sixty seventy eighty ninety "
    "north south east west left right hard soft light heavy black white red blue green dark good bad great much"
)
_DEFINED: Final = re.compile(
    r"\b(?:[Ee]ach|[Aa]ny|[Ee]very|[Ss]uch)\s(?P<term>[A-Z]\w+(?:\s[A-Z]\w+)*)|"
    r"[\"“](?P<quoted>[A-Z][\w ]*)[\"”](?:\s(?:\([^()]*\)\s)?(?:shall mean|means?|refers? to|includes?)|"
    r"[^.;\"“”]{1,60}\smeans)\b|"
    r"\b(?:The|An?)\s[\"“](?P<headed>[A-Z][\w ]*)[\"”][^.;\"“”]{1,60}\s(?:includes?|refers? to)\b|"
    r"\((?:the|an?|each|together|collectively)\s(?:\w+\s)?[\"“](?P<aside>[A-Z][\w ]*)[\"”]\)"
)
_QUOTED: Final = re.compile(r"[\"“]([A-Z][\w -]*)[\"”]")
_ARTICLE: Final = re.compile(r"^(?:The|An?)\s")
_CAPITALS: Final = re.compile(r"\b[A-Z]{2,}\b")
_CONTRACT: Final = 3
"""Terms that a document defines in so many words, and then all that it quotes and abbreviates are
terms: it is a contract or a licence.
"""
_ENUMERATION: Final = re.compile(r"\s*(?:[,;]|\band\b)\s*")
_ASIDE: Final = re.compile(r"\s*\([^()]*\)")
_LETTERED: Final = re.compile(r"^[ \t]*(?:[-*+•][ \t]+)?([A-Z]\. \w+)", re.MULTILINE)
"""How an item of a list with letters begins, `F. Include`, which reads as a name."""
ITEM: Final = re.compile(
    rf"[ \t]*(?:[-*+•]|\d{{1,3}}[.)])[ \t]+(?:{TASK_BOX})?(?P<text>\S.*)", re.DOTALL
)
DEFINITION: Final = re.compile(r"(?P<text>[^\n:]{2,80})\n[ \t]*:[ \t]+\S.*", re.DOTALL)
"""A term with what it means below it."""


def whole_words(text: str) -> str:
    """Return a text without the hyphens that only cut a word at the end of a line.

    A hyphen stays before a capital, as in "Joliot-Curie", behind a word that begins compounds, as
    "well-known", and in a word that the text has with it elsewhere.
    """

    def whole(cut: re.Match[str]) -> str:
        begun, rest = cut["begun"], cut["rest"]
        joined = f"{begun}-{rest}"
        is_compound = begun.casefold() in _COMPOUND_BEGINNINGS or joined in text
        is_cut = begun[-1].isalpha() and rest[0].islower() and len(begun) > 1
        return f"{begun}{rest}" if is_cut and not is_compound else joined

    return _CUT_WORD.sub(whole, text)


def plain_text(text: str) -> str:
    """Return a Markdown text without its marks and the targets of its links, in one line; words that
    were cut at the end of a line are whole.
    """
    return " ".join(
        _MARKS.sub(" ", _LINK.sub(r"\1", whole_words(text)))
        .replace(" ,", ",")
        .replace(" .", ".")
        .split()
    )


@dataclass(frozen=True, slots=True)
class FoundName:
    """A name in a text; `start` and `end` are in characters."""

    name: KnownName
    start: int
    end: int


class NameFinder:
    """Finds names in texts to the letter, the longest at each place."""

    def __init__(self, names: Iterable[KnownName]) -> None:
        self._by_first: dict[str, list[KnownName]] = {}
        for name in names:
            first = _TOKEN.match(name.name)
            # The file of a document may be called by any word; a name is written like one.
            if first is not None and any(one.isupper() for one in name.name):
                self._by_first.setdefault(first[0], []).append(name)
        for group in self._by_first.values():
            group.sort(key=lambda one: -len(one.name))

    def find(self, text: str) -> list[FoundName]:
        """Return the names in a text, in their order."""
        found: list[FoundName] = []
        end = 0
        for token in _TOKEN.finditer(text):
            start = token.start()
            if start < end:
                continue
            for name in self._by_first.get(token[0], ()):
                after = start + len(name.name)
                if text.startswith(name.name, start) and not text[after : after + 1].isalnum():
                    found.append(FoundName(name, start, after))
                    end = after
                    break
        return found


def title_name(title: str) -> str:
    """Return a document's title as a name."""
    return clean_title(plain_text(title))[:200] or title[:200]


def known_names(
    documents: Sequence[TextDocument], prose: ProseReader = NO_READER
) -> list[KnownName]:
    """Return the names of all documents that their titles and lists have, each once."""
    found: dict[str, KnownName] = {}
    for document in documents:
        name = title_name(document.title)
        kind = _type_said(name, document.text, prose) or _type_of_place(document.name)
        found.setdefault(name, KnownName(name=name, type=kind))
        for name, kind in _named_in_fields(document.text):
            found.setdefault(name, KnownName(name=name, type=kind))
    listed: dict[str, str] = {}
    for document in documents:
        for name, kind in _listed(document.text):
            listed.setdefault(name, kind)
    texts = [plain_text(document.text) for document in documents]
    words = {word for name in found for word in name.split()}
    for name, kind in listed.items():
        # A word of a list that is named nowhere else may be any word.
        is_known = name in found or name in words
        if not is_known and sum(text.count(name) for text in texts) > 1:
            found[name] = KnownName(name=name, type=kind)
            words.update(name.split())
    return [*found.values()]


def _listed(text: str) -> Iterator[tuple[str, str]]:
    """Yield what list items begin with under a heading of several things, with the singular of the
    heading's noun.
    """
    kind = ""
    for block in text_blocks(text):
        content = text[block.start : block.end]
        heading = HEADING.fullmatch(content)
        item = ITEM.fullmatch(content) or DEFINITION.fullmatch(content)
        if heading is not None:
            title = plain_text(heading["text"])
            noun = _noun(title.split()[-1]) if is_plural(title) and title.isalpha() else ""
            # What stands under "Actions" is of no kind of things, and may be anybody.
            kind = noun if kind_of_word(noun) is not None else THING if noun else ""
        elif item is not None and kind:
            name = listed_name(plain_text(item["text"]))
            if len(name) > 2:
                yield name[:200], kind


def _named_in_fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names that fields such as `Present: Ada Holm (chair), Tom Becker` list, with the type
    that their label tells.
    """
    for line in text.splitlines():
        field = plain_text(line) if ":" in line else ""
        label, _, value = field.partition(": ")
        kind = kind_of_list(label, KINDS) if FIELD.match(field) else None
        names = [part.strip(" .") for part in _ENUMERATION.split(_ASIDE.sub("", value))]
        # "Owner: Platform Team" and "Figure: Annual Revenue" have one value, and list nothing.
        if kind is not None and (len(names) > 1 or is_plural(label)):
            yield from (
                (name[:200], type_of_kind(kind)) for name in names if is_name(name) and " " in name
            )


def defined_terms(text: str) -> list[str]:
    """Return the words that a document defines, each once: one of several of a kind ("each
    Licensee"), and what stands in quotation marks before "means" or in a bracket.

    The manual of a command and a contract write placeholders, protocols and forms in capitals, and a
    contract has further terms in quotation marks, and lists with letters.
    """
    plain = plain_text(text)
    matches = [*_DEFINED.finditer(plain)]
    found = [next(filter(None, match.groups())) for match in matches]
    is_manual = {"NAME", "DESCRIPTION"} <= {*map(str.strip, text.splitlines())}
    # "Each Sunday" defines nothing.
    in_words = {term for match, term in zip(matches, found, strict=True) if not match["term"]}
    is_contract = len(in_words) >= _CONTRACT
    found += _QUOTED.findall(plain) if is_contract else []
    found += _CAPITALS.findall(text) if is_manual or is_contract else []
    items = _LETTERED.findall(text) if is_contract else []
    found += items if {"A", "B"} <= {item[0] for item in items} else []
    # "The Program" is called so without its article, too.
    return [*dict.fromkeys(_ARTICLE.sub("", term) for term in found)]


def _type_said(name: str, text: str, prose: ProseReader) -> str:
    """Return the type that the beginning of a document gives to what it is about: "X is a town"."""
    spans = [*islice(sentence_spans(text), _OPENING)]
    opening = [plain_text(text[one.start : one.end]) for one in spans]
    named = [one for one in opening if name in one]
    for sentence, said in zip(named, prose.read_all(named), strict=True):
        start = sentence.index(name)
        for clause in said.clauses:
            is_subject = any(start <= one.head < start + len(name) for one in clause.subjects)
            if is_subject and clause.noun and clause.verb == "be":
                taken = (one.type for one in said.names if one.span.start <= start < one.span.end)
                is_known = kind_of_word(clause.noun) is not None
                return type_of_noun(clause.noun) if is_known else next(taken, "") or clause.noun
    return ""


def _type_of_place(document: str) -> str:
    """Return the type that the folder of a document tells, where its word is one for a kind."""
    folder = PurePosixPath(document).parent.name
    word = _noun(folder) if folder.isalpha() and not document.startswith("http") else ""
    return word if word and kind_of_word(word) is not None else DOCUMENT


def _noun(plural: str) -> str:
    """Return what one of several things is called."""
    return "person" if plural.casefold() == "people" else singular(plural)
