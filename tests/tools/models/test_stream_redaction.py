from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from wavewright.config.redaction import Redactor
from wavewright.tools.models.responses import StreamRedactor

KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo\n4lgOEePzNm0tRgeL\n"
    "-----END RSA PRIVATE KEY-----"
)


def through(pieces: list[str], redactor: Redactor, *, by_sentence: bool = False) -> list[str]:
    shown: list[str] = []
    stream = StreamRedactor(redactor.redact, shown.append, by_sentence=by_sentence)
    for piece in pieces:
        stream.add(piece)
    stream.close()
    return shown


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


texts = st.lists(
    st.sampled_from(["a line\n", "words ", "The end. ", KEY, f"{PEM}\n", "\n", "x" * 700, "é"])
).map("".join)


@pytest.mark.parametrize("by_sentence", [False, True])
@given(text=texts, places=st.lists(st.integers(0, 10_000), max_size=30))
def test_a_secret_is_taken_out_wherever_the_pieces_end(
    *, text: str, places: list[int], by_sentence: bool
) -> None:
    shown = "".join(through(cut(text, places), Redactor([KEY]), by_sentence=by_sentence))

    assert KEY not in shown
    assert "MIIEow" not in shown
    assert shown.count("a line") == text.count("a line")


@given(st.text(alphabet="abc \n", max_size=6000), st.lists(st.integers(0, 10_000), max_size=30))
def test_text_without_secrets_comes_through_whole(text: str, places: list[int]) -> None:
    assert "".join(through(cut(text, places), Redactor())) == text


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_key_with_headers_in_its_block_is_let_go_in_one_piece(size: int) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow1\n-----END RSA PRIVATE KEY-----"
    text = f"before\n{key}\nafter\n"
    shown = through([text[at : at + size] for at in range(0, len(text), size)], Redactor())

    assert "".join(shown) == "before\n[redacted]\nafter\n"


def test_a_line_is_shown_as_soon_as_it_is_complete() -> None:
    shown: list[str] = []
    stream = StreamRedactor(str, shown.append)
    stream.add("one\ntw")
    stream.add("o")

    assert shown == ["one\n"]

    stream.close()

    assert shown == ["one\n", "two"]


def test_by_sentence_a_line_without_secrets_is_shown_up_to_its_last_sentence() -> None:
    pieces = ["Rain. The do", "or opens. “Who", f" is it?” The key is {KEY}. He", " nods. Well\n", "Gone"]

    assert through(pieces, Redactor([KEY]), by_sentence=True) == [
        "Rain. ",
        "The door opens. ",
        "“Who is it?” The key is [redacted]. He nods. Well\n",
        "Gone",
    ]


def test_a_long_line_is_shown_in_parts() -> None:
    shown: list[str] = []
    stream = StreamRedactor(str, shown.append)
    stream.add("word " * 1000)

    assert "".join(shown) == "word " * 1000
