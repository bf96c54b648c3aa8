"""The wheel of a release, installed from nothing on each Python that is here, walks the README.

Each takes a minute and what the package registry has, so `make dist` asks for it, and `make test`
has the same walk on its own Python only (`test_wheel.py`, `tests/docs`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository.tree import ROOT

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("WAVEWRIGHT_RELEASE"), reason="a release is judged by `make dist`"
    ),
    pytest.mark.timeout(600),
]

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
WALK = (
    ("wavewright", "--version"),
    ("wavewright", "dry-run", "plans/stocks.job.yaml"),
    ("wavewright", "run", "plans/stocks.job.yaml"),
    ("wavewright", "init", "mine"),
    ("wavewright", "-C", "mine", "check", "plans/words.job.yaml"),
    ("wavewright", "-C", "mine", "run", "plans/words.job.yaml"),
)
"""Commands of the README that need nothing but the package and its example prices."""


def interpreter(version: str) -> Path:
    """Return the Python of a version, or skip where there is none."""
    named = [shutil.which(f"python{version}"), *_of_pyenv(version)]
    for candidate in filter(None, named):
        asked = subprocess.run([candidate, "-c", "pass"], check=False, capture_output=True)
        if asked.returncode == 0:
            return Path(candidate)
    pytest.skip(f"no Python {version} here")


def _of_pyenv(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [str(path) for path in sorted(root.glob(f"{version}.*/bin/python"))]


def run(*command: str | Path, folder: Path) -> str:
    ended = subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "WAVEWRIGHT_STATE": str(folder / "state"), "PYTHONPATH": ""},
    )
    assert ended.returncode == 0, f"{command}:\n{ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_walks_the_readme(version: str, tmp_path: Path) -> None:
    (wheel,) = (ROOT / "dist").glob("*.whl")
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    run(interpreter(version), "-m", "venv", tmp_path / "venv", folder=tmp_path)
    binaries = tmp_path / "venv" / "bin"
    run(binaries / "pip", "install", "--quiet", f"{wheel}[equities]", folder=tmp_path)

    shown = [run(binaries / command, *rest, folder=tmp_path) for command, *rest in WALK]

    assert "GOAL ACHIEVED  Five US stocks" in shown[2]
    assert "GOAL ACHIEVED" in shown[-1]
