"""The broker for commands: connections with a short timeout, and errors as messages of a command."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Final

import anyio
from aio_pika.abc import AbstractConnection
from pydantic import JsonValue

from wavewright.config.sections import DaemonSection
from wavewright.engine.interfaces.cli.common.output import print_aside
from wavewright.engine.service.bus.bus import Bus, open_bus
from wavewright.engine.service.bus.connection import BrokerConnection, read_address
from wavewright.engine.service.bus.faults import (
    BrokerEvent,
    BrokerEventHandler,
    BusDown,
    ignore_event,
)
from wavewright.engine.service.daemon.daemon import bus_settings, daemon_bus_settings

CONNECT_SECONDS: Final = 10.0
"""Timeout of a connection in seconds, for interactive commands; a daemon waits longer."""


def open_command_bus(section: DaemonSection, name: str) -> AbstractAsyncContextManager[Bus]:
    """Return the bus of the settings as a context manager; it prints a line while it waits for the
    broker.

    Raises:
        BusError: on entering, as `open_bus`.
    """
    return open_bus(
        replace(bus_settings(section, name), connect_seconds=CONNECT_SECONDS), _report_waiting()
    )


def open_daemon_bus(section: DaemonSection) -> AbstractAsyncContextManager[Bus]:
    """Return the bus with a daemon's rights as a context manager: its user must be able to write,
    and the broker to take messages.

    Raises:
        BusError: on entering, as `open_bus`.
    """
    settings = replace(
        daemon_bus_settings(section), connect_seconds=CONNECT_SECONDS, probes_alarms=False
    )
    return open_bus(settings, _report_waiting())


def _report_waiting() -> BrokerEventHandler:
    shown = set[str]()

    def notice(name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
        if name == "broker_connected":
            shown.clear()
        elif (
            name in ("broker_away", "broker_lost") and (error := str(fields["error"])) not in shown
        ):
            shown.add(error)
            print_aside(f"{fields['broker']}: {error}; trying again")

    return notice


@asynccontextmanager
async def open_connection(url: str) -> AsyncGenerator[AbstractConnection]:
    """Connect to the broker for the block, without declaring anything.

    Raises:
        BusError: it cannot be reached, or refuses the connection.
    """
    connection = BrokerConnection(read_address(url), "wavewright doctor", ignore_event)
    try:
        with anyio.move_on_after(CONNECT_SECONDS) as patience:
            await connection.open()
        if patience.cancelled_caught:
            raise BusDown(
                f"no broker answered within {CONNECT_SECONDS:g} s", place=connection.place
            )
        yield await connection.wait_connected()
    finally:
        await connection.close()
