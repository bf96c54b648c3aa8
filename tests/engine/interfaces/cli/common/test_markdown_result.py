"""A Markdown result is rendered on a terminal and plain in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from tests.reviewer.example_package import example_package
from wavewright.engine.interfaces.cli.common.run_text import rendered_result, summary_text
from wavewright.planner.types import Json
from wavewright.reviewer.package.summary import render_summary
from wavewright.reviewer.records import Package


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard output be a terminal; not in a fixture, after which pytest puts its own in that
    place.
    """
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def package(result: Json) -> Package:
    return example_package().model_copy(update={"result": result, "documents": ()})


def test_markdown_is_rendered_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    open_screen(monkeypatch)
    found = package("# Prices\n\n- **up** by 3")

    summary = render_summary(found, rendered_result(found))

    assert "# Prices" not in summary
    assert "**up**" not in summary
    assert "\x1b[1mup\x1b[0m by 3" in summary


def test_a_terminals_own_codes_in_a_result_are_made_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_screen(monkeypatch)

    lines = rendered_result(package("# Prices\n\n\x1b[2Jgone [here](https://example.org)"))

    assert lines is not None
    assert "\x1b[2J" not in "".join(lines)
    assert "\x1b]8" not in "".join(lines)
    assert "https://example.org" in "".join(lines)


@pytest.mark.parametrize("result", ["two lines\nof plain text", {"a": 1}, None])
def test_what_is_no_markdown_is_not_rendered(monkeypatch: pytest.MonkeyPatch, result: Json) -> None:
    open_screen(monkeypatch)

    assert rendered_result(package(result)) is None


def test_in_a_pipe_markdown_stays_as_it_is() -> None:
    found = package("# Prices\n\n- **up** by 3")

    assert rendered_result(found) is None
    assert "  - **up** by 3\n" in render_summary(found, rendered_result(found))


def test_the_texts_of_a_summary_are_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_screen(monkeypatch)
    monkeypatch.setenv("COLUMNS", "60")
    found = package("word " * 40)
    reason = found.review.summary if found.review is not None else ""

    lines = summary_text(found).splitlines()

    texts = [line for line in lines if line.strip() and line.strip() in f"{reason} {found.result}"]
    assert len(texts) > 4
    assert max(map(len, texts)) <= 60
