"""The documents that an editor has open, as they stand there, saved or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.sources import Span
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.interfaces.cli.lsp.reading import ReadText, read_text

if TYPE_CHECKING:
    from wavewright.config.documents import Document
    from wavewright.planner.diagnostics.diagnostic import Diagnostic


@dataclass(frozen=True)
class OpenDocument:
    """One version of a document."""

    uri: str
    path: Path
    version: int | None
    places: TextPositions

    @property
    def text(self) -> str:
        """The whole text."""
        return self.places.text

    def take(self, document: Document) -> None:
        """Take what a check has read, so that the text is read once."""
        if self.path.suffix != ".toml" and document.source.text == self.text:
            self.__dict__.setdefault("read", ReadText(document))

    @cached_property
    def read(self) -> ReadText | None:
        """What it says; None where it cannot be read, or keeps no places as TOML does."""
        if self.path.suffix == ".toml":
            return None
        return read_text(self.text, str(self.path))


@dataclass(frozen=True, slots=True)
class LastGoodCheck:
    """What was found in the last text that could be read."""

    text: str
    diagnostics: tuple[Diagnostic, ...]

    def still_standing(self, text: str) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of what has not been changed since, where they stand now."""
        head = _common_length(self.text, text)
        tail = _common_length(self.text[head:][::-1], text[head:][::-1])
        shift = len(text) - len(self.text)
        kept: list[Diagnostic] = []
        for found in self.diagnostics:
            span = found.span
            if span is None or span.end <= head:
                kept.append(found)
            elif span.start >= len(self.text) - tail:
                moved = Span(span.start + shift, span.end + shift)
                kept.append(replace(found, span=moved))
        return tuple(kept)


def _common_length(first: str, second: str) -> int:
    """Return how many characters two texts have in common from their beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
