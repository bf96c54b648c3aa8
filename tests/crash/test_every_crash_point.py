"""A daemon dies between an effect and the note of it, at each such point of a job's life in turn.

The points lie before and after each commit, acknowledgement, publication and confirmation, and
around what a tool does; see `tests/crash/crash_points.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import crash_points as points
from tests.crash.crash_project import job_id, request_of, whole_job, write_workplace
from tests.crash.file_broker import FileBroker
from tests.crash.forked_daemons import Spec, again, deaths
from tests.crash.measurements import note
from tests.crash.minimal_daemon import Agreeing, little_daemon
from tests.crash.run_size import volume

NAMES = {
    "taken", "before ack", "after ack", "after claim", "before commit", "after commit", "after work", "tool start",
    "tool effect", "before publish", "before confirm", "after marking",
}  # fmt: skip


@pytest.mark.timeout(volume(300, 3600))
@pytest.mark.parametrize("lane", range(volume(1, 2)))
def test_a_daemon_may_die_at_any_point(tmp_path: Path, lane: int) -> None:
    every = volume(15, 1)
    spec = Spec(str(tmp_path), lane=lane * every, lanes=2 * every)

    reports = list(deaths(spec))

    broken = [
        f"{report.violations}: {again(spec, report.number)}"
        for report in reports
        if report.violations
    ]
    note("points", deaths=sum(report.deaths for report in reports), violations=len(broken))
    assert broken == []
    assert len(reports) >= 120 / (2 * every)


@pytest.mark.anyio
async def test_a_job_comes_to_every_kind_of_point(tmp_path: Path) -> None:
    write_workplace(tmp_path, {"validation": {"iterations": 2}})
    FileBroker(tmp_path / "broker").put(request_of(job_id(1), whole_job(job_id(1))))
    points.at_points(lambda _name, _number: None)

    async with little_daemon(tmp_path) as daemon:
        await daemon.serve(Agreeing())

    assert set(points.reached()) == NAMES


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_whoever_goes_on_may_die_as_well(tmp_path: Path) -> None:
    spec = Spec(str(tmp_path), again=True)

    reports = list(deaths(spec))

    broken = [
        f"{report.violations}: {again(spec, report.number)}"
        for report in reports
        if report.violations
    ]
    note("points", deaths=sum(report.deaths for report in reports), violations=len(broken))
    assert broken == []
    assert sum(report.deaths == 2 for report in reports) > 50
