"""What a program, a notebook and a traceback show of an error: also the way out."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from pydantic import BaseModel

from wavewright.config.errors import WavewrightError
from wavewright.engine import NoResult, Wavewright
from wavewright.planner import PlanError

pytestmark = pytest.mark.anyio


def double(number: int) -> int:
    """Double a number."""
    raise ValueError(f"{number} is odd")


@pytest.fixture
def ww(tmp_path: Path) -> Wavewright:
    return Wavewright(tools=[double], journal=tmp_path / "runs.db")


def test_a_faulty_plan_says_which_name_may_be_meant(ww: Wavewright) -> None:
    with pytest.raises(PlanError) as refused:
        ww.new_plan().step("a", "doubel", {"number": 1}).check()

    assert "did you mean 'double'?" in str(refused.value)


def test_a_step_and_a_gate_have_the_id_that_they_are_given_first(ww: Wavewright) -> None:
    plan = ww.new_plan()

    with pytest.raises(TypeError, match="step 'a' is given another id, 'b': leave `id` out"):
        plan.step("a", double, {"number": 1}, id="b")
    with pytest.raises(TypeError, match="gate 'g' is given another id"):
        plan.gate("g", id="h", on="a", check="true")


async def test_a_call_outside_of_the_context_says_where_it_belongs(ww: Wavewright) -> None:
    with pytest.raises(WavewrightError) as refused:
        await ww.run(ww.new_plan())

    assert "async with Wavewright(…)" in str(refused.value)


class Total(BaseModel):
    total: int


def test_a_result_of_another_type_says_why_the_run_has_failed(ww: Wavewright) -> None:
    plan = ww.new_plan().step("a", double, {"number": 3}).returns({"total": "${steps.a}"})

    with pytest.raises(NoResult) as missing:
        _ = ww.run_sync(plan, result_type=Total).result

    assert "3 is odd" in str(missing.value)


def test_a_traceback_shows_place_and_hint_of_any_error() -> None:
    error = WavewrightError("it is broken", "mend it", place="a.yaml")

    assert traceback.format_exception_only(error)[1:] == ["  --> a.yaml\n", "  = help: mend it\n"]
