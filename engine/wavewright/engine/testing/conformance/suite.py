"""The conformance suite: `pytest --wavewright-runtime module:function` runs it on a runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wavewright.engine.testing.conformance.cases import CASES, CaseRunner, opened_cases, with_named_runtime

# The models that it asks are scripted, in its own process.
pytestmark = pytest.mark.wavewright_live


@pytest.fixture(scope="module")
def runners(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[CaseRunner, CaseRunner]]:
    """The cases without a runtime, and with the one of the command line."""
    name = request.config.getoption("--wavewright-runtime")
    if name is None:
        pytest.skip("no --wavewright-runtime names a runtime")
    with opened_cases(tmp_path_factory.mktemp("conformance"), with_named_runtime(name)) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES)
def test_a_plan_runs_as_without_a_runtime(case: str, runners: tuple[CaseRunner, CaseRunner]) -> None:
    """Result, journal and package are equal up to times and names of runs."""
    without, with_runtime = (runner.run(case).form for runner in runners)

    assert with_runtime == without
