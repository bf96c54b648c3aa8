"""Names for content: equal content has equal names, and different work has different ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.language.hashing import (
    cache_key,
    call_content,
    canonical_json,
    content_of,
    plan_hash,
    step_key,
)
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, RunId, StepId, StepKey

PLAN: dict[str, Any] = {
    "goal": "look",
    "steps": [{"id": "a", "tool": "look", "why": "to see", "params": {"b": 1, "a": [1, 2]}}],
}

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def hash_of(**changes: object) -> str:
    return plan_hash(Plan.model_validate_json(json.dumps(PLAN | changes)))


def key_of(tool: str, params: dict[str, Json], **changes: Any) -> str:
    call: dict[str, Any] = {"config": None, "run": RunId("r1"), "step": StepId("a")}
    return step_key(tool, params, **(call | changes))


@given(values)
def test_canonical_text_reads_back_as_the_same_value(value: Json) -> None:
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), values, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, Json]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


def test_integers_and_floats_stay_apart() -> None:
    assert canonical_json([1, 1.0, True]) == b"[1,1.0,true]"


def test_keys_are_sorted_by_code_point_at_every_depth() -> None:
    assert (
        canonical_json({"b": {"é": 1, "z": 2}, "B": 0, "a": 3})
        == b'{"B":0,"a":3,"b":{"z":2,"\\u00e9":1}}'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_no_json_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": value})


def test_a_plan_hash_covers_everything_but_the_prose() -> None:
    steps = PLAN["steps"]
    reworded = [{**steps[0], "why": "for another reason"}]
    changed = [{**steps[0], "params": {"a": [1, 2], "b": 2}}]

    assert hash_of(goal="another", reasoning="because", steps=reworded) == hash_of()
    assert hash_of(steps=changed) != hash_of()
    assert hash_of(inputs={"x": 1}) != hash_of()
    assert hash_of(result="${steps.a}") != hash_of()


def test_spelling_out_a_default_does_not_change_a_plan_hash() -> None:
    step: dict[str, Any] = {**PLAN["steps"][0], "optional": False, "depends_on": []}

    assert hash_of(version=1, gates=[], steps=[step]) == hash_of()


def test_the_plan_hash_of_a_plan_never_changes() -> None:
    assert hash_of() == "sha256:fa6d3f7aabb213549f1bfca59453c6495b893c25710fd485edd33a180b78aa87"


def test_a_step_key_covers_the_tool_its_parameters_and_its_configuration() -> None:
    keys = {
        key_of("look", {"a": 1}),
        key_of("look", {"a": 1.0}),
        key_of("look", {"a": 1}, config={"folder": "x"}),
        key_of("gaze", {"a": 1}),
    }

    assert len(keys) == 4
    assert key_of("look", {"a": 1, "b": 2}) == key_of("look", {"b": 2, "a": 1}, config={})


def test_a_step_key_covers_the_run_the_step_and_which_of_equal_items_it_is() -> None:
    keys = {
        key_of("post", {}),
        key_of("post", {}, step=StepId("b")),
        key_of("post", {}, nth=1),
        key_of("post", {}, run=RunId("r2")),
    }

    assert len(keys) == 4
    assert key_of("post", {}) == key_of("post", {})


def test_equal_calls_have_an_equal_content_wherever_they_are_made() -> None:
    contents = {
        content_of(StepKey(key_of("post", {"a": 1}, step=StepId(step), run=RunId(run), nth=nth)))
        for step, run, nth in [("a", "r1", 0), ("b", "r1", 0), ("a", "r2", 0), ("a", "r1", 1)]
    }

    assert contents == {call_content("post", {"a": 1}, config=None)}


def test_a_result_serves_other_runs_only_while_it_is_fresh_and_of_the_same_version() -> None:
    content = call_content("look", {}, config=None)
    look = ToolSignature(name="look")

    def key(now: float, signature: ToolSignature = look) -> str:
        return cache_key(signature, content, now=now, cache_for=60.0)

    assert key(1000.0) == key(1010.0)
    assert key(1000.0) != key(1100.0)
    assert key(1000.0) != key(1000.0, ToolSignature(name="look", version="2"))
