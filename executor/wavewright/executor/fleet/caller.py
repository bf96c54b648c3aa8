"""The coordinator's side of the fleet: calls that workers make, and their answers.

A call's id follows from its run, step, item, key and attempt, so a process that continues a run
finds the calls of the one that died: an answer that came meanwhile is taken, and a call that is
under way is waited for. A call whose worker died is sent again where the tool is idempotent;
another one ends as `interrupted`.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from wavewright.executor.fleet.call_messages import (
    LOST,
    UNCLEAR_ON_WORKER,
    UNREADABLE,
    CallAnswer,
    CallRequest,
    emission_of,
    output_of,
)
from wavewright.executor.fleet.remote_calls import QueueRoom, entrypoint_of, runs_on_fleet
from wavewright.executor.fleet.tables import (
    ANSWERED,
    CANCEL,
    DECLARE_LOST,
    EMITTED,
    FORGET,
    FORGET_OLD,
    IS_KNOWN,
    LIVE_WORKERS,
    READ_ANSWERS,
    SEND,
    SEND_GOAL,
    TAKE_EMISSIONS,
    FleetDatabase,
    GroupedWrites,
    listen,
    open_fleet_database,
    patiently,
)
from wavewright.executor.postgres.driver import DRIVER_ERRORS, Connection
from wavewright.executor.run.failures import AttemptFailure, ReportedFailure
from wavewright.executor.store.leases import Owner, this_owner
from wavewright.planner import Goal, Json, RunId, StepId, StepKey
from wavewright.tools import Runtime, Tool, ToolCall
from wavewright.tools.functions.tool import EmissionsTaken

if TYPE_CHECKING:
    from asyncpg import Record

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 2.0
"""How often answers and workers are looked for where no notice came."""
_MAX_LOST: Final = 3
"""Workers that may die with a call before it fails."""

_NOT_EMITTED: Final = (ValueError, TypeError, RecursionError)
"""Errors of emissions that cannot be read, or not be journaled."""

_RUN_IS_ELSEWHERE: Final = AttemptFailure(
    "interrupted", "another process has continued the run", is_final=True
)
_ENDS_WORKERS: Final = AttemptFailure(
    "interrupted",
    f"{_MAX_LOST} fleet workers died while they made the call",
    hint="see the workers' logs: the call may use too much memory, or end the process",
    is_final=True,
)


@dataclass(slots=True)
class _Waiting:
    """A call that was sent and has no answer yet."""

    answer: asyncio.Future[CallAnswer]
    call: ToolCall
    tool: Tool
    entrypoint: str
    taken: dict[str, int]
    """Of calls of the run that had emissions, the number of the last one that was taken."""
    is_sent: bool = False


@dataclass(frozen=True, slots=True)
class _Sending:
    """A call to be sent."""

    id: str
    request: CallRequest
    entrypoint: str


@dataclass(slots=True)
class FleetCaller(Runtime):
    """Has workers make calls; opened once for a process."""

    database: FleetDatabase
    tools: Sequence[str]
    """Names of tools that go to the fleet, or `*`; those with `needs` always go."""
    heartbeat: float
    """Seconds after which a worker without a heartbeat is taken for dead."""
    _name: str = field(default_factory=lambda: secrets.token_hex(8))
    """By which it is known which process wants the answer of a call."""
    _process: str = field(default_factory=lambda: _named_process(this_owner()))
    _waiting: dict[str, _Waiting] = field(default_factory=dict[str, _Waiting])
    _goals: dict[RunId, Goal] = field(default_factory=dict[RunId, Goal])
    """Those that were sent; each attempt of a run has one of its own."""
    _sending_goal: anyio.Lock = field(default_factory=anyio.Lock)
    _taken: dict[RunId, dict[str, int]] = field(default_factory=dict[RunId, dict[str, int]])
    """Of calls that had emissions, the number of the last one that was taken."""
    _answered: set[str] = field(default_factory=set[str])
    _emitted: set[str] = field(default_factory=set[str])
    _woken: anyio.Event = field(default_factory=anyio.Event)
    _broke_at: float = field(default_factory=lambda: anyio.current_time() - _LOOK_SECONDS)
    """When the database was last found to be away, on the event loop's clock; perhaps until this
    was opened.
    """
    _room: QueueRoom = field(default_factory=QueueRoom)
    _sends: GroupedWrites[_Sending, None] = field(init=False)

    def __post_init__(self) -> None:
        self._sends = GroupedWrites(self._send)

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        """Return a tool whose calls workers make; the same tool where it does not go to the fleet."""
        if not runs_on_fleet(tool, self.tools):
            return tool
        room = partial(self._room.size, entrypoint_of(tool))
        return replace(
            tool, call=partial(self.call, tool, goal), is_under_way=self._is_under_way, room=room
        )

    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        """Return the output of a call that a worker makes.

        Raises:
            ReportedFailure: as the worker describes it, or since its worker died.
        """
        request, entrypoint = CallRequest.of(tool, call), entrypoint_of(tool)
        await self._send_goal(call.run, goal)
        lost = 0
        for sent in itertools.count():
            id_ = call_id(call.run, call.step, call.index, call.key, call.attempt, sent)
            async with self._room.place(entrypoint):
                answer = await self._answer_of(_Sending(id_, request, entrypoint), tool, call)
            if answer.ending in {"ok", "failed"}:
                return output_of(answer, call)
            lost += answer.ending == "lost"
            if tool.signature.writes and not tool.signature.idempotent:
                raise ReportedFailure(UNCLEAR_ON_WORKER)
            if lost == _MAX_LOST:
                raise ReportedFailure(_ENDS_WORKERS)
        raise AssertionError("the loop has no end")

    async def _send_goal(self, run: RunId, goal: Goal) -> None:
        if self._goals.get(run) is goal:
            return
        async with self._sending_goal:
            if self._goals.get(run) is not goal:
                body = goal.model_dump_json(by_alias=True).encode()
                await patiently(lambda: self.database.fetch(SEND_GOAL, run, body, self._process))
                self._goals[run] = goal

    async def _answer_of(self, sending: _Sending, tool: Tool, call: ToolCall) -> CallAnswer:
        answer: asyncio.Future[CallAnswer] = asyncio.get_running_loop().create_future()
        taken = self._taken.setdefault(call.run, {})
        self._waiting[sending.id] = _Waiting(answer, call, tool, sending.entrypoint, taken)
        try:
            self._sends.add(sending).add_done_callback(partial(_fail_unsent, answer))
            return await answer
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True), suppress(*DRIVER_ERRORS):
                await self._cancel([sending.id])
            raise
        finally:
            del self._waiting[sending.id]

    async def _send(self, group: Sequence[_Sending]) -> Sequence[None]:
        """Send calls in one transaction; those that are there already, from before a crash, are not
        sent again.
        """
        rows = await self.database.fetch(
            SEND,
            [call.id for call in group],
            [call.request.run for call in group],
            [call.request.to_bytes() for call in group],
            [call.entrypoint for call in group],
            self._name,
            self._process,
        )
        is_new: dict[str, bool] = {row["id"]: row["is_new"] for row in rows}
        known = " ".join(id_ for id_, new in is_new.items() if not new)
        self._wake(known)
        self._wake(f"{EMITTED}{known}")
        for id_ in is_new.keys() & self._waiting.keys():
            self._waiting[id_].is_sent = True
        self._fail_taken_over([call.id for call in group if call.id not in is_new])
        # What was cancelled while it was sent.
        await self._cancel([call.id for call in group if call.id not in self._waiting])
        return [None] * len(group)

    def _fail_taken_over(self, ids: Iterable[str]) -> None:
        """Let calls fail whose run another process has taken over, while this one was suspended."""
        for id_ in ids:
            waiting = self._waiting.get(id_)
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_exception(ReportedFailure(_RUN_IS_ELSEWHERE))

    async def _cancel(self, ids: Sequence[str]) -> None:
        """Take calls out of the queue and end them on their workers, also those that another
        process has sent.
        """
        if ids:
            await self.database.fetch(CANCEL, ids, self._name)

    async def _is_under_way(
        self, run: RunId, step: StepId, index: int | None, key: StepKey
    ) -> bool:
        """Return whether a call was sent before this process continued its run: its answer is, or
        will be, there.
        """
        first = call_id(run, step, index, key, 1, 0)
        return bool(await patiently(lambda: self.database.fetch(IS_KNOWN, first)))

    def _wake(self, notice: str) -> None:
        ids = self._emitted if notice.startswith(EMITTED) else self._answered
        ids.update(notice.removeprefix(EMITTED).split())
        self._woken.set()

    async def run(self) -> None:
        """Take answers and emissions until this is cancelled: at a notice, and where none came at a
        look.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._sends.run)
            group.start_soon(self._listen)
            group.start_soon(self._watch_workers)
            next_look = 0.0
            while True:
                with anyio.CancelScope(deadline=next_look):
                    await self._woken.wait()
                self._woken = anyio.Event()
                answered, self._answered = self._answered, set()
                emitted, self._emitted = self._emitted, set()
                try:
                    if anyio.current_time() >= next_look:
                        next_look = anyio.current_time() + min(_LOOK_SECONDS, self.heartbeat / 10)
                        answered = emitted = {*self._waiting}
                        await self._declare_lost()
                    await self._take(answered, emitted)
                except DRIVER_ERRORS:
                    self._broke_at = anyio.current_time()

    async def _declare_lost(self) -> None:
        # While the database was away, no worker could beat: those that live have the time to do it
        # again.
        sent = [id_ for id_, waiting in self._waiting.items() if waiting.is_sent]
        if sent and anyio.current_time() > self._broke_at + self.heartbeat + _LOOK_SECONDS:
            gone = await self.database.fetch(DECLARE_LOST, sent, LOST.to_bytes(), self.heartbeat)
            self._fail_taken_over(row["id"] for row in gone)

    async def _take(self, answered: set[str], emitted: set[str]) -> None:
        """Take the answers of some calls, and before them the emissions of these calls and of
        others.
        """
        answers: dict[str, CallAnswer] = {}
        if ids := answered & self._waiting.keys():
            for row in await self.database.fetch(READ_ANSWERS, [*ids]):
                answers[row["id"]] = _readable(row["answer"])
        # In this order, since a worker writes both at once: what a call emitted is there where its
        # answer was read.
        await self._take_emissions(
            emitted | {id_ for id_, answer in answers.items() if answer.has_emitted}
        )
        for id_, answer in answers.items():
            waiting = self._waiting.get(id_)
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_result(answer)

    async def _take_emissions(self, ids: set[str]) -> None:
        """Pass on what was not taken before; the journal has it together with a mark after it, or
        has neither.
        """
        seen = {id_: self._waiting[id_].taken.get(id_, 0) for id_ in ids & self._waiting.keys()}
        if not seen:
            return
        marks = set[str]()
        for row in await self.database.fetch(TAKE_EMISSIONS, [*seen], [*seen.values()]):
            waiting = self._waiting.get(row["call"])
            if waiting is not None:
                try:
                    waiting.call.emit(emission_of(row["body"]))
                except _NOT_EMITTED:
                    _LOG.warning(
                        "step %r: its fleet worker emitted what cannot be read", waiting.call.step
                    )
                waiting.taken[row["call"]] = row["no"]
                if not row["is_text"]:
                    marks.add(row["call"])
        for id_ in marks:
            waiting = self._waiting[id_]
            waiting.call.emit(EmissionsTaken(id_, waiting.taken[id_]))

    async def _listen(self) -> None:
        """Listen for notices; a connection that breaks is replaced, and what came meanwhile is
        found by looking.
        """
        while True:
            with suppress(*DRIVER_ERRORS):
                connection = await listen(self.database.url, {ANSWERED: self._wake})
                try:
                    await self._broken(connection)
                finally:
                    connection.terminate()
            self._broke_at = anyio.current_time()
            await anyio.sleep(_LOOK_SECONDS)

    async def _broken(self, connection: Connection) -> None:
        """Wait until a connection breaks."""
        broken = anyio.Event()
        connection.add_termination_listener(lambda _: broken.set())
        if not connection.is_closed():
            await broken.wait()

    async def _watch_workers(self) -> None:
        """Bound the calls in the queue by the slots of live workers, and report calls that none of
        them makes.
        """
        reported = set[str]()
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            with suppress(*DRIVER_ERRORS):
                workers = await self.look_for_workers()
                served = {name for row in workers for name in row["entrypoints"]}
                lacking = {
                    call.entrypoint: call
                    for call in self._waiting.values()
                    if call.entrypoint not in served
                }
                for entrypoint in lacking.keys() - reported:
                    _report_lack(
                        lacking[entrypoint],
                        frozenset(name for row in workers for name in row["labels"]),
                    )
                reported = {*lacking}

    async def look_for_workers(self) -> Sequence[Record]:
        """Take over which workers live, and return them."""
        workers = await self.database.fetch(LIVE_WORKERS, max(3 * self.heartbeat, 10.0))
        self._room.resize([(row["slots"], row["entrypoints"]) for row in workers])
        return workers

    def resume(self, run: RunId, taken: Mapping[str, int]) -> None:
        """Take over which emissions of a run are in its journal."""
        self._taken[run] = dict(taken)

    async def forget(self, run: RunId) -> None:
        """Remove a run's calls that were answered, also to a process before: what followed from
        them is journaled.
        """
        self._taken.pop(run, None)
        self._goals.pop(run, None)
        with suppress(*DRIVER_ERRORS):
            await patiently(lambda: self.database.fetch(FORGET, run, self._process))
            await self.database.fetch(FORGET_OLD)


