"""Calls in other processes: what they return and raise, and what ends them."""

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import pytest

from wavewright.packs.web.processes import ProcessEndedError, call_in_process

SCRIPT = """
import os
from pathlib import Path

import anyio

from wavewright.packs.web.processes import call_in_process

with Path("executed.txt").open("a") as file:
    file.write("once\\n")


async def main() -> None:
    print(await call_in_process(os.path.basename, "a/b", seconds=30))


anyio.run(main)
"""


def test_a_script_without_a_guard_is_not_executed_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("b\n", "")
    assert (tmp_path / "executed.txt").read_text() == "once\n"


def test_a_module_of_the_working_directory_stands_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)

    # The processes of earlier tests wait for calls: this one starts a process of its own.
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("b\n", "")


def test_a_process_outlives_the_folder_that_it_was_begun_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()

    absolute = cast("Callable[[str], str]", os.path.abspath)

    async def call_twice() -> str:
        monkeypatch.chdir(folder)
        # As many as are kept: whichever is taken then, it was begun here or before.
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(partial(call_in_process, absolute, "a", seconds=30))
        monkeypatch.chdir(tmp_path)
        folder.rmdir()
        return await call_in_process(absolute, "a", seconds=30)

    assert anyio.run(call_twice).endswith("a")


def test_what_the_function_raises_is_raised_and_the_process_goes_on() -> None:
    async def call() -> tuple[int, int]:
        first = await call_in_process(process_id, None, seconds=30)
        with pytest.raises(FileNotFoundError):
            await call_in_process(os.listdir, "/no/such/folder", seconds=30)
        return first, await call_in_process(process_id, None, seconds=30)

    first, second = anyio.run(call)

    assert first == second != os.getpid()


class ImportedSlowly:
    """A function whose import takes half a second."""

    def __call__(self, source: str) -> str:
        return source

    def __reduce__(self) -> tuple[Callable[[], Callable[[str], str]], tuple[()]]:
        return import_slowly, ()


def import_slowly() -> Callable[[str], str]:
    threading.Event().wait(0.5)
    return os.path.basename


def test_what_a_process_imports_takes_no_time_of_the_call() -> None:
    call = partial(call_in_process, ImportedSlowly(), "a/b", seconds=0.4)

    assert anyio.run(call) == "b"


def test_a_call_that_takes_too_long_ends_with_its_process() -> None:
    async def call() -> int:
        number = await call_in_process(process_id, None, seconds=30)
        with pytest.raises(TimeoutError):
            await call_in_process(wait_long, None, seconds=0.1)
        return number

    number = anyio.run(call)

    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_fork_of_the_program_has_processes_of_its_own() -> None:
    before = anyio.run(call_for_id)
    with multiprocessing.get_context("fork").Pool(1) as forked:
        theirs = forked.apply(anyio.run, (call_for_id,))

    assert theirs != before == anyio.run(call_for_id)


def test_a_process_that_ends_within_a_call_is_told_and_replaced() -> None:
    async def call() -> str:
        with pytest.raises(ProcessEndedError):
            await call_in_process(os._exit, 3, seconds=30)
        return await call_in_process(os.path.basename, "a/b", seconds=30)

    assert anyio.run(call) == "b"


def test_what_a_function_prints_does_not_stand_among_the_answers() -> None:
    async def call() -> list[object]:
        return [await call_in_process(print, "READY", seconds=30) for _ in range(2)]

    assert anyio.run(call) == [None, None]


def process_id(_: None) -> int:
    return os.getpid()


async def call_for_id() -> int:
    return await call_in_process(process_id, None, seconds=30)


def wait_long(_: None) -> None:
    threading.Event().wait(60)
