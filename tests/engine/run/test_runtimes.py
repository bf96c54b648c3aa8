"""Runtimes of a project: which one makes its calls, and the errors of one that cannot be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import load_settings
from wavewright.config.sources import DocumentError
from wavewright.engine import Wavewright

RUNTIME = """\
from contextlib import asynccontextmanager

from wavewright.tools import Runtime, ToolError


class Refusing(Runtime):
    async def call(self, tool, goal, call):
        if call.attempt < 2:
            raise ToolError(f"{call.tool} is called in {goal.job}", transient=True)
        return call.params["number"] + call.attempt


@asynccontextmanager
async def refusing(settings):
    yield Refusing()


nothing = None
"""
PLAN = """\
version: 1
steps:
  - {id: two, tool: double, params: {number: 5}, retry: {attempts: 2, wait_initial: 0.01, wait_max: 0.01}}
result: ${steps.two}
"""


def project(folder: Path, settings: str) -> Path:
    (folder / "wavewright.yaml").write_text(settings, encoding="utf-8")
    (folder / "elsewhere.py").write_text(RUNTIME, encoding="utf-8")
    (folder / "tools.py").write_text(
        'def double(number: int) -> int:\n    """Double."""\n    return 2 * number\n',
        encoding="utf-8",
    )
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
    return folder


def test_the_runtime_of_the_settings_answers_below_the_retries(tmp_path: Path) -> None:
    ww = Wavewright.from_project(
        project(tmp_path, "tools: [tools.py]\nruntime: elsewhere:refusing\n")
    )

    run = ww.run_sync("plan.yaml")

    assert (run.result, run.steps["two"].attempts) == (7, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("runtime: elsewhere:absent", "the module 'elsewhere' has no function 'absent'"),
        ("runtime: elsewhere:nothing", "the module 'elsewhere' has no function 'nothing'"),
        ("runtime: absent:refusing", "there is no module 'absent'"),
        ("{runtime: 'elsewhere:refusing', fleet: {}}", "both 'fleet' and 'runtime'"),
    ],
)
def test_a_runtime_that_cannot_be_opened_is_refused_with_its_name(
    tmp_path: Path, settings: str, message: str
) -> None:
    ww = Wavewright.from_project(project(tmp_path, settings))

    with pytest.raises(WavewrightError, match=message):
        ww.run_sync(ww.new_plan())


def test_a_runtime_of_another_form_is_a_fault_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="runtime"):
        load_settings(project(tmp_path, "runtime: elsewhere.refusing\n"))
