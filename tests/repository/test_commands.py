"""The commands that people and CI type."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.repository.tree import ROOT

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@needs_make
def test_help_names_every_target_that_people_use() -> None:
    shown = re.findall(r"^  make (\S+)", make("help"), re.MULTILINE)

    assert shown == [
        "help",
        "run",
        "test",
        "model",
        "model-test",
        "prompts",
        "crash",
        "check",
        "format",
        "bench",
        "dojo",
        "soak",
        "docs",
        "tour",
        "dist",
        "lock",
        "clean",
    ]


@needs_make
@pytest.mark.parametrize(
    "target", ["run", "test", "check", "format", "bench", "soak", "docs", "lock"]
)
def test_every_target_sets_up_what_it_needs_first(target: str) -> None:
    first, *_ = make("--dry-run", target).splitlines()

    assert first == ("sh .ci/environment run" if target == "run" else "sh .ci/environment")


@dataclass
class Machine:
    """A folder with `.ci/run`, a system's Python, and a `make` that tells what it is to make, and
    with which Python.
    """

    folder: Path

    def program(self, name: str, script: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def made(self, system: Path, **variables: str) -> list[str]:
        """Return the targets that `.ci/run` makes; the servers come beside the check, and are shown
        after it.
        """
        script = self.folder / ".ci" / "run"
        script.parent.mkdir()
        shutil.copy(ROOT / ".ci" / "run", script)
        self.program("bin/make", 'shift; echo "made $* with ${PYTHON:-what is there}"')
        environment = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "SYSTEM_PYTHON": str(system),
            **variables,
        }
        done = subprocess.run(
            ["/bin/bash", str(script)], env=environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return [
            line.removeprefix("made ")
            for line in done.stdout.splitlines()
            if line.startswith("made ")
        ]


def in_order(python: str) -> list[str]:
    targets = ("environment", "check", "servers", "test")
    return [f"{target} with {python}" for target in targets]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


needs_bash = pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash is not installed")


@needs_bash
def test_ci_checks_and_then_tests_on_the_systems_python(machine: Machine) -> None:
    system = machine.program("system", "exit 0")

    assert machine.made(system) == in_order(str(system))


@needs_bash
def test_ci_does_without_a_systems_python_that_is_new_enough(machine: Machine) -> None:
    system = machine.program("system", "exit 1")

    assert machine.made(system) == in_order("what is there")


@needs_bash
def test_ci_keeps_an_environment_that_is_there(machine: Machine) -> None:
    system = machine.program("system", "exit 0")
    machine.program(".venv/bin/python", "exit 0")

    assert machine.made(system) == in_order("what is there")


@needs_bash
def test_ci_takes_the_python_that_is_named(machine: Machine) -> None:
    system = machine.program("system", "exit 0")
    named = machine.program("named", "exit 0")

    assert machine.made(system, PYTHON=str(named)) == in_order(str(named))
