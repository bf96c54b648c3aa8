"""A worker of the fleet: takes calls from the queue, makes them with its own tools, and writes
their answers.

The worker that made a call writes its answer itself: the answer outlives a coordinator that has
died meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import uuid4

import anyio
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter

from wavewright.executor.fleet.call_messages import (
    CANCELLED,
    LOST,
    STOPPED,
    CallAnswer,
    CallRequest,
    Ending,
    emission_bytes,
)
from wavewright.executor.fleet.remote_calls import ToolHost
from wavewright.executor.fleet.tables import (
    ANSWER,
    BEGIN,
    CANCELLED as CANCELLED_CHANNEL,
    DROP,
    EMIT,
    HEARTBEAT,
    LEAVE,
    MAX_GROUP,
    QUEUED,
    READ_CANCELLED,
    READ_GOAL,
    WAITING_FOR_OTHERS,
    FleetDatabase,
    GroupedWrites,
    listen,
    queue_on,
)
from wavewright.executor.postgres.driver import DRIVER_ERRORS, is_connection_lost
from wavewright.executor.run.emissions import capturing
from wavewright.executor.run.failures import AttemptFailure
from wavewright.planner import Goal, RunId
from wavewright.tools import TextChunk, Tool
from wavewright.tools.functions.tool import Emission, PrintedLines

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from pgqueuer.adapters.persistence.queries import Queries

_LOG = logging.getLogger(__name__)
DRAIN_SECONDS: Final = 6.0
"""How long calls may go on after a stop was requested; then they are cancelled, and other workers
make them.
"""
_FLUSH_SECONDS: Final = 0.25
"""After which emissions are sent."""
_RECONNECT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 2.0
"""How often calls are looked for where no notice came."""

OnCall: TypeAlias = Callable[[str, Ending, float], None]
"""Is told of a call that has ended: the tool, how, and the seconds that it took."""
OnHeartbeat: TypeAlias = Callable[[str | None], None]
"""Is told of a heartbeat: None where it was written, or why not."""


@dataclass(slots=True)
class _Held:
    """A call that was taken."""

    job: int
    """Its number in the queue."""
    safe_until: float = 0.0
    """On the monotonic clock, until when nobody takes it for lost."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(slots=True)
