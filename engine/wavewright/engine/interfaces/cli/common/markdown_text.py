"""Markdown as lines of a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding

from wavewright.reviewer.package.summary import MAX_WIDTH
from wavewright.reviewer.values import visible

MAX_MARKDOWN_CHARS: Final = 20_000
"""Maximum characters that are rendered; the package holds the whole."""


def markdown_lines(text: str) -> Sequence[str]:
    """Return a text of Markdown as lines for standard output, indented and at most `MAX_WIDTH` wide."""
    console = Console(file=sys.stdout)
    cut = text[:MAX_MARKDOWN_CHARS]
    # No hyperlinks: a terminal would show their text and hide their targets.
    markdown = Markdown(visible(cut), hyperlinks=False)
    with console.capture() as capture:
        console.print(Padding(markdown, (0, 0, 0, 2)), width=min(console.width, MAX_WIDTH))
    lines = capture.get().rstrip().splitlines()
    if len(cut) < len(text):
        lines.append(f"  … ({len(text):,} characters in all; the package holds them)")
    return lines
