"""Names that documents explain or repeat, and where they stand in a text.

Titles are names, and so are words in bold or code and capitalised phrases that come at least twice. What a thing is
comes from a sentence such as "X is a town", else from the folder of the document about it; where nothing says it, the
type is a neutral one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from wavewright.tools.extraction.blocks import clean_title, singular
from wavewright.tools.knowledge.chunking import TextDocument
from wavewright.tools.knowledge.models import KnownName

DOCUMENT: Final = "document"
TERM: Final = "term"
THING: Final = "thing"
MAX_NAMES: Final = 50_000
"""Of all documents together; the most frequent ones are kept."""

_TOKEN: Final = re.compile(r"[^\W_]+")
_CODE_BLOCK: Final = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1[^\n]*$", re.MULTILINE | re.DOTALL)
_BREAK: Final = re.compile(
    r"^[ \t]*#{1,6} [^\n]*$|\n[ \t]*\n|\n(?=[ \t]*(?:[-*+|>]|\d{1,3}[.)]) )", re.MULTILINE
)
"""A heading, which is no part of a sentence, or what is between two blocks."""
_LINK: Final = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)")
_MARKS: Final = re.compile(r"[*`|]+|^[ \t]*(?:#{1,6}|>|[-*+•])[ \t]+|(?<!\w)_+|_+(?!\w)", re.MULTILINE)
_BOLD: Final = re.compile(r"\*\*([^*\n]{2,60}?)\*\*(?!\s*:)")
_CODE: Final = re.compile(r"(?<!`)`([A-Za-z][\w.:/ -]{1,40})`(?!`)")
_CAPITALISED: Final = re.compile(
    r"(?<![\w'’-])[a-z][\w'’-]*[,;]? (?:the |The )?([A-Z][\w'’-]+(?: (?:(?:of|the|de|von) ){0,2}[A-Z][\w'’-]+){0,4})"
)
"""After a word in lower case: elsewhere a capital may begin a sentence, and a phrase would lack its first words."""
_IS_A: Final = re.compile(
    r"(?P<name>[A-Z][\w'’-]*(?: [\w'’-]+){0,4}?) (?:is|was|are|were) (?:an?|the|one of the) "
    r"(?P<phrase>[a-z][a-z'’-]*(?: [a-z'’-]+){0,5}?)"
    r"(?=[,.;:()—–]| (?:of|in|on|at|by|from|for|with|near|that|which|who|whose|where|when|and|but|to|as|under|over|"
    r"between|among|lying|called|named|built|made)\b)"
)

_NO_NOUNS: Final = frozenset(
    ["one", "kind", "sort", "capable", "same", "only", "first", "last", "most", "least", "best"]
)


def plain_text(text: str) -> str:
    """Return a Markdown text without its marks and the targets of its links, in one line."""
    return " ".join(_MARKS.sub(" ", _LINK.sub(r"\1", text)).replace(" ,", ",").replace(" .", ".").split())


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
            if first is not None:
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


def known_names(documents: Sequence[TextDocument]) -> list[KnownName]:
    """Return the names of all documents, each once."""
    texts = [plain_text(_BREAK.sub(" . ", _CODE_BLOCK.sub(" ", document.text))) for document in documents]
    types = _types_said(texts)
    found: dict[str, KnownName] = {}
    for document in documents:
        name = title_name(document.title)
        found.setdefault(name, KnownName(name=name, type=types.get(name) or _type_of_place(document.name)))
    terms = Counter(term for document in documents for term in _terms(document.text))
    phrases = Counter(phrase for text in texts for phrase in _CAPITALISED.findall(text))
    lower = Counter(word for text in texts for word in _TOKEN.findall(text) if word.islower())
    for name, count in (terms + phrases).most_common(MAX_NAMES):
        # An ordinary word that is sometimes in code or capitalised is no name.
        is_ordinary = lower[name.casefold()] - terms[name] > count
        if count > 1 and len(name) > 2 and not is_ordinary:
            kind = types.get(name) or (THING if name in phrases else TERM)
            found.setdefault(name, KnownName(name=name, type=kind))
    return [*found.values()]


def _types_said(texts: Iterable[str]) -> dict[str, str]:
    """Return, by name, the head noun of the first sentence such as "X is a town by the sea"."""
    found: dict[str, str] = {}
    for text in texts:
        for match in _IS_A.finditer(text):
            noun = singular(match["phrase"].split()[-1])
            if noun not in _NO_NOUNS:
                found.setdefault(match["name"].removeprefix("The "), noun)
    return found


def _type_of_place(document: str) -> str:
    folder = PurePosixPath(document).parent.name
    if folder == "people":
        return "person"
    return singular(folder) if folder.isalpha() and not document.startswith("http") else DOCUMENT


def _terms(text: str) -> Iterator[str]:
    prose = _CODE_BLOCK.sub(" ", text)
    for pattern in (_BOLD, _CODE):
        for term in pattern.findall(prose):
            bare = plain_text(term)
            if _TOKEN.match(bare) and len(bare.split()) <= 4 and not bare.endswith((":", ".")):
                yield bare
