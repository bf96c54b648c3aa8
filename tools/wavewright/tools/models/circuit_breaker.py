"""The circuit breaker between a question and a provider that is out of order.

A *circuit* is notified when no model of a question's chain can be asked at all: a bad key, a rate limit, a broken
connection. It may hold back this question and later ones until the provider is available again.
"""

from __future__ import annotations

from typing import Final, Protocol

from wavewright.planner.ports.model_port import ModelCall


class CircuitBreaker(Protocol):
    """Lets questions through while their model can be asked."""

    async def enter(self, call: ModelCall, model: str) -> None:
        """Return once the question may be asked; otherwise stop its run and wait to be cancelled."""
        ...

    async def failed(self, call: ModelCall, model: str, reason: str, retry_after: float | None) -> None:
        """Note that the provider answers no question; where the question's run is stopped for it, never return.

        `retry_after` is how many seconds the provider asks to wait, where it does.
        """
        ...


class AlwaysClosed:
    """A circuit that lets every question through and leaves failures to the caller."""

    async def enter(self, call: ModelCall, model: str) -> None:
        """Return."""

    async def failed(self, call: ModelCall, model: str, reason: str, retry_after: float | None) -> None:
        """Return."""


ALWAYS_CLOSED: Final = AlwaysClosed()
