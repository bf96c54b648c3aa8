"""The plan as data: what a large one takes, and what its steps may share."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from wavewright.planner.language.plan import Plan, Retry, Step
from wavewright.planner.types import StepId

STEPS = 2_000
BYTES_A_STEP = 900
"""It takes 713; with a table of the fields' names and a set of the given fields for each step it
would be 1,176.
"""


def step(number: int) -> Step:
    return Step(
        id=StepId(f"s{number}"),
        tool="work",
        params={"by": number},
        depends_on=(StepId(f"s{number - 1}"),),
    )


@pytest.fixture
def traced() -> Iterator[None]:
    """Let the memory be counted that is allocated during a test."""
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_the_steps_of_a_large_plan_share_what_is_the_same_in_each() -> None:
    before, _ = tracemalloc.get_traced_memory()
    plan = Plan(steps=tuple(map(step, range(STEPS))))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    assert (after - before) / len(plan.steps) < BYTES_A_STEP


def test_a_changed_copy_of_a_step_leaves_the_given_fields_of_others_as_they_are() -> None:
    first, second = step(1), step(2)
    changed = first.model_copy(update={"why": "it is needed"})
    assert changed.model_fields_set == {"id", "tool", "params", "depends_on", "why"}
    assert (
        first.model_fields_set == second.model_fields_set == {"id", "tool", "params", "depends_on"}
    )
    assert second.model_dump(exclude_unset=True) == {
        "id": "s2",
        "tool": "work",
        "params": {"by": 2},
        "depends_on": ("s1",),
    }


def test_a_step_that_is_constructed_without_a_required_field_does_not_get_one() -> None:
    assert not hasattr(Step.model_construct(id=StepId("a")), "tool")


def test_steps_differ_in_their_values_alone() -> None:
    assert step(1) == step(1)
    assert step(1) != step(2)
    assert list(step(1).model_dump()) == list(Step.model_fields)


@pytest.mark.parametrize("name", ["transiant", "time_out", "outputs", "ANY", "TIMEOUT"])
def test_a_misspelt_kind_of_error_is_no_class_of_exceptions(name: str) -> None:
    with pytest.raises(ValidationError, match="did you mean"):
        Retry(on=(name,))


@pytest.mark.parametrize("name", ["transient", "any", "TimeoutError", "gaierror", "Any", "Timeout"])
def test_kinds_and_classes_of_exceptions_are_tried_again(name: str) -> None:
    assert Retry(on=(name,)).on == (name,)
