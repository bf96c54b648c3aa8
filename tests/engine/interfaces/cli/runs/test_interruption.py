"""A run that is stopped or killed, and what resuming it calls."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.support.prepared_command import PipedCommand

PLAN = """\
steps:
  - {id: first, tool: work, params: {name: first}}
  - {id: second, tool: work, params: {name: second}, depends_on: [first]}
  - {id: third, tool: work, params: {name: third}, depends_on: [second]}
result: ${steps.third}
"""

TOOL = '''
import time
from pathlib import Path


def work(name: str) -> str:
    """Note each call; the second waits until it may go on."""
    with Path("calls.txt").open("a") as calls:
        calls.write(name + "\\n")
    while name == "second" and not Path("go").exists():
        time.sleep(0.02)  # noqa: TID251 - the condition is in another process
    return name
'''


@pytest.fixture
def slow_project(project: Path) -> Path:
    (project / "tools" / "work.py").write_text(TOOL)
    (project / "wavewright.yaml").write_text("tools: [tools/work.py]\n")
    (project / "plan.yaml").write_text(PLAN)
    return project


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.02)  # noqa: TID251 - the condition is in another process


def start(project: Path) -> PipedCommand:
    running = PipedCommand("run", "plan.yaml", folder=project)
    calls = project / "calls.txt"
    wait_until(lambda: calls.exists() and "second" in calls.read_text())
    return running


def only_run(wavewright: CommandLine) -> dict[str, str]:
    runs: list[dict[str, str]] = json.loads(wavewright("runs", "--format", "json").out)
    [run] = runs
    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_resume_it_and_calls_nothing_again(
    wavewright: CommandLine, slow_project: Path, number: signal.Signals
) -> None:
    running = start(slow_project)
    running.send_signal(number)
    _, told = running.communicate()
    run = only_run(wavewright)
    (slow_project / "go").touch()

    resumed = wavewright("resume", run["run"])

    assert running.returncode == 130
    assert f"continue with: wavewright resume {run['run']}" in told
    assert "Traceback" not in told
    assert run["status"] == "interrupted"
    assert resumed.code == 0, resumed.err
    assert (slow_project / "calls.txt").read_text().split() == [
        "first",
        "second",
        "second",
        "third",
    ]


def test_a_killed_run_is_resumed_where_it_stood(
    wavewright: CommandLine, slow_project: Path
) -> None:
    running = start(slow_project)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    run = only_run(wavewright)
    (slow_project / "go").touch()

    resumed = wavewright("resume", run["run"])

    assert run["status"] == "interrupted"
    assert resumed.code == 0, resumed.err
    assert (slow_project / "calls.txt").read_text().split() == [
        "first",
        "second",
        "second",
        "third",
    ]


def test_a_killed_run_is_resumed_inside_a_sub_plan(
    wavewright: CommandLine, slow_project: Path
) -> None:
    called = PLAN.replace("first}}", '"${inputs.name}"}}', 1)
    (slow_project / "called.yaml").write_text('inputs: {name: ""}\n' + called)
    call = "{id: all, plan: called.yaml, params: {name: first}, repeat: {until: 'false', max: 3}}"
    (slow_project / "plan.yaml").write_text(f"steps:\n  - {call}\nresult: ${{steps.all}}\n")
    running = start(slow_project)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    run = only_run(wavewright)
    (slow_project / "go").touch()
    (slow_project / "called.yaml").unlink()

    resumed = wavewright("resume", run["run"])
    replayed = wavewright("replay", run["run"])

    assert resumed.code == 0, resumed.err
    assert (slow_project / "calls.txt").read_text().split() == [
        "first",
        "second",
        "second",
        "third",
        # Each further run of the sub-plan makes its calls.
        *(["first", "second", "third"] * 2),
    ]
    assert "all.1.second" in resumed.out
    assert "gate all.until warns" in resumed.err
    assert replayed.code == 0, replayed.err


def test_a_run_that_another_process_works_on_is_not_resumed(
    wavewright: CommandLine, slow_project: Path
) -> None:
    running = start(slow_project)
    run = only_run(wavewright)

    refused = wavewright("resume", run["run"])
    (slow_project / "go").touch()
    running.communicate()

    assert run["status"] == "running"
    assert refused.code == 3
    assert str(running.pid) in refused.err
    assert "Traceback" not in refused.err
    assert running.returncode == 0


def test_a_run_that_has_ended_is_not_resumed(wavewright: CommandLine, project: Path) -> None:
    wavewright("run", "plans/words.job.yaml")
    run = only_run(wavewright)

    refused = wavewright("resume", run["run"])

    assert project.is_dir()
    assert refused.code == 2
    assert "has ended (achieved); there is nothing to resume" in refused.err


def test_a_resumed_plan_is_checked_against_the_tools_of_today(
    wavewright: CommandLine, slow_project: Path
) -> None:
    running = start(slow_project)
    running.send_signal(signal.SIGINT)
    running.communicate()
    changed = (slow_project / "tools" / "work.py").read_text().replace("name: str", "title: str")
    (slow_project / "tools" / "work.py").write_text(changed.replace("name", "title"))

    refused = wavewright("resume", only_run(wavewright)["run"])

    assert refused.code == 1
    assert "error[E203]" in refused.err
