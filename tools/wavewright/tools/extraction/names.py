"""Names as texts write them: their words, their places, and which phrases are names by their form alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from wavewright.tools.extraction.blocks import Block, PageStructure, begins_sentence

WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
SUFFIX: Final = re.compile(r"\s*\((?P<word>[^()]{2,30})\)\s*$")
"""Of titles: what tells a page from others of its name."""
_NAME_END: Final = re.compile(r"\s*(?:[,;:(\[]|\s[—–-]\s|\.\s|\.$)")
_MAX_NAME_WORDS: Final = 7
_MAX_TERM_WORDS: Final = 4
_LEAST_USES: Final = 2
"""Of a phrase that nothing but its form tells to be a name."""
_CAPITALISED: Final = re.compile(
    r"[A-Z][\w'’-]*(?:\s+(?:(?:of|of the|in the|and the|von|van|de|du|la)\s+)?[A-Z][\w'’-]*)*"
)
_CODE: Final = re.compile(r"(?=.*[^\W\d_])[\w.-]*\w(?:\(\))?")
_CALENDAR_WORDS: Final = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december"
)
_CALENDAR: Final = frozenset(_CALENDAR_WORDS.split())

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


def names_by_form(pages: Sequence[PageStructure]) -> list[str]:
    """Return what is written as a name, whatever it names, in the order of first use.

    These are marked terms (bold or code) and phrases in capitals within sentences that are used twice, and headings
    that running text uses as well.
    """
    common = common_words(pages)
    uses = Counter[str]()
    marked = Counter[str]()
    for page in pages:
        for block in page.blocks:
            if block.kind in {"paragraph", "item", "row"}:
                uses.update(_capitalised(block, common))
                marked.update(filter(_is_term, block.marked))
    headings = Counter(
        block.text for page in pages for block in page.blocks if block.kind == "heading" and block.level > 1
    )
    names = [name for name, count in uses.items() if count >= _LEAST_USES]
    names += [term for term, count in marked.items() if count + uses[term] >= _LEAST_USES]
    names += [text for text, count in headings.items() if count == 1 and text in uses and _is_term(text)]
    return [*dict.fromkeys(names)]


def _capitalised(block: Block, common: frozenset[str]) -> Iterator[str]:
    for match in _CAPITALISED.finditer(block.value):
        name = match[0].replace("’", "'").removesuffix("'s").rstrip("'-")
        words = name.split()
        if begins_sentence(block.value, match.start()):
            # The first word has its capital from the sentence.
            words = words[1:] if words[0].casefold() in common or len(words) == 1 else words
        while words and (words[0].islower() or words[0].casefold() in {"the", "a", "an", "i"}):
            words = words[1:]
        name = " ".join(words)
        if len(name) > 2 and len(words) <= _MAX_NAME_WORDS and name.casefold() not in _CALENDAR:
            yield name


def _is_term(text: str) -> bool:
    words = text.split()
    is_short = 0 < len(words) <= _MAX_TERM_WORDS and len(text) > 2 and not text.endswith((".", ":", "!", "?"))
    return is_short and (_CODE.fullmatch(text) is not None or text[:1].isupper())


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
