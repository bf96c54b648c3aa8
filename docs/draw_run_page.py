"""Draw `docs/images/run-page.png`: the live page of a run, as headless Chromium shows it.

    python docs/draw_run_page.py

The run is that of `plans/stocks.job.yaml`, in a folder of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "run-page.png"
JOB = "plans/stocks.job.yaml"
SIZE = (1280, 1000)
BROWSER = "/usr/bin/chromium"
WAVEWRIGHT = [sys.executable, "-m", "wavewright.engine.main"]


def draw(target: Path) -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WAVEWRIGHT_STATE": folder}
        ran = subprocess.run(  # noqa: S603 - our own command
            [*WAVEWRIGHT, "run", JOB],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        run = re.findall(r"\d{8}-\d{6}-[0-9a-f]{6}", ran.stdout + ran.stderr)[0]
        view = subprocess.Popen(  # noqa: S603 - our own command
            [*WAVEWRIGHT, "view"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert view.stdout is not None
            address = next(
                found[0] for line in view.stdout if (found := re.search(r"http://\S+", line))
            )
            _take_picture(address, run, target)
        finally:
            view.terminate()
            view.wait()


def _take_picture(address: str, run: str, target: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light"
        )
        page.goto(address)
        page.goto(f"{address.split('?', maxsplit=1)[0].rstrip('/')}/runs/{run}")
        page.wait_for_load_state("load")
        page.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    draw(PICTURE)
