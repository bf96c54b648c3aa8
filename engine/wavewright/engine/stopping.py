"""Stopping a run from outside: Ctrl-C, SIGTERM, or a caller who has changed his mind."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio


class Stopper:
    """Cancels whatever runs inside its scope; what starts after `stop` is cancelled at once."""

    def __init__(self) -> None:
        self._scopes: list[anyio.CancelScope] = []
        self.is_stopped = False

    @property
    def has_work(self) -> bool:
        """Whether something runs that `stop` would cancel."""
        return bool(self._scopes)

    def stop(self) -> None:
        """Cancel every open scope."""
        self.is_stopped = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def scope(self) -> Generator[anyio.CancelScope]:
        """Open a scope that `stop` cancels."""
        with anyio.CancelScope() as scope:
            self._scopes.append(scope)
            if self.is_stopped:
                scope.cancel()
            try:
                yield scope
            finally:
                self._scopes.remove(scope)
