"""What a player's words name and ask for, where no model reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rapidfuzz.distance import OSA

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_LETTERS_OF_SLIP: Final = 5
"""Letters that a word needs for one of them to be wrong; two of fewer may only stand the wrong way
round.
"""
_LEAST_NEAR: Final = 4
"""Letters of the shortest word that may be written wrongly at all."""
DENIAL: Final = re.compile(
    r"\b(?:(?:do|does|did|would|will|should|can)(?:n['’]t| not)|not|never|won['’]t|can['’]t|cannot|"
    r"refuse to|without|rather than|instead of)\b"
)
"""What says that what stands behind it is not to be done: `don't attack`."""
_QUESTION: Final = re.compile(
    r"^(?:(?:and|so|but|well|ok|okay)\W+)*(?:who|whom|whose|what|where|when|why|how|which|is|are|was|were|do|does|did|"
    r"should|must|has|have)\b"
)
_FILLERS: Final = frozenset(
    {
        "a", "an", "the", "my", "our", "your", "some", "any", "it", "one", "of", "up", "down", "now",
        "please", "quickly", "then", "and", "i", "me", "we", "so", "ok", "okay", "again", "something",
        "anything", "this", "that",
    }
)  # fmt: skip
"""Words that name nothing."""
_COURTESY: Final = re.compile(
    r"(?:[\s,]+(?:please|now|then|again|first|if you please|quickly))+[\s.!]*$"
)


_COUNT: Final = re.compile(r"\b(\d[\d,]*)\b")
NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def count_in(text: str) -> int:
    """Return the first number of a text; 1 where it has none."""
    if counted := _COUNT.search(text):
        return int(counted[1].replace(",", ""))
    return next((NUMBERS.index(word) + 1 for word in words_of(text) if word in NUMBERS), 1)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return _WORD.findall(text.lower())


def asks(text: str) -> bool:
    """Whether a text asks to be told something, and nothing to be done."""
    return _QUESTION.match(text.strip().lower()) is not None


def corrected(text: str, known: Iterable[str]) -> str:
    """Return a text in which words that are nearly known ones are these."""
    names = [*known]
    return _WORD.sub(
        lambda word: next((name for name in names if is_nearly(word[0], name)), word[0]), text
    )


def without_courtesy(text: str) -> str:
    """Return what a text names, without the words of courtesy at its end."""
    return _COURTESY.sub("", text).strip(" .!,")


def says_nothing_more(text: str) -> bool:
    """Whether all words of a text name nothing."""
    return _FILLERS.issuperset(words_of(text))


def is_nearly(word: str, name: str) -> bool:
    """Whether a word is a name, its plural, or either with a slip of the pen."""
    word = word.removesuffix("'s").removesuffix("’s")
    if word in {name, f"{name}s"}:
        return True
    if min(len(word), len(name)) < _LEAST_NEAR or OSA.distance(word, name, score_cutoff=1) > 1:
        return False
    return max(len(word), len(name)) >= _LETTERS_OF_SLIP or sorted(word) == sorted(name)


def named_in(text: str, names: Iterable[str]) -> str | None:
    """Return the name that a text holds: as it is, else nearly so written, else by a word that only
    it has.
    """
    known = sorted({*names}, key=len, reverse=True)
    said = words_of(text)
    for name in known:
        parts = words_of(name)
        spans = (said[at : at + len(parts)] for at in range(len(said) - len(parts) + 1))
        if parts and any(all(map(is_nearly, span, parts)) for span in spans):
            return name
    for at in range(-1, -max((len(words_of(name)) for name in known), default=0) - 1, -1):
        by_word = [
            name
            for name in known
            if len(parts := words_of(name)) >= max(2, -at)
            and parts[at] not in _FILLERS
            and any(is_nearly(word, parts[at]) for word in said)
        ]
        if len(by_word) == 1:
            return by_word[0]
    return None
