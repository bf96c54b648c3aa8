"""Stopping a run from outside: Ctrl-C, SIGTERM, or a caller who has changed his mind."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from wavewright.executor.brake import Brake


class Stopper:
    """Cancels whatever runs inside its scopes; what starts after `stop` is cancelled at once."""

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, Brake | None] = {}
        self.is_stopped = False
        self._is_winding_down = False

    @property
    def has_work(self) -> bool:
        """Whether something runs that `stop` would cancel."""
        return bool(self._scopes)

    def wind_down(self, within: float | None = None) -> None:
        """Begin nothing more, and stop once nothing is under way.

        Args:
            within: Seconds after which to stop whatever is under way; where absent, whoever is in a hurry says so.
        """
        if within is not None:
            asyncio.get_running_loop().call_later(within, self.stop)
        self._is_winding_down = True
        for brake in [*self._scopes.values()]:
            if brake is not None:
                brake.pull(self._look)
        self._look()

    def stop(self) -> None:
        """Cancel every open scope."""
        self.is_stopped = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def scope(self, brake: Brake | None = None) -> Generator[anyio.CancelScope]:
        """Open a scope that `stop` cancels; what has no brake is under way for as long as its scope is open."""
        with anyio.CancelScope() as scope:
            self._scopes[scope] = brake
            if self.is_stopped:
                scope.cancel()
            elif self._is_winding_down and brake is not None:
                brake.pull(self._look)
            try:
                yield scope
            finally:
                del self._scopes[scope]
                self._look()

    def _look(self) -> None:
        """Stop where nothing is under way any more."""
        is_idle = all(brake is not None and brake.is_at_rest for brake in self._scopes.values())
        if self._is_winding_down and not self.is_stopped and is_idle:
            self.stop()
