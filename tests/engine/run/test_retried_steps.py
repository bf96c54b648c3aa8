"""Which steps a retry repeats that begins at one of them."""

from __future__ import annotations

from tests.executor.execution_harness import plan_of
from wavewright.engine.run.read_job import steps_called_again, steps_to_repeat
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import PlanAccepted
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.types import JsonObject, PlanHash, StepId

EXPANDED = plan_of(
    {"id": "first"},
    {"id": "loop.1.score", "depends_on": ["first"]},
    {"id": "loop.2.score", "depends_on": ["loop.1.score"]},
    {"id": "loop", "depends_on": ["loop.2.score"]},
    {"id": "joined", "depends_on": ["loop"]},
    {"id": "looper"},
)


def repeated(start: str) -> list[str]:
    accepted = PlanAccepted(1.0, EXPANDED.model_dump(mode="json"), plan_hash(EXPANDED), "given")
    return [*steps_to_repeat(fold([accepted]), StepId(start))]


def test_a_retry_from_a_step_repeats_it_and_all_that_depend_on_it() -> None:
    assert repeated("loop.2.score") == ["loop.2.score", "loop", "joined"]


def test_a_retry_from_a_sub_plan_repeats_its_steps() -> None:
    assert repeated("loop") == ["loop.1.score", "loop.2.score", "loop", "joined"]


def test_a_sub_plan_that_is_called_again_names_its_steps() -> None:
    accepted = PlanAccepted(1.0, EXPANDED.model_dump(mode="json"), plan_hash(EXPANDED), "given")
    named = steps_called_again(fold([accepted]), [StepId("loop")])

    assert [*named] == ["loop.1.score", "loop.2.score", "loop"]


def test_what_a_patch_put_in_the_place_of_a_named_step_is_named_too() -> None:
    steps: list[JsonObject] = [
        {"id": "paid", "tool": "pay"},
        {"id": "told", "tool": "tell", "params": {"text": "${steps.paid_2}"}},
        {"id": "paid_2", "tool": "pay", "supersedes": "paid"},
    ]
    state = fold([PlanAccepted(1.0, {"version": 1, "steps": [*steps]}, PlanHash("h"), "patch")])

    assert steps_to_repeat(state, StepId("paid")) == ("paid", "told", "paid_2")
    assert steps_called_again(state, [StepId("paid")]) == ("paid", "paid_2")
