"""What a notebook shows of plans, dry runs and runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from wavewright.engine import Wavewright
from wavewright.engine.rehearsal.dry_run.page import run_figure
from wavewright.planner import Json
from wavewright.planner.types import StepId
from wavewright.reviewer.records import StepReport

pytestmark = pytest.mark.anyio


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@pytest.fixture
def ww(wavewright: CommandLine) -> Wavewright:
    return Wavewright(tools=[double], journal="runs.db")


def shown_in_notebook(value: object) -> dict[str, str]:
    bundle: dict[str, str] = vars(type(value))["_repr_mimebundle_"](
        value, include=None, exclude=None
    )
    return bundle


async def test_what_a_notebook_shows_of_plans_and_runs_is_escaped(ww: Wavewright) -> None:
    async with ww:
        run = await ww.run(
            ww.new_plan().step("t", "double", {"number": 1}).returns("<b>${steps.t}</b>")
        )
    faulty = shown_in_notebook(ww.new_plan().step("t", "<script>", {}))

    assert "&lt;b&gt;2&lt;/b&gt;" in shown_in_notebook(run)["text/html"]
    assert "E201" in faulty["text/plain"]
    assert "text/html" not in faulty


async def test_a_run_that_waits_for_a_person_shows_how_far_it_has_come(
    wavewright: CommandLine,
) -> None:
    async with Wavewright(tools=[double], journal="runs.db", ask=lambda _: None) as ww:
        plan = (
            ww.new_plan()
            .step("number", "ask_person", {"question": "Which?"})
            .step("t", double, {"number": 2}, depends_on=["number"])
        )
        run = await ww.run(plan)

    page = shown_in_notebook(run)["text/html"]
    assert run.status == "interrupted"
    assert (page.count("<rect"), page.count("<td>asking</td>"), page.count("<td>waiting</td>")) == (
        2,
        1,
        1,
    )


def test_a_notebook_draws_no_more_steps_than_a_browser_bears() -> None:
    page = run_figure(
        [StepReport(id=StepId(f"s{n}"), tool="double", status="ok", wave=1) for n in range(1_001)]
    )

    assert "<svg" not in page
    assert page.count("<tr>") == 1_001
    assert "1 more steps are not listed" in page


NOTEBOOK = """
from wavewright.engine import Wavewright


def double(number: int) -> int:
    return 2 * number


ww = await Wavewright(tools=[double], journal="runs.db").__aenter__()
plan = ww.new_plan("Four").step("two", double, {"number": 1}).step("four", double, {"number": "${steps.two}"})
plan = plan.returns("# Four\\n\\nIt is **${steps.four}**.")
---
plan
---
plan.dry_run()
---
await ww.run(plan)
---
ww.new_plan().step("a", "doubel", {})
"""


@pytest.mark.slow
def test_an_executed_notebook_has_drawing_and_table_of_plan_dry_run_and_run(tmp_path: Path) -> None:
    cells: list[Json] = [
        {
            "cell_type": "code",
            "id": f"c{n}",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": code,
        }
        for n, code in enumerate(NOTEBOOK.strip().split("\n---\n"))
    ]
    kernel: Json = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
    }
    notebook: Json = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebook.ipynb").write_text(json.dumps(notebook))
    places = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")

    ran = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", "notebook.ipynb"],
        cwd=tmp_path,
        env={**os.environ, **{name: str(tmp_path / name) for name in places}},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / "notebook.html").read_text().partition("<body")[2]
    _, of_plan, of_dry_run, of_run, of_faulty = page.split('jp-OutputArea-executeResult" data-mime')
    for shown in (of_plan, of_dry_run, of_run):
        assert (shown.count("<svg"), shown.count("<rect"), shown.count("<td>four</td>")) == (
            1,
            2,
            1,
        )
    assert "<strong>4</strong>" in of_run
    assert of_run.count("<td>ok</td>") == 2
    assert "E201" in of_faulty
