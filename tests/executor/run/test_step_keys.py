"""The keys of calls: quick to make, and the same as the planner's."""

from __future__ import annotations

from hypothesis import given, strategies as st

from wavewright.executor.run.reuse import StepKeyBuilder
from wavewright.planner.language.hashing import step_key
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, RunId, StepId

RUN = RunId("run_1")
STEP = StepId("s")

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))


@st.composite
def objects(draw: st.DrawFn) -> JsonObject:
    """Return an object with scalars and lists of them."""
    made: JsonObject = {}
    for name in draw(st.lists(st.text(max_size=5), max_size=4, unique=True)):
        values: list[Json] = [draw(scalars), draw(scalars)]
        made[name] = values if draw(st.booleans()) else values[0]
    return made


@given(
    params=objects(),
    config=st.none() | objects(),
    cache_for=st.none() | st.just("1h"),
    effect=st.sampled_from(["read", "write"]),
    index=st.none() | st.integers(0, 9),
    now=st.floats(0, 2e9),
)
def test_a_key_is_the_one_that_the_planner_computes(
    params: JsonObject,
    config: JsonObject | None,
    cache_for: str | None,
    effect: str,
    index: int | None,
    now: float,
) -> None:
    signature = ToolSignature.model_validate(
        {"name": "fetch", "version": "3", "cache_for": cache_for, "effects": [effect]}
    )
    expected = step_key(signature, params, config=config, now=now, run=RUN, step=STEP, index=index)

    assert StepKeyBuilder(signature, config=config, now=now, run=RUN).key(params, STEP, index) == expected
