"""Every plan of this project is valid, and the word ranking does what it says.

The fixtures come with wavewright: `plan` loads and checks, `run_plan` runs with the real tools or
with stubs, and the snapshots in `__snapshots__` pin what a change should not alter unseen (`python
-m pytest --snapshot-update`).
"""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from wavewright.engine.interfaces.testing import PlanLoader, PlanRunner, ReviewView

WORDS = "plans/words.job.yaml"
PLANNED_BY_A_MODEL: set[str] = set()
"""Names of job files whose plan a model makes: there is none to pin before they run (see
`recorded_run`).
"""
JOBS = [
    job
    for job in sorted(Path(__file__).parent.parent.glob("plans/*.job.yaml"))
    if job.name not in PLANNED_BY_A_MODEL
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name.partition(".")[0])
def test_the_plan_of_every_job_is_sound_and_as_it_was(
    job: Path, plan: PlanLoader, plan_snapshot: SnapshotAssertion
) -> None:
    assert plan(job) == plan_snapshot


def test_the_ranking_waits_for_the_notes(plan: PlanLoader) -> None:
    words = plan(WORDS)

    assert words.depends("ranking", on="notes", directly=True)
    assert words.tools == {"list_notes", "read_note", "rank_words"}


def test_the_ranking_counts_every_note(
    run_plan: PlanRunner, review_snapshot: SnapshotAssertion
) -> None:
    run = run_plan(WORDS)

    assert run.result == {
        "notes": 2,
        "words": [
            {"word": "plan", "count": 3},
            {"word": "names", "count": 2},
            {"word": "every", "count": 2},
            {"word": "that", "count": 2},
            {"word": "planning", "count": 1},
        ],
    }
    assert run == review_snapshot


def test_an_empty_note_stops_the_ranking(run_plan: PlanRunner, review: ReviewView) -> None:
    run = run_plan(WORDS, stubs={"read_note": {"name": "empty.md", "text": ""}})

    assert not run.gate("has_text")
    assert run.status("ranking") == "blocked"
    assert review.verdict == "not_achieved"
