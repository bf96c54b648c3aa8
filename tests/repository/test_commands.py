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

    assert first == ("sh .ci/environment run" if target == "run" else "sh .ci/environment")


@dataclass
class Machine:
    """A folder with `.ci/run`, Pythons that only tell their version, and a `make` that tells what it is to make."""

    folder: Path

    def program(self, name: str, script: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def python(self, name: str, version: str) -> Path:
        return self.program(name, f"echo '{version} /prefix/of/{version}'")

    def ci_run(self, system: Path | None, **variables: str) -> subprocess.CompletedProcess[str]:
        script = self.folder / ".ci" / "run"
        script.parent.mkdir()
        shutil.copy(ROOT / ".ci" / "run", script)
        self.program("bin/make", 'shift; echo "made $*"')
        # None of this machine's own Pythons is to be found.
        for name in ("python3.14", "python3.13", "python3.12", "python3.11", "python3", "python"):
            if not (self.folder / "bin" / name).exists():
                self.program(f"bin/{name}", "exit 127")
        path, python = f"{self.folder / 'bin'}:/usr/bin:/bin", str(system or self.folder / "none")
        environment = {"PATH": path, "SYSTEM_PYTHON": python, **variables}
        return subprocess.run(
            ["/bin/bash", str(script)], env=environment, check=False, capture_output=True, text=True
        )

    def made(self, system: Path | None, **variables: str) -> list[str]:
        """Return the targets that `.ci/run` makes, with their variables."""
        done = self.ci_run(system, **variables)
        assert done.returncode == 0, done.stderr
        return [line.removeprefix("made ") for line in done.stdout.splitlines() if line.startswith("made ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


needs_bash = pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash is not installed")


@needs_bash
def test_ci_checks_and_then_tests_on_the_systems_python_and_on_the_newest(machine: Machine) -> None:
    system = machine.python("system", "3.11.2")
    machine.python("bin/python3.12", "3.12.1")
    machine.python("bin/python3.13", "3.13.0")
    machine.python(".venv/bin/python", "3.13.0")

    assert machine.made(system) == [
        "check",
        f"test PYTHON={system} VENV=.venv-3.11.2 ARGS=",
        "test PYTHON=python3.13 VENV=.venv ARGS= -m 'not once'",
    ]


@needs_bash
def test_ci_tests_once_where_the_newest_python_is_the_systems(machine: Machine) -> None:
    system = machine.python("system", "3.11.2")
    machine.python("bin/python3", "3.11.2")

    assert machine.made(system) == ["check", f"test PYTHON={system} VENV=.venv-3.11.2 ARGS="]


@needs_bash
def test_ci_does_without_a_systems_python(machine: Machine) -> None:
    machine.python("bin/python3", "3.12.1")

    assert machine.made(None) == ["check", "test PYTHON=python3 VENV=.venv-3.12.1 ARGS="]


@needs_bash
def test_ci_tests_on_the_python_that_is_named_instead_of_the_newest(machine: Machine) -> None:
    machine.python("bin/python3.13", "3.13.0")
    named = machine.python("named", "3.12.1")

    assert machine.made(None, PYTHON=str(named)) == ["check", f"test PYTHON={named} VENV=.venv-3.12.1 ARGS="]


@needs_bash
def test_ci_tests_nothing_and_says_so_where_no_python_is_new_enough(machine: Machine) -> None:
    done = machine.ci_run(None, PYTHON=str(machine.program("old", "exit 1")))

    assert (done.returncode, done.stdout) == (1, "")
    assert "No Python 3.11 or newer" in done.stderr
