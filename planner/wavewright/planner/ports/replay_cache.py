"""Answers of models and tools in a run, so that a resumed run does not request them again.

A *kept answer* is one answer of a model, or one output of a tool that an agent called, under a key
made of what was asked. It is durable before it is used, and returned once, in order, when the same
run asks the same again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from wavewright.planner.types import JsonObject, RunId

if TYPE_CHECKING:
    from wavewright.planner.ports.model_port import ModelQuestion


class ReplayCache(Protocol):
    """Kept answers of runs."""

    async def load(self, run: RunId) -> None:
        """Read the kept answers of a run before it continues."""
        ...

    def evict(self, run: RunId) -> None:
        """Free the memory of a run that has stopped."""
        ...

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Return and remove the next kept answer of the run under the key; None if there is none."""
        ...

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Keep a new answer and its question; they are durable when this returns."""
        ...


class NullReplayCache:
    """Keeps nothing: for callers without a run or a journal."""

    async def load(self, run: RunId) -> None:
        """Do nothing."""

    def evict(self, run: RunId) -> None:
        """Do nothing."""

    def get(self, run: RunId, key: str) -> JsonObject | None:
        """Return None."""
        del run, key
        return None

    async def put(
        self, run: RunId, key: str, answer: JsonObject, question: ModelQuestion | None = None
    ) -> None:
        """Do nothing."""


NULL_REPLAY_CACHE: Final[ReplayCache] = NullReplayCache()
