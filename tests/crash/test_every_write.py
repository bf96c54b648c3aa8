"""A daemon dies before each change of the store's file in turn, and the next one makes good.

A job of twelve steps, with a patched plan, an approval and a verdict, is followed from its message to its end; `tests/
crash/forks.py` repeats one death.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.forked_daemons import Spec, again, deaths
from tests.crash.measurements import note
from tests.crash.run_size import volume
from tests.crash.sqlite_shim import Shim, SqliteUnreachable, let_pass
from tests.support.session_server import unavailable

LANES = 4
EVERY = volume(31, 1)
"""In the slice one place in so many is tried; which ones differs by lane."""


@pytest.fixture(autouse=True)
def reachable_sqlite() -> None:
    try:
        Shim(let_pass).remove()
    except SqliteUnreachable as reason:
        unavailable(str(reason))


@pytest.mark.timeout(volume(300, 3600))
@pytest.mark.parametrize("lane", range(volume(1, LANES)))
def test_a_daemon_may_die_before_any_change_of_the_file(tmp_path: Path, lane: int) -> None:
    lanes = EVERY * 2 if EVERY > 1 else LANES
    spec = Spec(str(tmp_path), "writes", lane=lane * EVERY, lanes=lanes)

    reports = list(deaths(spec))

    broken = [f"{report.violations}: {again(spec, report.number)}" for report in reports if report.violations]
    note("writes", deaths=sum(report.deaths for report in reports), violations=len(broken))
    assert broken == []
    assert len(reports) > volume(8, 100)
    assert {"write", "sync"} <= {report.place for report in reports}
