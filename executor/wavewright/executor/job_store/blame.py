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

_NONE: Final = frozenset[StepKey]()
_NO_CALL: Final = frozenset({StepKey("")})
"""Blamed where no call was under way, such as while the plan was made: any step that ends disproves it."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The blame of one run after some of its events."""

    calls: frozenset[StepKey] | None = _NONE
    """None where an attempt was cut off and nobody knows at which calls."""
    under_way: frozenset[StepKey] = _NONE
    """Calls of this attempt that were announced and have not ended."""
    announces: bool = False
    """Whether this attempt announces every call."""

    @property
    def is_clear(self) -> bool:
        """Whether no call is to blame."""
        return self.calls is not None and not self.calls

    def after(self, events: Iterable[Event]) -> Blame:
        """Return the blame after some more events."""
        blame = self
        for event in events:
            match event:
                case StepStarted():
                    blame = replace(blame, under_way=blame.under_way | {event.key})
                case StepFinished() | ItemFinished() if has_come_to_its_end(event):
                    ended = _NO_CALL if event.key is None else _NO_CALL | {event.key}
                    calls = None if blame.calls is None else blame.calls - ended
                    blame = replace(blame, calls=calls, under_way=blame.under_way - ended)
                case Noted(topic="resumed"):
                    blame = Blame(_cut_off(blame), announces=event.body.get("announced") is True)
                case _:
                    pass
        return blame


def _cut_off(blame: Blame) -> frozenset[StepKey] | None:
    """Return the calls that are to blame where the attempt has ended here."""
    if not blame.announces:
        return None if blame.is_clear else blame.calls
    cut_off = blame.under_way or _NO_CALL
    return cut_off if blame.calls is None or blame.calls <= _NO_CALL else blame.calls & cut_off


def has_advanced(before: Blame, events: Iterable[Event], after: Blame) -> bool:
    """Whether a run has come further with these events than the attempts that were cut off."""
    return after.is_clear and (not before.is_clear or any(map(has_come_to_its_end, events)))


def has_come_to_its_end(event: Event) -> bool:
    """Whether the event is the end of a step or an item that was not merely broken off."""
    return isinstance(event, StepFinished | ItemFinished) and event.status != "cancelled"
