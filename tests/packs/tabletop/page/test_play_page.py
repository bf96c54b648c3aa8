"""A game that is played in a real browser, by two players, over an undo and a restart of the
server.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import CHROMIUM, visit
from tests.support.prepared_command import PreparedCommand
from tests.support.trace_collector import TraceCollector
from wavewright.engine.rehearsal.fake_model.replies import AnswerLike, slow_drip
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium here; `make test` installs one where it can"
    ),
]
SEED = "4"
"""Of dice with which the player stands after the first round of the fight in the mine."""
TOKEN = "the-token-of-this-table"  # noqa: S105 - of a server that lives as long as a test


@contextmanager
def served_game(
    folder: Path, port: int = 0, *, more: str = "", environment: Mapping[str, str] | None = None
) -> Generator[str]:
    """Serve a game of a folder as a user does, and yield its address; its log is `log.txt`."""
    (folder / "wavewright.yaml").write_text(f"packs: {{tabletop: {{seed: '{SEED}'{more}}}}}\n")
    with (
        (folder / "log.txt").open("w") as log,
        _serving(folder, port, log, environment or {}) as url,
    ):
        yield url


@contextmanager
def _serving(
    folder: Path, port: int, log: TextIO, environment: Mapping[str, str]
) -> Generator[str]:
    output, written = os.pipe()
    process = PreparedCommand(
        ["play", "cellar", "--listen", f"127.0.0.1:{port}"],
        folder,
        {**os.environ, **environment, "WAVEWRIGHT_VIEW_TOKEN": TOKEN},
        written,
        log.fileno(),
    )
    os.close(written)
    try:
        with os.fdopen(output) as said:
            found = re.search(r"http://\S+", said.readline())
            assert found is not None, (folder / "log.txt").read_text()
            yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


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
        expect(page.locator("#map-text")).to_contain_text("You are at Village square;")
        page.locator("body").focus()
        reached: list[str] = []
        for _ in range(6):
            page.keyboard.press("Tab")
            focused = page.locator(":focus")
            reached.append(focused.get_attribute("aria-label") or focused.inner_text())
        assert reached == [
            "Skip to the message",
            "The talk so far",
            "",  # the message
            "Say",
            "talk to Mira",
            "buy healing potion from Mira for 8 gold",
        ]

        say(page, "go to North gate")
        expect(page.locator("#map-text")).to_contain_text("You are at North gate;")
        expect(page.locator(".phases .done", has_text="ExecuteAgent")).to_have_count(1)
        page.get_by_role("button", name="go to Mine entrance").click()
        expect(page.locator("#map-text")).to_contain_text("You are at Mine entrance;")
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
            expect(other.locator("#map-text")).to_contain_text("You are at Smithy;")
            assert other.locator("#log").inner_text() == page.locator("#log").inner_text()

            other.get_by_role("button", name="Undo the last turn").click()
            for one in (page, other):
                expect(one.locator("#map-text")).to_contain_text("You are at Village square;")
                expect(one.locator("#log .player")).to_have_text(["You talk to Mira"])
        expect(page.locator("#connection")).to_have_text(
            "The connection is lost; it is tried again."
        )

        with served_game(tmp_path, port):
            expect(page.locator("#connection")).to_have_text(
                "This page follows the game.", timeout=20_000
            )
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
            assert (
                http.post(f"{root}/turn", data={"message": "go to Village square"}).status_code
                == 303
            )
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
        refused = http.post(
            f"{root}turn", data={"message": " "}, headers={"Accept": "application/json"}
        )
        assert (refused.status_code, refused.json()) == (
            409,
            {"error": "a message has 1 to 2000 characters"},
        )
        undone = http.post(f"{root}undo", headers={"Accept": "application/json"})
        assert (undone.status_code, undone.json()) == (
            409,
            {"error": "no turn is left to be undone"},
        )


def test_a_message_during_a_turn_waits_and_the_words_of_a_model_arrive(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    told = threading.Event()

    def answer(request: FakeModelRequest) -> AnswerLike:
        if "first" in request.messages[-1].text.partition('<data name="player">')[2]:
            told.wait(60)
        return "Rain falls. A door creaks."

    model_server.answer(answer)
    with served_game(tmp_path, environment=model_server.environment()) as url, visit(url) as seen:
        page = seen.page
        message = page.get_by_label("What do you do?")
        for text in ("first", "second", "third"):
            message.fill(text)
            page.keyboard.press("Enter")
            expect(message).to_have_value("")
        expect(page.get_by_role("heading", name="A turn is played")).to_be_visible()
        expect(page.locator(".phases .now")).to_have_text("ExecuteAgent")
        expect(page.locator(".waiting li")).to_have_text([re.compile(r"^waits third")])
        assert seen.serious_faults() == []
        message.fill("fourth")
        page.keyboard.press("Enter")
        expect(page.locator(".waiting li")).to_have_text([re.compile(r"^waits fourth")])
        page.get_by_role("button", name="Take back: fourth").click()
        expect(page.locator(".waiting li")).to_have_count(0)
        message.fill("last")
        page.keyboard.press("Enter")
        expect(page.locator(".waiting li")).to_have_count(1)
        told.set()
        expect(page.locator("#log .player")).to_have_text(["You first", "You last"])
        expect(page.locator("#log .narration")).to_have_count(3)
        expect(page.locator(".draft")).to_have_count(0)
        assert seen.console == []


def events_of(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of a stream with their ids."""
    id_ = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            id_ = value
        elif name == "data":
            yield id_, json.loads(value)


