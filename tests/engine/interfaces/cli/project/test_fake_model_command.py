"""`wavewright fake-model`: a script served in place of a model."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.terminal_session import Thread, interrupt
from tests.repository.tree import ROOT
from tests.support.prepared_command import PipedCommand, run_prepared


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_project_runs_over_the_fake_model_until_it_is_interrupted(
    wavewright: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch, thread: Thread
) -> None:
    (project / "answers.yaml").write_text(
        "answers: [{when: {contains: Answer with the one word}, text: ready}]\n", encoding="utf-8"
    )
    with PipedCommand(
        "fake-model", "--port", "0", "--script", "answers.yaml", folder=project
    ) as server:
        first = server.stdout.readline()
        address = re.search(r"http://\S+", first)
        assert address is not None, first
        model = {
            "WAVEWRIGHT_MODEL": "openai-chat:fake",
            "WAVEWRIGHT_BASE_URL": address.group(),
            "WAVEWRIGHT_API_KEY": "any",
        }
        for name, value in model.items():
            monkeypatch.setenv(name, value)
        asked = wavewright("doctor")
        told = server.stdout.readline()
        interrupt(server, thread)
        server.wait()

    assert "openai-chat:fake answered in" in asked.out
    assert re.search(
        r"1  chat +fake: text, (streamed|whole), \d+ characters -> rule 1: reply", told
    )
    assert server.returncode == 0


def test_a_port_that_is_taken_is_named(wavewright: CommandLine, project: Path) -> None:
    (project / "answers.yaml").write_text("answers: [{text: hello}]\n", encoding="utf-8")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]

        refused = wavewright("fake-model", "--script", "answers.yaml", "--port", str(port))

    assert f"port {port} of 127.0.0.1 cannot be used" in refused.err
    assert refused.code == 2


def test_a_fault_of_the_script_is_told_with_its_line(
    wavewright: CommandLine, project: Path
) -> None:
    (project / "answers.yaml").write_text("answers:\n  - txt: hello\n", encoding="utf-8")

    refused = wavewright("fake-model", "--script", "answers.yaml")

    assert "answers.yaml:2" in refused.err
    assert "txt" in refused.err
    assert refused.code == 2


def test_one_command_shows_a_plan_a_rejection_a_patch_and_a_package(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    plans = shutil.copytree(ROOT / "plans", tmp_path / "plans")

    ran = run_prepared(
        "fake-model",
        *("--script", str(plans / "recovery.answers.yaml")),
        *("--run", str(plans / "recovery.job.yaml")),
        folder=tmp_path,
    )

    told = ran.stderr
    assert ran.returncode == 0, told
    in_order = [
        "plan valid (llm): 3 steps",
        "gate history blocks",
        "review: the goal is not achieved, confidence",
        "recovery: A quarter of prices is no history",
        "plan valid (patch, round 1): 4 steps",
    ]
    places = [told.index(words) for words in in_order]
    assert places == sorted(places)
    assert "GOAL ACHIEVED" in ran.stdout
