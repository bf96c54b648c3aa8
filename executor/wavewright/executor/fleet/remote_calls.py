"""A call that is made in another process: as the process of its run sees it, and as the one that
makes it does.

What goes to the queue of the fleet is decided here, too: which tools, under which names, and how
many calls of each. A call in the queue cannot be taken back cheaply, and each one is looked for
again and again, so only what the workers can make soon goes there, and the rest waits in the
process of the run.

`RemoteCall` is for runtimes that are not the fleet. The tools of a `ToolHost` run in an event loop
of their own, in another thread, so that one which blocks it does not stop what takes the calls and
sends the answers.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Collection,
    Iterable,
)
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

import anyio
from opentelemetry import propagate, trace

from wavewright.config.redaction import Redactor
from wavewright.executor.events.json_values import NotJsonError
from wavewright.executor.fleet.call_messages import (
    UNCLEAR_ON_WORKER,
    CallAnswer,
    CallRequest,
    emission_bytes,
    emission_of,
    is_answer,
    output_of,
)
from wavewright.executor.run.deadlines import is_process_exception
from wavewright.executor.run.emissions import CURRENT_CAPTURE, MAX_LOGGED_CHARS, OutputCapture
from wavewright.executor.run.exceptions import describe_failure
from wavewright.executor.run.failures import AttemptFailure, ReportedFailure, timeout_failure
from wavewright.planner import Goal, Json, RunId
from wavewright.tools import Tool, ToolCall, Tools
from wavewright.tools.functions.tool import Emission, can_be_called_elsewhere


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A call of a runtime: sent as `to_bytes` to the `ToolHost` of a worker, whose messages come
    back.

    >>> import datetime as dt
    >>> from wavewright.executor import RemoteCall
    >>> from wavewright.planner import Goal
    >>> from wavewright.tools import ToolCall, make_tool
    >>> def double(number: int) -> int:
    ...     "Double a number."
    ...     return 2 * number
    >>> goal = Goal(name="numbers", job="j1", text="Double it.", inputs={}, tools=())
    >>> now = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    >>> call = ToolCall("r1", "four", "double", {"number": 2}, "k1", now)
    >>> isinstance(RemoteCall(make_tool(double), goal, call).to_bytes(), bytes)
    True
    """

    tool: Tool
    goal: Goal
    call: ToolCall

    def to_bytes(self) -> bytes:
        """Return what a worker needs to make the call, as JSON in one line."""
        return CallRequest.of(self.tool, self.call, self.goal).to_bytes()

    async def output(self, messages: AsyncIterable[bytes]) -> Json:
        """Return the output of the call; what it emitted and printed becomes the run's.

        Args:
            messages: Those of `ToolHost.messages`, in their order; where the answer is missing, the
                worker has died.

        Raises:
            ReportedFailure: as the worker describes it, or since it died.
        """
        async for message in messages:
            if is_answer(message):
                return output_of(CallAnswer.from_bytes(message), self.call)
            self.call.emit(emission_of(message))
        raise self.lost()

    def lost(self) -> ReportedFailure:
        """Return the failure of a call whose worker died: it is made again only where that does no
        harm.
        """
        if self.tool.signature.writes and not self.tool.signature.idempotent:
            return ReportedFailure(UNCLEAR_ON_WORKER)
        return ReportedFailure(AttemptFailure("transient", "the worker that made the call died"))


_TRACER: Final = trace.get_tracer("wavewright")
_OUTPUT_SECONDS: Final = 0.1
"""What a call prints is emitted after so long."""
_MAX_RUNS: Final = 64
"""Runs whose tools are kept."""

ToolsFor: TypeAlias = Callable[[RunId, Goal], Tools]
"""Returns the tools of a run, made with what its goal says of them."""


