"""A project with tests of its own, and pytest run on it as its owner would: in a process of its
own.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from tests.support.prepared_command import run_new_python, run_prepared_python
from wavewright.engine.interfaces.cli.project.init_command import write_project

OURS = (
    "asyncio",
    "benchmark",
    "hypothesispytest",
    "pytest-lsp",
    "timeout",
    "xdist",
    "xdist.looponfail",
)
"""Plugins of this repository's own tests, which take a third of the time of a short suite to
import.
"""
SCRATCH = re.compile(r"(?<![\w/])/[^\s:'\"]*/(?=suite\b)")


@dataclass(frozen=True)
class Ended:
    """What pytest printed and how it ended."""

    code: int
    out: str

    @property
    def last_line(self) -> str:
        return self.out.splitlines()[-1]


@dataclass(frozen=True)
class Suite:
    """The starter project, with the tests that a test writes."""

    folder: Path

    @classmethod
    def new(cls, parent: Path) -> Suite:
        """Return the project as `wavewright init` writes it, without its tests."""
        folder = parent / "suite"
        write_project(folder)
        shutil.rmtree(folder / "tests")
        (folder / "tests").mkdir()
        return cls(folder)

    def copy(self, parent: Path) -> Suite:
        return Suite(Path(shutil.copytree(self.folder, parent / "suite")))

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip(), encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        file = self.folder / name
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def run(self, *arguments: str, start: Path | None = None, has_imports: bool = True) -> Ended:
        """Run pytest in the project, or from another folder; nothing of the tester's own settings
        counts.

        Where it matters what is imported, the process has no imports.
        """
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST", "WAVEWRIGHT", "CI", "BUILD_NUMBER"))
        }
        without = [word for plugin in ("cacheprovider", *OURS) for word in ("-p", f"no:{plugin}")]
        given = ["-m", "pytest", "-q", *without, "-W", "error", *arguments]
        environment |= {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        started = run_prepared_python if has_imports else run_new_python
        ran = started(*given, folder=start or self.folder, environment=environment)
        return Ended(ran.returncode, _worded(ran.stdout + ran.stderr))


def _worded(text: str) -> str:
    text = SCRATCH.sub("", text)
    return re.sub(r"\bin \d+\.\d+s\b", "in <seconds>", text).rstrip("\n")
