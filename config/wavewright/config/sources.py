"""Texts and the places in them.

A *source* is text with a name, a *span* a stretch of it, a *pointer* (RFC 6901) names a node of the value that was
read. A *fault* is something that keeps a text from being a document at all, or a document from being what was asked
for; whoever reports one says where it is and what would mend it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_EXACT_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""
EMPTY_DOCUMENT = "the document is empty"
"""What is said of a text without a value; comments are none."""


@dataclass(frozen=True, slots=True)
class Source:
    """Text with the name a reader knows it by: a file's path, or `<model>`."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character offset, both counted from 1."""
        before = self.text[: max(0, min(offset, len(self.text)))]
        line = before.count("\n") + 1
        return line, len(before) - (before.rfind("\n") + 1) + 1


class Span(NamedTuple):
    """A half-open stretch of a source's text, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """What is wrong: a kind from a fixed list, a message, a place and a way out."""

    kind: str
    message: str
    span: Span | None = None
    pointer: str = ""
    hint: str | None = None


class DocumentError(Exception):
    """A text that could not be read as a document; `faults` says why, in the order of the text."""

    def __init__(
        self, source: Source, faults: tuple[DocumentFault, ...], others: tuple[DocumentError, ...] = ()
    ) -> None:
        self.source = source
        self.faults = faults
        self.others = others
        """What is wrong with other texts that were read with this one."""
        texts = [f"{source.name}: {fault.message}" for fault in faults]
        super().__init__("; ".join([*texts, *map(str, others)]))


def combine_errors(errors: Sequence[DocumentError]) -> DocumentError:
    """Return one error that tells what is wrong with several texts, the first of them before the others."""
    first, *rest = (
        part for error in errors for part in (DocumentError(error.source, error.faults), *error.others)
    )
    return DocumentError(first.source, first.faults, tuple(rest))


class ReadLimits(NamedTuple):
    """What a reader is willing to take in."""

    max_bytes: int = 16 * 2**20
    max_depth: int = 64
    """How deep lists and objects may be nested."""


def pointer_token(key: str | int) -> str:
    """Return one step of a pointer, with its slash."""
    return f"/{key}" if isinstance(key, int) else "/" + key.replace("~", "~0").replace("/", "~1")


def pointer_keys(pointer: str) -> list[str]:
    """Return the keys that a pointer leads along."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