@asynccontextmanager
async def open_fleet_caller(
    url: str, tools: Sequence[str], heartbeat: float
) -> AsyncGenerator[FleetCaller]:
    """Open the fleet of a database for the calls of this process.

    Raises:
        JournalError: the database cannot be used; with the place and the fix.
    """
    async with open_fleet_database(url) as database, anyio.create_task_group() as group:
        caller = FleetCaller(database, tools, heartbeat)
        await patiently(caller.look_for_workers)
        group.start_soon(caller.run)
        yield caller
        group.cancel_scope.cancel()


def _named_process(owner: Owner) -> str:
    """Return the name of an owner's process, as the database makes it of the owner's session."""
    return f"{owner.host} {owner.pid} {owner.process_start}"


def _fail_unsent(answer: asyncio.Future[CallAnswer], sent: asyncio.Future[None]) -> None:
    """Let a call that could not be sent fail."""
    if not sent.cancelled() and (error := sent.exception()) is not None and not answer.done():
        answer.set_exception(error)


def _readable(body: bytes) -> CallAnswer:
    """Return what a worker answered; what it should not have written fails its call alone."""
    try:
        return CallAnswer.from_bytes(body)
    except ValueError:
        return UNREADABLE


def call_id(
    run: RunId, step: StepId, index: int | None, key: StepKey, attempt: int, lost: int
) -> str:
    """Return the id of a call: the same wherever the run is continued."""
    text = "\0".join(map(str, (run, step, index, key, attempt, lost)))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _report_lack(waiting: _Waiting, labels: Collection[str]) -> None:
    """Say which step waits for what, since no live worker takes its call."""
    name = waiting.tool.signature.name
    missing = [repr(label) for label in sorted(waiting.tool.signature.needs.difference(labels))]
    if missing:
        named = f"{'label' if len(missing) == 1 else 'labels'} {' and '.join(missing)}"
        reason = f"has the {named}, which the tool {name!r} needs; start one with `wavewright worker --labels`"
    else:
        reason = (
            f"has the tool {name!r} as it is here ({waiting.entrypoint}); "
            "start one with `wavewright worker`, with the same code and settings"
        )
    _LOG.warning("step %r waits: no live fleet worker %s", waiting.call.step, reason)
