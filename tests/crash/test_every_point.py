"""A daemon dies between an effect and the note of it, at each such point of a job's life in turn.

The points lie before and after each commit, acknowledgement, publication and confirmation, and around what a tool
does; see `tests/crash/points.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.forks import Spec, again, deaths
from tests.crash.volume import volume

NAMES = {
    "taken", "before ack", "after ack", "after claim", "before commit", "after commit", "after work", "tool start",
    "tool effect", "before publish", "before confirm", "after marking",
}  # fmt: skip


@pytest.mark.timeout(volume(300, 3600))
@pytest.mark.parametrize("lane", range(volume(1, 2)))
def test_a_daemon_may_die_at_any_point(tmp_path: Path, lane: int) -> None:
    every = volume(6, 1)
    spec = Spec(str(tmp_path), lane=lane * every, lanes=2 * every)

    reports = list(deaths(spec))

    broken = [f"{report.violations}: {again(spec, report.number)}" for report in reports if report.violations]
    assert broken == []
    assert len(reports) >= 120 / (2 * every)
    if every == 1:
        assert {report.place for report in reports} >= NAMES - {"after marking", "after work"}


@pytest.mark.crash
@pytest.mark.timeout(3600)
def test_whoever_goes_on_may_die_as_well(tmp_path: Path) -> None:
    spec = Spec(str(tmp_path), again=True)

    reports = list(deaths(spec))

    broken = [f"{report.violations}: {again(spec, report.number)}" for report in reports if report.violations]
    assert broken == []
    assert sum(report.deaths == 2 for report in reports) > 50
