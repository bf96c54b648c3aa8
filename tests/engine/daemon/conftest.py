"""Daemons at the session's broker, each test with queues of its own."""

from __future__ import annotations

import io
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aio_pika
import anyio
import pytest

from tests.engine.daemon.daemon_project import Counterpart, DaemonProcess, Yard
from tests.support.rabbitmq import Broker, RunningBroker, clear
from wavewright.engine.bus.bus import BusSettings, open_bus
from wavewright.engine.daemon.daemon import run_daemon
from wavewright.engine.daemon.process import ShutdownRequest
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.operations.monitoring import Telemetry

StartDaemon = Callable[..., DaemonProcess]


@dataclass(frozen=True)
class Running:
    """A daemon in this process."""

    stopping: ShutdownRequest
    log: io.StringIO
    watch: Telemetry

    def said(self, event: str) -> list[dict[str, object]]:
        """Return the lines of its log with an event."""
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]


InProcess = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
async def yard(tmp_path: Path, broker: Broker | RunningBroker) -> AsyncIterator[Yard]:
    """A project, and queues that are declared already."""
    own = Yard(tmp_path, broker.url)
    async with open_bus(BusSettings(own.url, own.topology)):
        pass
    yield own
    await clear(own.url, own.topology)


@pytest.fixture
async def counterpart(yard: Yard) -> AsyncIterator[Counterpart]:
    connection = await aio_pika.connect(yard.url)
    async with connection, connection.channel() as channel:
        yield Counterpart(yard, channel)


@pytest.fixture
def start(yard: Yard) -> Iterator[StartDaemon]:
    """Start the real daemon as a process; what still runs is ended after the test."""
    started = list[DaemonProcess]()

    def begin(*arguments: str, **environment: str) -> DaemonProcess:
        started.append(DaemonProcess(yard, *arguments, **environment))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.fixture
def in_process(yard: Yard) -> InProcess:
    """Run a daemon in this process for as long as a block runs, and end it well."""

    @asynccontextmanager
    async def run(clock: Callable[[], float] = time.time) -> AsyncGenerator[Running]:
        log, ready = io.StringIO(), anyio.Event()
        watch = Telemetry(StructuredLog(agent="tester", domain="tests", stream=log))
        running = Running(ShutdownRequest(), log, watch)
        async with anyio.create_task_group() as group:

            async def serve() -> None:
                await run_daemon(yard.settings, watch, running.stopping, on_ready=ready.set, clock=clock)

            group.start_soon(serve)
            await ready.wait()
            try:
                yield running
            finally:
                running.stopping.request("the test is over")

    return run
