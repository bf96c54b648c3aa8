"""A result that is Markdown, rendered where standard output is a terminal."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from wavewright.reviewer.result_text import result_text
from wavewright.reviewer.summary import MAX_WIDTH, render_summary
from wavewright.reviewer.values import visible

if TYPE_CHECKING:
    from wavewright.reviewer.records import Package

MAX_MARKDOWN_CHARS: Final = 20_000
"""Characters that are rendered; the package holds the whole."""
_MARKDOWN = re.compile(
    r"^(?:#{1,6} |[-*+] |\d+\. |> |```|\|.*\|)|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\([^)\n]+\)", re.MULTILINE
)


def summary_text(package: Package) -> str:
    """Return the summary of a package for standard output: a terminal's width where that is one."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_WIDTH
    return render_summary(package, rendered_result(package), width=width)


def rendered_result(package: Package) -> Sequence[str] | None:
    """Return the lines of a result for a terminal; none where it is no Markdown, or standard output no terminal."""
    text = result_text(package)
    if text is None or not sys.stdout.isatty() or _MARKDOWN.search(text) is None:
        return None
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.padding import Padding

    console = Console(file=sys.stdout)
    cut = text[:MAX_MARKDOWN_CHARS]
    # No hyperlinks: a terminal would show their text and hide where they lead.
    markdown = Markdown(visible(cut), hyperlinks=False)
    with console.capture() as capture:
        console.print(Padding(markdown, (0, 0, 0, 2)), width=min(console.width, MAX_WIDTH))
    lines = capture.get().rstrip().splitlines()
    if len(cut) < len(text):
        lines.append(f"  … ({len(text):,} characters in all; the package holds them)")
    return lines