def test_who_reconnects_while_a_model_speaks_loses_and_repeats_nothing(
    model_server: FakeModelServer, tmp_path: Path
) -> None:
    words = " ".join(f"Sentence {number} is said." for number in range(30))
    model_server.answer(lambda _: slow_drip(words, 0.03, 9))
    with (
        served_game(tmp_path, environment=model_server.environment()) as url,
        httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20) as http,
    ):
        root = url.partition("?")[0]
        seen, lines, drafts = "0", "", list[str]()
        is_over = False
        while not is_over:
            # A new connection for each event, as over the worst of lines.
            with http.stream("GET", f"{root}stream", headers={"Last-Event-ID": seen}) as answer:
                id_, told = next(events_of(answer))
            if seen == "0":
                assert http.post(f"{root}turn", data={"message": "look"}).status_code == 303
            assert id_ != seen
            assert not (seen != "0" and told.get("is_whole"))
            seen, lines = id_, lines + told.get("lines", "")
            drafts.append(told["pending"])
            is_over = "What you can do" in told.get("actions", "") and words in lines
        page = http.get(root).text

    assert lines.count(words) == 1
    assert lines.count("Sentence 0 is") == 1
    assert drafts[-1].strip() == ""
    assert any("Sentence 0 is said." in draft and "Sentence 29" not in draft for draft in drafts)
    assert page.count("Sentence 0 is said.") == 1


def test_phases_and_twin_runs_are_logged_and_counted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from wavewright.packs.tabletop.turn.header import turn_pipeline\n\n\n"
        "def other(agents, cap):\n    return turn_pipeline(agents, cap, name='other')\n"
    )
    more = ", log_level: debug, twin: {pipeline: 'mine:other', sample: 1}"
    with served_game(tmp_path, more=more) as url, httpx.Client() as http:
        root = url.partition("?")[0]
        assert http.get(f"{root}metrics").status_code == 401
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        assert http.post(f"{root}turn", data={"message": "@Mira hello"}).status_code == 303
        metrics = ""
        for _ in range(500):
            metrics = http.get(f"{root}metrics").text
            if "wavewright_twin_runs_total" in metrics and 'outcome="equal"' in metrics:
                break

    halted = (
        'outcome="halt",phase="ExecuteNpcDialogue",pipeline="turn",reason="HALT_AFTER_NPC_DIALOGUE"'
    )
    assert f'agent_type="npc",branch="",{halted}' in metrics
    assert 'wavewright_twin_runs_total{first="turn",outcome="equal",second="other"} 1.0' in metrics
    lines = [json.loads(line) for line in (tmp_path / "log.txt").read_text().splitlines()]
    [line] = [line for line in lines if line.get("phase") == "ExecuteNpcDialogue"]
    shown = {
        name: line[name]
        for name in ("event", "game_id", "agent_type", "outcome", "reason", "reloads")
    }
    assert shown == {
        "event": "phase_finished",
        "game_id": "cellar",
        "agent_type": "npc",
        "outcome": "halt",
        "reason": "HALT_AFTER_NPC_DIALOGUE",
        "reloads": "3",
    }
    assert [line["second"] for line in lines if line["event"] == "twin_compared"] == ["other"]


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
    assert (attributes["wavewright.game_id"], attributes["wavewright.agent_type"]) == (
        "cellar",
        "narrative",
    )
