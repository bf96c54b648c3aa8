"""What surrounds a run: its answers in memory, requests to cancel it, and an event loop of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import anyio

from wavewright.engine.run.cancellation import end_cancelled
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import Ports
from wavewright.engine.run.task_groups import open_task_group
from wavewright.executor import Event, RunStarted, fold

T = TypeVar("T")


@asynccontextmanager
async def attended(request: RunRequest, ports: Ports) -> AsyncGenerator[Ports]:
    """Yield the ports of a run that a cancel request interrupts.

    Meanwhile the answers of models to earlier attempts are in memory.
    """
    memory = ports.means.services.memory
    if request.run is not None:
        await memory.load(request.run)
    try:
        async with _cancelled_on_request(request, ports) as watched:
            yield watched
    finally:
        if request.run is not None:
            memory.evict(request.run)


@asynccontextmanager
async def _cancelled_on_request(request: RunRequest, ports: Ports) -> AsyncGenerator[Ports]:
    find_cancel_request, attempt, run = ports.find_cancel_request, ports.attempt, request.run
    if find_cancel_request is None:
        yield ports
        return

    def on_event(event: Event) -> None:
        nonlocal run
        if run is None and isinstance(event, RunStarted):
            # A new run has its id only now.
            run = event.run
        attempt.on_event(event)

    async with open_task_group() as group:
        group.start_soon(attempt.cancellation.cancel_on_request, lambda: run, find_cancel_request)
        yield replace(ports, attempt=replace(attempt, on_event=on_event))
        group.cancel_scope.cancel()


async def end_if_cancelled(ended: PipelineRun[RunContext], ports: Ports) -> PipelineRun[RunContext]:
    """Journal that a run was cancelled for good, where that is why it was interrupted."""
    attempt, context = ports.attempt, ended.context
    request = attempt.cancellation.request
    if request is None or ports.find_cancel_request is None or not context.state.is_interrupted:
        # A run that came to its own end before the request took effect keeps it; that of a target
        # is ended with its root run.
        return ended
    events = await end_cancelled(attempt.journal, context.run, request, attempt.now())
    for event in events:
        attempt.on_event(event)
    return replace(ended, context=replace(context, state=fold(events, context.state)))


def run_to_end(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run async work to its end, in a thread of its own where this one runs an event loop already.

    Raises:
        KeyboardInterrupt: it was interrupted; the work is cancelled and has ended, as in a program
            without an event loop.
    """
    return _run_in_thread(work) if _in_event_loop() else anyio.run(work)


def _run_in_thread(work: Callable[[], Coroutine[object, object, T]]) -> T:
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[object]]] = Future()

    async def attended_work() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        return await work()

    threads = ThreadPoolExecutor(1, thread_name_prefix="run_plan")
    ended = threads.submit(anyio.run, attended_work)
    # Nothing else is asked of the thread; a second interrupt does not wait for it.
    threads.shutdown(wait=False)
    try:
        return ended.result()
    except KeyboardInterrupt:
        # Python interrupts the main thread, which only waits here: the other one is told.
        loop, task = begun.result()
        loop.call_soon_threadsafe(task.cancel)
        wait([ended])
        raise


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        trio = sys.modules.get("trio")
        return trio is not None and bool(trio.lowlevel.in_trio_run())
    return True
