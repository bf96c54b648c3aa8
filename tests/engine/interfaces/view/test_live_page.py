"""The live page in a real browser: a run followed to its end, and a decision that is taken there."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from playwright.sync_api import expect

from tests.engine.interfaces.view.served_page import command, served_page, write_project
from tests.support.browser import CHROMIUM, visit
from wavewright.config.settings import load_settings
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.stores import journal_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium here; `make test` installs one where it can"
    ),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


def test_a_run_is_followed_from_its_first_step_to_its_verdict(project: Path) -> None:
    with (
        served_page(project) as served,
        command(project, "run", "waiting.plan.yaml") as run,
        visit(served.url) as seen,
    ):
        page = seen.page
        row = page.locator("tbody a").first
        expect(page.locator("h1")).to_have_text("Runs")
        for _ in range(100):
            if row.count():
                break
            page.wait_for_timeout(100)
            page.reload()
        row.click()
        expect(page.locator("#verdict-title")).to_have_text("Running")
        expect(page.locator(".node.s-running")).to_have_count(1)
        expect(page.locator(".node.s-running .name")).to_have_text("first")

        (project / "one.txt").touch()
        expect(page.locator(".node.s-running .name")).to_have_text("second")
        page.locator("summary", has_text="Plan as JSON").click()
        # A picture that has just taken the place of another one has no width yet, and one may
        # take it at any time: waiting and measuring are one act.
        width = page.wait_for_function(
            "document.querySelector('svg.dag')?.clientWidth"
        ).json_value()
        page.get_by_role("button", name="Zoom in").click()
        page.get_by_label("Find a step").fill("SECOND")
        expect(page.locator(".graph-tools output")).to_have_text("1 of 1")
        (project / "two.txt").touch()

        expect(page.locator("#verdict-title")).to_have_text("Goal achieved")
        expect(page.locator(".node.found .name")).to_have_text("second")
        expect(page.get_by_label("Find a step")).to_be_focused()
        page.wait_for_function(
            "wanted => document.querySelector('svg.dag')?.clientWidth === wanted",
            arg=round(width * 1.25),
        )
        page.get_by_label("Find a step").fill("")
        expect(page.locator("#connection")).to_have_text("The run has ended.")
        assert page.locator("details", has_text="Plan as JSON").get_attribute("open") is not None
        assert run.wait() == 0
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert seen.serious_faults() == []
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.locator(".steps a", has_text="second").click()
        expect(page.locator("section.card")).to_contain_text('"file": "two.txt"')
        expect(page.locator("section.card")).to_contain_text("Output")
        assert seen.serious_faults() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.go_back()
        page.locator("#confidence").get_by_role("link", name="overall").click()
        expect(page.locator("pre.code")).to_contain_text("so overall is 0.80: ")
        assert seen.serious_faults() == []
        assert seen.console == []
        assert {urlsplit(url).netloc for url in seen.requests} == {urlsplit(served.root).netloc}


def test_what_a_run_took_is_counted_from_what_the_page_was_told(project: Path) -> None:
    """Not from its start: it may have stood still since, and the browser's clock be another one."""
    with (
        served_page(project) as served,
        command(project, "run", "waiting.plan.yaml") as run,
        visit(served.url) as seen,
    ):
        page = seen.page
        page.clock.install(time=time.time() + 3600)
        while not page.locator("tbody a").count():
            page.wait_for_timeout(100)
            page.reload()
        page.locator("tbody a").first.click()
        expect(page.locator(".node.s-running .name")).to_have_text("first")
        took = page.locator("dd", has=page.locator("span[data-seconds]")).first
        expect(page.locator("#connection")).to_have_text("This page follows the run.")

        def shown_after(milliseconds: int) -> str:
            page.clock.run_for(milliseconds)
            return took.inner_text().strip()

        # What the server says meanwhile is counted from anew.
        while not re.fullmatch(r"1 min \d+ s", shown_after(61_000)):
            page.wait_for_timeout(100)
        (project / "one.txt").touch()
        expect(page.locator(".node.s-running .name")).to_have_text("second")
        page.clock.run_for(1_000)
        expect(took).to_have_text(re.compile(r"^\d+ s$"))
        # Neither is the axis of the times: by the browser's clock all ran an hour.
        begun = page.locator(".gantt rect.growing").get_attribute("x")
        assert begun is not None
        assert float(begun.removesuffix("%")) > 1
        (project / "two.txt").touch()
        assert run.wait() == 0


