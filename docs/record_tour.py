"""Record `docs/images/tour.cast` and draw `docs/images/tour.svg`: the tour of the README, typed and run.

    python -m docs.record_tour

The commands are those of the README's console blocks, run in a folder of their own in which its
files are saved. The cast is one of asciinema (version 2); the picture plays it without a script, and
fetches nothing.
"""

from __future__ import annotations

import html
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME as THEME
from rich.text import Text

from tests.docs.blocks import Block, blocks, commands
from tests.repository.tree import ROOT

README = ROOT / "README.md"
CAST = ROOT / "docs" / "images" / "tour.cast"
PICTURE = ROOT / "docs" / "images" / "tour.svg"
COLUMNS, ROWS = 100, 32
PROMPT = "\x1b[32m$\x1b[0m "
_SECONDS_A_KEY = 0.055
_LONGEST_PAUSE = 0.4
_SECONDS_A_LINE = 0.18
"""Lines come no faster, so that an output can be followed while it scrolls by."""
_READING = 5.0
"""How long an output stands before the next command is typed."""


@dataclass(frozen=True)
class Printed:
    """What came at a moment, in seconds since the beginning."""

    at: float
    text: str


class Recorder:
    """A terminal that somebody types into, on a clock that leaves long waits out."""

    def __init__(self, folder: Path) -> None:
        """Begin in this folder."""
        self.folder = folder
        self.printed: list[Printed] = []
        self._now = 0.5
        self._code = 0

    def follow(self, block: Block) -> None:
        """Save the file of a block, or type its commands."""
        if block.title:
            target = self.folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command in commands(block):
                self._type(command.text)

    def _type(self, command: str) -> None:
        self._print(PROMPT)
        for key in command:
            self._now += _SECONDS_A_KEY
            self._print(key)
        self._print("\r\n")
        self._run(command)
        self._now += _READING

    def _run(self, command: str) -> None:
        if command == "echo $?":
            self._print(f"{self._code}\r\n")
            return
        words = shlex.split(command)
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "COLUMNS": str(COLUMNS),
            "TERM": "xterm-256color",
            "FORCE_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
            # Readers do not have it: it comes with the client of the language server's tests.
            "PYTEST_ADDOPTS": "-p no:asyncio",
        }
        running = subprocess.Popen(  # noqa: S603 - commands of our own page
            words,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert running.stdout is not None
        before = time.monotonic()
        for line in running.stdout:
            waited, before = time.monotonic() - before, time.monotonic()
            self._now += min(max(waited, _SECONDS_A_LINE), _LONGEST_PAUSE)
            text = line.rstrip("\n").replace(str(self.folder.resolve()), "~")
            self._print(f"{text}\r\n")
        self._code = running.wait()

    def _print(self, text: str) -> None:
        self.printed.append(Printed(round(self._now, 3), text))

    def cast(self) -> str:
        """Return the recording as a file of asciinema."""
        header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "wavewright"}
        rows = [[event.at, "o", event.text] for event in self.printed]
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in [header, *rows])


def record() -> str:
    """Return the recording of the README's console blocks."""
    with tempfile.TemporaryDirectory() as home:
        copytree(ROOT / "plans", Path(home) / "plans")
        recorder = Recorder(Path(home))
        for block in blocks(README.read_text(encoding="utf-8")):
            recorder.follow(block)
        return recorder.cast()


def printed_lines(cast: str) -> list[list[Printed]]:
    """Return the lines of a recording, each as the pieces that came one after another."""
    lines: list[list[Printed]] = [[]]
    for row in cast.splitlines()[1:]:
        at, _, text = json.loads(row)
        *ended, rest = text.split("\r\n")
        for piece in ended:
            lines[-1].append(Printed(at, piece))
            lines.append([])
        if rest:
            lines[-1].append(Printed(at, rest))
    return lines[:-1]


def shown_lines(cast: str) -> list[str]:
    """Return the lines of a recording as plain text."""
    return [
        Text.from_ansi("".join(piece.text for piece in line)).plain for line in printed_lines(cast)
    ]


_LINE, _CHARACTER, _EDGE = 17, 8.7, 14
_STYLE = """\
text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre; }"""


def draw(cast: str) -> str:
    """Return a picture that plays a recording, over and over."""
    lines = [_wrapped(line) for line in printed_lines(cast)]
    rows = [row for line in lines for row in line]
    ends = rows[-1][-1].at + 5
    width, height = COLUMNS * _CHARACTER + 2 * _EDGE, ROWS * _LINE + 2 * _EDGE
    texts = "\n".join(_row(number, row) for number, row in enumerate(rows))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">
<title>The tour of the README, typed and run</title>
<style>{_STYLE}</style>
<rect width="100%" height="100%" rx="8" fill="{THEME.background_color.hex}"/>
<animate id="tour" attributeName="opacity" from="1" to="1" begin="0s;tour.end" dur="{ends:.2f}s"/>
<svg x="{_EDGE}" y="{_EDGE}" width="{COLUMNS * _CHARACTER:.0f}" height="{ROWS * _LINE}">
<g fill="{THEME.foreground_color.hex}">
{_scrolling(rows, ends)}
{texts}
</g>
</svg>
</svg>
"""


def _wrapped(line: Sequence[Printed]) -> list[list[Printed]]:
    """Return a line as rows of the terminal; only what is printed at once is ever too long."""
    plain = Text.from_ansi("".join(piece.text for piece in line))
    if not line or plain.cell_len <= COLUMNS:
        return [list(line)]
    at = line[-1].at
    console = Console(width=COLUMNS, force_terminal=True, color_system="truecolor")
    with console.capture() as capture:
        console.print(plain, soft_wrap=False, highlight=False)
    return [[Printed(at, row)] for row in capture.get().rstrip("\n").split("\n")]


def _row(number: int, row: Sequence[Printed]) -> str:
    if not row:
        return ""
    spans: list[str] = []
    console = Console(force_terminal=True, color_system="truecolor")
    for piece in row:
        begins = f'<set attributeName="visibility" to="visible" begin="tour.begin+{piece.at:.2f}s" end="tour.end"/>'
        for segment in Text.from_ansi(piece.text).render(console):
            style = segment.style
            color = ""
            if style is not None and style.color is not None and not style.color.is_default:
                color = f' fill="{style.color.get_truecolor(THEME).hex}"'
            bold = ' font-weight="bold"' if style is not None and style.bold else ""
            if segment.text:
                spans.append(
                    f'<tspan visibility="hidden"{color}{bold}>{html.escape(segment.text)}{begins}</tspan>'
                )
    return f'<text y="{number * _LINE + 13}" xml:space="preserve">{"".join(spans)}</text>'


def _scrolling(rows: Sequence[Sequence[Printed]], ends: float) -> str:
    """Return what moves the rows up, so that the last one that came stands at the bottom."""
    tops: dict[float, int] = {0.0: 0}
    for number, row in enumerate(rows):
        if row and number >= ROWS:
            tops[row[0].at] = (number - ROWS + 1) * _LINE
    values = ";".join(f"0 {-top}" for top in tops.values())
    times = ";".join(f"{at / ends:.5f}" for at in tops)
    return (
        '<animateTransform attributeName="transform" type="translate" calcMode="discrete"'
        f' begin="tour.begin" dur="{ends:.2f}s" values="{values}" keyTimes="{times}"/>'
    )


if __name__ == "__main__":
    recorded = record()
    CAST.write_text(recorded, encoding="utf-8")
    PICTURE.write_text(draw(recorded), encoding="utf-8")
