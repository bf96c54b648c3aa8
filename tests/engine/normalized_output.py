"""Texts of commands in a form that is the same on every machine and at every time."""

from __future__ import annotations

import re
from pathlib import Path

from tests.engine.conftest import Answer

_CHANGING = (
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}"), "<run>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "<seconds>"),
    (re.compile(r"  +<seconds>"), "  <seconds>"),
    (re.compile(r"\b[\d,]+ tokens(?=, (?:price unknown|under|[\d.]+ USD))"), "<tokens>"),
    (
        re.compile(r"embedded null byte|stat: embedded null character in path"),
        "<Python's words for a NUL>",
    ),
)


def worded(answer: Answer, folder: Path) -> str:
    """Return exit code and both streams, with the test's folder, run ids and times replaced."""
    parts = [f"exit {answer.code}", *_stream("out", answer.out), *_stream("err", answer.err)]
    return settled("\n".join(parts), folder)


def settled(text: str, folder: Path) -> str:
    """Return a text with the test's folder, run ids and times replaced."""
    text = text.replace(str(folder), "<folder>")
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return text


def _stream(name: str, text: str) -> list[str]:
    return [f"--- {name}", text.rstrip("\n")] if text else []
