"""Stopping a run from outside: Ctrl-C, SIGTERM, or a caller who has changed his mind."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from wavewright.executor.run.ports import DrainSignal


class CancellationToken:
    """Cancels whatever runs inside its scopes; what starts after `stop` is cancelled at once."""

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, DrainSignal | None] = {}
        self.is_cancelled = False
        self._is_draining = False

    @property
    def has_open_scopes(self) -> bool:
        """Whether something runs that `stop` would cancel."""
        return bool(self._scopes)

    def drain(self, within: float | None = None) -> None:
        """Begin nothing more, and stop once nothing is under way.

        Args:
            within: Seconds after which to stop whatever is under way; where absent, whoever is in a hurry says so.
        """
        if within is not None:
            asyncio.get_running_loop().call_later(within, self.cancel)
        self._is_draining = True
        for drain_signal in [*self._scopes.values()]:
            if drain_signal is not None:
                drain_signal.start_draining(self._cancel_if_idle)
        self._cancel_if_idle()

    def cancel(self) -> None:
        """Cancel every open scope."""
        self.is_cancelled = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def scope(self, drain_signal: DrainSignal | None = None) -> Generator[anyio.CancelScope]:
        """Open a scope that `stop` cancels; what has no brake is under way for as long as its scope is open."""
        with anyio.CancelScope() as scope:
            self._scopes[scope] = drain_signal
            if self.is_cancelled:
                scope.cancel()
            elif self._is_draining and drain_signal is not None:
                drain_signal.start_draining(self._cancel_if_idle)
            try:
                yield scope
            finally:
                del self._scopes[scope]
                self._cancel_if_idle()

    def _cancel_if_idle(self) -> None:
        """Stop where nothing is under way any more."""
        is_idle = all(
            drain_signal is not None and drain_signal.is_drained for drain_signal in self._scopes.values()
        )
        if self._is_draining and not self.is_cancelled and is_idle:
            self.cancel()
