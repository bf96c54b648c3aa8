from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from tests.reviewer.example_package import example_package, example_package_with_models
from tests.reviewer.scripted_runs import Fails, plan_of, run_plan
from wavewright.reviewer import build_package, render_summary, review_by_code


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

    assert render_summary(build_package(run.plan, run.goal, run.state, review, run.tools)) == snapshot


def test_no_text_of_a_tool_can_steer_a_terminal() -> None:
    run = run_plan(plan_of({"id": "a"}), {"a": Fails("\x1b[2Jgone \x9b31m \u202egnp.exe\r\nfake line")})
    review = review_by_code(run.plan, run.goal, run.state, run.tools)
    text = render_summary(build_package(run.plan, run.goal, run.state, review, run.tools))

    assert not any(character in text for character in "\x1b\x9b\u202e\r")
    assert "\\x1b[2Jgone" in text


def test_no_line_is_wider_than_a_hundred_characters() -> None:
    assert max(map(len, render_summary(example_package_with_models()).splitlines())) <= 100
