"""Which calls may have ended a job's process: worked out from the events of a run.

The *blame* of a run is on the calls that were under way each time when an attempt was cut off. The call that ends its
process stays among them, however much else of the run comes to its end between; a run that somebody else's fault cuts
off brings those calls to their end, or is cut off at others. Only the start of a writing call is journaled by itself,
so from a job's second attempt on every call is *announced*: journaled before it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from wavewright.executor.events import Event, ItemFinished, Noted, StepFinished, StepStarted
from wavewright.planner.types import StepKey

_NO_CALLS: Final = frozenset[StepKey]()
_OUTSIDE_CALLS: Final = frozenset({StepKey("")})
"""Blamed where no call was under way, such as while the plan was made: any step that ends disproves it."""


@dataclass(frozen=True, slots=True)
class CrashSuspects:
    """The blame of one run after some of its events."""

    calls: frozenset[StepKey] | None = _NO_CALLS
    """None where an attempt was cut off and nobody knows at which calls."""
    under_way: frozenset[StepKey] = _NO_CALLS
    """Calls of this attempt that were announced and have not ended."""
    announces: bool = False
    """Whether this attempt announces every call."""

    @property
    def is_empty(self) -> bool:
        """Whether no call is to blame."""
        return self.calls is not None and not self.calls

    def after(self, events: Iterable[Event]) -> CrashSuspects:
        """Return the blame after some more events."""
        blame = self
        for event in events:
            match event:
                case StepStarted():
                    blame = replace(blame, under_way=blame.under_way | {event.key})
                case StepFinished() | ItemFinished() if is_final(event):
                    ended = _OUTSIDE_CALLS if event.key is None else _OUTSIDE_CALLS | {event.key}
                    calls = None if blame.calls is None else blame.calls - ended
                    blame = replace(blame, calls=calls, under_way=blame.under_way - ended)
                case Noted(topic="resumed"):
                    blame = CrashSuspects(
                        _interrupted_calls(blame), announces=event.body.get("announced") is True
                    )
                case _:
                    pass
        return blame


def _interrupted_calls(blame: CrashSuspects) -> frozenset[StepKey] | None:
    """Return the calls that are to blame where the attempt has ended here."""
    if not blame.announces:
        return None if blame.is_empty else blame.calls
    cut_off = blame.under_way or _OUTSIDE_CALLS
    return cut_off if blame.calls is None or blame.calls <= _OUTSIDE_CALLS else blame.calls & cut_off


def has_advanced(before: CrashSuspects, events: Iterable[Event], after: CrashSuspects) -> bool:
    """Whether a run has come further with these events than the attempts that were cut off."""
    return after.is_empty and (not before.is_empty or any(map(is_final, events)))


def is_final(event: Event) -> bool:
    """Whether the event is the end of a step or an item that was not merely broken off."""
    return isinstance(event, StepFinished | ItemFinished) and event.status != "cancelled"
