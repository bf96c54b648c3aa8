"""The picture of a dry run's page in the documentation: its program draws it, and a page shows it."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import pages
from tests.repository.tree import ROOT
from tests.reviewer.report.test_page_in_chromium import CHROMIUM, first_pixel

PICTURE = ROOT / "docs" / "images" / "dry-run-page.png"
DRAW = (
    "import runpy, pathlib, sys;"
    "runpy.run_path(sys.argv[1], run_name='drawing')['draw'](pathlib.Path(sys.argv[2]))"
)


def size_of(png: bytes) -> tuple[int, int]:
    """Return how wide and how high a picture is."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    wide, high = struct.unpack(">II", png[16:24])
    return wide, high


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.timeout(120)
def test_the_program_draws_the_picture(tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.png"
    program = str(ROOT / "docs" / "draw_dry_run_page.py")
    subprocess.run([sys.executable, "-c", DRAW, program, str(drawn)], check=True)
    shown, new = PICTURE.read_bytes(), drawn.read_bytes()

    assert size_of(new) == size_of(shown)
    assert first_pixel(new) == first_pixel(shown)
    # A page that was not laid out is one colour, and a hundredth of that.
    assert 0.5 < len(new) / len(shown) < 2


def test_the_picture_is_small_and_a_page_shows_it() -> None:
    showing = [
        page.name
        for page in pages()
        if "images/dry-run-page.png" in page.read_text(encoding="utf-8")
    ]

    assert PICTURE.stat().st_size < 300_000
    assert "dry-run.md" in showing
