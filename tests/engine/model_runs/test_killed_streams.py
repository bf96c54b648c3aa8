"""A run that is killed while its plan arrives goes on without calling again what was called, and
replays alike.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import anyio
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import PLAN, ModelRunProject, review
from tests.engine.stale_quotes_project import take_calls
from tests.support.prepared_command import PipedCommand
from wavewright.engine.rehearsal.fake_model.replies import Reply
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.executor.events.types import Event, Noted, PlanAccepted, StepFinished
from wavewright.executor.sqlite.journal import SqliteJournal

ANSWER = json.dumps(PLAN).replace("what was asked for", "so " * 20_000)
"""The plan with a last step that takes more than a minute to arrive."""


def journaled(folder: Path) -> list[Event]:
    """Return the events of the only run; none before it has begun."""

    async def load() -> list[Event]:
        async with SqliteJournal(folder / ".wavewright" / "journal.sqlite") as journal:
            runs = await journal.list_runs()
            return await journal.load(runs[0].run) if runs else []

    return anyio.run(load)


def test_a_run_that_is_killed_in_the_middle_of_its_plan_keeps_what_was_called(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    ModelRunProject(tmp_path, wavewright).write()
    model_server.answer(Reply(text=ANSWER, piece=40, interval=0.05), when=asked_for("plan"))
    with PipedCommand("run", "quotes.job.yaml", folder=tmp_path) as running:
        model_server.wait_for_requests(1)
        deadline = time.monotonic() + 60
        while {one.step for one in journaled(tmp_path) if isinstance(one, StepFinished)} != {
            "quotes",
            "rate",
        }:
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.05)  # noqa: TID251 - the condition is in another process
    assert take_calls(tmp_path) == {"fetch GNP False": 1, "fetch SKS False": 1, "rate": 1}

    model_server.reset()
    model_server.answer(PLAN, when=asked_for("plan"))
    model_server.answer(review(), when=asked_for("review"))
    resumed = wavewright("resume")

    assert resumed.code == 0, resumed.err
    assert take_calls(tmp_path) == {"write_down": 1}
    events = journaled(tmp_path)
    assert [type(one) for one in events].count(PlanAccepted) == 1
    assert any(isinstance(one, Noted) and one.topic == "plan_prefix" for one in events)
    replayed = wavewright("replay")
    assert replayed.code == 0, replayed.out + replayed.err
    assert take_calls(tmp_path) == {}
