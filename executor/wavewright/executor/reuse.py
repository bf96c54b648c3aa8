"""Calls that need not be made: equal calls of a reading tool are one call, and a retry takes over what ended well.

While a call is in flight, calls with the same key *follow* it and are served its output; once it has succeeded, so
is every later one. If it fails, its followers make the call themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from wavewright.executor.calls import ScheduledCall
from wavewright.executor.events import ItemFinished, StepFinished
from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.types import RunId, StepId, StepKey

FinishedCall = StepFinished | ItemFinished


@dataclass(frozen=True, slots=True)
class ReuseSource:
    """The run that a retry takes results over from."""

    state: RunState
    origin: RunId
    """The run whose id is part of the keys of calls that are not made anew."""
    anew: frozenset[StepId] = frozenset()
    """Steps whose calls are made, whatever is known of them."""

    def find(self, call: ScheduledCall, key: StepKey) -> FinishedCall | None:
        """Return how this very call ended in that run, where it ended well and is still the same."""
        if call.step.id in self.anew:
            return None
        ending: FinishedCall | None
        if call.fan_out is None:
            ending = self.state.steps.get(call.step.id)
        else:
            items = self.state.items.get(call.step.id)
            ending = items.get(call.index) if items else None
        return ending if ending is not None and ending.key == key and ending.status in SUCCESSES else None


class ReuseIndex:
    """The calls of one run by key."""

    def __init__(self, prior: RunState) -> None:
        self._finished: dict[StepKey, FinishedCall] = {}
        self._followers: dict[StepKey, list[ScheduledCall]] = {}
        for items in prior.items.values():
            for item in items.values():
                self._remember(item)
        for step in prior.steps.values():
            if step.items is None:
                self._remember(step)

    def find(self, key: StepKey) -> FinishedCall | None:
        """Return the ending of an equal call that succeeded."""
        return self._finished.get(key)

    def follows(self, call: ScheduledCall, key: StepKey) -> bool:
        """Whether an equal call is in flight, which this one now follows; otherwise this one leads."""
        followers = self._followers.get(key)
        if followers is None:
            self._followers[key] = []
            return False
        followers.append(call)
        return True

    def succeed(self, key: StepKey, ending: FinishedCall) -> list[ScheduledCall]:
        """Note the output of a call; return those that are served by it."""
        self._finished[key] = ending
        return self._followers.pop(key, [])

    def fail(self, key: StepKey) -> list[ScheduledCall]:
        """Forget a call that failed; return those that have to make it themselves."""
        return self._followers.pop(key, [])

    def _remember(self, ending: FinishedCall) -> None:
        if ending.key is not None and ending.status in SUCCESSES and not ending.withheld:
            self._finished[ending.key] = ending
