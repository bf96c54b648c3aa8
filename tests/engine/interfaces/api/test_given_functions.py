"""The function that a step is given is the one that is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from wavewright.config.errors import WavewrightError
from wavewright.engine import LoadedPlan, Wavewright
from wavewright.planner import Json
from wavewright.tools import make_tool


def times(factor: int) -> Callable[[int], int]:
    def scaled(number: int) -> int:
        """Scale a number."""
        return number * factor

    return scaled


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def up(self, number: int) -> int:
        """Scale a number."""
        return number * self.factor


def add(number: int, more: int) -> int:
    """Add to a number."""
    return number + more


def result_of(app: Wavewright, plan: LoadedPlan) -> Json:
    ended = app.run_sync(plan)
    assert ended.status == "achieved", ended
    return ended.result


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_a_function_that_was_made_anew_is_called_and_not_the_old_one(journal: Path) -> None:
    app = Wavewright(tools=[times(8)], journal=journal)
    plan = app.new_plan().step("a", times(1008), {"number": 1}).returns("${steps.a}")

    assert result_of(app, plan) == 1008


@pytest.mark.parametrize("name", ["cross_reference", "ask_person"])
def test_a_function_with_the_name_of_something_else_is_called_all_the_same(
    journal: Path, name: str
) -> None:
    own = times(7)
    own.__name__ = name
    app = Wavewright(journal=journal)
    plan = app.new_plan().step("a", own, {"number": 2}).returns("${steps.a}")

    assert result_of(app, plan) == 14


def test_two_functions_of_one_name_are_two_tools_of_a_plan(journal: Path) -> None:
    first, second = times(1), times(100)
    app = Wavewright(tools=[first], journal=journal)
    plan = (
        app.new_plan()
        .step("a", first, {"number": 1})
        .step("b", second, {"number": 1})
        .step("c", second, {"number": 2})
        .returns(["${steps.a}", "${steps.b}", "${steps.c}"])
    )

    assert result_of(app, plan) == [1, 100, 200]


def test_a_function_that_was_not_registered_is_called(journal: Path) -> None:
    app = Wavewright(journal=journal)
    plan = app.new_plan().step("a", add, {"number": 1, "more": 2}).returns("${steps.a}")

    assert result_of(app, plan) == 3


def test_a_partial_and_a_method_are_given_like_functions(journal: Path) -> None:
    app = Wavewright(journal=journal)
    plan = (
        app.new_plan()
        .step("a", partial(add, more=2), {"number": 1})
        .step("b", Scale(3).up, {"number": 1})
        .step("c", Scale(4).up, {"number": 1})
        .returns(["${steps.a}", "${steps.b}", "${steps.c}"])
    )

    assert result_of(app, plan) == [3, 3, 4]


def test_the_function_behind_a_tool_stands_for_the_tool_with_its_options(journal: Path) -> None:
    app = Wavewright(tools=[make_tool(add, name="plus", effects={"write"})], journal=journal)
    plan = app.new_plan().step("a", add, {"number": 1, "more": 2}).returns("${steps.a}")

    assert (
        [step.tool for step in plan.job.draft.plan.steps] == ["plus"] if plan.job.draft else False
    )


def test_a_method_that_is_registered_is_known_again(journal: Path) -> None:
    scale = Scale(3)
    app = Wavewright(tools=[scale.up], journal=journal)
    plan = app.new_plan().step("a", scale.up, {"number": 1})

    assert plan.settings is app.new_plan().settings


def test_a_bare_function_does_not_take_the_place_of_a_tool_with_options(journal: Path) -> None:
    old, new = times(8), times(9)
    app = Wavewright(tools=[make_tool(old, needs_approval=True)], journal=journal)

    with pytest.raises(WavewrightError, match="not the one behind the tool 'scaled'"):
        app.new_plan().step("a", new, {"number": 1})


def test_a_function_of_the_project_keeps_what_the_settings_say_of_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('def pay(to: str) -> str:\n    """Pay."""\n    return to\n')
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: mine.py, functions: {pay: {effects: [write]}}}]\n"
    )
    namespace: dict[str, Callable[..., object]] = {}
    exec((tmp_path / "mine.py").read_text(), namespace)  # noqa: S102 - as a program imports it
    app = Wavewright.from_project(tmp_path)
    plan = app.new_plan().step("a", namespace["pay"], {"to": "x"})

    assert plan.settings is app.new_plan().settings


def test_a_function_never_stands_for_a_step_of_the_engine(journal: Path) -> None:
    def sub_plan(result: int) -> int:
        """Return something else."""
        return result + 1

    app = Wavewright(journal=journal)

    with pytest.raises(WavewrightError, match="'sub_plan' is the tool of a step that holds"):
        app.run_sync(app.new_plan().step("s", sub_plan, {"result": 1}).returns("${steps.s}"))
