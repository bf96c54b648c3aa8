"""A broker with an alarm takes no messages: that is said, and no connection is given up for it."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread
import pytest

from tests.engine.service.bus.bus_doubles import Notices, message, until
from tests.support.rabbitmq import Broker
from wavewright.engine.service.bus.bus import BusSettings, open_bus
from wavewright.engine.service.bus.faults import ALARM, BusDown

# A broker needs ten seconds to start, and another test may have it first.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]


async def test_publishers_that_an_alarm_blocks_are_told_of_and_go_on_when_it_is_over(
    mortal_broker: Broker,
) -> None:
    topology, notices = mortal_broker.topology(), Notices()
    limit = partial(mortal_broker.ctl, "set_vm_memory_high_watermark")
    async with open_bus(BusSettings(mortal_broker.url, topology), notices) as bus:
        await bus.publish(message(topology, 1))
        await anyio.to_thread.run_sync(limit, "0")
        with pytest.raises(BusDown):
            await bus.publish(message(topology, 2), timeout=3)
        await until(lambda: bus.fault == ALARM)
        with pytest.raises(BusDown, match=ALARM):
            await bus.publish(message(topology, 3), timeout=1)
        await anyio.to_thread.run_sync(limit, "0.6")
        await until(lambda: bus.fault is None)
        await bus.publish(message(topology, 4))

    assert not notices.of("broker_lost")
    assert [name for name in notices.names() if name.endswith("blocked")] == [
        "broker_blocked",
        "broker_unblocked",
    ]
