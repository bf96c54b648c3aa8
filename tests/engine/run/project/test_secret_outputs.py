"""What looks like a secret in a tool's output reaches nobody who looks on, and the run itself all
the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import CommandLine
from tests.engine.run_in_process import run_request
from wavewright.config.settings import load_settings
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package, Timings

pytestmark = pytest.mark.anyio

GIVEN, UNREAD, LOGIN = "tok-synthetic-1", "pw-synthetic-1", "dXNlcjpzeW50aGV0aWM="
KEY = ["-----BEGIN PRIVATE KEY-----", "MIIsynthetic", "-----END PRIVATE KEY-----"]
TOOLS = f'''
"""Tools that give secrets away."""

from typing import Any


def log_in() -> dict[str, Any]:
    """Log in."""
    return {{"token": {GIVEN!r}, "password": {UNREAD!r}, "user": "ann", "note": "sent Basic {LOGIN}", "key": {KEY!r}}}


def use(token: str) -> str:
    """Use a token.

    Args:
        token: The token.
    """
    if token != {GIVEN!r}:
        raise ValueError("that is not the token")
    return "used " + token


def fail(token: str) -> str:
    """Fail with a token.

    Args:
        token: The token.
    """
    raise ValueError("refused " + token)
'''
JOB = """\
version: 1
name: leak
goal: Log in and use it
plan:
  steps:
    - {id: login, tool: log_in}
    - {id: used, tool: use, params: {token: "${steps.login.token}"}}
    - {id: failed, tool: fail, params: {token: "${steps.login.token}"}, optional: true}
  gates:
    - {id: long, on: login, check: "steps.login.password.size() == 14", severity: block}
  result: {login: "${steps.login}", used: "${steps.used}", all: "got ${steps.login.token}"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "leaky.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: tools/leaky.py, functions: {log_in: {}, use: {}, fail: {}}}]\n"
    )
    (tmp_path / "leak.job.yaml").write_text(JOB)
    return tmp_path


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (GIVEN, UNREAD, LOGIN, KEY[1]) if secret in text]


def test_no_output_of_the_commands_and_no_file_of_a_run_holds_a_secret_that_a_tool_brought(
    wavewright: CommandLine, project: Path
) -> None:
    ran = wavewright("run", "leak.job.yaml", "--output", "out")
    [package] = project.glob("out/*/package.json")
    run = package.parent.name
    told = wavewright("run", "leak.job.yaml", "--output", "again", "--json")
    shown = [
        wavewright("show", run, "--format", form) for form in ("text", "json", "html", "events")
    ]
    shown += [wavewright("show", run, step) for step in ("login", "used", "failed")]
    shown += [wavewright("logs", run), wavewright("logs", run, "--format", "json")]

    assert ran.code == told.code == 0, ran.err + told.err
    assert secrets_in(ran.out + ran.err + told.out + told.err) == []
    assert [answer.code for answer in shown] == [0] * 9
    assert [secrets_in(answer.out + answer.err) for answer in shown] == [[]] * 9
    written = [path for folder in ("out", "again") for path in project.glob(f"{folder}/*/*")]
    assert [path for path in written if secrets_in(path.read_text())] == []


def test_the_journal_holds_a_secret_only_where_a_later_step_reads_it(
    wavewright: CommandLine, project: Path
) -> None:
    wavewright("run", "leak.job.yaml", "--output", "out")
    journal = b"".join(
        path.read_bytes() for path in (project / ".wavewright").iterdir() if path.is_file()
    )

    assert secrets_in(journal.decode("utf-8", "replace")) == [GIVEN]


def test_the_run_itself_and_its_gates_see_what_the_tools_brought(
    wavewright: CommandLine, project: Path
) -> None:
    wavewright("run", "leak.job.yaml", "--output", "out")
    [path] = project.glob("out/*/package.json")
    package = read_package(path.read_bytes())

    assert {step.id: step.status for step in package.execution_log} == {
        "login": "ok",
        "used": "ok",
        "failed": "failed",
    }
    assert [gate.verdict for gate in package.gates] == ["pass"]
    assert package.result == {
        "login": {
            "token": "[redacted]",
            "password": "[redacted]",
            "user": "ann",
            "note": "sent Basic [redacted]",
            "key": ["[redacted]"] * 3,
        },
        "used": "used [redacted]",
        "all": "got [redacted]",
    }


class Agreeing:
    """Approves of everything."""

    async def approve(self, request: ApprovalRequest) -> bool:
        del request
        return True


def timeless(package: Package) -> JsonObject:
    """Return a package as JSON, without its times and the head of the journal."""
    log = tuple(
        step.model_copy(update={"started": None, "seconds": 0.0}) for step in package.execution_log
    )
    calls = tuple(call.model_copy(update={"seconds": 0.0}) for call in package.calls)
    bare = package.model_copy(
        update={
            "timings": Timings(),
            "execution_log": log,
            "calls": calls,
            "journal_head": None,
        }
    )
    document: JsonObject = json.loads(bare.model_dump_json())
    return document


async def test_a_run_that_was_cut_after_any_event_ends_with_the_same_package(project: Path) -> None:
    settings, whole = load_settings(project, {}), MemoryJournal()
    first = RunRequest(job_file=project / "leak.job.yaml")
    done = await run_request(first, settings=settings, journal=whole, approver=Agreeing())
    expected, run = done.context.package, done.context.run
    assert expected is not None
    await whole.aclose()
    events = await whole.load(run)

    for cut in range(2, len(events)):
        journal = MemoryJournal()
        await journal.append(run, events[:cut])
        await journal.close_run(run)
        again = await run_request(
            RunRequest(run=run), settings=settings, journal=journal, approver=Agreeing()
        )

        assert again.context.package is not None
        assert timeless(again.context.package) == timeless(expected), f"cut after {events[cut - 1]}"
