from __future__ import annotations

from typing import Literal

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.reviewer.example_package import example_package, example_package_with_models
from tests.reviewer.scripted_runs import Fails, plan_of, run_plan
from wavewright.planner.diagnostics.rendering import display_columns, display_width
from wavewright.planner.types import Json, StepId
from wavewright.reviewer import build_package, render_report, render_summary, review_by_code
from wavewright.reviewer.package.summary import result_lines
from wavewright.reviewer.records import OutputDocument, Package


def test_a_package_is_told_in_plain_text(snapshot: SnapshotAssertion) -> None:
    assert render_summary(example_package()) == snapshot


def test_models_are_told_in_two_lines() -> None:
    lines = render_summary(example_package_with_models()).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("models"))

    assert lines[start : start + 3] == [
        "models  5 calls (1 without an answer) of openai:gpt-5, openai-chat:local, 19.3 s added up",
        "        about 35,740 tokens (orchestrator 26,040, workers 9,700), at least 0.0541 USD",
        "",
    ]


def test_a_run_that_failed_is_told_with_what_would_mend_it(snapshot: SnapshotAssertion) -> None:
    plan = plan_of({"id": "a"}, {"id": "b", "params": {"of": "${steps.a}"}})
    run = run_plan(plan, {"a": Fails("no file 'prices.csv'", hint="put it into the folder 'data'")})
    review = review_by_code(run.plan, run.goal, run.state, run.tools)

    assert (
        render_summary(build_package(run.plan, run.goal, run.state, review, run.tools)) == snapshot
    )


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_run_that_ended_otherwise_than_its_review_says_is_told_with_its_own_reason(
    status: Literal["failed", "cancelled"],
) -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": "here"})
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    package = build_package(run.plan, run.goal, run.state, review, run.tools)
    rejected = package.model_copy(update={"status": status, "reason": "package 1 was rejected"})

    for shown in (render_summary(rejected), render_report(rejected)):
        assert "ackage 1 was rejected" in shown
        assert "very mandatory gate passed" not in shown
    assert "very mandatory gate passed" in render_summary(package)


def test_no_text_of_a_tool_can_steer_a_terminal() -> None:
    run = run_plan(
        plan_of({"id": "a"}), {"a": Fails("\x1b[2Jgone \x9b31m \u202egnp.exe\r\nfake line")}
    )
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    text = render_summary(build_package(run.plan, run.goal, run.state, review, run.tools))

    assert not any(character in text for character in "\x1b\x9b\u202e\r")
    assert "\\x1b[2Jgone" in text


def test_no_line_is_wider_than_a_hundred_characters() -> None:
    assert max(map(len, render_summary(example_package_with_models()).splitlines())) <= 100


def test_a_line_is_no_wider_on_a_terminal_where_a_character_takes_two_columns() -> None:
    plan = plan_of({"id": "a"})
    run = run_plan(plan, {"a": Fails("見積もりの表が古すぎる " * 12, hint="表を更新する " * 20)})
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    text = render_summary(build_package(run.plan, run.goal, run.state, review, run.tools))
    fix = text[text.rindex("What would fix it") :].splitlines()[1:]

    assert len(fix) > 1
    assert max(sum(map(display_columns, line)) for line in fix) <= 100


TABLE = (
    "# Prices\n\n| Stock | Price |\n|---|---:|\n| AAPL | 223.02 |\n| IBM | 5.5 |\n\nThat is all.\n"
)


def package(result: Json, *documents: OutputDocument) -> Package:
    return Package(
        run="r", job="j", goal="g", goal_name="n", status="achieved", result=result, documents=documents,
        plan={}, plan_hash="sha256:0", rung="given", now="2026-01-01T00:00:00Z",
    )  # fmt: skip


def document(markdown: str, *, is_result: bool = True) -> OutputDocument:
    return OutputDocument(
        id="d", step=StepId("s"), title="Prices", markdown=markdown, is_result=is_result
    )


def test_a_run_without_a_result_shows_nothing() -> None:
    assert list(result_lines(package(None), 80)) == []


def test_a_result_that_is_data_is_shown_as_json() -> None:
    assert list(result_lines(package({"words": ["ä"]}), 80)) == [
        "{",
        '  "words": [',
        '    "ä"',
        "  ]",
        "}",
    ]


def test_a_result_that_is_a_text_is_shown_as_that_text_to_its_end() -> None:
    lines = [f'line {number} of "many"' for number in range(50)]

    assert list(result_lines(package("\n".join(lines)), 80)) == lines


def test_a_document_is_shown_as_text_with_its_tables_aligned() -> None:
    assert list(result_lines(package({}, document(TABLE)), 80)) == [
        "# Prices",
        "",
        "Stock   Price",
        "AAPL   223.02",
        "IBM       5.5",
        "",
        "That is all.",
    ]


def test_a_bar_within_a_cell_of_a_table_ends_no_cell() -> None:
    table = "| Quote | Note |\n|---|---|\n| \\| Gull \\| 3 \\| | a \\\\ b |\n"

    shown = [*result_lines(package({}, document(table)), 80)]

    assert [line.split("  ") for line in shown][-1] == ["| Gull | 3 |", "a \\ b"]


WIDE = "| 銘柄 | 終値 |\n|---|---:|\n| 東芝 | 5 |\n| AAPL | 223.02 |\n"


def test_a_table_is_aligned_where_a_character_takes_two_columns() -> None:
    assert list(result_lines(package({}, document(WIDE)), 80)) == [
        "銘柄    終値",
        "東芝       5",
        "AAPL  223.02",
    ]


@pytest.mark.parametrize("result", ["長い文章" * 60, {"text": "長い文章" * 60}])
def test_no_line_of_a_result_is_wider_than_its_columns(result: Json) -> None:
    assert max(map(display_width, result_lines(package(result), 80))) <= 80


def test_a_document_that_is_no_result_is_not_shown() -> None:
    assert list(result_lines(package([], document("Sources", is_result=False)), 80)) == ["[]"]


def test_a_long_result_is_cut_and_says_where_the_whole_is() -> None:
    lines = list(result_lines(package(list(range(100))), 80))

    assert lines[-2:] == ["…", "(102 lines in all; the package holds them)"]
    assert len(lines) == 32


def test_a_text_of_one_very_long_line_is_cut_before_it_is_wrapped() -> None:
    lines = list(result_lines(package("x" * 5_000_000), 80))

    assert lines[-2:] == ["…", "(5,000,000 characters in all; the package holds them)"]
    assert len(lines) == 202


@pytest.mark.parametrize("width", [20, 40, 60])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    wide = document(
        "| a | " + "b" * 70 + " |\n|---|---|\n| c | d |\n\n" + "word " * 40 + "\n- " + "item " * 30
    )

    lines = list(result_lines(package({}, wide), width))

    assert max(map(len, lines)) <= width
