"""The file of fetched pages."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from wavewright.tools.web.guarded_client import WebAnswer
from wavewright.tools.web.reader import PageCache


def answer(content: bytes, day: int = 1) -> WebAnswer:
    return WebAnswer(
        "https://example.org/", 200, {"etag": "é"}, content, dt.datetime(2026, 1, day, 12, 30, tzinfo=dt.UTC)
    )


def test_an_answer_is_kept_whole_for_others_of_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "state" / "web.sqlite"
    PageCache(file).put("a", answer(b"\x00\xff"))

    assert PageCache(file).get("a") == answer(b"\x00\xff")
    assert PageCache(file).get("b") is None


def test_a_newer_answer_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "web.sqlite")
    cache.put("a", answer(b"one"))
    cache.put("a", answer(b"two", day=2))

    assert cache.get("a") == answer(b"two", day=2)


def test_the_oldest_go_where_there_is_no_room(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "web.sqlite", max_bytes=250)
    for day, key in enumerate("bac", start=1):
        cache.put(key, answer(b"x" * 100, day))

    assert [key for key in "abc" if cache.get(key)] == ["a", "c"]


@pytest.mark.parametrize("content", [b"no database", None])
def test_a_file_that_cannot_be_used_keeps_nothing(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "web.sqlite"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    cache = PageCache(file)
    cache.put("a", answer(b"x"))

    assert cache.get("a") is None
