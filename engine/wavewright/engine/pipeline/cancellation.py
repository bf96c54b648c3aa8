"""Cancellation of a run from outside: by Ctrl-C, SIGTERM or a caller, which interrupts it, or by a cancel request.

An interrupted run can be resumed; a cancel request ends the run for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

import anyio

from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import CancelRequest
from wavewright.planner.types import RunId

POLL_SECONDS: Final = 1.0
"""Between two queries for a cancel request."""

FindCancelRequest: TypeAlias = Callable[[RunId], Awaitable[CancelRequest | None]]
"""Returns who has requested the cancellation of a run, if there is a request."""


class CancellationToken:
    """Cancels everything that runs inside its scopes; scopes opened after `cancel` are cancelled at once."""

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, DrainSignal | None] = {}
        self.is_cancelled = False
        self.request: CancelRequest | None = None
        """The cancel request, where that is why it is cancelled."""
        self._is_draining = False

    @property
    def has_open_scopes(self) -> bool:
        """Whether something runs that `cancel` would cancel."""
        return bool(self._scopes)

    def drain(self, within: float | None = None) -> None:
        """Start nothing more, and cancel once nothing is running.

        Args:
            within: Seconds after which everything is cancelled; None for no limit.
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

    async def cancel_on_request(self, run: Callable[[], RunId | None], find: FindCancelRequest) -> None:
        """Wait for a cancel request, and cancel; a store that cannot be read is asked again."""
        while self.request is None:
            await anyio.sleep(POLL_SECONDS)
            with suppress(JournalError):
                self.request = None if (known := run()) is None else await find(known)
        self.cancel()

    @contextmanager
    def scope(self, drain_signal: DrainSignal | None = None) -> Generator[anyio.CancelScope]:
        """Open a scope that `cancel` cancels; without a drain signal it counts as running while it is open."""
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
        """Cancel if nothing is running any more."""
        is_idle = all(
            drain_signal is not None and drain_signal.is_drained for drain_signal in self._scopes.values()
        )
        if self._is_draining and not self.is_cancelled and is_idle:
            self.cancel()
