"""Runs in the test's own process, with the services that the project's settings name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from wavewright.config.settings import Settings
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import Attempt, Means, People, Ports, TargetPorts
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.executor.run.kept_answers import JournalReplayCache
from wavewright.executor.store.journal import Journal


async def run_request(
    request: RunRequest, *, settings: Settings, journal: Journal, **ports: Any
) -> PipelineRun[RunContext]:
    """Run or resume what is asked for; `ports` are further fields of `Ports` or of its records."""

    def those_of(record: type[Any]) -> dict[str, Any]:
        return {part.name: ports[part.name] for part in fields(record) if part.name in ports}

    async with open_services(settings, memory=JournalReplayCache(journal)) as services:
        whole = Ports(
            attempt=Attempt(journal=journal, **those_of(Attempt)),
            means=Means(settings=settings, services=services, **those_of(Means)),
            people=People(**those_of(People)),
            targets=TargetPorts(**those_of(TargetPorts)),
            **those_of(Ports),
        )
        return await run_job(request, whole)
