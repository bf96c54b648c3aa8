"""A page in a real Chromium, and what the browser said and asked meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

from playwright.sync_api import Page, sync_playwright

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


@dataclass(frozen=True)
class Visit:
    """A page that somebody looks at, and what the browser said and asked meanwhile."""

    page: Page
    console: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])

    def serious_faults(self) -> list[str]:
        """Return what axe-core finds that keeps people from using the page, by rule."""
        # A page has text before it has its styles, and without them other colours.
        self.page.wait_for_load_state("load")
        self.page.evaluate(
            files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        )
        found = self.page.evaluate("async () => (await axe.run()).violations")
        return [one["id"] for one in found if one["impact"] in {"serious", "critical"}]


@contextmanager
def visit(url: str) -> Generator[Visit]:
    """Open an address in a browser of its own."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        seen = Visit(browser.new_page())
        seen.page.on("console", lambda message: seen.console.append(message.text))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(url)
        yield seen
        browser.close()
