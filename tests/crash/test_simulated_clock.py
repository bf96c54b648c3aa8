"""The clock is set back and forth, by hours, days and a year: no budget comes back, no owner is
taken for dead.

The histories of `test_simulation.py` set it at any moment; here it is set while a daemon works.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import oracle
from tests.crash.crash_project import job_id, request_of, whole_job
from tests.crash.simulation import Simulation, remember_tools

HOUR, DAY = 3_600.0, 86_400.0
JUMPS = [-25 * HOUR, -HOUR, -1.0, HOUR, 25 * HOUR, 90 * DAY, 300 * DAY]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_of_the_clock_takes_no_job_from_its_owner_and_repeats_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    remember_tools(monkeypatch)
    sim = Simulation(tmp_path)
    try:
        owner, other = sim.start(), sim.start()
        sim.submit(job_id(1), request_of(job_id(1), whole_job(job_id(1), posts=False)))
        sim.run(owner.parts.take_in())
        held = sim.run(owner.parts.stores.jobs.claim())
        sim.clock.now += jump

        assert sim.run(other.parts.work()) is False
        assert held is not None

        sim.kill(owner)
        sim.settle()
        assert oracle.violations(sim.found()) == []
        assert [row.state for row in sim.found().rows] == ["completed"]
    finally:
        sim.close()
