"""Waves of targets: the progress of a job with several targets, and its next wave.

Each *target* is a run of the job's goal. A *wave of targets* starts when every target of the wave
before has ended, and holds the targets that those have found, without repetition. All of it follows
from the notes of the root run, so an interrupted job continues where it was. A run that belongs to
a daemon's job or to a root run is resumed only with it: resumed alone, its job would wait for an
answer that was already used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from immutables import Map

from wavewright.executor import Noted, RunState
from wavewright.planner import Json, RunId, as_list
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.language.goals import JobTarget, JobTargets

TARGETS_WANTED: Final = "targets"
"""Topic of the note that a run is one of several targets, and of which."""
TARGET_STARTED: Final = "target_started"
TARGET_PACKAGE_SENT: Final = "target_sent"
"""Topic of the note that a target's package is out and awaits its verdict."""
TARGET_PACKAGE_JUDGED: Final = "target_judged"
"""Topic of the note of that verdict."""
TARGET_COMPLETED: Final = "target_completed"
TARGET_FAILED: Final = "target_failed"
CYCLE_STARTED: Final = "cycle_started"
"""Topic of the note that a cycle of a standing job starts."""
CYCLE_ENDED: Final = "cycle_ended"
TARGET_INTERRUPTED: Final = "target_interrupted"
"""Topic of the note of an unforeseen fault while the job was being stopped; the target has not
ended.
"""
MAX_NAME_LENGTH: Final = 128
_MAX_NAMES: Final = 10

TargetStatus: TypeAlias = Literal["achieved", "not_achieved", "failed"]


@dataclass(frozen=True, slots=True)
class Target:
    """One target, and the wave in which it is looked at."""

    name: str
    priority: int = 0
    wave: int = 0
    is_untrusted: bool = False
    """Whether its name is untrusted text that a run has found."""


