"""A whole run over a model, recorded once, happens again without the model, the key and the
network.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.engine.conftest import Answer, CommandLine
from tests.engine.equities_project import served_prices
from tests.engine.model_runs.test_equities_with_model import (
    PRICE_KEY,
    SETTINGS,
    ask_for_help,
    job_without_recipes,
)
from tests.packs.equities.price_service import Answer as Served, serving
from wavewright.engine.rehearsal.fake_model.request import Wire
from wavewright.engine.rehearsal.fake_model.server import API_KEY, FakeModelServer
from wavewright.planner.types import Json, JsonObject

TIMES_AND_PLACES = {
    *("at", "now", "started", "finished", "seconds", "fetched_at"),
    *("run", "key", "cache_key", "root", "files", "base_url", "versions"),
}
NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cassette that a variable names."""
    file = tmp_path / "tapes" / "stale.json"
    monkeypatch.setenv("WAVEWRIGHT_CASSETTE", str(file))
    return file


@dataclass(frozen=True)
class Runs:
    """Runs of the same job, each in a folder of its own."""

    wavewright: CommandLine
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    server: FakeModelServer

    def record(self, wire: Wire = "chat") -> list[JsonObject]:
        """Run with a model that answers; return what lasts of the journal."""
        ask_for_help(self.monkeypatch, self.server, wire)
        self.monkeypatch.setenv("WAVEWRIGHT_CASSETTE_MODE", "record")
        ran = self._run("recorded", SETTINGS)
        assert ran.code == 0, ran.err
        return self._events()

    def replay(self, model: str) -> list[JsonObject]:
        """Run again where there is no key, and nobody at the model's address."""
        ran = self.try_replay(model)
        assert ran.code == 0, ran.err
        return self._events()

    def try_replay(self, model: str, settings: str = SETTINGS) -> Answer:
        """Run again, whether or not that comes to an end."""
        self.monkeypatch.setenv("WAVEWRIGHT_CASSETTE_MODE", "replay")
        self.monkeypatch.setenv("WAVEWRIGHT_MODEL", model)
        for name in ("WAVEWRIGHT_BASE_URL", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
            self.monkeypatch.setenv(name, NOBODY)
        for name in ("WAVEWRIGHT_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            self.monkeypatch.delenv(name, raising=False)
        return self._run("replayed", settings)

    def _run(self, name: str, settings: str) -> Answer:
        folder = self.folder / name
        folder.mkdir()
        (folder / "wavewright.yaml").write_text(settings)
        self.monkeypatch.chdir(folder)
        with serving(Served(served_prices("2009-10")), Served(served_prices("2010-03"))) as prices:
            (folder / "few.job.json").write_text(json.dumps(job_without_recipes(prices.url)))
            return self.wavewright(
                "run", "few.job.json", "--output", folder / "out", "--approve", "always"
            )

    def _events(self) -> list[JsonObject]:
        [row] = json.loads(self.wavewright("runs", "--format", "json").out)
        lines = self.wavewright("show", row["run"], "--format", "events").out.splitlines()
        events = [cast("JsonObject", lasting(json.loads(line))) for line in lines]
        # Of two steps of a wave, either may end first; an answer is kept while what was told of it
        # waits for the next entry of the journal.
        return sorted(events, key=lambda event: (step_of(event), event["kind"] == "answer_kept"))


@pytest.fixture
def runs(
    wavewright: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model_server: FakeModelServer,
    tape: Path,
) -> Runs:
    return Runs(wavewright, tmp_path, monkeypatch, model_server)


def lasting(value: Json) -> Json:
    """Return what of an event does not depend on when and where the run was."""
    match value:
        case dict():
            return {
                name: lasting(item) for name, item in value.items() if name not in TIMES_AND_PLACES
            }
        case list():
            return [lasting(item) for item in value]
        case _:
            return value


def step_of(event: JsonObject) -> str:
    """Return the step that an event is about; it is empty where the event is about the run."""
    match event:
        case {"kind": "answer_kept", "answer": {"use": {"step": str() as step}}}:
            return step
        case {"use": {"step": str() as step}} | {"step": str() as step}:
            return step
        case _:
            return ""


def uses(events: list[JsonObject]) -> list[JsonObject]:
    return [cast("JsonObject", event["use"]) for event in events if event["kind"] == "model_called"]


def test_the_journal_of_a_replay_is_that_of_the_recording_up_to_time_and_place(runs: Runs) -> None:
    recorded = runs.record()
    asked = len(runs.server.requests)

    replayed = runs.replay("openai-chat:scripted")

    assert replayed == recorded
    assert len(uses(replayed)) == asked == 5
    assert len(runs.server.requests) == asked


@pytest.mark.parametrize(
    ("wire", "replayed_as"),
    [
        ("chat", "openai:scripted"),
        ("chat", "anthropic:scripted"),
        ("messages", "openai-chat:scripted"),
    ],
)
def test_what_one_provider_answered_serves_another(
    runs: Runs, wire: Wire, replayed_as: str
) -> None:
    recorded = runs.record(wire)
    [recorded_as] = {str(use["model"]) for use in uses(recorded)}

    replayed = runs.replay(replayed_as)

    assert [use["model"] for use in uses(replayed)] == [replayed_as] * 5
    assert json.dumps(replayed).replace(replayed_as, recorded_as) == json.dumps(recorded)


def test_the_cassette_holds_each_question_and_no_key(runs: Runs, tape: Path) -> None:
    runs.record()

    text = tape.read_text(encoding="utf-8")

    assert len(json.loads(text)["entries"]) == 5
    assert API_KEY not in text
    assert PRICE_KEY not in text
    assert str(runs.folder) not in text
    assert runs.server.url not in text


def test_a_question_that_was_not_recorded_ends_the_run_with_the_difference(runs: Runs) -> None:
    runs.record()

    ran = runs.try_replay(
        "openai-chat:scripted", SETTINGS.replace("{prices", "{max_output_tokens: 999, prices")
    )

    assert ran.code != 0
    assert "stale.json has no answer to this request" in ran.err
    assert '+  "max_tokens": 999' in ran.err
    assert "WAVEWRIGHT_CASSETTE_MODE=record" in ran.err
