"""Runs that somebody looks at: each is read again as its journal grows, once for all its viewers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from sse_starlette.event import ServerSentEvent

from wavewright.engine.view.stored_runs import RunSnapshot, read_run
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner.types import RunId
from wavewright.reviewer.report.sub_plan_folding import Drawings

_PAUSE: Final = 0.3
"""Seconds between two looks at the journal, at least."""
_SHARE: Final = 3.0
"""A look that took long is followed by a pause that is this many times as long."""


RenderSnapshot = Callable[[RunSnapshot, Drawings], str]


@dataclass(frozen=True, slots=True)
class RunFragment:
    """A run as it is sent to a browser, whole."""

    version: str
    message: bytes
    """The server-sent event, the same bytes for all viewers."""
    is_last: bool
    """Whether the run has ended."""


@dataclass(slots=True)
class _Watch:
    fragment: RunFragment | None = None
    changed: anyio.Event = field(default_factory=anyio.Event)
    viewers: int = 0

    def set(self, fragment: RunFragment) -> None:
        self.fragment = fragment
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


class RunWatches:
    """The runs that are looked at."""

    def __init__(self, journal: StoredJournal, group: TaskGroup, render: RenderSnapshot) -> None:
        """Watch nothing yet.

        Args:
            journal: Where the runs are.
            group: In which they are read while somebody looks.
            render: Makes the fragment; called in a thread.
        """
        self._journal = journal
        self._group = group
        self._render = render
        self._watches: dict[tuple[RunId, Drawings], _Watch] = {}

    async def fragments(
        self, run: RunId, seen: str = "", drawings: Drawings = "folded"
    ) -> AsyncGenerator[RunFragment]:
        """Yield the run as it is and each time that it has changed, until it has ended.

        Args:
            run: The run.
            seen: Version that the viewer has, which is not yielded again.
            drawings: Which the viewer looks at.
        """
        watch = self._watches.get((run, drawings))
        if watch is None:
            watch = self._watches[run, drawings] = _Watch()
            self._group.start_soon(self._watch, run, drawings, watch)
        watch.viewers += 1
        try:
            while True:
                changed, fragment = watch.changed, watch.fragment
                if fragment is not None and fragment.version != seen:
                    seen = fragment.version
                    yield fragment
                if fragment is not None and fragment.is_last:
                    return
                if watch.fragment is fragment:
                    await changed.wait()
        finally:
            watch.viewers -= 1

    async def _watch(self, run: RunId, drawings: Drawings, watch: _Watch) -> None:
        known: RunSnapshot | None = None
        while watch.viewers:
            began = time.monotonic()
            snapshot = await read_run(self._journal, run, known=known)
            if snapshot is not None:
                known = snapshot
                watch.set(await anyio.to_thread.run_sync(self._fragment, snapshot, drawings))
                if snapshot.has_ended:
                    break
            await anyio.sleep(max(_PAUSE, _SHARE * (time.monotonic() - began)))
        del self._watches[run, drawings]

    def _fragment(self, snapshot: RunSnapshot, drawings: Drawings) -> RunFragment:
        kind = "ended" if snapshot.has_ended else "changed"
        event = ServerSentEvent(self._render(snapshot, drawings), event=kind, id=snapshot.version)
        return RunFragment(snapshot.version, event.encode(), snapshot.has_ended)
