"""A run comes to rest between its calls.

A *brake* that is pulled lets no further call begin; those that are under way come to their end and are recorded. When
none is left the run is at rest, and stopping it then interrupts nothing.
"""

from __future__ import annotations

from collections.abc import Callable


def _not_at_all() -> bool:
    return False


def _nothing() -> None:
    return None


class Brake:
    """The brake of one execution."""

    def __init__(self) -> None:
        """Begin with a brake that is not pulled."""
        self.is_pulled = False
        self._is_busy: Callable[[], bool] = _not_at_all
        self._on_rest: Callable[[], None] = _nothing

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way, and nothing begins any more."""
        return self.is_pulled and not self._is_busy()

    def watch(self, is_busy: Callable[[], bool]) -> None:
        """Ask from now on whether a call is under way; for whoever makes the calls."""
        self._is_busy = is_busy

    def pull(self, on_rest: Callable[[], None]) -> None:
        """Let nothing begin any more; `on_rest` is called when nothing is under way, perhaps more than once."""
        self.is_pulled, self._on_rest = True, on_rest
        self.look()

    def look(self) -> None:
        """See whether the run is at rest; for whoever makes the calls, when one has ended."""
        if self.is_at_rest:
            self._on_rest()
