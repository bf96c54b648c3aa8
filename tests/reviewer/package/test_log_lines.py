"""The log of a run as lines: each once, whether it came in parts or at the end."""

from __future__ import annotations

import pytest

from wavewright.executor.events.types import AttemptLogged, OutputLogged
from wavewright.planner.types import StepId
from wavewright.reviewer.package.log_lines import LogFilter, log_lines

A = StepId("a")


def part(text: str, *, index: int | None = None, attempt: int = 1) -> OutputLogged:
    return OutputLogged(1.0, A, attempt, "stdout", text, index)


def test_lines_that_came_in_parts_are_not_told_again_at_the_end() -> None:
    first, shown = log_lines([part("1\n2\n"), part("3\n")])
    then, shown = log_lines([AttemptLogged(2.0, A, 1, stdout="1\n2\n3\n4\n")], shown)

    assert [line.text for line in (*first, *then)] == ["1", "2", "3", "4"]
    assert len(shown) == 0


def test_items_and_attempts_are_told_apart() -> None:
    lines, _ = log_lines(
        [
            part("x\n", index=0),
            part("x\n", index=1),
            AttemptLogged(2.0, A, 1, index=0, stdout="x\n"),
            AttemptLogged(2.0, A, 2, index=0, stdout="x\n"),
        ]
    )

    assert [(line.place, line.attempt) for line in lines] == [("a[0]", 1), ("a[1]", 1), ("a[0]", 2)]


def test_of_a_text_whose_beginning_is_left_out_what_follows_is_told() -> None:
    lines, _ = log_lines(
        [part("1\n2\n3\n"), AttemptLogged(2.0, A, 1, stdout="… 4 characters were left out\n3\n4\n")]
    )

    assert [line.text for line in lines] == ["1", "2", "3", "4"]


def test_a_line_has_the_level_of_its_record_or_stream() -> None:
    log = "10:00:00.000 DEBUG own: d\n10:00:00.000 ERROR own: e\n  more of it\n"
    lines, _ = log_lines(
        [AttemptLogged(2.0, A, 1, stdout="o", stderr="e", log=log, traceback="ValueError: v")]
    )

    assert [line.level for line in lines] == ["info", "warning", "debug", "error", "error", "error"]


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        (LogFilter(), ["One", "two"]),
        (LogFilter(step="b"), []),
        (LogFilter(index=0), ["One"]),
        (LogFilter(text="ONE"), ["One"]),
        (LogFilter(level="warning"), []),
    ],
)
def test_lines_are_chosen_by_step_item_text_and_level(wanted: LogFilter, texts: list[str]) -> None:
    lines, _ = log_lines([part("One\n", index=0), part("two\n", index=1)])

    assert [line.text for line in lines if wanted.matches(line)] == texts
