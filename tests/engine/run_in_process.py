"""Runs in the test's own process, with the services that the project's settings name."""

from __future__ import annotations

from typing import Any

from wavewright.config.settings import Settings
from wavewright.engine.run import session
from wavewright.engine.run.pipeline.context import Ports, RunContext, RunRequest
from wavewright.engine.run.pipeline.pipeline import PipelineRun
from wavewright.engine.run.pipeline.services import open_services
from wavewright.executor.run.kept_answers import JournalReplayCache
from wavewright.executor.store.journal import Journal


async def run_request(
    request: RunRequest, *, settings: Settings, journal: Journal, **ports: Any
) -> PipelineRun[RunContext]:
    """Run or resume what is asked for; `ports` are further fields of `Ports`."""
    async with open_services(settings, memory=JournalReplayCache(journal)) as services:
        whole = Ports(
            journal=journal,
            settings=settings,
            services=services,
            **ports,
        )
        return await session.run_request(request, whole)
