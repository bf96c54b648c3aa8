"""The engine does what the reference model allows: calls, endings and results of drawn runs.

Plans, what tools and people do, stops at any event, resumptions with other code, other runs, and
retries of retries are drawn. `WAVEWRIGHT_CRASH=1` draws a hundred times as many.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from tests.crash.run_size import volume
from tests.model.drawing import cases
from tests.model.driver import DrawnCase, DrawnPart, hold_against_model
from tests.model.plans import INPUT, Condition, ModelGate, ModelPlan, ModelStep, SubPlan
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.timeout(1800)
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder with a name of its own is made in it
"""A disk need not be waited for: no process really dies."""
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


_STOPPED_IN_A_PATCH = DrawnCase(
    ModelPlan(
        (
            ModelStep("a", "compute", items=(), optional=True, gate=ModelGate(on_empty="block")),
            ModelStep("b", "compute", "a"),
        )
    ),
    (),
    (DrawnPart(), DrawnPart(kind="recover", named="a"), DrawnPart()),
)
"""A step of a patch is stopped at the very time of the patch: no step of it reads that, resumed or
not.
"""

_SKIPPED_AT_ITS_END = DrawnCase(
    ModelPlan(
        (
            ModelStep(
                "a",
                "",
                1,
                optional=True,
                sub_plan=SubPlan(
                    (
                        ModelStep("x", "fetch", INPUT),
                        ModelStep("y", "compute", INPUT, (Condition("even", "x"),)),
                    )
                ),
            ),
        )
    ),
    (),
    (DrawnPart(),),
)
"""The last step of an optional sub-plan is skipped by its own condition: so is the sub-plan."""

_UNREADABLE_IN_A_PATCH = DrawnCase(
    ModelPlan((ModelStep("a", "fetch", items=(1,)),)),
    (),
    (
        DrawnPart(version=2, takes_stored=False),
        DrawnPart(
            kind="recover",
            version=1,
            unreadable=frozenset(["fetch"]),
            named="a",
            only_failed=True,
            takes_stored=False,
        ),
        DrawnPart(kind="retry", version=2, takes_stored=False),
    ),
    schedule="waves",
)
"""A patch took an output over that other code could not read: a retry by the code that made it reads
the output, and calls nothing.
"""

_ANOTHER_CALL_SINCE = DrawnCase(
    ModelPlan(
        (
            ModelStep("a", "post", items=(1,), optional=True, min_ok=0),
            ModelStep("b", "post", "a"),
        )
    ),
    (),
    (
        DrawnPart(version=2),
        DrawnPart(version=1, unreadable=frozenset(["post"])),
        DrawnPart(kind="retry", version=2),
    ),
    schedule="dataflow",
)
"""A step has made another call since one that succeeded: a retry repeats neither."""

_STOPPED_BEFORE_ANOTHER_CALL = DrawnCase(
    ModelPlan(
        (
            ModelStep("a", "compute", items=(1,), min_ok=0),
            ModelStep("b", "compute", "a"),
        )
    ),
    (),
    (DrawnPart(), DrawnPart(stop_after=1, unreadable=frozenset(["compute"])), DrawnPart()),
)
"""A run is stopped before a step that has ended comes to a call with other parameters: its ending is
that of the call before.
"""

_KEPT_BY_A_PATCH_BEFORE = DrawnCase(
    ModelPlan((ModelStep("a", "compute", items=(1,)),)),
    (),
    (
        DrawnPart(),
        DrawnPart(kind="recover", named="a", only_failed=True),
        DrawnPart(kind="retry"),
        DrawnPart(kind="recover", named="a"),
    ),
)
"""A patch kept an item, for which nothing was called: a patch of the retry that has it called again
calls it.
"""


_UNREADABLE_TO_A_RETRY = DrawnCase(
    ModelPlan((ModelStep("a", "post", 1),)),
    (),
    (
        DrawnPart(),
        DrawnPart(kind="retry", unreadable=frozenset(["post"])),
        DrawnPart(kind="recover", named="a"),
    ),
)
"""A retry could not read what was written in the run before: the step of a patch in its place, by
code that can, takes it over.
"""


@settings(max_examples=volume(140, 14_000), deadline=None, suppress_health_check=_SLOW)
@given(case=cases())
@example(case=_STOPPED_IN_A_PATCH)
@example(case=_SKIPPED_AT_ITS_END)
@example(case=_UNREADABLE_IN_A_PATCH)
@example(case=_ANOTHER_CALL_SINCE)
@example(case=_STOPPED_BEFORE_ANOTHER_CALL)
@example(case=_KEPT_BY_A_PATCH_BEFORE)
@example(case=_UNREADABLE_TO_A_RETRY)
def test_the_engine_does_what_the_model_allows_in_memory(case: DrawnCase) -> None:
    anyio.run(hold_against_model, case)


@settings(max_examples=volume(36, 3_600), deadline=None, suppress_health_check=_SLOW)
@given(cases())
def test_the_engine_does_what_the_model_allows_in_a_file(case: DrawnCase) -> None:
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        anyio.run(hold_against_model, case, Path(folder))


_NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]
"""What fails here fails in memory as well, or is small enough to be read."""
_SHARED = [*_SLOW, HealthCheck.function_scoped_fixture]
_SALTS = itertools.count()


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> str:
    return postgres.database()


@settings(
    max_examples=volume(18, 1_900),
    deadline=None,
    suppress_health_check=_SHARED,
    phases=_NO_SHRINKING,
)
@given(case=cases())
def test_the_engine_does_what_the_model_allows_in_a_database(
    case: DrawnCase, database: str
) -> None:
    anyio.run(hold_against_model, case, database, f"{next(_SALTS)}-")


_ANSWERED_TWICE = DrawnCase(
    ModelPlan((ModelStep("a", "put", 1, attempts=2),)),
    ("transient", "ok"),
    (DrawnPart(stop_after=3, is_killed=True), DrawnPart()),
)
"""A run that dies when its write has had two attempts: each of their answers is taken."""


@settings(
    max_examples=volume(6, 500), deadline=None, suppress_health_check=_SHARED, phases=_NO_SHRINKING
)
@given(case=cases())
@example(case=_ANSWERED_TWICE)
def test_the_engine_does_what_the_model_allows_on_a_fleet(case: DrawnCase, database: str) -> None:
    anyio.run(hold_against_model, case, database, f"{next(_SALTS)}-", database)
