"""What a plain run loads: the starter project's job, in SQLite, without a model and a daemon.

Each module that such a run loads is read by whoever steps through it, and paid for at each start.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.tree import module_name, shipped_modules

_PROGRAM = """
import sys
from wavewright.engine.main import main
sys.argv = ["wavewright", "run", "plans/words.job.yaml"]
code = main()
print("LOADED", *(name for name in sys.modules if name.startswith("wavewright")))
sys.exit(code)
"""
MAX_MODULES = 260
MAX_LINES = 38_350


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Modules in the order in which the run has loaded them."""
    folder = tmp_path_factory.mktemp("starter")
    said = ""
    for arguments in (["-m", "wavewright.engine.main", "init", "."], ["-c", _PROGRAM]):
        said = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
    (line,) = [line for line in said.splitlines() if line.startswith("LOADED ")]
    return line.split()[1:]


@pytest.mark.parametrize(
    "part",
    [
        "wavewright.engine.service.job_store",
        "wavewright.engine.service.messages",
        "wavewright.engine.service.bus",
        "wavewright.engine.service.daemon",
        "wavewright.engine.rehearsal",
        "wavewright.planner.reading.json_extraction",
        "wavewright.executor.postgres",
        "wavewright.executor.fleet",
    ],
)
def test_a_plain_run_loads_nothing_of(part: str, loaded: list[str]) -> None:
    assert not [name for name in loaded if name == part or name.startswith(f"{part}.")]


def test_a_run_loads_the_report_when_its_steps_have_ended(loaded: list[str]) -> None:
    first = min(
        at for at, name in enumerate(loaded) if name.startswith("wavewright.reviewer.report")
    )

    assert first > max(
        at for at, name in enumerate(loaded) if name.startswith("wavewright.executor.run.")
    )
    assert all(name.startswith("wavewright.reviewer.") for name in loaded[first:])


def test_a_plain_run_loads_no_more_modules_and_lines_than_it_did(loaded: list[str]) -> None:
    files = {module_name(path): path for path in shipped_modules()}
    own = [files[name] for name in loaded if name in files]

    assert len(own) <= MAX_MODULES
    assert sum(map(_code_lines, own)) <= MAX_LINES


def _code_lines(path: Path) -> int:
    """Return the number of lines that are neither empty nor comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code = [
        line
        for number, line in enumerate(text.splitlines(), 1)
        if number not in documented and line.strip() and not line.strip().startswith("#")
    ]
    return len(code)