@dataclass(frozen=True, slots=True)
class TargetEnd:
    """How the run of a target has ended."""

    status: TargetStatus
    found: tuple[Target, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TargetPackage:
    """The package that a target has sent last, where it is validated."""

    iteration: int
    """Which of the target's packages it is, from 1."""
    is_judged: bool = False


@dataclass(frozen=True, slots=True)
class TargetCycle:
    """The last cycle of a standing job."""

    target: str
    used: int = 0
    """Tokens that the target had used when the cycle started."""
    resumes_at: float | None = None
    """When the next cycle starts, where this one has ended; in seconds since the epoch."""


_NO_RUNS: Map[str, RunId] = Map()
_NO_ENDS: Map[str, TargetEnd] = Map()
_NO_PACKAGES: Map[str, TargetPackage] = Map()


@dataclass(frozen=True, slots=True)
class TargetWaves:
    """How far a job with targets is."""

    targets: JobTargets
    text: str = ""
    """The goal's text before inputs were put into it."""
    runs: Map[str, RunId] = _NO_RUNS
    """Runs of the targets that were begun."""
    ends: Map[str, TargetEnd] = _NO_ENDS
    packages: Map[str, TargetPackage] = _NO_PACKAGES
    """What was sent of targets that await a verdict, or have had one."""
    asked: tuple[str, ...] = ()
    """Targets that have found several others, of which a person was asked which is next."""
    chosen: tuple[str, ...] = ()
    """What was answered."""
    cycle: TargetCycle | None = None

    def current(self) -> list[Target]:
        """Return the targets of the current wave that have not ended; none where all have.

        Where a person is asked at forks, these are all targets that have not ended, the next one
        first.
        """
        if self.targets.forks == "ask":
            # What people have chosen goes first, in the order of their choices.
            order = {name: number for number, name in enumerate(self.chosen)}
            last = len(order)
            return sorted(
                self._left(self.known()),
                key=lambda target: (order.get(target.name, last), -target.priority, target.wave),
            )
        # The next wave begins when each target of the one before has ended, well or not.
        for wave in self._waves():
            if left := self._left(wave):
                return left
        return []

    def known(self) -> list[Target]:
        """Return every target so far, also those that the current wave has found; each once."""
        return [target for wave in self._waves() for target in wave]

    def ended_before(self, target: Target) -> list[Target]:
        """Return the targets that ended before this one could begin: of earlier waves, or all where
        people choose.

        Where several targets of a wave run at once, which of them ends first changes nothing.
        """
        ended = [other for other in self.known() if other.name in self.ends]
        if self.targets.forks == "ask":
            return ended
        return [other for other in ended if other.wave < target.wave]

    def fork(self) -> tuple[str, tuple[str, ...]] | None:
        """Return a target that has found several others which have not begun, and these, until a
        person was asked.
        """
        if self.targets.forks != "ask":
            return None
        waiting = [
            target.name
            for target in self.current()
            if target.name not in self.runs and target.name not in self.chosen
        ]
        for name, end in self.ends.items():
            names = {target.name for target in end.found}
            options = tuple(other for other in waiting if other in names)
            if len(options) > 1 and name not in self.asked:
                return name, options
        return None

    @property
    def completed(self) -> int:
        """Targets of which something came."""
        return sum(end.status != "failed" for end in self.ends.values())

    @property
    def failed(self) -> list[str]:
        """Targets of which nothing came, in order."""
        return [target.name for target in self.known() if self._has_failed(target)]

    @property
    def awaiting(self) -> list[str]:
        """Targets whose package has no verdict yet, by name."""
        return sorted(
            name
            for name, sent in self.packages.items()
            if not sent.is_judged and name not in self.ends
        )

    def is_in_progress(self, target: str) -> bool:
        """Whether a target was begun, has not ended and awaits no verdict."""
        sent = self.packages.get(target)
        return target in self.runs and target not in self.ends and (sent is None or sent.is_judged)

    def summary(self) -> str:
        """Return what came of it, in a sentence."""
        known = self.known()
        names: dict[TargetStatus, list[str]] = {"achieved": [], "not_achieved": [], "failed": []}
        for target in known:
            if (end := self.ends.get(target.name)) is not None:
                names[end.status].append(target.name)
        parts = [f"{len(names['achieved'])} of {counted(len(known), 'target')} achieved"]
        if names["not_achieved"]:
            parts.append(f"not achieved: {some_names(names['not_achieved'])}")
        if names["failed"]:
            parts.append(f"failed: {some_names(names['failed'])}")
        if left_out := self._left_out(known):
            parts.append(
                f"left out: {left_out} more that were found, for {self.targets.most} are the most"
            )
        return "; ".join(parts)

    def _left_out(self, known: Iterable[Target]) -> int:
        """Return how many targets were found that are too many."""
        names = {target.name for end in self.ends.values() for target in end.found}
        return len(names - {target.name for target in known})

    def _has_failed(self, target: Target) -> bool:
        end = self.ends.get(target.name)
        return end is not None and end.status == "failed"

    def _left(self, wave: Iterable[Target]) -> list[Target]:
        return [target for target in wave if target.name not in self.ends]

    def _waves(self) -> Iterator[list[Target]]:
        """Yield each wave whose targets are known: its targets of higher priority first."""
        known = set[str]()
        candidates = [_target_of(target) for target in self.targets.first]
        for number in range(self.targets.depth + 1):
            # A target that an earlier wave has is not looked at again: so waves end.
            fresh: dict[str, Target] = {}
            for target in candidates:
                if target.name not in known and len(known) + len(fresh) < self.targets.most:
                    fresh.setdefault(target.name, replace(target, wave=number))
            if not fresh:
                return
            wave = sorted(fresh.values(), key=lambda target: -target.priority)
            yield wave
            known |= fresh.keys()
            candidates = [candidate for target in wave for candidate in self._found(target)]

    def _found(self, target: Target) -> tuple[Target, ...]:
        end = self.ends.get(target.name)
        return end.found if end is not None else ()


def target_waves(state: RunState) -> TargetWaves | None:
    """Return how far a run with targets is; none where it is a run like any other."""
    waves: TargetWaves | None = None
    for noted in state.notes:
        if noted.topic == TARGETS_WANTED:
            waves = initial_waves(noted)
        elif waves is not None:
            waves = waves_after(waves, noted)
    return waves


def initial_waves(noted: Noted) -> TargetWaves:
    """Return how far it is when nothing was done yet."""
    return TargetWaves(
        JobTargets.model_validate(noted.body["targets"]), str(noted.body.get("text", ""))
    )


def waves_after(waves: TargetWaves, noted: Noted) -> TargetWaves:
    """Return how far it is after one more note."""
    name = str(noted.body.get("target", ""))
    match noted.topic:
        case "target_started":
            return replace(waves, runs=waves.runs.set(name, RunId(str(noted.body["run"]))))
        case "target_sent":
            number = noted.body.get("iteration")
            sent = TargetPackage(number if isinstance(number, int) else 1)
            return replace(waves, packages=waves.packages.set(name, sent))
        case "target_judged":
            judged = replace(waves.packages[name], is_judged=True)
            return replace(waves, packages=waves.packages.set(name, judged))
        case "target_completed" | "target_failed":
            return replace(waves, ends=waves.ends.set(name, _end_of_target(noted)))
        case "answer":
            return replace(
                waves,
                asked=(*waves.asked, name),
                chosen=(*waves.chosen, str(noted.body["answer"])),
            )
        case "cycle_started":
            used = noted.body.get("used")
            return replace(waves, cycle=TargetCycle(name, used if isinstance(used, int) else 0))
        case "cycle_ended":
            at = noted.body.get("resumes_at")
            resumes_at = float(at) if isinstance(at, int | float) else 0.0
            return replace(
                waves, cycle=replace(waves.cycle or TargetCycle(name), resumes_at=resumes_at)
            )
        case _:
            return waves


def _end_of_target(noted: Noted) -> TargetEnd:
    status: TargetStatus = "not_achieved"
    if noted.topic == TARGET_FAILED:
        status = "failed"
    elif noted.body.get("status") == "achieved":
        status = "achieved"
    found = tuple(read_targets(as_list(noted.body.get("found"))))
    return TargetEnd(status, found, str(noted.body.get("reason", "")))


def read_targets(values: Iterable[Json]) -> Iterator[Target]:
    """Yield the targets in a list that a step has made: names, or objects with `name` and
    `priority`.

    What can be no name is left out: the list may come from outside. That it does is not read from a
    step's list, but from a note's (`targets_json`).
    """
    for value in values:
        fields = value if isinstance(value, dict) else {"name": value}
        name, priority = fields.get("name"), fields.get("priority")
        if not isinstance(name, str) or not (name := name.strip()):
            continue
        if len(name) > MAX_NAME_LENGTH or not name.isprintable():
            continue
        # True is an integer to Python, and no priority.
        if not isinstance(priority, int) or isinstance(priority, bool):
            priority = 0
        yield Target(name, priority, is_untrusted=fields.get("untrusted") is True)


def targets_json(targets: Iterable[Target]) -> list[Json]:
    """Return targets as notes have them."""
    return [
        {"name": target.name, "priority": target.priority, "untrusted": target.is_untrusted}
        for target in targets
    ]


def some_names(names: list[str]) -> str:
    """Return names, the first few of many."""
    shown = ", ".join(names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"


def _target_of(named: str | JobTarget) -> Target:
    return Target(named.name, named.priority) if isinstance(named, JobTarget) else Target(named)


def target_runs(state: RunState) -> frozenset[RunId]:
    """Return the runs of a root run's targets; none where it is a run like any other."""
    waves = target_waves(state)
    return frozenset() if waves is None else frozenset(waves.runs.values())


def no_plan_reason(state: RunState, otherwise: str) -> str:
    """Return why a run has no plan: its targets' runs have theirs, or else what is given."""
    if target_waves(state) is None:
        return otherwise
    shown = f"`wavewright show {state.run}` lists them"
    return f"run {state.run!r} is that of a job with several targets, each with a run of its own: {shown}"
