"""What was answered in a run, so that a run that was interrupted does not ask for it again.

A *kept answer* is one answer of a model, or one output of a tool that an agent called, under a key made of what was
asked. It is durable before anything is done with it, and given out again, once each and in their order, when the same
run asks the same again. What was never kept is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from wavewright.planner.types import JsonObject, RunId

if TYPE_CHECKING:
    from wavewright.planner.ports.model_port import ModelQuestion


class ReplayCache(Protocol):
    """Kept answers of runs."""

    async def load(self, run: RunId) -> None:
        """Take in what was kept for a run, before it goes on."""
        ...

    def evict(self, run: RunId) -> None:
        """Let go of what was learnt for a run that is not worked on any more."""
        ...

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Return the next kept answer of the run under the key, which then is given out no more; None for none."""
        ...

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Keep an answer that was got now, and what was asked; it is durable when this returns."""
        ...


class NullReplayCache:
    """Keeps nothing: for what is no run, and where no journal is."""

    async def load(self, run: RunId) -> None:
        """Learn nothing."""

    def evict(self, run: RunId) -> None:
        """Know nothing to let go of."""

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Know nothing."""
        del run, key
        return None

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Keep nothing."""


NULL_REPLAY_CACHE: Final[ReplayCache] = NullReplayCache()
