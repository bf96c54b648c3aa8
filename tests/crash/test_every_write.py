"""A daemon dies before each change of the store's file in turn, and the next one makes good.

A job of twelve steps, with a patched plan, an approval and a verdict, is followed from its message
to its end; `tests/crash/forked_daemons.py` repeats one death.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.forked_daemons import Spec, again, deaths
from tests.crash.measurements import note
from tests.crash.run_size import IS_WHOLE, volume
from tests.crash.sqlite_shim import Shim, SqliteUnreachable, let_pass
from tests.support.session_server import unavailable

WHOLE = [(None, lane, 4) for lane in range(4)]
"""Every change, in lanes that are run beside one another: the kind of change, the lane, and how
many there are.
"""
SLICE = [("write", 0, 150)]
"""One change in so many; which ones they are differs from run to run."""


@pytest.fixture(autouse=True)
def reachable_sqlite() -> None:
    try:
        Shim(let_pass).remove()
    except SqliteUnreachable as reason:
        unavailable(str(reason))


@pytest.mark.timeout(volume(300, 3600))
@pytest.mark.parametrize(("change", "lane", "lanes"), WHOLE if IS_WHOLE else SLICE)
def test_a_daemon_may_die_before_any_change_of_the_file(
    tmp_path: Path, change: str | None, lane: int, lanes: int
) -> None:
    spec = Spec(str(tmp_path), "writes", change=change, lane=lane, lanes=lanes)

    reports = list(deaths(spec))

    broken = [
        f"{report.violations}: {again(spec, report.number)}"
        for report in reports
        if report.violations
    ]
    note("writes", deaths=sum(report.deaths for report in reports), violations=len(broken))
    assert broken == []
    assert len(reports) > volume(2, 100)
    assert {report.place for report in reports} >= (
        {"write", "sync"} if change is None else {change}
    )
