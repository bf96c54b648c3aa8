"""Draw `docs/images/dry-run-page.png`: the page of a dry run, as headless Chromium shows it.

    python docs/draw_dry_run_page.py

The page is that of `plans/synthetic.job.yaml`, without a project's history, with one step chosen.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "dry-run-page.png"
JOB = ROOT / "plans" / "synthetic.job.yaml"
SIZE = (1280, 800)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)


def draw(target: Path) -> None:
    """Write the picture; the browser has a profile of its own and no network."""
    if BROWSER is None:
        sys.exit("there is no Chromium here: `apt-get install chromium` brings one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = folder / "page.html"
        dry_run = [
            sys.executable,
            "-m",
            "wavewright.engine.main",
            "dry-run",
            str(JOB),
            "--format",
            "html",
        ]
        dry_run += ["--output", str(page)]
        subprocess.run(dry_run, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
        browse = [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--blink-settings=preferredColorScheme=1",
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={SIZE[0]},{SIZE[1]}",
            f"--screenshot={target}",
            f"{page.as_uri()}",
        ]
        subprocess.run(browse, check=True, capture_output=True, timeout=60)  # noqa: S603 - the browser, on our own page


if __name__ == "__main__":
    draw(PICTURE)