async def states_of(project: Path) -> list[RunState]:
    """Return the runs in the journal of a project, the newest first."""
    async with journal_of(load_settings(project)) as journal:
        return [fold(await journal.load(row.run)) for row in await journal.list_runs()]


def test_an_approval_is_given_in_the_page_and_the_run_resumed(project: Path) -> None:
    with command(project, "run", "posting.plan.yaml", "--approve", "wait") as run:
        run.wait()
    with served_page(project) as served, visit(served.url) as seen:
        page = seen.page
        page.get_by_role("link", name="Decisions").click()
        expect(page.locator(".decision pre")).to_contain_text("hello")
        assert seen.serious_faults() == []
        page.locator("button", has_text="approve").first.click()
        expect(page.locator("main")).to_contain_text("Nothing waits for an answer.")

        page.get_by_role("link", name="Runs").click()
        page.locator("tbody a").first.click()
        page.get_by_label("Your name").fill("ada")
        page.get_by_role("button", name="Resume").click()

        expect(page.locator("#verdict-title")).to_have_text("Goal achieved", timeout=30_000)
        expect(page.locator(".steer button:visible")).to_have_text(["Retry", "Replay"])
        assert (project / "posted.txt").read_text() == "hello\n"
        first = page.url
        page.get_by_label("Your name").fill("ada")
        page.get_by_role("button", name="Retry").click()
        page.wait_for_url(lambda url: url != first)
        expect(page.locator("#verdict-title")).to_have_text("Goal achieved", timeout=30_000)
        page.get_by_role("button", name="Replay").click()
        expect(page.locator("pre.code")).to_contain_text("achieved, as recorded", timeout=30_000)
        assert seen.serious_faults() == []
        assert seen.console == []

    repeated, resumed = anyio.run(states_of, project)
    assert [note.body.get("by") for note in resumed.notes if note.topic == "resumed"] == ["ada"]
    assert repeated.started is not None
    assert repeated.started.retry is not None
    assert repeated.started.retry.by == "ada"


def test_of_two_answers_one_counts_and_the_other_is_told(project: Path) -> None:
    with command(project, "run", "posting.plan.yaml", "--approve", "wait") as run:
        run.wait()
    with served_page(project) as served, served.client() as client:
        [question] = client.get("/api/v1/decisions").json()
        first = client.post(
            f"/api/v1/decisions/{question['id']}", json={"choice": "refuse", "by": "ada"}
        )
        second = client.post(
            f"/api/v1/decisions/{question['id']}", json={"choice": "approve", "by": "bob"}
        )

        assert first.json() == {"answered": True}
        assert second.status_code == 409
        assert "answered already by 'ada': 'refuse'" in second.json()["error"]
        assert client.get("/api/v1/decisions").json() == []

        steer = f"/api/v1/runs/{question['run']}"
        assert client.post(f"{steer}/cancel", json={}).status_code == 422
        assert client.post(f"{steer}/cancel", json={"by": "ada"}).json() == {"run": question["run"]}
        assert client.get(steer).json()["reason"] == "cancelled by ada"
        assert client.post(f"{steer}/resume", json={"by": "ada"}).status_code == 409
        assert client.post("/api/v1/runs/none/cancel", json={"by": "ada"}).status_code == 404


