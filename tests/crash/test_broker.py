"""The broker stops, dies and comes back while jobs are worked on, and the network to it fails in
many ways.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.crash.crash_project import job_id, whole_job
from tests.crash.daemon_processes import Fleet, fleet
from tests.crash.measurements import note
from tests.crash.oracle import violations
from tests.crash.run_size import volume
from tests.support.rabbitmq import Broker
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(volume(280, 3600))]


async def submit_some(plant: Fleet, count: int, pause: float = 0.15) -> None:
    for _ in range(count):
        job = job_id(len(plant.submitted))
        await plant.submit(job, whole_job(job, pause=pause))


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(Broker.kill, id="kill"),
        pytest.param(Broker.stop, id="stop", marks=pytest.mark.long),
    ],
)
async def test_no_message_is_lost_when_the_broker_goes_away_in_the_middle(
    tmp_path: Path, broker_to_break: Broker, how: Callable[[Broker], None]
) -> None:
    times = volume(1, 10)
    async with fleet(tmp_path, broker_to_break.url, section={"slots": 8}) as plant:
        daemon = plant.start()
        await daemon.is_ready()
        for _ in range(times):
            await submit_some(plant, 6)
            await anyio.sleep(0.4)
            await anyio.to_thread.run_sync(how, broker_to_break)
            await anyio.sleep(0.5)
            await anyio.to_thread.run_sync(broker_to_break.start)
        await plant.until_all_ended()
        found, is_same = plant.found(), daemon.running.poll() is None

    broken = violations(found)
    note("broker", how=how.__name__, times=times, jobs=len(found.submitted), violations=len(broken))
    assert broken == []
    assert is_same


def _refuse(proxy: TcpProxy) -> None:
    proxy.refuse()
    proxy.reset()


FAULTS: dict[str, Callable[[TcpProxy], None]] = {
    "reset": lambda proxy: proxy.reset(),
    "refused": _refuse,
    "black hole": lambda proxy: proxy.black_hole(),
    "black hole outward": lambda proxy: proxy.black_hole("out"),
    "black hole inward": lambda proxy: proxy.black_hole("back"),
    "half open": lambda proxy: proxy.half_open(),
    "slow": lambda proxy: proxy.slow_down(0.4),
    "cut after 700 bytes out": lambda proxy: proxy.cut_after(700, "out"),
    "cut after 5000 bytes out": lambda proxy: proxy.cut_after(5_000, "out"),
    "cut after 300 bytes back": lambda proxy: proxy.cut_after(300, "back"),
}
IN_SLICE = {"reset"}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(name, marks=[] if name in IN_SLICE else [pytest.mark.long]) for name in FAULTS],
)
async def test_no_message_is_lost_to_a_network_with_faults(
    tmp_path: Path, broker: Broker, fault: str
) -> None:
    """The heartbeat is two seconds, and a fault lasts longer than three of them."""
    with TcpProxy.before(broker.url) as proxy:
        url = f"{proxy.url(broker.url)}?heartbeat=2"
        async with fleet(tmp_path, broker.url, url=url, section={"slots": 6}) as plant:
            daemon = plant.start()
            await daemon.is_ready()
            await submit_some(plant, 10, pause=0.3)
            await anyio.sleep(0.5)
            FAULTS[fault](proxy)
            await anyio.sleep(volume(7, 25))
            proxy.pass_on()
            await submit_some(plant, 2)
            await plant.until_all_ended()
            found = plant.found()

    broken = violations(found)
    note(
        "network",
        fault=fault,
        jobs=len(found.submitted),
        messages=len(found.sent),
        violations=len(broken),
    )
    assert broken == []
