"""An error says where in the user's own code it was raised."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.executor.execution_harness import ExecutionHarness, plan_of
from wavewright.config.redaction import Redactor
from wavewright.executor.events.types import StepError
from wavewright.executor.run.exceptions import (
    MAX_FRAMES,
    MAX_TRACEBACK_CHARS,
    last_frames,
    traceback_text,
)
from wavewright.planner.types import Json, StepId
from wavewright.tools.functions.registry import make_tool
from wavewright.tools.functions.tool import ToolCall

pytestmark = pytest.mark.anyio


def helper(row: dict[str, int]) -> int:
    return row["b"]


def total(call: ToolCall) -> Json:
    del call
    return helper({"a": 1})


async def error_of(bench: ExecutionHarness, **step: object) -> StepError:
    state = await bench.run(plan_of({"id": "a", **step}))
    error = state.steps[StepId("a")].error
    assert error is not None
    return error


def raised_by(text: str, file: str = "mine.py") -> BaseException:
    try:
        exec(compile(text, file, "exec"), {})  # noqa: S102 - the text is a test's own
    except (ArithmeticError, RecursionError, ValueError) as error:
        return error
    raise AssertionError("nothing was raised")


async def test_the_last_frame_is_the_line_that_raised() -> None:
    error = await error_of(ExecutionHarness().add(total))

    last = error.frames[-1]
    assert error.message == "KeyError: 'b'"
    assert (Path(last.file).name, last.function, last.code) == (
        Path(__file__).name,
        "helper",
        'return row["b"]',
    )
    assert last.line == helper.__code__.co_firstlineno + 1


async def test_a_plain_function_in_a_thread_shows_its_own_frames_alone() -> None:
    def sums(count: int) -> int:
        """Add.

        Args:
            count: How many.
        """
        return helper({"a": count})

    bench = ExecutionHarness()
    bench.tools["sums"] = make_tool(sums)
    error = await error_of(bench, tool="sums", params={"count": 1})

    assert [frame.function for frame in error.frames] == ["sums", "helper"]


async def test_an_item_that_failed_gives_its_frames_to_the_step() -> None:
    error = await error_of(ExecutionHarness().add(total), for_each=[1, 2])

    assert error.frames[-1].function == "helper"


def test_frames_of_libraries_are_left_out_where_the_users_own_code_called_them() -> None:
    error = raised_by("import json\njson.loads('{')")

    frames = last_frames(error, Redactor())

    assert frames[-1].file == "mine.py"
    assert "json" in traceback_text(error, Redactor())
    assert json.__file__ in traceback_text(error, Redactor())


def test_a_group_shows_where_the_first_of_its_exceptions_was_raised() -> None:
    async def in_groups() -> None:
        async def fail() -> None:
            helper({"a": 1})

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(in_groups())

    assert [frame.function for frame in last_frames(raised.value, Redactor())][-2:] == [
        "fail",
        "helper",
    ]


def test_a_file_in_the_working_directory_is_named_as_seen_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = raised_by("1 / 0", str(tmp_path / "tools" / "mine.py"))
    outside = raised_by("1 / 0", "/elsewhere/mine.py")

    assert last_frames(inside, Redactor())[-1].file == "tools/mine.py"
    assert last_frames(outside, Redactor())[-1].file == "/elsewhere/mine.py"


def test_a_deep_recursion_is_of_bounded_size() -> None:
    text = "def f(n):\n    g(n)\ndef g(n):\n    f(n + 1)\nf(0)"
    error = raised_by(text)

    assert len(last_frames(error, Redactor())) == MAX_FRAMES
    assert len(traceback_text(error, Redactor())) <= MAX_TRACEBACK_CHARS


def test_a_message_of_any_length_leaves_the_frames_readable() -> None:
    error = raised_by("raise ValueError('x' * 1_000_000)")

    text = traceback_text(error, Redactor())

    assert 'File "mine.py", line 1' in text
    assert len(text) < MAX_TRACEBACK_CHARS + 100


def test_secrets_are_taken_out_of_lines_of_code(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("key = 'sEcret-0815'; 1 / 0\n")
    error = raised_by(file.read_text(), str(file))

    redactor = Redactor(["sEcret-0815"])
    assert "sEcret-0815" not in str(last_frames(error, redactor)) + traceback_text(error, redactor)


def test_the_cause_of_an_exception_is_part_of_its_traceback() -> None:
    error = raised_by(
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e"
    )

    text = traceback_text(error, Redactor())

    assert "ZeroDivisionError: division by zero" in text
    assert text.endswith("ValueError: bad")
    assert sys.exc_info() == (None, None, None)
