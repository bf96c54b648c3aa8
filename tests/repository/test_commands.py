"""The commands that people and CI type."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.repository.tree import ROOT

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout


@needs_make
def test_help_names_every_target_that_people_use() -> None:
    shown = re.findall(r"^  make (\S+)", make("help"), re.MULTILINE)

    assert shown == ["help", "run", "test", "crash", "check", "format", "bench", "docs", "lock", "clean"]


@needs_make
@pytest.mark.parametrize("target", ["run", "test", "check", "format", "bench", "docs", "lock"])
def test_every_target_sets_up_what_it_needs_first(target: str) -> None:
    first, *_ = make("--dry-run", target).splitlines()

    assert first == "sh .ci/environment"


def test_ci_runs_what_people_run() -> None:
    steps = re.findall(
        r"^section .* make --no-print-directory (\w+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE
    )

    assert steps == ["check", "test"]
