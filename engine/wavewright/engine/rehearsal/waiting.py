"""An event loop on which nothing is waited for.

A rehearsal makes failing calls, and a plan may want to wait before it tries again. On this loop the clock *jumps* to
the next timer as soon as nothing else is left to do, so every wait keeps its place in the order of things and none
takes time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class _SkippingSelector(selectors.BaseSelector):
    """Asks the system what is ready, and counts as passed the seconds it was allowed to wait."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.jumped = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            # No timer is set: somebody outside, such as a thread, is what the loop waits for.
            return self._real.select(None)
        ready = self._real.select(0)
        if not ready and timeout > 0:
            self.jumped += timeout
        return ready

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop whose clock jumps."""

    def __init__(self) -> None:
        self._jumping = _SkippingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds of the machine's clock, and those that were jumped over."""
        return super().time() + self._jumping.jumped
