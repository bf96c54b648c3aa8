"""Texts of a format or a pattern that a schema asks for.

Of a pattern, common texts are tried first; what none of them matches is made by Hypothesis, which comes with the extra
`testing` and is loaded for that alone.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from wavewright.config.errors import WavewrightError

_FORMATS = {
    "duration": "PT{number}S",
    "email": "name{number}@example.org",
    "hostname": "host{number}.example.org",
    "ipv4": "192.0.2.{number}",
    "ipv6": "2001:db8::{number}",
    "uuid": "00000000-0000-4000-8000-{number:012d}",
    "uri": "https://example.org/{number}",
}
_COMMON_TEXTS = (
    "a", "b", "A", "B", "1", "2", "10", "0.5", "a1", "A1", "ab", "AB", "abc", "ABC", "ALFA", "a-1", "a_1", "a.b",
    "24h", "1.0", "1.0.0", "#a", "a/b", "a@b.example", "https://example.org/a", "2024-01-01", "0123456789abcdef",
    "00000000-0000-4000-8000-000000000001",
    # Two of each kind: steps that are given the same text make the same call.
    "7d", "2.0.0", "#b", "b/a", "b@a.example", "https://example.org/b", "2024-01-02", "fedcba9876543210",
    "00000000-0000-4000-8000-000000000002",
)  # fmt: skip
_EXAMPLE_COUNT = 6
_ALPHABET = "".join(map(chr, range(32, 127)))


class PatternNeedsExtra(WavewrightError):
    """A pattern of which no text is known here, and Hypothesis is not installed."""


def formatted_text(kind: str, then: dt.datetime, number: int) -> str | None:
    """Return a text of one of JSON Schema's formats, of that time or with that number; none for another format."""
    match kind:
        case "date":
            return then.date().isoformat()
        case "date-time":
            return then.isoformat(timespec="seconds").replace("+00:00", "Z")
        case "time":
            return then.time().isoformat(timespec="seconds") + "Z"
        case _:
            # A text of ASCII is one of the international format, and an address is a reference.
            plain = kind.removeprefix("idn-").removesuffix("-reference").replace("iri", "uri")
            return _FORMATS[plain].format(number=number) if plain in _FORMATS else None


def texts_of(pattern: str, words: Iterable[str] = ()) -> tuple[str, ...]:
    """Return those of the words that match a pattern, and some texts that do; none where it is no pattern of Python's.

    Raises:
        PatternNeedsExtra: only Hypothesis could make one, and it is not installed.
    """
    try:
        compiled = re.compile(pattern)
    except re.error:
        return ()
    common = tuple(text for text in _COMMON_TEXTS if compiled.search(text))
    return (*(word for word in words if compiled.search(word)), *(common or _generated_texts(compiled)))


@lru_cache(maxsize=256)
def _generated_texts(compiled: re.Pattern[str]) -> tuple[str, ...]:
    try:
        import hypothesis
        from hypothesis import strategies
        from hypothesis.configuration import set_hypothesis_home_dir
        from hypothesis.errors import HypothesisException
    except ModuleNotFoundError as error:
        raise PatternNeedsExtra(compiled.pattern) from error
    found: list[str] = []
    settings = hypothesis.settings(database=None, deadline=None, phases=[hypothesis.Phase.generate])
    with tempfile.TemporaryDirectory() as folder, suppress(HypothesisException, re.error, ValueError):
        # It writes tables of characters: not into the working folder.
        set_hypothesis_home_dir(folder)
        texts = strategies.from_regex(compiled, fullmatch=True, alphabet=_ALPHABET)
        while len(found) < _EXAMPLE_COUNT:
            found.append(
                hypothesis.find(
                    texts,
                    lambda text: text not in found,
                    settings=settings,
                    random=random.Random(0),  # noqa: S311
                )
            )
    set_hypothesis_home_dir(None)
    return tuple(found)
