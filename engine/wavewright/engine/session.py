"""One run from request to end, in this process: the entry point for the command line and for Python callers."""

from __future__ import annotations

from wavewright.engine.default_pipeline import default_pipeline
from wavewright.engine.pipeline.context import Ports, RunContext, RunRequest
from wavewright.engine.pipeline.pipeline import PipelineRun


async def run_request(request: RunRequest, ports: Ports) -> PipelineRun[RunContext]:
    """Run or resume what the request asks for and return the last context.

    Raises:
        DocumentError, PlanError: a job, a template or a plan is faulty.
        PromptError: a prompt template is faulty.
        JournalError: the run cannot be journaled; what was journaled stays.
    """
    memory = ports.services.memory
    if request.run is not None:
        await memory.load(request.run)
    try:
        return await default_pipeline(ports).run(request, ports.on_phase)
    finally:
        if request.run is not None:
            memory.evict(request.run)
