"""A worker of the fleet: takes calls from the queue, makes them with its own tools, and writes their answers.

The worker that made a call writes its answer itself: the answer outlives a coordinator that has died meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeAlias

import anyio
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.models import Context, Job

from wavewright.executor.fleet.call_messages import (
    CANCELLED,
    LOST,
    STOPPED,
    CallAnswer,
    CallRequest,
    Ending,
    emission_bytes,
)
from wavewright.executor.fleet.grouping import GroupedWrites
from wavewright.executor.fleet.queue_driver import open_queue_driver
from wavewright.executor.fleet.tables import (
    ANSWER,
    BEGIN,
    EMIT,
    HEARTBEAT,
    LEAVE,
    LOSE,
    READ_GOAL,
    WAITING_FOR_OTHERS,
    FleetDatabase,
    queue_over,
)
from wavewright.executor.fleet.tool_host import ToolHost
from wavewright.executor.postgres.driver import DRIVER_ERRORS
from wavewright.executor.run.emissions import capturing
from wavewright.executor.run.failures import AttemptFailure
from wavewright.planner.language.goals import Goal
from wavewright.tools.functions.tool import Emission, TextChunk

_LOG = logging.getLogger(__name__)
DRAIN_SECONDS: Final = 6.0
"""How long calls may go on after a stop was requested; then they are cancelled, and other workers make them."""
_FLUSH_SECONDS: Final = 0.25
"""After which emissions are sent."""
_RETRY_SECONDS: Final = 1.0

OnCall: TypeAlias = Callable[[str, Ending, float], None]
"""Is told of a call that has ended: the tool, how, and the seconds that it took."""
OnHeartbeat: TypeAlias = Callable[[str | None], None]
"""Is told of a heartbeat: None where it was written, or why not."""


@dataclass(slots=True)
class FleetWorker:
    """Makes calls until it is stopped."""

    database: FleetDatabase
    name: str
    slots: int
    """Maximum of concurrent calls."""
    heartbeat: float
    """Seconds without a heartbeat after which others take this worker for dead."""
    entrypoints: Sequence[str]
    """What it takes from the queue."""
    labels: Sequence[str]
    """What it has that some tools need."""
    host: ToolHost
    """Makes the calls."""
    on_call: OnCall
    on_heartbeat: OnHeartbeat
    _queue: QueueManager | None = None
    _is_stopped: bool = False
    _calls: set[Future[CallAnswer]] = field(default_factory=set["Future[CallAnswer]"])
    _emitted: list[tuple[str, bytes, bool]] = field(default_factory=list[tuple[str, bytes, bool]])
    """Emissions that are not sent yet: the id of the call, the emission, and whether it is text."""
    _begins: GroupedWrites[str, bytes | None] = field(init=False)
    _answers: GroupedWrites[tuple[str, bytes] | None, None] = field(init=False)
    """Writes answers, and emissions alone for a None: in one order, so that none comes after its call's answer."""
    _free: anyio.CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._begins = GroupedWrites(self._begin)
        self._answers = GroupedWrites(self._write)
        self._free = anyio.CapacityLimiter(self.slots)

    async def run(self, wait_stopped: Callable[[], Awaitable[None]]) -> None:
        """Make calls until a stop is requested, and end those that are under way."""
        with capturing():
            async with anyio.create_task_group() as group:
                for work in (self._begins.run, self._answers.run, self._send_emissions, self._beat):
                    group.start_soon(work)
                group.start_soon(self._drain, wait_stopped)
                await self._report_other_calls()
                await self._serve_queue()
                group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), suppress(*DRIVER_ERRORS):
            await self.database.fetch(LEAVE, self.name)

    async def _serve_queue(self) -> None:
        """Take calls from the queue; where the database refuses that, try again."""
        while not self._is_stopped:
            with suppress(*DRIVER_ERRORS):
                async with open_queue_driver(self.database.url, self.heartbeat) as driver:
                    queries = queue_over(driver)
                    self._queue = QueueManager(queries, queries.qbe.settings.channel)
                    for name in self.entrypoints:
                        self._queue.entrypoint(name, accepts_context=True)(self._serve)
                    await self._queue.run(
                        # The queue wants room for two batches; `_free` is the limit.
                        batch_size=max(1, min(self.slots // 2, 50)),
                        max_concurrent_tasks=max(self.slots, 2),
                        heartbeat_timeout=timedelta(seconds=self.heartbeat),
                        dequeue_timeout=timedelta(seconds=2),
                        # Statistics, which are not read and which a worker may not write.
                        log_aggregation_interval=timedelta(0),
                    )
            if not self._is_stopped:
                await anyio.sleep(_RETRY_SECONDS)

    async def _drain(self, wait_stopped: Callable[[], Awaitable[None]]) -> None:
        """Take no more calls once a stop is requested, and cancel those that do not end in time."""
        await wait_stopped()
        self._is_stopped = True
        if self._queue is not None:
            self._queue.shutdown.set()
        await anyio.sleep(DRAIN_SECONDS)
        for call in [*self._calls]:
            call.cancel()

    async def _report_other_calls(self) -> None:
        """Say which calls in the queue are not for this worker, since its tools are others."""
        with suppress(*DRIVER_ERRORS):
            for name, count in await self.database.fetch(WAITING_FOR_OTHERS, [*self.entrypoints]):
                tool = name.partition("@")[0]
                own = next((own for own in self.entrypoints if own.startswith(f"{tool}@")), None)
                reason = "this worker does not have it" if own is None else f"this worker has {own}"
                _LOG.warning("%d calls wait for the tool %s: %s", count, name, reason)

    async def _serve(self, job: Job, context: Context) -> None:
        id_ = (job.payload or b"").decode()
        async with self._free:
            request = await self._begins.add(id_)
            if request is None:
                # The queue hands out a call a second time where the worker that began it has no heartbeat.
                await self.database.fetch(LOSE, id_, LOST.to_bytes(), self.name)
                return
            answer = CANCELLED
            with context.cancellation:
                answer = await self._answer(id_, CallRequest.model_validate_json(request))
            with anyio.CancelScope(shield=True):
                await self._answers.add((id_, answer.to_bytes()))

    async def _answer(self, id_: str, request: CallRequest) -> CallAnswer:
        started = time.monotonic()
        loop = asyncio.get_running_loop()

        def emit(emission: Emission) -> None:
            row = id_, emission_bytes(emission), isinstance(emission, TextChunk)
            loop.call_soon_threadsafe(self._emitted.append, row)

        async def read_goal() -> Goal:
            return Goal.model_validate_json((await self.database.fetch(READ_GOAL, request.run))[0][0])

        tool = await self.host.find_tool(request, read_goal)
        if isinstance(tool, AttemptFailure):
            return CallAnswer("failed", failure=tool)
        call = asyncio.run_coroutine_threadsafe(self.host.make(tool, request, emit), self.host.loop)
        self._calls.add(call)
        ending: Ending = "cancelled"
        try:
            answer = await asyncio.wrap_future(call)
            ending = answer.ending
            return answer
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
            ending = "stopped"
            return STOPPED
        finally:
            self._calls.discard(call)
            self.on_call(request.tool, ending, time.monotonic() - started)

    async def _begin(self, ids: Sequence[str]) -> Sequence[bytes | None]:
        """Begin calls, and return their requests; None for one that was begun before."""
        rows = await self.database.fetch(BEGIN, [*ids], self.name)
        begun = {row["id"]: row["request"] for row in rows}
        return [begun.get(id_) for id_ in ids]

    async def _write(self, rows: Sequence[tuple[str, bytes] | None]) -> Sequence[None]:
        """Write answers, and before them what was emitted, in one transaction."""
        emitted, self._emitted = self._emitted, []
        answers = [row for row in rows if row is not None]
        try:
            async with self.database.transaction() as connection:
                if emitted:
                    await connection.execute(EMIT, *map(list, zip(*emitted, strict=True)), self.name)
                if answers:
                    await connection.execute(ANSWER, *map(list, zip(*answers, strict=True)), self.name)
        except BaseException:
            self._emitted = [*emitted, *self._emitted]
            raise
        return [None] * len(rows)

    async def _send_emissions(self) -> None:
        while True:
            await anyio.sleep(_FLUSH_SECONDS)
            if self._emitted:
                with suppress(*DRIVER_ERRORS):
                    await self._answers.add(None)

    async def _beat(self) -> None:
        while True:
            fault = None
            try:
                await self.database.fetch(
                    HEARTBEAT, self.name, self.slots, [*self.entrypoints], [*self.labels]
                )
            except DRIVER_ERRORS as error:
                fault = f"no heartbeat could be written ({type(error).__name__})"
            self.on_heartbeat(fault)
            await anyio.sleep(self.heartbeat / 3)