@dataclass(slots=True)
class ToolHost:
    """Makes calls with the tools of a project.

    >>> from wavewright.engine import open_tool_host
    >>> with open_tool_host(".") as host:
    ...     host.name != ""
    True
    """

    name: str
    """Of the worker, in traces and messages."""
    tools_for: ToolsFor
    loop: asyncio.AbstractEventLoop
    """The event loop in which tools run, in another thread."""
    redactor: Redactor
    _tools: dict[RunId, Tools] = field(default_factory=dict[RunId, Tools])

    async def messages(self, request: bytes) -> AsyncGenerator[bytes]:
        """Make a call of `RemoteCall.to_bytes`; yield its messages, its answer last.

        Where this is closed before its end, the call is cancelled.
        """
        loop = asyncio.get_running_loop()
        send, receive = anyio.create_memory_object_stream[bytes](math.inf)

        def put(body: bytes) -> None:
            with suppress(anyio.BrokenResourceError):
                send.send_nowait(body)

        def emit(emission: Emission) -> None:
            body = emission_bytes(emission)
            # No caller waits any more where the loop or the stream is closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(put, body)

        def end(_: Future[CallAnswer]) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(send.close)

        parsed = CallRequest.from_bytes(request)
        call = asyncio.run_coroutine_threadsafe(self._answer(parsed, emit), self.loop)
        call.add_done_callback(end)
        try:
            with receive:
                async for message in receive:
                    yield message
            yield call.result().to_bytes()
        finally:
            call.cancel()

    async def _answer(self, request: CallRequest, emit: Callable[[Emission], None]) -> CallAnswer:
        async def read_goal() -> Goal:
            assert request.goal is not None, "a request that is sent whole has its goal"
            return request.goal

        tool = await self.find_tool(request, read_goal)
        if isinstance(tool, AttemptFailure):
            return CallAnswer("failed", failure=tool)
        return await self.make(tool, request, emit)

    async def find_tool(
        self, request: CallRequest, read_goal: Callable[[], Awaitable[Goal]]
    ) -> Tool | AttemptFailure:
        """Return the tool of a call, or why it cannot be made here."""
        tools = self._tools.get(request.run)
        if tools is None:
            goal = await read_goal()
            try:
                tools = await anyio.to_thread.run_sync(self.tools_for, request.run, goal)
            except Exception as error:  # noqa: BLE001 - modules of the project are imported
                return describe_failure(error, time.time(), self.redactor)
            while len(self._tools) >= _MAX_RUNS:
                del self._tools[next(iter(self._tools))]
            self._tools[request.run] = tools
        tool = tools.get(request.tool)
        if tool is None or tool.signature.version != request.version:
            return AttemptFailure(
                "tool",
                f"the fleet worker {self.name!r} has another version of the tool {request.tool!r} than the run",
                hint="install the same release of the tools on all machines, with the same settings",
            )
        return tool

    async def make(
        self, tool: Tool, request: CallRequest, emit: Callable[[Emission], None]
    ) -> CallAnswer:
        """Make a call; to be run in `loop`."""
        call, data = request.to_call(tool, emit)
        capture = self._capture(emit)
        token = CURRENT_CAPTURE.set(capture)
        answer = partial(CallAnswer, "ok")
        try:
            with (
                _TRACER.start_as_current_span(
                    f"call {request.tool}",
                    context=propagate.extract(request.trace or {}),
                    attributes={"wavewright.step": request.step, "wavewright.worker": self.name},
                ),
                anyio.move_on_after(request.timeout) as scope,
            ):
                answer = partial(CallAnswer, "ok", await tool.call(call))
            if scope.cancelled_caught:
                answer = partial(
                    CallAnswer, "failed", failure=timeout_failure(request.timeout or 0.0)
                )
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # A tool may raise anything, and each exception is a failure of its call.
            if is_process_exception(error, asyncio.current_task()):
                raise
            failure = describe_failure(error, time.time(), self.redactor)
            answer = partial(CallAnswer, "failed", failure=failure)
        finally:
            CURRENT_CAPTURE.reset(token)
            printed = capture.close(self.redactor)
        return _valid(answer(data=data.written, printed=printed))

    def _capture(self, emit: Callable[[Emission], None]) -> OutputCapture:
        """Return the capture of a call whose lines are emitted as they come."""
        room = MAX_LOGGED_CHARS

        def emit_lines() -> None:
            nonlocal room
            for lines in capture.take(self.redactor):
                if room > 0:
                    emit(lines)
                room -= len(lines.text)

        def told() -> None:
            # The worker may have ended meanwhile, and the loop is closed.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.loop.call_later, _OUTPUT_SECONDS, emit_lines)

        capture = OutputCapture(told)
        return capture


