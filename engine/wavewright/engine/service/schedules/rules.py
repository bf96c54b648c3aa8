"""What is done at a tick of a schedule: a decision from what the store has and the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, TypeAlias

from wavewright.config.schedules import ScheduleTerms
from wavewright.engine.service.schedules.instants import delay_of, instants_between

ON_TIME_SECONDS: Final = 60.0
"""An instant that is later than this, its jitter included, was missed: nobody was there."""
MAX_INSTANTS: Final = 1_000
"""Instants that are looked at in one tick; of more the latest."""

Outcome: TypeAlias = Literal["begun", "waiting", "skipped", "missed"]
"""What came of an instant: a job was begun, it waits for an earlier run to end, it was left out
because an earlier run had not ended, or nobody was there and it is not made up for.
"""


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """What the store has of a schedule."""

    seen: float | None = None
    """Up to which instant everything is decided; None of a schedule that is new."""
    is_paused: bool = False
    is_busy: bool = False
    """Whether a job that the schedule has begun has not ended."""
    waiting: Sequence[float] = ()
    """Instants that wait for an earlier run, in their order."""


@dataclass(frozen=True, slots=True)
class ScheduleTick:
    """What is done with a schedule now."""

    seen: float
    outcomes: Sequence[tuple[float, Outcome]] = ()
    """Of instants, in their order."""
    passes: bool = False
    """Whether an instant went by of which nothing comes, since the schedule is paused."""
    cancels_other: bool = False
    """Whether what the schedule has begun and has not ended is cancelled."""


def decide_tick(terms: ScheduleTerms, name: str, state: ScheduleState, now: float) -> ScheduleTick:
    """Return what is done with a schedule at an instant.

    A new or a paused schedule begins nothing, and nothing of that time counts as missed. Where the
    clock went back, nothing is begun until it has caught up; what was begun is not begun again.
    """
    if state.seen is None or state.is_paused or terms.paused:
        dropped: list[tuple[float, Outcome]] = [(instant, "skipped") for instant in state.waiting]
        since = now if state.seen is None else state.seen
        passes = next(instants_between(terms, since, now), None) is not None
        return ScheduleTick(now, dropped, passes=passes)
    seen = min(state.seen, now)
    due, seen = _due_instants(terms, name, seen, now)
    outcomes: list[tuple[float, Outcome]] = []
    in_time = [
        instant for instant in state.waiting if now - instant <= terms.window + ON_TIME_SECONDS
    ]
    outcomes += _ended("missed", (instant for instant in state.waiting if instant not in in_time))
    kept = _kept_instants(terms, due, now)
    outcomes += _ended("missed", (instant for instant in due if instant not in kept))
    is_busy = state.is_busy
    cancels_other = bool(kept) and is_busy and terms.overlap == "cancel_other"
    if terms.overlap == "cancel_other" and kept:
        # The latest takes the place of whatever waits.
        outcomes += _ended("skipped", (instant for instant in (*in_time, *kept[:-1])))
        in_time, kept = [], kept[-1:]
    makes_up = any(_was_missed(terms, instant, now) for instant in kept)
    for instant in (*in_time, *kept):
        if not is_busy:
            outcomes.append((instant, "begun"))
            is_busy = True
        elif instant in in_time:
            continue
        elif terms.overlap == "skip" and not makes_up:
            outcomes.append((instant, "skipped"))
        else:
            # Those that are made up for run one after the other, whatever else overlaps, and so does
            # the one on time that comes with them: what overlaps it is their run.
            outcomes.append((instant, "waiting"))
    return ScheduleTick(seen, outcomes, cancels_other=cancels_other)


def _ended(outcome: Outcome, instants: Iterable[float]) -> list[tuple[float, Outcome]]:
    return [(instant, outcome) for instant in instants]


def _due_instants(
    terms: ScheduleTerms, name: str, seen: float, now: float
) -> tuple[list[float], float]:
    """Return the instants whose time has come, and up to where all are decided with them."""
    # What is older is made up for in no case: the first of it was missed, and stands for the rest.
    after = max(seen, now - terms.window - ON_TIME_SECONDS - (terms.jitter or 0.0))
    due = [*islice(instants_between(terms, seen, after), 1)]
    for instant in instants_between(terms, after, now):
        if instant + delay_of(terms, name, instant) > now:
            # Its jitter is not over; those after it are looked at with it.
            return due[-MAX_INSTANTS:], max([after, *due])
        due.append(instant)
    return due[-MAX_INSTANTS:], now


def _kept_instants(terms: ScheduleTerms, due: Sequence[float], now: float) -> list[float]:
    """Return the instants that have a run: those on time, and those that are made up for."""
    on_time = [instant for instant in due if not _was_missed(terms, instant, now)]
    missed = [
        instant for instant in due if instant not in on_time and now - instant <= terms.window
    ]
    match terms.missed:
        case "skip":
            return on_time
        case "last":
            return on_time or missed[-1:]
        case "all":
            return [*missed, *on_time]


def _was_missed(terms: ScheduleTerms, instant: float, now: float) -> bool:
    return now - instant > ON_TIME_SECONDS + (terms.jitter or 0.0)
