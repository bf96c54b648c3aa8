"""The picture of a dry run in the readme shows what the command prints today."""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.docs.reader import normal
from tests.repository.tree import ROOT

PICTURE = ROOT / "docs" / "images" / "dry-run.svg"
COMMAND = ["dry-run", "plans/stocks.job.yaml"]
COLUMNS = 84
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def dry_run(folder: Path) -> str:
    """Return what the command prints where nothing has run yet: its figures would be those of past
    runs.
    """
    shown = subprocess.run(
        [sys.executable, "-m", "wavewright.engine.main", *COMMAND],
        cwd=ROOT,
        env=os.environ
        | {
            "COLUMNS": str(COLUMNS),
            "TERM": "xterm-256color",
            "FORCE_COLOR": "1",
            "WAVEWRIGHT_JOURNAL": str(folder / "journal.sqlite"),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    return shown.stdout


def draw(text: str) -> str:
    """Return the text as a picture of a terminal that fetches no font from elsewhere."""
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True)
    console.print(Text.from_ansi(f"$ wavewright {' '.join(COMMAND)}\n{text}"))
    return _FONT.sub("", console.export_svg(title="wavewright", unique_id="dry-run"))


def words_of(picture: str) -> list[str]:
    """Return what stands in the terminal of a picture, word by word."""
    pieces = re.findall(r"<text[^>]*clip-path=[^>]*>(.*?)</text>", picture, re.DOTALL)
    text = " ".join(html.unescape(piece).replace("\xa0", " ") for piece in pieces)
    return normal(text).split()


def test_the_picture_shows_what_a_dry_run_prints(tmp_path: Path) -> None:
    drawn = draw(dry_run(tmp_path))
    if os.environ.get("UPDATE_DOCS") == "1":
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(drawn, encoding="utf-8")

    assert words_of(PICTURE.read_text(encoding="utf-8")) == words_of(drawn)


def test_the_picture_fetches_nothing() -> None:
    addresses = set(re.findall(r"https?://[^\"'\s)]+", PICTURE.read_text(encoding="utf-8")))

    assert addresses <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
