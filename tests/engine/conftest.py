"""The command line as the tests call it: in this process, in a folder of the test's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from wavewright.config.environment import VARIABLES
from wavewright.engine.main import main

REPOSITORY = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


CommandLine = Callable[..., Answer]


@pytest.fixture
def wavewright(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Call the command line; its working directory is the test's folder."""
    monkeypatch.chdir(tmp_path)
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable.name, raising=False)

    def call(*arguments: str | Path) -> Answer:
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return call


@pytest.fixture
def project(
    tmp_path: Path, starter_project: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A project as `wavewright init` writes it, with the working directory in it."""
    folder = shutil.copytree(starter_project, tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder
