"""Texts that match a pattern.

Common texts are tried first; what none of them matches is made by Hypothesis, which comes with the extra
`testing` and is loaded for it alone.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterable
from functools import lru_cache

_COMMON_TEXTS = (
    "a", "b", "A", "B", "1", "2", "10", "0.5", "a1", "A1", "ab", "AB", "abc", "ABC", "ALFA", "a-1", "a_1", "a.b",
    "24h", "1.0", "1.0.0", "#a", "a/b", "a@b.example", "https://example.org/a", "2024-01-01", "0123456789abcdef",
    "00000000-0000-4000-8000-000000000001",
    # Two of each kind: steps that are given the same text make the same call.
    "7d", "2.0.0", "#b", "b/a", "b@a.example", "https://example.org/b", "2024-01-02", "fedcba9876543210",
    "00000000-0000-4000-8000-000000000002",
)  # fmt: skip
_EXAMPLE_COUNT = 6


class PatternNeedsExtra(Exception):
    """A pattern for which nothing here has a text, and Hypothesis is not installed."""


def fitting_texts(pattern: str, words: Iterable[str]) -> tuple[str, ...]:
    """Return those of the words that match the pattern, and some texts that do.

    Raises:
        NeedsExtra: as in `texts_of`.
    """
    try:
        compiled = re.compile(pattern)
    except re.error:
        return ()
    return (*(word for word in words if compiled.search(word)), *texts_of(pattern))


@lru_cache(maxsize=256)
def texts_of(pattern: str) -> tuple[str, ...]:
    """Return some texts that match the pattern, always the same; none where it is no pattern of Python's.

    Raises:
        NeedsExtra: only Hypothesis could make one, and it is not installed.
    """
    try:
        compiled = re.compile(pattern)
    except re.error:
        return ()
    found = tuple(text for text in _COMMON_TEXTS if compiled.search(text))
    return found or _generated_texts(compiled)


def _generated_texts(compiled: re.Pattern[str]) -> tuple[str, ...]:
    try:
        import hypothesis
        from hypothesis import strategies
        from hypothesis.configuration import set_hypothesis_home_dir
        from hypothesis.errors import HypothesisException
    except ModuleNotFoundError as error:
        raise PatternNeedsExtra(compiled.pattern) from error
    found: dict[str, None] = {}
    check = hypothesis.HealthCheck

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=_EXAMPLE_COUNT,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[check.filter_too_much, check.too_slow, check.data_too_large],
    )
    @hypothesis.given(strategies.from_regex(compiled, fullmatch=True, alphabet=_ALPHABET))
    def collect(text: str) -> None:
        found[text] = None

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # It keeps tables of characters: not in the folder where somebody happens to stand.
        set_hypothesis_home_dir(folder)
        try:
            collect()
        except (HypothesisException, re.error, ValueError):
            return ()
        finally:
            set_hypothesis_home_dir(None)
    return tuple(found)


_ALPHABET = "".join(map(chr, range(32, 127)))