_EVERY_TOOL: Final = "*"


def runs_on_fleet(tool: Tool, names: Collection[str]) -> bool:
    """Return whether calls of a tool go to the fleet: those that `wanted` names or `*` means, and
    those with needs.
    """
    is_wanted = bool(tool.signature.needs) or _EVERY_TOOL in names or tool.signature.name in names
    return is_wanted and can_be_called_elsewhere(tool)


def entrypoint_of(tool: Tool) -> str:
    """Return the name under which calls of a tool are queued: only a worker with the same code
    takes them.
    """
    return f"{tool.signature.name}@{tool.own_code or tool.signature.version}"


def served_entrypoints(tools: Iterable[Tool], labels: Collection[str]) -> dict[str, Tool]:
    """Return what a worker with these labels takes from the queue: the tools whose needs it meets."""
    return {
        entrypoint_of(tool): tool
        for tool in tools
        if can_be_called_elsewhere(tool) and tool.signature.needs <= frozenset(labels)
    }


_PER_SLOT: Final = 2
"""Calls in the queue, for each slot of a live worker."""


class QueueRoom:
    """Admits calls to the queue: twice the slots of the live workers.

    Each tool has a room of its own, twice the slots of the workers that have it. So calls that few
    workers make, or none, hold up no others. One call of a tool that no live worker has is
    admitted, too: an autoscaler counts it, and one that was answered before a crash is found.
    """

    def __init__(self) -> None:
        self._whole = anyio.CapacityLimiter(1)
        """Of all tools."""
        self._slots = Counter[str]()
        """Slots of the live workers that have a tool."""
        self._of_tool: dict[str, anyio.CapacityLimiter] = {}

    def size(self, entrypoint: str) -> int:
        """Return how many calls of a tool may be in the queue."""
        return max(1, _PER_SLOT * self._slots[entrypoint])

    @asynccontextmanager
    async def place(self, entrypoint: str) -> AsyncGenerator[None]:
        """Hold a place in the queue for a call of a tool, in a block; wait for one."""
        of_tool = self._of_tool.get(entrypoint)
        if of_tool is None:
            of_tool = self._of_tool[entrypoint] = anyio.CapacityLimiter(self.size(entrypoint))
        await _enter(of_tool)
        try:
            await _enter(self._whole)
            try:
                yield
            finally:
                self._whole.release()
        finally:
            of_tool.release()

    def resize(self, workers: Iterable[tuple[int, Iterable[str]]]) -> None:
        """Take over which workers live: the slots of each, and what it takes from the queue."""
        self._slots.clear()
        total = stranded = 0
        for slots, entrypoints in workers:
            total += slots
            self._slots.update(dict.fromkeys(entrypoints, slots))
        for entrypoint, limiter in self._of_tool.items():
            limiter.total_tokens = self.size(entrypoint)
            if not self._slots[entrypoint]:
                stranded += limiter.borrowed_tokens
        # What no worker makes takes no room from what some make.
        self._whole.total_tokens = max(1, _PER_SLOT * total) + stranded


async def _enter(limiter: anyio.CapacityLimiter) -> None:
    """Enter a limiter; where it has room, without a turn of the event loop, which would cost more
    than the limiter.
    """
    try:
        limiter.acquire_nowait()
    except anyio.WouldBlock:
        await limiter.acquire()


def _valid(answer: CallAnswer) -> CallAnswer:
    """Return the answer; where it is not JSON, the failure that says so."""
    try:
        answer.to_bytes()
    except NotJsonError as error:
        failure = AttemptFailure("output", str(error), hint="return plain JSON values")
        return CallAnswer("failed", failure=failure, printed=answer.printed)
    return answer
