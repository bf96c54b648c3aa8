"""The live page in a browser, on a screen and on a phone, in light and dark.

Its layout is asked for, not its pixels: fonts differ between machines by more than a picture of
one could be held to.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.interfaces.view.served_page import ServedPage, served_page, write_project
from tests.support.browser import CHROMIUM, Visit, visit
from tests.support.prepared_command import run_prepared

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.timeout(180),
]

STEPS = 80
PLAN = "name: many\nplan:\n  steps:\n" + "".join(
    f"    - {{id: step_with_a_long_name_{number}, tool: post, params: {{text: none}}}}\n"
    for number in range(STEPS)
)
OVERFLOWS = """() => document.documentElement.scrollWidth - document.documentElement.clientWidth"""
HEIGHT = "() => document.documentElement.scrollHeight"
OUTSIDE = """() => [...document.querySelectorAll(".bar > *")]
    .filter((part) => getComputedStyle(part).position !== "absolute")
    .filter((part) => part.getBoundingClientRect().right > innerWidth + 1
                      || part.getBoundingClientRect().height > 40)
    .map((part) => part.textContent)"""
BROKEN = """() => [...document.querySelectorAll("th, button, .pill, .nowrap, table.stack a > code")]
    .filter((part) => part.offsetParent && !part.textContent.trim().includes(" "))
    .filter((part) => {
      const words = document.createRange();
      words.selectNodeContents(part);
      return new Set([...words.getClientRects()].map((line) => Math.round(line.top))).size > 2;
    })
    .map((part) => part.textContent)"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[ServedPage, str]]:
    """Serve a project with a run of many steps, and return its id."""
    folder = write_project(tmp_path_factory.mktemp("project"))
    (folder / "many.yaml").write_text(PLAN, encoding="utf-8")
    (folder / "posting.job.yaml").write_text(
        "name: posting\nplan:\n  steps: [{id: send_a_letter, tool: post, params: {text: none}}]\n"
    )
    for file in ("many.yaml", "posting.job.yaml"):
        ran = run_prepared("run", file, "--approve", "always", folder=folder)
        assert ran.returncode == 0, ran.stderr
    with served_page(folder) as page, page.client() as client:
        runs = client.get("/api/v1/runs").json()["runs"]
        yield page, next(row["run"] for row in runs if row["job"] == "many")


@pytest.fixture(scope="module")
def opened(served: tuple[ServedPage, str]) -> Generator[Visit]:
    with visit(served[0].url) as seen:
        yield seen


@pytest.mark.parametrize(
    "path", ["/", "/jobs", "/schedules", "/decisions", "/runs/{run}", "/runs/{run}/events"]
)
def test_a_page_fits_a_screen_and_a_phone_and_breaks_no_word(
    served: tuple[ServedPage, str], opened: Visit, path: str
) -> None:
    opened.page.goto(served[0].root + path.format(run=served[1]))
    for width in (1300, 400):
        opened.page.set_viewport_size({"width": width, "height": 800})
        found = [opened.page.evaluate(script) for script in (OVERFLOWS, OUTSIDE, BROKEN)]
        assert found == [0, [], []], width
    # Tables of many rows scroll by themselves: without that this page has 25,000 pixels.
    if path == "/runs/{run}":
        assert opened.page.evaluate(HEIGHT) < 9_000


@pytest.mark.parametrize("path", ["/", "/runs/{run}"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_from_using_a_page(
    served: tuple[ServedPage, str], opened: Visit, path: str, scheme: str
) -> None:
    opened.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    opened.page.goto(served[0].root + path.format(run=served[1]))

    assert opened.serious_faults() == []


def test_the_list_of_runs_is_narrowed_while_somebody_types(
    served: tuple[ServedPage, str], opened: Visit
) -> None:
    opened.page.goto(served[0].root)
    field = opened.page.get_by_label("Job or run")
    assert opened.page.get_by_role("button", name="Show").count() == 0
    field.press_sequentially("posting")
    opened.page.get_by_role("link", name=served[1]).wait_for(state="detached")

    assert opened.page.locator("#found tbody tr").count() == 1
    assert "text=posting" in opened.page.url
    assert field.evaluate("node => node === document.activeElement")


def test_the_dry_run_of_a_new_job_is_a_drawing(
    served: tuple[ServedPage, str], opened: Visit
) -> None:
    opened.page.goto(f"{served[0].root}/submit/posting.job.yaml")
    opened.console.clear()
    opened.page.get_by_role("button", name="Dry run").click()
    opened.page.locator(".figure svg").wait_for()

    assert "send_a_letter" in (opened.page.locator(".figure svg").text_content() or "")
    assert opened.console == []
