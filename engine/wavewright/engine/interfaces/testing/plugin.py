"""The pytest plugin: fixtures that load, dry-run and run plans, and the marker of live tests.

It costs nothing where it is not used: only pytest is imported here, everything else when a test
asks for a fixture (`testing` imports what it has by its first use).

Requests to models are *off* for every test of a wavewright project, and for whatever commands such
a test starts, but where the test is marked with `wavewright_live`. A test that asks nevertheless
fails with what would allow it; one that replays a cassette asks no model.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavewright.engine.interfaces import testing
from wavewright.engine.interfaces.testing.model_requests import LIVE_MARKER, model_requests

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from wavewright.engine.interfaces.api.wavewright import Wavewright
    from wavewright.engine.interfaces.testing.normal_form import FormKind
    from wavewright.engine.interfaces.testing.plan_runner import PlanRunner, RecordedRuns
    from wavewright.engine.interfaces.testing.project import (
        DryRunLoader,
        PlanLoader,
        ProjectUnderTest,
    )
    from wavewright.engine.interfaces.testing.redactions import Redaction
    from wavewright.engine.interfaces.testing.run_view import PackageView, ReviewView


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that record whole runs anew, and that run the conformance suite."""
    group = parser.getgroup("wavewright")
    group.addoption(
        "--wavewright-record",
        action="store_true",
        help="Run recorded_run's jobs for real, models included, and record them anew.",
    )
    group.addoption(
        "--wavewright-runtime",
        metavar="MODULE:FUNCTION",
        help="Run the conformance suite on the runtime that this function opens, where no tests are named.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and take the conformance suite for the tests where a runtime is named."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if config.getoption("--wavewright-runtime") is not None and not named:
        config.args = [str(Path(__file__).with_name("conformance") / "suite.py")]
    config.addinivalue_line(
        "markers", "wavewright_live: may ask language models over the net; every other test may not"
    )


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Collect the tests of a wavewright project with requests to models off: modules do things on
    import.
    """
    with _model_requests_off(unless=not _is_in_wavewright_project(collector.path.parent)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test of a wavewright project, its fixtures included, with requests to models off unless
    it is live.
    """
    with _model_requests_off(
        unless=_is_live(item) or not _is_in_wavewright_project(item.path.parent)
    ):
        return (yield)


def pytest_assertrepr_compare(left: object, right: object, op: str) -> list[str] | None:
    """Show the reason of a status, a verdict or a confidence that is not as it was wanted."""
    if "wavewright.engine.interfaces.testing.project" not in sys.modules:
        return None
    from wavewright.engine.interfaces.testing.project import comparison_reasons

    reasons = comparison_reasons(left, right)
    return [f"{left!r} {op} {right!r}", *reasons] if reasons else None


def _is_live(test: pytest.Item) -> bool:
    """Whether a test is marked as one that may ask models."""
    return test.get_closest_marker(LIVE_MARKER) is not None


@cache
def _is_in_wavewright_project(folder: Path) -> bool:
    """Whether a folder lies in a wavewright project."""
    return any(
        (home / name).is_file()
        for home in (folder, *folder.parents)
        for name in ("wavewright.yaml", "wavewright.yml")
    )


def _model_requests_off(*, unless: bool) -> AbstractContextManager[None]:
    """Forbid requests to models for a while, or leave them as they are."""
    return nullcontext() if unless else model_requests(allowed=False)


@pytest.fixture
def wavewright_project(request: pytest.FixtureRequest) -> Iterator[ProjectUnderTest]:
    """The project that the test's file lies in."""
    from wavewright.engine.interfaces.testing.project import ProjectUnderTest

    live = _is_live(request.node)
    with _model_requests_off(unless=live):
        yield ProjectUnderTest.containing(
            request.path.parent, request.config.rootpath, is_live=live
        )


@pytest.fixture
def ww(
    wavewright_project: ProjectUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Wavewright]:
    """The project as a program has it, with journal and packages in a temporary folder; models only
    in a live test.
    """
    from wavewright.engine.interfaces.api.wavewright import Wavewright
    from wavewright.engine.interfaces.testing.plan_runner import settings_in

    with wavewright_project.as_working_folder():
        settings = settings_in(tmp_path_factory.mktemp("wavewright"), wavewright_project.settings())
        yield Wavewright.with_settings(
            settings if wavewright_project.is_live else replace(settings, model=None)
        )


@pytest.fixture
def plan(wavewright_project: ProjectUnderTest) -> PlanLoader:
    """Load a plan by its file: read, bound to its goal and checked."""
    return testing.PlanLoader(wavewright_project)


@pytest.fixture
def dry_run(wavewright_project: ProjectUnderTest) -> DryRunLoader:
    """Work out what a run would do, without calling a tool."""
    return testing.DryRunLoader(wavewright_project)


@pytest.fixture
def run_plan(
    wavewright_project: ProjectUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> PlanRunner:
    """Run a plan in a temporary folder, with stubs or with the real tools."""
    return testing.PlanRunner(wavewright_project, lambda: tmp_path_factory.mktemp("wavewright"))


@pytest.fixture
def recorded_run(request: pytest.FixtureRequest) -> RecordedRuns:
    """Run a job for real once, with --wavewright-record, and from its recording afterwards."""
    from wavewright.engine.interfaces.testing.plan_runner import recording_fixture

    return recording_fixture(request)


@pytest.fixture
def review(run_plan: PlanRunner) -> ReviewView:
    """The review of the latest run of the test."""
    return testing.ReviewView(lambda: run_plan.latest().review.record)


@pytest.fixture
def package(run_plan: PlanRunner) -> PackageView:
    """The package of the latest run of the test."""
    return testing.PackageView(lambda: run_plan.latest().package.record)


@pytest.fixture
def wavewright_redactions() -> Sequence[Redaction]:
    """Rules of the project for what its snapshots leave out, beside the shipped ones; to be
    overridden.
    """
    return ()


def _snapshot_fixture(form: FormKind, request: pytest.FixtureRequest) -> SnapshotAssertion:
    if not request.config.pluginmanager.has_plugin("syrupy"):
        pytest.fail(
            f"{form}_snapshot needs syrupy: pip install 'wavewright[testing]'", pytrace=False
        )
    from wavewright.engine.interfaces.testing.normal_form import snapshots_of
    from wavewright.engine.interfaces.testing.redactions import machine_redactions

    project: ProjectUnderTest = request.getfixturevalue("wavewright_project")
    own: Sequence[Redaction] = request.getfixturevalue("wavewright_redactions")
    snapshot: SnapshotAssertion = request.getfixturevalue("snapshot")
    return snapshot.use_extension(snapshots_of(form, own, machine_redactions(project.root)))


@pytest.fixture
def plan_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Pins a plan: its shape, and every step, gate and cap."""
    return _snapshot_fixture("plan", request)


@pytest.fixture
def dag_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Pins the graph of a plan alone: steps, edges and waves."""
    return _snapshot_fixture("dag", request)


@pytest.fixture
def events_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Pins everything that a run did."""
    return _snapshot_fixture("events", request)


@pytest.fixture
def review_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Pins what the reviewer says of a run."""
    return _snapshot_fixture("review", request)


@pytest.fixture
def package_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Pins what leaves a run."""
    return _snapshot_fixture("package", request)
