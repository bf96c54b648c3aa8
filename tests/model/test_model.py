"""The engine does what the reference model allows: calls, endings and results of drawn runs.

Plans, what tools do, stops at any event, resumptions with other code, and retries of retries are
drawn. `WAVEWRIGHT_CRASH=1` draws a hundred times as many.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.crash.run_size import volume
from tests.model.driver import DrawnCase, DrawnPart, hold_against_model
from tests.model.interpreter import TOOLS, ModelStep, Outcome

_NUMBERS = st.integers(1, 3)
_OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    ["ok", "ok", "ok", "fail", "transient", "late"]
)


@st.composite
def steps(draw: st.DrawFn) -> tuple[ModelStep, ...]:
    """Return up to five steps, each of which may read those before it."""
    found = list[ModelStep]()
    for name in "abcde"[: draw(st.integers(1, 5))]:
        before = [step.id for step in found if step.items is None]
        earlier = st.sampled_from(before) if before else st.nothing()
        items = draw(st.none() | st.lists(_NUMBERS, max_size=4).map(tuple))
        tool = draw(st.sampled_from(sorted(TOOLS)))
        found.append(
            ModelStep(
                id=name,
                tool=tool,
                x=draw(_NUMBERS | earlier) if items is None else 0,
                when=draw(st.none() | earlier),
                items=items,
                optional=draw(st.booleans()),
                attempts=draw(st.integers(1, 3)),
                retries_late=draw(st.booleans()),
                min_ok=None if items is None else draw(st.none() | st.just(1)),
                approval=items is None and draw(st.integers(0, 4)) == 0,
            )
        )
    return tuple(found)


@st.composite
def parts(draw: st.DrawFn, drawn: tuple[ModelStep, ...]) -> tuple[DrawnPart, ...]:
    """Return up to four executions; the last one comes to its end."""
    count = draw(st.integers(1, 4))
    names = [step.id for step in drawn]
    lists = {step.id: step.items for step in drawn if step.items}
    found = list[DrawnPart]()
    for number in range(count):
        is_retry = number > 0 and draw(st.booleans())
        is_last = number == count - 1
        found.append(
            DrawnPart(
                is_retry=is_retry,
                stop_after=None if is_last else draw(st.none() | st.integers(1, 14)),
                is_killed=draw(st.booleans()),
                answers={
                    name: draw(st.sampled_from(["approve", "approve", "refuse", "wait"]))
                    for name in names
                },
                version=draw(st.integers(1, 2)),
                unreadable=draw(st.just(frozenset[str]()) | st.frozensets(st.just("look"))),
                anew=draw(st.frozensets(st.sampled_from(names), max_size=1)),
                again=draw(st.frozensets(st.sampled_from(names), max_size=1)),
                items={name: tuple(draw(st.permutations(items))) for name, items in lists.items()},
            )
        )
    return tuple(found)


@st.composite
def cases(draw: st.DrawFn) -> DrawnCase:
    """Return a plan with what befalls it."""
    drawn = draw(steps())
    return DrawnCase(
        drawn,
        draw(st.lists(_OUTCOMES, max_size=8).map(tuple)),
        draw(parts(drawn)),
        draw(st.sampled_from(["waves", "dataflow"])),
    )


pytestmark = pytest.mark.timeout(1800)
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder with a name of its own is made in it
"""A disk need not be waited for: no process really dies."""
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=volume(150, 15_000), deadline=None, suppress_health_check=_SLOW)
@given(cases())
def test_the_engine_does_what_the_model_allows_in_memory(case: DrawnCase) -> None:
    anyio.run(hold_against_model, case, None)


@settings(max_examples=volume(50, 5_000), deadline=None, suppress_health_check=_SLOW)
@given(cases())
def test_the_engine_does_what_the_model_allows_in_a_file(case: DrawnCase) -> None:
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        anyio.run(hold_against_model, case, Path(folder))
