"""Killed at any moment and cut at any byte, a journal holds all that was reported, whole and in
order.
"""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from tests.executor.event_examples import run_started, step_finished
from tests.executor.sqlite.inline_store import InlineEventStore
from tests.support.prepared_command import PipedCommand, run_python
from wavewright.executor.events.types import Event, StepFinished
from wavewright.executor.sqlite.transaction import JournalReader
from wavewright.executor.store.entries import append_entry
from wavewright.planner.types import Json, RunId

RUN = RunId("20261121-231907-3f2a7c")

# Runs steps, several at once, and says which ones were reported as journaled. Started again, it
# goes on with those that the journal does not have. After so many lines it waits to be killed, so
# that it does not come to its end where the test is slow to read.
WORKER = """
import asyncio, sys, time
from wavewright.executor.events.types import StepFinished
from wavewright.executor.sqlite.journal import SqliteJournal

path, run, steps, width = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
most_lines, lines = int(sys.argv[5]), 0

def say(*words):
    global lines
    print(*words, flush=True)
    lines += 1
    if lines == most_lines:
        time.sleep(60)

async def lane(journal, numbers):
    for number in numbers:
        event = StepFinished(at=1.0, step=f"s{number}", status="ok", output={"text": "x" * (number * 37 % 5000)})
        say("called", number)
        await journal.append(run, [event])
        say("journaled", number)

async def main():
    async with SqliteJournal(path) as journal:
        await journal.open_run(run)
        done = {event.step for event in await journal.load(run)}
        left = iter([number for number in range(steps) if f"s{number}" not in done])
        say("started")
        async with asyncio.TaskGroup() as tasks:
            for _ in range(width):
                tasks.create_task(lane(journal, left))

asyncio.run(main())
"""
_LINES_AHEAD = 30
"""Lines that a worker may be ahead of the test."""


def _output(number: int) -> Json:
    return {"text": "x" * (number * 37 % 5000)}


@pytest.mark.parametrize(
    ("steps", "width"), [pytest.param(400, 1, id="chain"), pytest.param(3000, 40, id="wide")]
)
def test_a_killed_process_loses_no_journaled_step_and_repeats_none(
    tmp_path: Path, steps: int, width: int
) -> None:
    path, chance = tmp_path / "j.db", random.Random(width)  # noqa: S311 - only to choose when to kill
    journaled, calls, kills = set[int](), dict[int, int](), 0
    while len(journaled) < steps:
        lines_until_kill = chance.randrange(1, steps // 6) if kills < 5 else None
        most_lines = 0 if lines_until_kill is None else lines_until_kill + _LINES_AHEAD
        given = ["-c", WORKER, str(path), RUN, str(steps), str(width), str(most_lines)]
        with PipedCommand(*given, target=run_python) as worker:
            for count, line in enumerate(worker.stdout):
                if count == lines_until_kill:
                    worker.send_signal(signal.SIGKILL)
                match line.split():
                    case ["journaled", number]:
                        journaled.add(int(number))
                    case ["called", number]:
                        assert int(number) not in journaled
                        calls[int(number)] = calls.get(int(number), 0) + 1
                    case _:
                        pass
        kills += lines_until_kill is not None
        with JournalReader.open(path) as reader:
            events = reader.load(RUN)
        found = {
            int(event.step[1:]): event.output for event in events if isinstance(event, StepFinished)
        }
        assert len(found) == len(events)
        assert journaled <= found.keys()
        assert all(output == _output(number) for number, output in found.items())
        journaled = set(found)

    assert kills == 5
    # What was on its way when the process died was called again, once a kill and lane at most.
    assert sum(calls.values()) - steps <= kills * width


def _commit(number: int) -> list[Event]:
    if number == 0:
        return [run_started(RUN)]
    return [
        step_finished(f"s{number}_{n}", output="y" * (number * 700)) for n in range(number % 3 + 1)
    ]


def _used_part(log: bytes) -> bytes:
    """Return a write-ahead log up to its last commit, without the room that was made behind it."""
    frame = 24 + int.from_bytes(log[8:12], "big")
    commits = [at for at in range(32, len(log), frame) if log[at + 4 : at + 8] != bytes(4)]
    return log[: commits[-1] + frame]


@pytest.fixture(scope="module")
def open_journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Event]]]:
    """The files of a journal as a crash leaves them, and the commits in them."""
    folder = tmp_path_factory.mktemp("crash")
    commits = [_commit(number) for number in range(10)]
    with InlineEventStore(folder / "j.db") as store:
        for commit in commits:
            assert store.write([append_entry(RUN, commit)]) == {}
        copy = folder / "copy"
        copy.mkdir()
        shutil.copy(folder / "j.db", copy / "j.db")
        (copy / "j.db-wal").write_bytes(_used_part((folder / "j.db-wal").read_bytes()))
    return copy, commits


def _prefixes(commits: list[list[Event]]) -> list[list[Event]]:
    return [
        [event for commit in commits[:count] for event in commit]
        for count in range(len(commits) + 1)
    ]


def _load_with_log(files: Path, log: bytes) -> list[Event]:
    """Return what a journal with that write-ahead log has of the run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "j.db"
        shutil.copy(files / "j.db", path)
        path.with_name("j.db-wal").write_bytes(log)
        with InlineEventStore(path) as store:
            return store.reader.load(RUN)


def test_a_log_cut_anywhere_leaves_whole_commits_in_order(
    open_journal: tuple[Path, list[list[Event]]],
) -> None:
    files, commits = open_journal
    log = (files / "j.db-wal").read_bytes()
    frame = 24 + int.from_bytes(log[8:12], "big")
    ends = range(32, len(log) + 1, frame)
    cuts = sorted(
        {cut for end in ends for cut in (end - 1, end, end + 1)} | set(range(0, len(log), 1499))
    )

    loaded = [_load_with_log(files, log[:cut]) for cut in cuts if cut <= len(log)]

    prefixes = _prefixes(commits)
    lengths = [prefixes.index(events) for events in loaded]
    assert lengths == sorted(lengths)
    assert set(lengths) == set(range(len(commits) + 1))


@given(data=st.data())
@settings(max_examples=volume(20, 60), deadline=None)
def test_a_log_damaged_anywhere_leaves_whole_commits_in_order(
    open_journal: tuple[Path, list[list[Event]]], data: st.DataObject
) -> None:
    files, commits = open_journal
    log = bytearray((files / "j.db-wal").read_bytes())
    at = data.draw(st.integers(min_value=0, max_value=len(log) - 1))
    log[at] ^= data.draw(st.integers(min_value=1, max_value=255))

    assert _load_with_log(files, bytes(log)) in _prefixes(commits)
