"""The fenced blocks of a page, and which of them a reader is expected to type or to save."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tests.repository.tree import ROOT

_FENCE = re.compile(
    r"^```(?P<language>[a-z]*)(?P<options>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_TITLE = re.compile(r'title="([^"]+)"')
_PROJECT = re.compile(r"^<!-- project: (empty|starter|plans) -->$", re.MULTILINE)

Project: TypeAlias = Literal["empty", "starter", "plans"]
"""What lies in the folder that a page's examples run in: nothing, what `init` writes, or this
project's plans.
"""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    title: str | None
    """The file to save it as."""
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """One command of a console block, with the output shown below it."""

    line: int
    text: str
    shown: str


def pages() -> list[Path]:
    """Return every page whose examples are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_name(page: Path) -> str:
    """Return the name of a page as tests show it."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> Iterator[Block]:
    """Return the fenced blocks of a page in their order."""
    for fence in _FENCE.finditer(text):
        title = _TITLE.search(fence["options"])
        line = text.count("\n", 0, fence.start()) + 1
        yield Block(fence["language"], title.group(1) if title else None, fence["text"], line)


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block: lines that start with `$ `, a trailing backslash goes
    on.
    """
    found: list[Command] = []
    for offset, line in enumerate(block.text.splitlines(keepends=True), start=1):
        if line.startswith("$ "):
            found.append(Command(block.line + offset, line[2:].rstrip("\n"), ""))
        elif found and not found[-1].shown and found[-1].text.endswith("\\"):
            previous = found.pop()
            found.append(Command(previous.line, previous.text[:-1] + line.strip(), ""))
        elif found:
            previous = found.pop()
            found.append(Command(previous.line, previous.text, previous.shown + line))
    return found


def project_of(text: str) -> Project:
    """Return what the page's examples start from."""
    match _PROJECT.search(text):
        case re.Match() as found if found.group(1) == "starter":
            return "starter"
        case re.Match() as found if found.group(1) == "plans":
            return "plans"
        case _:
            return "empty"
