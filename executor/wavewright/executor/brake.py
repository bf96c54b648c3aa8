"""A run comes to rest between its calls.

A *brake* that is pulled lets no further call begin; those that are under way come to their end and are recorded. When
none is left the run is at rest, and stopping it then interrupts nothing.
"""

from __future__ import annotations

from collections.abc import Callable


def _never_busy() -> bool:
    return False


def _ignore() -> None:
    return None


class DrainSignal:
    """The brake of one execution."""

    def __init__(self) -> None:
        """Begin with a brake that is not pulled."""
        self.is_draining = False
        self._is_busy: Callable[[], bool] = _never_busy
        self._on_drained: Callable[[], None] = _ignore

    @property
    def is_drained(self) -> bool:
        """Whether nothing is under way, and nothing begins any more."""
        return self.is_draining and not self._is_busy()

    def attach(self, is_busy: Callable[[], bool]) -> None:
        """Ask from now on whether a call is under way; for whoever makes the calls."""
        self._is_busy = is_busy

    def start_draining(self, on_rest: Callable[[], None]) -> None:
        """Let nothing begin any more; `on_rest` is called when nothing is under way, perhaps more than once."""
        self.is_draining, self._on_drained = True, on_rest
        self.notify_if_drained()

    def notify_if_drained(self) -> None:
        """See whether the run is at rest; for whoever makes the calls, when one has ended."""
        if self.is_drained:
            self._on_drained()
