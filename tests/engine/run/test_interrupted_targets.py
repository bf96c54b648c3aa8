"""A job with targets whose packages are looked at, cut off at each thing that it writes down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.engine.run_in_process import run_request
from wavewright.config.settings import load_settings
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import PackageValidation, PackageVerdict
from wavewright.engine.run.target_waves import (
    TARGET_FAILED,
    TARGET_INTERRUPTED,
    TARGET_PACKAGE_JUDGED,
    TARGET_PACKAGE_SENT,
    target_waves,
)
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, Noted
from wavewright.executor.store.errors import (
    EventDamaged,
    JournalDamaged,
    JournalError,
    JournalNotWritten,
)
from wavewright.executor.store.journal import MemoryJournal
from wavewright.executor.store.transaction import Alongside
from wavewright.planner.types import RunId
from wavewright.reviewer.records import Package

pytestmark = pytest.mark.anyio

ROOT = RunId("20261122-060000-abc123")
TOOLS = '''
from pathlib import Path

_HERE = Path(__file__).parent


def survey(place: str, feedback: list[str] = []) -> dict:
    """Look at a place."""
    with (_HERE / "calls.txt").open("a") as calls:
        calls.write(f"{place} {len(feedback)}\\n")
    return {"place": place, "near": ["B", "A"]}
'''
JOB = """\
name: places
goal: Survey ${inputs.target}
targets: {first: [A], depth: 1, expand: "${steps.seen.near}"}
plan:
  steps: [{id: seen, tool: survey, params: {place: "${inputs.target}"}}]
  result: ${steps.seen.place}
"""
WHOLE = Counter(["A 0", "A 1", "B 0"])
"""The package of A is rejected once; B is found by A."""


class CutJournal(MemoryJournal):
    """A journal that can be written to only so many times; then its process is as good as dead."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.written = 0

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        if self.left == self.written:
            raise JournalNotWritten("it was cut off", hint="go on with it")
        self.written += 1
        return super().append(run, events, alongside)


@dataclass
class Work:
    """One job, from its beginning to its end, by several processes if need be."""

    folder: Path
    journal: CutJournal = field(default_factory=CutJournal)
    published: list[Package] = field(default_factory=list[Package])
    given: dict[tuple[str, int], PackageVerdict] = field(
        default_factory=dict[tuple[str, int], PackageVerdict]
    )

    async def go_on(self) -> RunState:
        """Work on it for as long as nobody has to be waited for."""

        def keep(package: Package, folder: Path) -> tuple[Path, ...]:
            del folder
            self.published.append(package)
            return ()

        await run_request(
            RunRequest(job_file=self.folder / "places.job.yaml", run=ROOT),
            settings=load_settings(self.folder, {}),
            journal=self.journal,
            approver=Nobody(),
            publish=keep,
            validation=PackageValidation(
                2, lambda target, number: self.given.get((target, number))
            ),
        )
        return fold(await self.journal.load(ROOT))

    async def finish(self) -> RunState:
        """Go on until it has ended, and say of each package that is out what is to be said."""
        while True:
            try:
                state = await self.go_on()
            except JournalNotWritten:
                self.journal.left = None
                state = fold(await self.journal.load(ROOT))
            await self.journal.aclose()
            if state.finished is not None and not state.is_interrupted:
                return state
            if (waves := target_waves(state)) is not None:
                for name, sent in waves.packages.items():
                    accepted = (name, sent.iteration) != ("A", 1)
                    verdict = PackageVerdict(
                        accepted, f"{name} {sent.iteration}", sent.iteration, ("more",)
                    )
                    self.given[name, sent.iteration] = verdict


class Nobody:
    """Is never asked."""

    async def approve(self, request: object) -> bool:
        raise AssertionError(request)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "survey.py").write_text(TOOLS)
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: survey.py, functions: {survey: {}}}]\n"
    )
    (tmp_path / "places.job.yaml").write_text(JOB)
    return tmp_path


