"""This repository's own plans, pinned: a change of one is read in the diff of its snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from wavewright.engine.interfaces.testing import (
    DryRunLoader,
    PackageView,
    PlanLoader,
    PlanRunner,
    ReviewView,
)

REPOSITORY = Path(__file__).parents[2]
JOBS = sorted(file.name.removesuffix(".job.yaml") for file in REPOSITORY.glob("plans/*.job.yaml"))
LATER = "2026-01-01"
"""An instant for jobs that name none: years after their prices end."""


def test_every_job_is_known_here() -> None:
    assert JOBS == ["recovery", "stocks", "stocks_stale", "synthetic"]


@pytest.mark.parametrize("job", JOBS)
def test_the_plan_of_a_job(job: str, plan: PlanLoader, plan_snapshot: SnapshotAssertion) -> None:
    assert plan(f"plans/{job}.job.yaml") == plan_snapshot


@pytest.mark.parametrize("job", JOBS)
def test_the_review_of_a_run(
    job: str, run_plan: PlanRunner, review_snapshot: SnapshotAssertion
) -> None:
    run = run_plan(f"plans/{job}.job.yaml", as_of=None if job != "stocks_stale" else LATER)

    assert run == review_snapshot


def test_what_leaves_the_run_over_synthetic_prices(
    run_plan: PlanRunner, package_snapshot: SnapshotAssertion
) -> None:
    assert run_plan("plans/synthetic.job.yaml") == package_snapshot


def test_prices_and_index_are_fetched_at_once_and_the_outlook_waits_for_both(
    plan: PlanLoader, dry_run: DryRunLoader
) -> None:
    synthetic = plan("plans/synthetic.job.yaml")

    assert synthetic.width == 3
    assert synthetic.waves[0] == ("prices", "index", "announcements")
    assert synthetic.depends("outlook", on="prices", directly=True)
    assert synthetic.depends("outlook", on="index", directly=True)
    assert not synthetic.depends("outlook", on="announcements")
    assert synthetic.tools == {
        "fetch_stock_data",
        "fetch_index_data",
        "fetch_announcements",
        "analyze_summary",
    }
    assert dry_run("plans/synthetic.job.yaml").max_parallelism == synthetic.width


def test_prices_that_are_years_old_stop_the_analysis(
    run_plan: PlanRunner, review: ReviewView, package: PackageView
) -> None:
    run = run_plan("plans/stocks_stale.job.yaml", as_of=LATER)

    assert not run.gate("fresh")
    assert run.status("summary") == "blocked"
    assert review.verdict == package.status == "not_achieved"
    assert {action.action for action in review.recovery_actions} >= {"refetch"}
