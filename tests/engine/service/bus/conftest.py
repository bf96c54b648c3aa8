"""A bus with names of its own at the session's broker, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.engine.service.bus.bus_doubles import Notices
from tests.support.rabbitmq import Broker, RunningBroker, clear
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.topology import Topology


@pytest.fixture
async def topology(broker: Broker | RunningBroker) -> AsyncIterator[Topology]:
    own = broker.topology()
    yield own
    await clear(broker.url, own)


@pytest.fixture
def notices() -> Notices:
    return Notices()


@pytest.fixture
async def bus(
    broker: Broker | RunningBroker, topology: Topology, notices: Notices
) -> AsyncIterator[Bus]:
    async with open_bus(BusSettings(broker.url, topology), notices) as opened:
        yield opened