async def test_wherever_it_is_cut_off_nothing_is_done_twice_but_what_was_in_hand(
    folder: Path,
) -> None:
    calls = folder / "calls.txt"
    undisturbed = Work(folder)
    await undisturbed.finish()
    whole = undisturbed.journal.written

    assert Counter(calls.read_text().splitlines()) == WHOLE
    assert whole > 20
    for cut in range(whole):
        calls.unlink()
        work = Work(folder)
        work.journal.left = cut
        state = await work.finish()
        made = Counter(calls.read_text().splitlines())

        assert state.finished is not None
        assert state.finished.reason == "2 of 2 targets achieved"
        assert set(made) == set(WHOLE)
        assert sum(made.values()) <= sum(WHOLE.values()) + 1
        # What goes out in the end is what was made after the rejection.
        plans = [str(one.plan) for one in work.published if one.job == "places: A"]
        assert "feedback_1" in plans[-1]
        for topic in (TARGET_PACKAGE_SENT, TARGET_PACKAGE_JUDGED):
            assert numbers(state, topic) == [("A", 1), ("A", 2), ("B", 1)]


def numbers(state: RunState, topic: str) -> list[tuple[str, object]]:
    """Return the packages that notes with that topic are about."""
    noted: list[Noted] = [one for one in state.notes if one.topic == topic]
    return [(str(one.body["target"]), one.body["iteration"]) for one in noted]


class UnreadableJournal(CutJournal):
    """A journal in which a target's run cannot be read once it has ended."""

    def __init__(self, fault: JournalError) -> None:
        super().__init__()
        self.fault = fault
        self.held = set[RunId]()

    async def open_run(self, run: RunId) -> None:
        self.held.add(run)
        await super().open_run(run)

    async def close_run(self, run: RunId) -> None:
        self.held.discard(run)
        await super().close_run(run)

    async def load(self, run: RunId) -> list[Event]:
        events = await super().load(run)
        if run != ROOT and fold(events).finished is not None:
            raise self.fault
        return events


async def test_a_targets_run_that_cannot_be_read_is_given_up_all_the_same(folder: Path) -> None:
    work = Work(folder, journal := UnreadableJournal(JournalDamaged("the file is damaged")))

    with pytest.raises(JournalDamaged):
        await work.go_on()

    assert journal.held == {ROOT}


async def test_one_event_that_cannot_be_read_fails_its_target_and_not_the_job(folder: Path) -> None:
    state = await Work(folder, UnreadableJournal(EventDamaged("event 3 cannot be read"))).go_on()
    [failed] = [one.body for one in state.notes if one.topic == TARGET_FAILED]

    assert failed["reason"] == "event 3 cannot be read"
    assert state.finished is not None
    assert state.finished.reason == "0 of 1 target achieved; failed: A"


async def test_what_nobody_foresaw_fails_one_target_and_its_neighbours_go_on(folder: Path) -> None:
    job = folder / "places.job.yaml"
    job.write_text(JOB.replace("first: [A], depth: 1", "first: [A, B], at_once: 2"))
    journal = MemoryJournal()

    def publish(package: Package, into: Path) -> tuple[Path, ...]:
        del into
        if package.job == "places: A":
            raise RuntimeError("the unforeseen")
        return ()

    done = await run_request(
        RunRequest(job_file=job),
        settings=load_settings(folder, {}),
        journal=journal,
        approver=Nobody(),
        publish=publish,
    )
    state = done.context.state
    [failed] = [one.body for one in state.notes if one.topic == TARGET_FAILED]

    assert state.finished is not None
    assert state.finished.reason.startswith("1 of 2 targets achieved")
    assert (failed["target"], failed["reason"]) == ("A", "RuntimeError: the unforeseen")


async def test_an_unforeseen_fault_while_the_job_is_stopped_interrupts_its_target_and_does_not_fail_it(
    folder: Path,
) -> None:
    journal, token = MemoryJournal(), CancellationToken()
    published = list[Package]()

    def publish(package: Package, into: Path) -> tuple[Path, ...]:
        del into
        if not token.is_cancelled:
            token.cancel()
            raise RuntimeError("what the stop has broken off")
        published.append(package)
        return ()

    async def go_on(token: CancellationToken) -> RunState:
        done = await run_request(
            RunRequest(job_file=folder / "places.job.yaml", run=ROOT),
            settings=load_settings(folder, {}),
            journal=journal,
            approver=Nobody(),
            publish=publish,
            cancellation=token,
        )
        await journal.aclose()
        return done.context.state

    cut_short = await go_on(token)
    resumed = await go_on(CancellationToken())

    assert cut_short.is_interrupted
    topics = [one.topic for one in resumed.notes]
    assert (topics.count(TARGET_INTERRUPTED), topics.count(TARGET_FAILED)) == (1, 0)
    assert resumed.finished is not None
    assert resumed.finished.reason == "2 of 2 targets achieved"
    assert [package.job for package in published] == ["places: A", "places: B"]
