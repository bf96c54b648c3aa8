"""An estimate is at hand before anybody counts, and errs on the safe side."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wavewright.tools.models.pricing import estimate_tokens


@pytest.mark.parametrize(("chars", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (4000, 1000), (4001, 1001)])
def test_a_text_has_a_quarter_of_its_characters_as_tokens_rounded_up(chars: int, tokens: int) -> None:
    assert estimate_tokens("x" * chars) == tokens


@given(st.text(), st.text())
def test_two_texts_together_have_no_more_tokens_than_apart(first: str, second: str) -> None:
    together = estimate_tokens(first + second)

    assert together <= estimate_tokens(first) + estimate_tokens(second)
    assert together >= max(estimate_tokens(first), estimate_tokens(second))
