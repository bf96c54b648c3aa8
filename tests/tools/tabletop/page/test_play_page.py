"""A game that is played in a real browser, by two players, over an undo and a restart of the server."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import CHROMIUM, visit
from tests.support.trace_collector import TraceCollector

pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; `make test` installs one where it can"),
]
PROGRAM = "from wavewright.engine.main import run_process; run_process()"
SEED = "4"
"""Of dice with which the player stands after the first round of the fight in the mine."""
TOKEN = "the-token-of-this-table"  # noqa: S105 - of a server that lives as long as a test


@contextmanager
def served_game(folder: Path, port: int = 0) -> Generator[str]:
    """Serve a game of a folder as a user does, and yield its address."""
    (folder / "wavewright.yaml").write_text(f"packs: {{tabletop: {{seed: '{SEED}'}}}}\n")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "play", "cellar", "--listen", f"127.0.0.1:{port}"],
        cwd=folder,
        env={**os.environ, "WAVEWRIGHT_VIEW_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + process.stdout.read()
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def say(page: Page, message: str) -> None:
    """Say something when no turn is played, and wait until the turn is over."""
    expect(page.get_by_role("heading", name="What you can do")).to_be_visible()
    lines = page.locator("#log .player").count()
    page.get_by_label("What do you do?").fill(message)
    page.keyboard.press("Enter")
    expect(page.locator("#log .player")).to_have_count(lines + 1)
    expect(page.get_by_role("heading", name="What you can do")).to_be_visible()


def test_three_turns_are_played_by_talk_by_suggestion_and_in_a_fight(tmp_path: Path) -> None:
    with served_game(tmp_path) as url, visit(url) as seen:
        page = seen.page
        expect(page.locator("#log")).to_contain_text("rule-based game master plays with you")
        expect(page.locator("#connection")).to_have_text("This page follows the game.")
        expect(page.locator("svg .here text")).to_have_text("Village square")

        say(page, "go to North gate")
        expect(page.locator("svg .here text")).to_have_text("North gate")
        expect(page.locator(".phases .done", has_text="ExecuteAgent")).to_have_count(1)
        page.get_by_role("button", name="go to Mine entrance").click()
        expect(page.locator("svg .here text")).to_have_text("Mine entrance")
        expect(page.get_by_label("What do you do?")).to_be_focused()
        say(page, "attack")

        expect(page.locator("#who-title")).to_have_text(re.compile(r"Fight, round \d"))
        expect(page.locator(".who-list li")).to_have_count(3)
        expect(page.locator(".who-list .next .name")).to_have_text("Rowan")
        assert page.locator("#log .roll .die").count() >= 3
        assert seen.serious_faults() == []
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.emulate_media(color_scheme="dark")
        assert seen.serious_faults() == []
        assert seen.console == []
        assert {urlsplit(one).netloc for one in seen.requests} == {urlsplit(url).netloc}


def test_two_players_see_the_same_game_also_after_an_undo_and_a_restart(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as browsers:
        with served_game(tmp_path, port) as url:
            page = browsers.enter_context(visit(url)).page
            assert page.context.browser is not None
            other = page.context.browser.new_page()
            other.goto(url)
            say(page, "talk to Mira")
            say(page, "go to Smithy")
            expect(other.locator("svg .here text")).to_have_text("Smithy")
            assert other.locator("#log").inner_text() == page.locator("#log").inner_text()

            other.get_by_role("button", name="Undo the last turn").click()
            for one in (page, other):
                expect(one.locator("svg .here text")).to_have_text("Village square")
                expect(one.locator("#log .player")).to_have_text(["You talk to Mira"])
        expect(page.locator("#connection")).to_have_text("The connection is lost; it is tried again.")

        with served_game(tmp_path, port):
            expect(page.locator("#connection")).to_have_text("This page follows the game.", timeout=20_000)
            say(page, "go to The Dry Boot inn")
            expect(page.locator("#log .player")).to_have_count(2)
            expect(other.locator("#log .player")).to_have_count(2, timeout=20_000)


def test_a_connection_that_was_lost_misses_and_repeats_nothing(tmp_path: Path) -> None:
    port = free_port()
    with served_game(tmp_path, port) as url, visit(url) as seen:
        page = seen.page
        say(page, "go to Smithy")
        page.context.set_offline(True)
        with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
            root = f"http://127.0.0.1:{port}"
            assert http.post(f"{root}/turn", data={"message": "go to Village square"}).status_code == 303
            for _ in range(200):
                if http.get(root).text.count('class="line player"') == 2:
                    break
        page.context.set_offline(False)
        expect(page.locator("#log .player")).to_have_count(2, timeout=20_000)
        whole = page.locator("#log").inner_text()
        page.reload()
        assert page.locator("#log").inner_text() == whole


def test_who_has_no_token_plays_not_and_a_message_without_words_is_refused(tmp_path: Path) -> None:
    with served_game(tmp_path) as url, httpx.Client() as http:
        root = url.partition("?")[0]
        assert http.get(root).status_code == 401
        assert http.post(f"{root}turn", data={"message": "look"}).status_code == 401
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        answer = http.get(root)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        refused = http.post(f"{root}turn", data={"message": " "}, headers={"Accept": "application/json"})
        assert (refused.status_code, refused.json()) == (409, {"error": "a message has 1 to 2000 characters"})
        undone = http.post(f"{root}undo", headers={"Accept": "application/json"})
        assert (undone.status_code, undone.json()) == (409, {"error": "no turn is left to be undone"})


def test_phases_are_traced_with_the_game_and_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TraceCollector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with served_game(tmp_path) as url, httpx.Client() as http:
            http.headers["Authorization"] = f"Bearer {TOKEN}"
            root = url.partition("?")[0]
            assert http.post(f"{root}turn", data={"message": "go to Smithy"}).status_code == 303
            for _ in range(200):
                if "can do" in http.get(root).text:
                    break

    [span] = [span for span in collector.spans if span.name == "phase ExecuteAgent"]
    attributes = {one.key: one.value.string_value for one in span.attributes}
    assert (attributes["wavewright.game_id"], attributes["wavewright.agent_type"]) == ("cellar", "narrative")
