"""The pages that a run and a dry run write, opened from disk in a browser that has no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.repository.tree import ROOT
from tests.support.prepared_command import run_prepared

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        BROWSER is None, reason="no Chromium here; `make test` installs one where it can"
    ),
]


@dataclass(frozen=True)
class Opened:
    """A page after its scripts have run, and what the browser had to say about it."""

    dom: str
    complaints: list[str]


def open_page(page: Path, profile: Path) -> Opened:
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            "--dump-dom",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Opened(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])


def wavewright(*arguments: str, folder: Path) -> None:
    ran = run_prepared(
        *arguments, folder=folder, environment={**os.environ, "XDG_STATE_HOME": str(folder)}
    )
    assert ran.returncode == 0, ran.stderr


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    folder = tmp_path_factory.mktemp("run")
    shutil.copytree(ROOT / "plans", folder / "plans")
    wavewright("run", "plans/stocks.job.yaml", "--output", str(folder / "output"), folder=folder)
    (page,) = (folder / "output").rglob("*.html")
    return open_page(page, folder / "profile")


def test_a_report_opens_without_a_complaint(report: Opened) -> None:
    assert report.complaints == []


@pytest.mark.parametrize("word", ["achieved", "prices", "summary", "AAPL", "Confidence"])
def test_a_report_shows_what_the_run_was_about(report: Opened, word: str) -> None:
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", report.dom, flags=re.DOTALL)

    assert word.lower() in text.lower()


def test_a_report_draws_its_pictures(report: Opened) -> None:
    assert len(re.findall(r"<svg\b", report.dom)) >= 3


def test_the_page_of_a_dry_run_opens_without_a_complaint(tmp_path: Path) -> None:
    page = tmp_path / "dry-run.html"
    wavewright(
        "dry-run",
        str(ROOT / "plans" / "stocks.job.yaml"),
        "--format",
        "html",
        "-o",
        str(page),
        folder=tmp_path,
    )

    opened = open_page(page, tmp_path / "profile")

    assert opened.complaints == []
    assert "<svg" in opened.dom