def test_what_cannot_be_done_is_answered_with_its_reason(project: Path) -> None:
    with command(project, "run", "posting.plan.yaml", "--approve", "wait") as run:
        run.wait()
    with served_page(project) as served, served.client() as client:
        [question] = client.get("/api/v1/decisions").json()
        address = f"/api/v1/decisions/{question['id']}"
        run_page = f"/runs/{question['run']}"

        assert client.post(address, json={}).json() == {
            "error": "`choice`: Field required; `by`: Field required"
        }
        assert client.post(address, content=b"approve").status_code == 422
        for name in ("a\nb", "a\u202eb", ""):
            assert (
                "`by`"
                in client.post(address, json={"choice": "refuse", "by": name}).json()["error"]
            )
        assert "not &#39;abc&#39;" in client.get(f"{run_page}/events?from=abc").text
        assert client.get(f"{run_page}/events?from=-1").status_code == 400
        assert client.get(f"{run_page}/events?from={'9' * 5000}").status_code == 400
        assert client.get("/runs/20200101-000000-000000/events").status_code == 404

        answered = client.post(
            f"/decisions/{question['id']}", data={"choice": "refuse", "by": "ada"}
        )
        assert answered.status_code == 303
        assert "ada" in client.get(f"{run_page}/events").text
        assert "events?from=0" in client.get(f"{run_page}/events?from=1").text
        client.post(f"{run_page}/resume")
        with client.stream("GET", f"{run_page}/stream") as stream:
            assert any(line == "event: ended" for line in stream.iter_lines())
        again = client.post(f"{run_page}/resume")
        assert again.status_code == 409
        assert "resume" in again.text.partition('role="alert">')[2].partition("</pre>")[0]


def test_two_runs_are_found_by_a_gate_and_compared(project: Path) -> None:
    plan = 'steps: [{id: post, tool: wait_for, params: {file: "one.txt"}}]\nresult: ${steps.post}\n'
    gates = "gates: [{id: named, on: post, check: 'output == \"%s\"'}]\n"
    (project / "one.txt").touch()
    for number, name in enumerate(("one.txt", "two.txt")):
        (project / f"{number}.plan.yaml").write_text(plan + gates % name)
        with command(project, "run", f"{number}.plan.yaml") as run:
            run.wait()
    with served_page(project) as served, visit(f"{served.url}&gate=named") as seen:
        page = seen.page
        expect(page.locator("tbody tr")).to_have_count(2)
        assert seen.serious_faults() == []
        for box in page.get_by_role("checkbox").all():
            box.check()
        page.get_by_role("button", name="Compare two runs").click()

        expect(page.locator("main")).to_contain_text("gate named on post pass → fail")
        expect(page.locator("main")).to_contain_text("verdict achieved → not achieved")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert seen.serious_faults() == []
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.goto(f"{served.root}/?gate=unknown")
        expect(page.locator("main")).to_contain_text("No such runs.")
        assert seen.console == []
        with served.client() as client:
            assert client.get("/compare?run=one").status_code == 400
            assert client.get("/?colour=red").status_code == 400


@pytest.mark.long
def test_twenty_tabs_of_one_browser_follow_their_runs_and_open_other_pages(project: Path) -> None:
    with (
        served_page(project) as served,
        command(project, "run", "waiting.plan.yaml") as first,
        command(project, "run", "waiting.plan.yaml") as second,
        visit(served.url) as seen,
        served.client() as client,
    ):
        runs: list[dict[str, str]] = []
        while len(runs) < 2:
            runs = client.get("/api/v1/runs").json()["runs"]
        browser = seen.page.context.browser
        assert browser is not None
        context = browser.new_context()
        tabs = [context.new_page() for _ in range(20)]
        tabs[0].goto(served.url)
        for tab, run in zip(tabs, runs * 10, strict=True):
            tab.goto(f"{served.root}/runs/{run['run']}")

        (project / "one.txt").touch()
        (project / "two.txt").touch()

        for tab in tabs:
            expect(tab.locator("#connection")).to_have_text("The run has ended.", timeout=30_000)
        tabs[0].goto(f"{served.root}/decisions")
        expect(tabs[0].locator("h1")).to_have_text("Decisions")
        assert first.wait() == second.wait() == 0
