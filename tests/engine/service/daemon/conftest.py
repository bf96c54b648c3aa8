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

from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonProcess, DaemonSite
from tests.support.prepared_command import PreparedCommand, Spawn
from tests.support.rabbitmq import Broker, RunningBroker, clear
from wavewright.engine.service.bus.bus import BusSettings, open_bus
from wavewright.engine.service.daemon.daemon import run_daemon
from wavewright.engine.service.daemon.process import ShutdownRequest
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.operations.monitoring import Telemetry

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
async def site(tmp_path: Path, broker: Broker | RunningBroker) -> AsyncIterator[DaemonSite]:
    """A project, and queues that are declared already."""
    own = DaemonSite(tmp_path, broker.url)
    async with open_bus(BusSettings(own.url, own.topology)):
        pass
    yield own
    await clear(own.url, own.topology)


@pytest.fixture
async def client(site: DaemonSite) -> AsyncIterator[BrokerClient]:
    connection = await aio_pika.connect(site.url)
    async with connection, connection.channel() as channel:
        yield BrokerClient(site, channel)


@pytest.fixture
def spawn() -> Spawn:
    """How `start` starts a process; where its start or its end is what matters, `new_process` takes
    the place.
    """
    return PreparedCommand


@pytest.fixture
def start(site: DaemonSite, spawn: Spawn) -> Iterator[StartDaemon]:
    """Start the real daemon as a process; what still runs is ended after the test."""
    started = list[DaemonProcess]()

    def begin(*arguments: str, **environment: str) -> DaemonProcess:
        started.append(DaemonProcess(site, *arguments, spawn=spawn, **environment))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.fixture
def in_process(site: DaemonSite) -> InProcess:
    """Run a daemon in this process for as long as a block runs, and end it well."""

    @asynccontextmanager
    async def run(clock: Callable[[], float] = time.time) -> AsyncGenerator[Running]:
        log, ready = io.StringIO(), anyio.Event()
        watch = Telemetry(StructuredLog(agent="tester", domain="tests", stream=log))
        running = Running(ShutdownRequest(), log, watch)
        async with anyio.create_task_group() as group:

            async def serve() -> None:
                await run_daemon(
                    site.settings, watch, running.stopping, on_ready=ready.set, clock=clock
                )

            group.start_soon(serve)
            await ready.wait()
            try:
                yield running
            finally:
                running.stopping.request("the test is over")

    return run
