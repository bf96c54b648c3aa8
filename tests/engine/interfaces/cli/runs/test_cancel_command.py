"""`wavewright cancel`: a run ends for good, whoever has it open, and it is kept who wanted that."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.engine.conftest import Answer, CommandLine
from tests.engine.run_in_process import run_request
from tests.support.postgres import PostgresServer
from wavewright.config.settings import load_settings
from wavewright.engine.run import cancellation
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.target_waves import TARGET_STARTED
from wavewright.executor.events.types import Event, Noted
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.stores import journal_of

TOOLS = '''
import anyio


async def hold(text: str) -> str:
    """Never answer."""
    await anyio.sleep_forever()
    return text


def post(text: str) -> str:
    """Post a text."""
    return text
'''
JOB = """\
name: places
goal: Hold ${inputs.target}
targets: {first: [A, B], at_once: 2}
plan: {steps: [{id: held, tool: hold, params: {text: "${inputs.target}"}}]}
"""


@pytest.fixture(params=["file", "database"])
def folder(
    tmp_path: Path,
    wavewright: CommandLine,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A project whose journal is a file or a database; the working directory."""
    del wavewright  # it sets the working directory
    if request.param == "database":
        server: PostgresServer = request.getfixturevalue("postgres")
        monkeypatch.setenv("WAVEWRIGHT_PG_URL", server.database())
    (tmp_path / "own.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: own.py, functions: {hold: {}, post: {effects: [write], needs_approval: true}}}]\n"
    )
    (tmp_path / "places.job.yaml").write_text(JOB)
    (tmp_path / "post.plan.yaml").write_text(
        "steps: [{id: post, tool: post, params: {text: hello}}]\n"
    )
    return tmp_path


def statuses(wavewright: CommandLine) -> dict[str, str]:
    """Return the status of each run, the newest first."""
    rows: list[dict[str, str]] = json.loads(wavewright("runs", "--format", "json").out)
    return {row["run"]: row["status"] for row in rows}


@pytest.mark.anyio
async def test_the_owner_of_a_run_ends_it_with_the_runs_of_its_targets(
    folder: Path, wavewright: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "POLL_SECONDS", 0.02)
    settings, started, both = load_settings(folder), list[str](), anyio.Event()
    answers, reasons = list[Answer](), list[str]()

    def on_event(event: Event) -> None:
        if isinstance(event, Noted) and event.topic == TARGET_STARTED:
            started.append(str(event.body["run"]))
            if len(started) == 2:
                both.set()

    async def run(journal: StoredJournal) -> None:
        done = await run_request(
            RunRequest(job_file=folder / "places.job.yaml"),
            settings=settings,
            journal=journal,
            approver=None,
            on_event=on_event,
            find_cancel_request=journal.find_cancel_request,
        )
        assert done.context.state.finished is not None
        reasons.append(done.context.state.finished.reason)
        await journal.close_run(done.context.run)

    with anyio.fail_after(30):
        async with journal_of(settings) as journal, anyio.create_task_group() as group:
            group.start_soon(run, journal)
            await both.wait()
            [root] = {row.run for row in await journal.list_runs()} - {*started}
            for arguments in ([started[0]], [root[-6:], "--by", "ada"]):
                answers.append(await anyio.to_thread.run_sync(wavewright, "cancel", *arguments))

    of_target, cancelled = answers
    assert (of_target.code, cancelled.code) == (2, 0), cancelled.err
    assert cancelled.out.endswith(" is cancelled\n")
    job_run = cancelled.out.split()[1]
    assert f"wavewright cancel {job_run}" in of_target.err
    assert reasons == ["cancelled by ada"]
    found = await anyio.to_thread.run_sync(statuses, wavewright)
    assert set(found) == {job_run, *started}
    assert set(found.values()) == {"cancelled"}


def test_a_run_that_nobody_has_is_ended_here_and_can_only_be_repeated_or_removed(
    folder: Path, wavewright: CommandLine
) -> None:
    assert wavewright("run", "post.plan.yaml", "--approve", "wait").code == 130
    [run] = statuses(wavewright)

    assert wavewright("cancel", run, "--by", "a\nb").code == 2
    first = wavewright("cancel", run, "--by", "ada")
    second = wavewright("cancel", run, "--by", "bob")
    resumed = wavewright("resume", run)
    repeated = wavewright("retry", run, "--approve", "always")
    late = wavewright("cancel", next(iter(statuses(wavewright))))

    assert (first.code, second.code, resumed.code, repeated.code, late.code) == (0, 0, 2, 0, 1), (
        first.err
    )
    assert "has ended (cancelled)" in resumed.err
    assert "has ended (achieved)" in late.err
    assert "cancelled by ada" in wavewright("show", run).out
    assert wavewright("decisions").out.startswith("nothing")
    assert [*statuses(wavewright).values()] == ["achieved", "cancelled"]
    assert wavewright("runs", "prune", "--keep", "0").out.startswith("removed 2 runs, ")
    assert (folder / "post.plan.yaml").exists()
