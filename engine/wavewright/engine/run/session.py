"""One run from request to end, in this process: the entry point for the command line and for Python
callers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import anyio

from wavewright.engine.run.default_pipeline import default_pipeline
from wavewright.engine.run.pipeline.cancellation import end_cancelled
from wavewright.engine.run.pipeline.context import Ports, RunContext, RunRequest
from wavewright.engine.run.pipeline.pipeline import PipelineRun
from wavewright.engine.run.pipeline.services import open_task_group
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, RunStarted
from wavewright.planner.types import RunId

T = TypeVar("T")


async def run_request(request: RunRequest, ports: Ports) -> PipelineRun[RunContext]:
    """Run or resume what the request asks for and return the last context.

    A cancel request that is made meanwhile ends the run as `cancelled`, unless it comes to its own
    end before.

    Raises:
        DocumentError, PlanError: a job, a template or a plan is faulty.
        PromptError: a prompt template is faulty.
        JournalError: the run cannot be journaled; what was journaled stays.
    """
    memory = ports.services.memory
    if request.run is not None:
        await memory.load(request.run)
    done: PipelineRun[RunContext] | None = None
    try:
        async with _cancelled_on_request(request.run, ports) as watched:
            done = await default_pipeline(watched).run(request, ports.on_phase)
        assert done is not None, "the context lets exceptions through"
        return await _end_if_cancelled(done, ports)
    finally:
        if request.run is not None:
            memory.evict(request.run)


@asynccontextmanager
async def _cancelled_on_request(run: RunId | None, ports: Ports) -> AsyncGenerator[Ports]:
    """Yield the ports of a run that a cancel request interrupts, where the journal is asked for
    one.
    """
    if ports.find_cancel_request is None:
        yield ports
        return

    def on_event(event: Event) -> None:
        nonlocal run
        if run is None and isinstance(event, RunStarted):
            run = event.run
        ports.on_event(event)

    async with open_task_group() as group:
        group.start_soon(
            ports.cancellation.cancel_on_request, lambda: run, ports.find_cancel_request
        )
        yield replace(ports, on_event=on_event)
        group.cancel_scope.cancel()


async def _end_if_cancelled(done: PipelineRun[RunContext], ports: Ports) -> PipelineRun[RunContext]:
    wanted, context = ports.cancellation.request, done.context
    if wanted is None or not context.state.is_interrupted:
        return done
    events = await end_cancelled(ports.journal, context.run, wanted, ports.clock().timestamp())
    for event in events:
        ports.on_event(event)
    return replace(done, context=replace(context, state=fold(events, context.state)))


def run_to_end(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run async work to its end, in a thread of its own where this one runs an event loop already."""
    if not _in_event_loop():
        return anyio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="run_plan") as alone:
        return alone.submit(anyio.run, work).result()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        return trio is not None and bool(trio.lowlevel.in_trio_run())
    return True
