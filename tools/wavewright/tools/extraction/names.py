"""Names as texts write them: their words and their places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from wavewright.tools.extraction.blocks import PageStructure, begins_sentence

WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
SUFFIX: Final = re.compile(r"\s*\((?P<word>[^()]{2,30})\)\s*$")
"""Of titles: what tells a page from others of its name."""
_NAME_END: Final = re.compile(r"\s*(?:[,;:(\[]|\s[—–-]\s|\.\s|\.$)")
_MAX_NAME_WORDS: Final = 7
_PLURALS: Final = frozenset(
    {"people", "folk", "cast", "crew", "bestiary", "equipment", "lore", "staff", "geography"}
)

_T = TypeVar("_T")


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
    """Whether a title is of several things by the form of its head noun, as `The People` or `Places of Ash`."""
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
        word for page in pages for block in page.blocks for word in WORD.findall(block.text) if word.islower()
    )


class NameIndex(Generic[_T]):
    """Finds names in texts, word by word."""

    def __init__(self, named: Iterable[tuple[str, _T]], common: frozenset[str]) -> None:
        """Take names with what each one is of; `common` words are no names where they begin a sentence."""
        self._common = common
        self._by_first: dict[str, list[tuple[tuple[str, ...], _T]]] = {}
        for name, thing in named:
            words = tuple(_plain(word) for word in WORD.findall(name))
            if not words or len(name) <= 2:
                continue
            forms = [words]
            if words[0] == "The" and len(words) > 1:
                # Within a sentence, the article of a name is small; a name of one word is none without it.
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