class FleetWorker:
    """Makes calls until it is stopped."""

    database: FleetDatabase
    name: str
    """Unique: of no worker that ever was."""
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
    _queue_id: QueueManagerId = field(default_factory=lambda: QueueManagerId(uuid4()))
    _held: dict[str, _Held] = field(default_factory=dict[str, "_Held"])
    """The calls that were taken and are not answered."""
    _taken: dict[str, _Held] = field(default_factory=dict[str, "_Held"])
    """Those that have not begun, and are to begin where the database was away."""
    _named: set[str] = field(default_factory=set[str])
    """Calls that are cancelled, as notices say."""
    _noticed: anyio.Event = field(default_factory=anyio.Event)
    _woken: anyio.Event = field(default_factory=anyio.Event)
    _may_wait: bool = False
    """Whether more calls may wait than it has taken."""
    _is_stopped: bool = False
    _alive_until: float = 0.0
    """On the monotonic clock, until when nobody takes this worker for dead, as far as it knows."""
    _calls: set[Future[CallAnswer | None]] = field(default_factory=set["Future[CallAnswer | None]"])
    _emitted: list[tuple[str, int, bytes, bool]] = field(
        default_factory=list[tuple[str, int, bytes, bool]]
    )
    """Emissions that are not sent yet: the id of the call, their number in it, the emission,
    whether it is text.
    """
    _answers: GroupedWrites[tuple[str, int, bytes] | None, None] = field(init=False)
    """Writes answers, and emissions alone for a None: in one order, so that none comes after its
    call's answer.
    """

    def __post_init__(self) -> None:
        self._answers = GroupedWrites(self._write)

    async def run(self, wait_stopped: Callable[[], Awaitable[None]]) -> None:
        """Make calls until a stop is requested, and end those that are under way."""
        with capturing():
            async with anyio.create_task_group() as group:
                for work in (
                    self._answers.run,
                    self._send_emissions,
                    self._keep_alive,
                    self._cancel_calls,
                ):
                    group.start_soon(work)
                group.start_soon(self._drain, wait_stopped)
                await self._report_other_calls()
                await self._serve_queue()
                group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), suppress(*DRIVER_ERRORS):
            await self.database.fetch(LEAVE, self.name)

    async def _serve_queue(self) -> None:
        """Take calls from the queue; where the connection breaks, go on over a new one."""
        async with anyio.create_task_group() as calls:
            while not self._is_stopped:
                with suppress(*DRIVER_ERRORS):
                    on_notice: dict[str, Callable[[str], None]] = {
                        QUEUED: self._wake,
                        CANCELLED_CHANNEL: self._note_cancelled,
                    }
                    connection = await listen(self.database.url, on_notice)
                    try:
                        # Who has no heartbeat is taken for dead.
                        await self._beat()
                        # That a call was taken need not be durable: that it began is.
                        await connection.execute("SET synchronous_commit TO off")
                        queue = queue_on(connection)
                        while not self._is_stopped:
                            await self._take_calls(queue, calls)
                    finally:
                        connection.terminate()
                if not self._is_stopped:
                    await anyio.sleep(_RECONNECT_SECONDS)

    def _wake(self, _: str = "") -> None:
        self._woken.set()

    def _note_cancelled(self, id_: str) -> None:
        if id_ in self._held:
            self._named.add(id_)
            self._noticed.set()

    async def _cancel_calls(self) -> None:
        """Cancel the calls that notices name, as far as the tables say so, too."""
        while True:
            await self._noticed.wait()
            self._noticed = anyio.Event()
            jobs = {id_: self._held[id_].job for id_ in self._named & self._held.keys()}
            try:
                rows = await self.database.fetch(READ_CANCELLED, [*jobs], [*jobs.values()])
            except DRIVER_ERRORS:
                self._noticed.set()
                await anyio.sleep(_RECONNECT_SECONDS)
                continue
            self._named -= jobs.keys()
            cancelled = {str(row["id"]) for row in rows}
            for id_ in jobs.keys() & self._held.keys():
                if id_ in cancelled:
                    self._held[id_].scope.cancel()
                else:
                    _LOG.warning(
                        "a notice says that the call %s is cancelled, which it is not", id_
                    )

    async def _take_calls(self, queue: Queries, calls: TaskGroup) -> None:
        """Take as many calls as there are slots, or wait for some."""
        self._woken = anyio.Event()
        room = min(self.slots - len(self._held), MAX_GROUP)
        if room and not self._taken:
            jobs = await self._dequeue(queue, room)
            self._may_wait = len(jobs) == room
            # A late heartbeat lets it find what it makes itself.
            self._taken = {id_: _Held(job) for id_, job in jobs.items() if id_ not in self._held}
            self._held.update(self._taken)
        if self._taken:
            requests = await self._begin([*self._taken])
            # The queue hands out again what another worker has begun that has no heartbeat.
            others = [self._held.pop(id_).job for id_ in self._taken if id_ not in requests]
            self._taken = {}
            for id_, request in requests.items():
                calls.start_soon(self._serve, id_, request)
            if others:
                await self.database.fetch(DROP, others)
        if not self._may_wait or not room:
            with anyio.move_on_after(_LOOK_SECONDS):
                await self._woken.wait()

    async def _dequeue(self, queue: Queries, room: int) -> dict[str, int]:
        """Return calls, with their numbers in the queue."""
        jobs = await queue.dequeue(
            batch_size=room,
            entrypoints={
                QueueEntrypoint(name): EntrypointExecutionParameter(0) for name in self.entrypoints
            },
            queue_manager_id=self._queue_id,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=self.heartbeat),
        )
        return {(job.payload or b"").decode(): job.id for job in jobs}

    async def _begin(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Begin calls; return the requests of those that are this worker's."""
        safe_until = self._alive_until
        rows = await self.database.fetch(BEGIN, ids, self.name)
        for row in rows:
            self._held[row["id"]].safe_until = safe_until
        return {row["id"]: row["request"] for row in rows}

    async def _is_lost(self, id_: str) -> bool:
        """Return whether others took a call for lost, once the database answers."""
        while True:
            with suppress(*DRIVER_ERRORS):
                await self._beat()
                return not await self._begin([id_])
            await anyio.sleep(_RECONNECT_SECONDS)

    async def _drain(self, wait_stopped: Callable[[], Awaitable[None]]) -> None:
        """Take no more calls once a stop is requested, and cancel those that do not end in time."""
        await wait_stopped()
        self._is_stopped = True
        self._woken.set()
        await anyio.sleep(DRAIN_SECONDS)
        for call in [*self._calls]:
            call.cancel()

    async def _report_other_calls(self) -> None:
        """Say which calls in the queue are not for this worker, since its tools are others."""
        with suppress(*DRIVER_ERRORS):
            for name, count in await self.database.fetch(WAITING_FOR_OTHERS, [*self.entrypoints]):
                tool = name.partition("@")[0]
                own = next((own for own in self.entrypoints if own.startswith(f"{tool}@")), None)
                reason = (
                    "this fleet worker lacks it" if own is None else f"this fleet worker has {own}"
                )
                waiting = "1 call waits" if count == 1 else f"{count} calls wait"
                _LOG.warning("%s for the tool %s: %s", waiting, name, reason)

    async def _serve(self, id_: str, request: bytes) -> None:
        held = self._held[id_]
        answer = CANCELLED
        with held.scope:
            answer = await self._answer(id_, CallRequest.from_bytes(request))
        with anyio.CancelScope(shield=True):
            await self._write_answer(id_, held.job, answer)
        del self._held[id_]
        if self._may_wait:
            self._woken.set()

    async def _write_answer(self, id_: str, job: int, answer: CallAnswer) -> None:
        """Write an answer; where the database refuses it, the call is lost as if this worker had
        died.
        """
        while True:
            try:
                await self._answers.add((id_, job, answer.to_bytes()))
                return
            except DRIVER_ERRORS as error:
                _LOG.error("the answer of a call was not written: %s", error)
                if self._is_stopped:
                    return
                if not is_connection_lost(error):
                    answer = LOST
                await anyio.sleep(_RECONNECT_SECONDS)

    async def _answer(self, id_: str, request: CallRequest) -> CallAnswer:
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        numbers = itertools.count(1)
        has_emitted = False

        def emit(emission: Emission) -> None:
            nonlocal has_emitted
            is_text = isinstance(emission, TextChunk | PrintedLines)
            row = id_, next(numbers), emission_bytes(emission), is_text
            has_emitted = True
            loop.call_soon_threadsafe(self._emitted.append, row)

        try:
            tool = await self.host.find_tool(request, partial(self._read_goal, request.run))
        except LookupError:
            return CANCELLED
        if isinstance(tool, AttemptFailure):
            return CallAnswer("failed", failure=tool)
        ending: Ending = "cancelled"
        try:
            while (answer := await self._made(self._held[id_], tool, request, emit)) is None:
                if self._is_stopped or await self._is_lost(id_):
                    answer = STOPPED if self._is_stopped else LOST
                    break
            ending = answer.ending
            return replace(answer, has_emitted=has_emitted)
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
            ending = "stopped"
            return STOPPED
        finally:
            self.on_call(request.tool, ending, time.monotonic() - started)

    async def _made(
        self, held: _Held, tool: Tool, request: CallRequest, emit: Callable[[Emission], None]
    ) -> CallAnswer | None:
        """Make a call in the event loop of the tools; None if it may be lost by then, and was not
        made.
        """

        async def make() -> CallAnswer | None:
            is_safe = time.monotonic() < held.safe_until
            return await self.host.make(tool, request, emit) if is_safe else None

        call = asyncio.run_coroutine_threadsafe(make(), self.host.loop)
        self._calls.add(call)
        try:
            return await asyncio.wrap_future(call)
        finally:
            self._calls.discard(call)

    async def _read_goal(self, run: RunId) -> Goal:
        """Return what the tools of a run are made with, once the database answers.

        Raises:
            LookupError: the run is over.
        """
        while True:
            try:
                rows = await self.database.fetch(READ_GOAL, run)
            except DRIVER_ERRORS as error:
                _LOG.warning("the goal of the run %s was not read: %s", run, error)
                await anyio.sleep(_RECONNECT_SECONDS)
            else:
                if not rows:
                    raise LookupError(run)
                return Goal.model_validate_json(rows[0]["goal"])

    async def _write(self, rows: Sequence[tuple[str, int, bytes] | None]) -> Sequence[None]:
        """Write answers, and before them what was emitted."""
        answers = [row for row in rows if row is not None]
        while emitted := self._emitted[:MAX_GROUP]:
            await self.database.fetch(EMIT, *map(list, zip(*emitted, strict=True)), self.name)
            del self._emitted[: len(emitted)]
        if answers:
            await self.database.fetch(ANSWER, *map(list, zip(*answers, strict=True)), self.name)
        return [None] * len(rows)

    async def _send_emissions(self) -> None:
        while True:
            await anyio.sleep(_FLUSH_SECONDS)
            if self._emitted:
                with suppress(*DRIVER_ERRORS):
                    await self._answers.add(None)

    async def _keep_alive(self) -> None:
        while True:
            await anyio.sleep(self.heartbeat / 3)
            with suppress(*DRIVER_ERRORS):
                await self._beat()

    async def _beat(self) -> None:
        values = [*self.entrypoints], [*self.labels], [held.job for held in self._held.values()]
        alive_until = time.monotonic() + self.heartbeat
        try:
            await self.database.fetch(HEARTBEAT, self.name, self.slots, *values)
        except DRIVER_ERRORS as error:
            self.on_heartbeat(f"no heartbeat could be written ({type(error).__name__})")
            raise
        self._alive_until = alive_until
        self.on_heartbeat(None)
