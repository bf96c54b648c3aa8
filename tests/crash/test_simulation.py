"""Whatever happens to messages, clocks and daemons, in whatever order, every promise holds.

    HYPOTHESIS_PROFILE=explore python -m pytest tests/crash/test_simulation.py

looks for other histories than those that every run tries, and prints what repeats a failure.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.crash import oracle
from tests.crash.crash_project import job_id, request_of, small_job, whole_job
from tests.crash.run_size import volume
from tests.crash.simulation import Simulated, Simulation, remember_tools
from wavewright.engine.service.job_store.records import OutgoingMessage

MOST_JOBS = 4
JUMPS = (-90_000.0, -3_600.0, -1.0, 30.0, 3_600.0, 90_000.0)
"""Within the age that a message may have."""
place = st.integers(0, 5)
calls = st.one_of(st.none(), st.integers(1, 25))
"""After how many calls of its ports a daemon dies; mostly it does not."""


class History(RuleBasedStateMachine):
    """One history of a store and its daemons."""

    requests: Bundle[OutgoingMessage] = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="history-"))
        self.patch = pytest.MonkeyPatch()
        remember_tools(self.patch)
        self.sim = Simulation(self.folder)

    @initialize()
    def begin(self) -> None:
        self.sim.start()

    @precondition(lambda self: len(self.sim.submitted) < MOST_JOBS)
    @rule(target=requests, is_whole=st.booleans())
    def submit(self, *, is_whole: bool) -> OutgoingMessage:
        number = len(self.sim.submitted)
        job = job_id(number)
        message = request_of(job, whole_job(job) if is_whole else small_job(job))
        self.sim.submit(job, message)
        return message

    @rule(message=requests)
    def send_again(self, message: OutgoingMessage) -> None:
        self.sim.broker.put(message)

    @rule(number=st.integers(0, MOST_JOBS - 1))
    def ask_again_in_other_words(self, number: int) -> None:
        if number < len(self.sim.submitted):
            job = self.sim.submitted[number]
            self.sim.broker.put(request_of(job, small_job(job, steps=3), message="other"))

    @precondition(lambda self: bool(self.sim.daemons))
    @rule(which=place, number=place, dies_after=calls)
    def deliver(self, which: int, number: int, dies_after: int | None) -> None:
        daemon = self._daemon(which)
        self.sim.act(daemon, daemon.parts.take_in(number), dies_after=dies_after)

    @precondition(lambda self: bool(self.sim.daemons))
    @rule(which=place, number=place)
    def deliver_and_lose_the_ack(self, which: int, number: int) -> None:
        daemon = self._daemon(which)
        daemon.broker.drops_acks = True
        self.sim.act(daemon, daemon.parts.take_in(number))
        daemon.broker.drops_acks = False

    @precondition(lambda self: bool(self.sim.daemons))
    @rule(which=place, dies_after=calls)
    def work(self, which: int, dies_after: int | None) -> None:
        daemon = self._daemon(which)
        self.sim.act(daemon, daemon.parts.work(), dies_after=dies_after)

    @precondition(lambda self: bool(self.sim.daemons))
    @rule(which=place, dies_after=calls)
    def send(self, which: int, dies_after: int | None) -> None:
        daemon = self._daemon(which)
        self.sim.act(daemon, daemon.parts.send(), dies_after=dies_after)

    @rule(number=place)
    def somebody_answers(self, number: int) -> None:
        if said := self.sim.hear():
            self.sim.broker.put(said[number % len(said)])

    @rule(seconds=st.sampled_from(JUMPS))
    def set_the_clock(self, seconds: float) -> None:
        self.sim.clock.now += seconds

    @precondition(lambda self: len(self.sim.daemons) < 3)
    @rule()
    def start_another_daemon(self) -> None:
        self.sim.start()

    @precondition(lambda self: bool(self.sim.daemons))
    @rule(which=place)
    def kill_a_daemon(self, which: int) -> None:
        self.sim.kill(self._daemon(which))

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.sim.broken_so_far() == []

    def teardown(self) -> None:
        try:
            self.sim.settle()
            assert oracle.violations(self.sim.found()) == []
            assert self.sim.broker.waiting() == []
        finally:
            self.sim.close()
            self.patch.undo()
            shutil.rmtree(self.folder)

    def _daemon(self, which: int) -> Simulated:
        return self.sim.daemons[which % len(self.sim.daemons)]


TestHistories = History.TestCase
TestHistories.settings = settings(
    max_examples=volume(12, 1_000), stateful_step_count=volume(30, 60), deadline=None
)
TestHistories.pytestmark = [pytest.mark.timeout(volume(300, 3600))]  # type: ignore[attr-defined]
