"""The end of a run, also of one that a daemon's job waits for."""

from __future__ import annotations

from wavewright.config.settings import Settings
from wavewright.engine.service.cancelling import cancel_run
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.executor.store.journal import CancelRequest
from wavewright.planner.types import RunId


async def cancel_in_stores(settings: Settings, run: RunId, request: CancelRequest) -> None:
    """End a run for good, and its job with it, where it has one.

    Raises:
        CancelRefused: it has come to another end, it is the run of a target, or its owner does not
            end it.
    """
    async with open_stores(settings) as stores:
        await cancel_run(stores, run, request, Reporter.of(settings))
